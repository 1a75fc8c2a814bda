"""NAKACK2: the others went on without us; messages sent meanwhile leave with the next view."""

from __future__ import annotations

from nakack2_harness import ID, A, B, C, count, data, joined, view_change

from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import GetDelivered, GetDigest, GetSentAfter, Stable, Withhold
from jgroups_py.values.view import Digest
from jgroups_py.wire.headers import NakAckHeader2


def send(stack: FakeStack, number: int, *payloads: bytes) -> None:
    stack.down(Batch(None, payloads, {}, A, number=number))


def numbered(stack: FakeStack) -> list[tuple[int, list[bytes]]]:
    found = []
    for batch in stack.take_down():
        header = batch.header(ID, NakAckHeader2)
        if header is not None and batch.payloads[0]:
            found.append((header.seqno, list(batch.payloads)))
    return found


def test_the_applications_multicasts_wait_for_the_next_view() -> None:
    stack = joined()
    send(stack, 1, b"a")
    stack.event_down(Withhold())
    send(stack, 2, b"b", b"c")
    stack.down(Batch(None, (b"view",), {}, A))  # GMS's own messages must leave: merges need them
    send(stack, 4, b"d")
    assert numbered(stack) == [(1, [b"a"]), (2, [b"view"])]
    assert count(stack, "withheld") == 3
    stack.event_down(view_change(2, A, B, C))
    assert numbered(stack) == [(3, [b"b", b"c"]), (5, [b"d"])]
    send(stack, 5, b"e")
    assert numbered(stack) == [(6, [b"e"])]


def test_the_others_begin_after_numbers_from_before() -> None:
    """None of these messages has come back to us yet; otherwise the others would fetch messages that were named as
    lost."""
    stack = joined()
    send(stack, 1, b"a", b"b")
    assert stack.stack.ask(GetDigest((A,))) == Digest({A: (0, 2)})
    stack.event_down(Withhold())
    stack.down(Batch(None, (b"view",), {}, A))
    assert stack.stack.ask(GetDigest((A,))) == Digest({A: (2, 3)})
    stack.event_down(view_change(2, A, B, C))
    assert stack.stack.ask(GetDigest((A,))) == Digest({A: (0, 3)})


def test_unstable_messages_after_a_seqno_are_known() -> None:
    stack = joined()
    send(stack, 1, b"a", b"b", b"c")
    (whole,) = stack.stack.ask(GetSentAfter(0))
    assert (whole.number, list(whole.payloads)) == (1, [b"a", b"b", b"c"])
    (rest,) = stack.stack.ask(GetSentAfter(2))
    assert (rest.number, list(rest.payloads)) == (3, [b"c"])
    assert stack.stack.ask(GetSentAfter(3)) == ()
    for batch in stack.take_down():
        stack.up(batch)
    stack.event_down(Stable(Digest({A: (2, 3), B: (0, 0), C: (0, 0)})))
    (rest,) = stack.stack.ask(GetSentAfter(0))
    assert (rest.number, list(rest.payloads)) == (3, [b"c"])


def test_the_last_delivered_number_of_a_member_is_known_after_it_has_gone() -> None:
    stack = joined()
    stack.up(data(B, 1, 4))
    assert stack.stack.ask(GetDelivered(B)) == 4
    view = view_change(2, A, C, old=view_change(1, A, B, C).view)
    stack.event_down(view)
    assert stack.stack.ask(GetDelivered(B)) == 4
    stack.event_down(Stable(Digest({A: (0, 0), C: (0, 0)})))
    assert stack.stack.ask(GetDelivered(B)) == 4
    assert stack.stack.ask(GetDelivered(make_address(99))) is None
