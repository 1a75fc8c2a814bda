"""NAKACK2: views, digests, states, merges, stable and forgotten messages."""

from __future__ import annotations

import pytest
from nakack2_harness import (
    ID,
    JAVA,
    A,
    B,
    C,
    D,
    asked,
    count,
    data,
    delivered,
    digest,
    got,
    joined,
    request,
    sent,
    view_change,
)

from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2
from jgroups_py.protocols.reliable.nakack2.repair import view_sum
from jgroups_py.testing import FakeStack
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Fetch,
    Fetched,
    FlowBlocked,
    FlowOpened,
    Freeze,
    GetDeparted,
    GetDigest,
    MergeDigest,
    SetDigest,
    Stable,
)
from jgroups_py.values.message import Flag
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import FragHeader, NakAckType


def test_messages_before_the_join_wait_for_it_up_to_a_limit() -> None:
    stack = FakeStack(NAKACK2(max_buffered_before_join=3), address=A)
    for seqno in (4, 5, 6, 7, 8):
        stack.up(data(B, seqno))
    assert stack.take_up() == []
    assert count(stack, "early_dropped") == 2
    stack.event_down(SetDigest(digest(b=5, a=0)))
    stack.event_down(view_change(3, B, A))
    assert got(stack) == [6]


def test_messages_of_a_joiner_that_overtake_its_view_wait_for_it() -> None:
    stack = joined(A, B)
    stack.up(data(C, 1))
    assert stack.take_up() == []
    stack.event_down(view_change(2, A, B, C))
    assert got(stack, C) == [1]


def test_messages_of_strangers_are_dropped_with_the_next_view() -> None:
    stack = joined(A, B)
    stack.up(data(D, 1, 5))
    stack.event_down(view_change(2, A, B, C))
    assert stack.take_up() == []
    assert count(stack, "non_member_dropped") == 5


def test_messages_of_a_member_that_left_are_not_delivered() -> None:
    stack = joined(A, B, C)
    stack.up(data(B, 1))
    stack.event_down(view_change(2, A, C))
    stack.up(data(B, 2))
    assert got(stack) == [1]
    assert count(stack, "non_member_dropped") == 1


def test_a_departed_members_messages_are_answered_until_all_have_the_view_without_it() -> None:
    stack = joined(A, B, C)
    stack.up(data(B, 1, 3))
    stack.up(data(B, 5))
    stack.event_down(view_change(2, A, C))
    assert delivered(stack, B) == [3]
    assert stack.protocol.answer(GetDigest()).seqnos == {A: (0, 0), C: (0, 0), B: (3, 3)}
    stack.take_down()
    stack.up(request(C, B, 3, 5))
    assert sent(stack, NakAckType.XMIT_RSP) == [(C, [3])]
    stack.event_down(Stable(digest(a=0, c=0)))
    assert delivered(stack, B) == [0]


def remembered(stack: FakeStack) -> list[Address]:
    protocol = stack.protocol
    assert isinstance(protocol, NAKACK2)
    return list(protocol.senders.left)


def departed(after: float) -> FakeStack:
    """B's number was 3 when it left; all members have had the view without it for ``after`` seconds."""
    stack = joined(A, B, C)
    stack.up(data(B, 1, 3))
    stack.event_down(view_change(2, A, C))
    stack.event_down(Stable(digest(a=0, c=0)))
    stack.take_up()
    stack.advance(after)
    stack.event_down(Stable(digest(a=0, c=0)))
    return stack


def test_a_merge_brings_a_departed_sender_back_at_its_number() -> None:
    """The sender is dead. The other side still has it in its view, and has fewer of its messages."""
    stack = departed(after=200.0)
    stack.event_down(MergeDigest(digest(a=0, b=2, c=0)))
    stack.event_down(view_change(5, A, B, C))
    stack.up(data(B, 3, 4))
    assert got(stack) == [4]


@pytest.mark.parametrize("stable", [True, False])
def test_a_merge_repeats_no_out_of_band_message_of_a_departed_sender(stable: bool) -> None:
    """The message was delivered beyond a gap that no member could fill (merge 21640)."""
    stack = joined(A, B, C)
    stack.up(data(B, 1, 3))
    stack.up(data(B, 5, 6, flags=Flag.OOB))
    assert got(stack) == [1, 2, 3, 5, 6]
    stack.event_down(view_change(2, A, C))
    if stable:
        stack.event_down(Stable(digest(a=0, c=0)))
    stack.event_down(MergeDigest(digest(b=3)))
    stack.event_down(view_change(3, A, B, C))
    stack.up(data(B, 5, 7, flags=Flag.OOB))
    assert got(stack) == [7]
    stack.up(data(B, 4))
    stack.up(data(B, 8))
    assert got(stack) == [4, 8]


ABC = View(ViewId(A, 1), (A, B, C))


def gone(src: Address, seqno: int, view: View = ABC) -> Batch:
    batch = Batch.of(A, ID, FragHeader(seqno, view_sum(view), 0))
    batch.src = src
    return batch


def told_gone(stack: FakeStack) -> list[tuple[Address | None, int]]:
    found = []
    for batch in stack.take_down():
        header = batch.headers.get(ID)
        if isinstance(header, FragHeader):
            assert header.index == view_sum(ABC)
            found.append((batch.dest, header.id))
    return found


def test_a_member_that_asks_for_forgotten_messages_learns_that_they_are_gone() -> None:
    """The messages were stable in a view without the asker, which missed the merge view that reported that (merge
    23705)."""
    stack = joined(A, B, C)
    for n in range(1, 6):
        stack.down(Batch(None, [b"%d" % n], {}))
        stack.up(data(A, n))
    stack.event_down(Stable(digest(a=3, b=0, c=0)))
    stack.take_down()
    stack.up(request(B, A, 2, 3, 4))
    assert told_gone(stack) == [(B, 3)]
    stack.up(request(B, A, 4))
    stack.up(request(D, A, 2))
    assert told_gone(stack) == [], "not to whom we have excluded: a merge will tell it"


def test_stable_messages_that_are_kept_all_the_same_are_not_gone() -> None:
    stack = joined(A, B, C)
    for first, last in ((1, 2), (3, 6)):
        stack.down(Batch(None, [b"%d" % n for n in range(first, last + 1)], {}))
        stack.up(data(A, first, last))
    stack.event_down(Stable(digest(a=4, b=0, c=0)))
    stack.take_down()
    stack.up(request(B, A, *range(1, 7)))
    assert told_gone(stack) == [(B, 2)]


def test_only_the_sender_says_that_messages_are_gone_and_not_to_java() -> None:
    stack = joined(A, B, C, JAVA)
    stack.up(data(B, 1, 3))
    stack.down(Batch(None, [b"1"], {}))
    stack.up(data(A, 1))
    stack.event_down(Stable(digest(a=1, b=3, c=0)))
    stack.take_down()
    stack.up(request(C, B, 2))
    stack.up(request(JAVA, A, 1))
    assert told_gone(stack) == []


def test_messages_that_are_gone_are_passed_over_and_the_rest_is_handed_out() -> None:
    stack = joined(A, B, C)
    stack.up(data(B, 4, 5))
    stack.up(data(B, 9))
    stack.up(gone(B, 7, View(ViewId(B, 1), (A, B, C))))
    assert got(stack) == [], "what that view brings, or the merge after it, says more"
    stack.up(gone(B, 7))
    assert got(stack) == [4, 5] and count(stack, "lost") == 3
    stack.advance(10)
    assert (B, (B, [6, 7, 8])) in asked(stack)
    stack.up(gone(B, 7))
    assert count(stack, "lost") == 5
    stack.up(data(B, 8))
    assert got(stack) == [8, 9]
    stack.up(gone(B, 7))
    assert delivered(stack, B) == [9] and count(stack, "bad") == 0


def test_a_message_that_is_gone_ends_a_round_that_waited_for_it() -> None:
    stack = joined(A, B, C)
    stack.event_down(Freeze((B,)))
    stack.event_down(Fetch({B: (3, C)}))
    stack.advance(0)
    assert Fetched() not in stack.take_up_events()
    stack.up(gone(B, 3))
    stack.advance(0)
    assert Fetched() in stack.take_up_events()


@pytest.mark.parametrize(("src", "seqno"), [(B, 8), (A, 1), (D, 1)])
def test_only_requested_messages_are_passed_over(src: Address, seqno: int) -> None:
    stack = joined(A, B, C)
    stack.up(data(B, 7))
    stack.up(gone(src, seqno))
    assert count(stack, "bad") == 1 and delivered(stack, B) == [0]


@pytest.mark.parametrize("stable", [True, False])
def test_a_digest_knows_departed_members(stable: bool) -> None:
    stack = departed(after=1.0) if stable else joined(A, B, C)
    stack.event_down(view_change(2, A, C))
    assert stack.stack.ask(GetDeparted((A, B, C, D))) == (B,)


def test_a_member_that_departed_long_ago_is_forgotten() -> None:
    stack = departed(after=301.0)
    assert remembered(stack) == []


def test_a_member_that_joins_anew_under_its_old_address_begins_anew() -> None:
    """Addresses can be configured to stay; the numbers of such a member begin at 1 nevertheless."""
    stack = departed(after=1.0)
    stack.event_down(view_change(5, A, C, B))
    assert delivered(stack, B) == [0] and remembered(stack) == []


@pytest.mark.parametrize("stable", [True, False])
def test_a_state_is_as_old_as_its_digest_says_for_departed_members_too(stable: bool) -> None:
    stack = joined(A, B, C)
    stack.up(data(B, 1, 3))
    stack.event_down(view_change(2, A, C))
    if stable:
        stack.event_down(Stable(digest(a=0, c=0)))
    stack.take_up()
    stack.event_down(SetDigest(digest(b=2), replace=True))
    stack.up(data(B, 3, 4))
    assert got(stack) == [3, 4]


def test_the_last_of_many_departed_members_are_remembered() -> None:
    stack = joined(A, B, C, max_departed=1)
    stack.up(data(B, 1, 3))
    stack.up(data(C, 1, 2))
    stack.event_down(view_change(2, A, C))
    stack.event_down(view_change(3, A))
    assert remembered(stack) == [B] and count(stack, "departed_dropped") == 1
    stack.event_down(Stable(digest(a=0)))
    assert remembered(stack) == [C]


def test_a_merge_moves_windows_forward_and_never_back() -> None:
    stack = joined(A, B, C)
    stack.up(data(B, 1, 3))
    stack.up(data(C, 1, 3))
    stack.up(data(B, 8, 10))
    stack.take_up()
    stack.event_down(MergeDigest(digest(a=9, b=8, c=2, d=4)))
    stack.event_down(view_change(5, A, B, C, D))
    assert delivered(stack, A, B, C, D) == [0, 10, 3, 4]
    assert got(stack) == [9, 10]


def test_a_merge_digest_that_is_behind_brings_nothing_again() -> None:
    stack = joined(A, B, C)
    stack.up(data(C, 1, 3))
    stack.take_up()
    stack.event_down(MergeDigest(digest(c=2)))
    assert stack.take_up() == []
    assert delivered(stack, C) == [3]


def test_a_member_that_comes_back_is_not_delivered_a_second_time() -> None:
    stack = joined(A, B)
    stack.up(data(B, 1, 5))
    stack.event_down(view_change(2, A))
    stack.event_down(MergeDigest(digest(b=3)))
    stack.event_down(view_change(3, A, B))
    stack.up(data(B, 4, 7))
    assert got(stack) == [1, 2, 3, 4, 5, 6, 7]


def test_the_digest_of_a_state_replaces_delivered_numbers() -> None:
    stack = joined(A, B, C)
    stack.up(data(B, 1, 6))
    stack.take_up()
    stack.event_down(SetDigest(digest(a=3, b=4, c=7), True))
    assert got(stack) == [5, 6]
    assert delivered(stack, A, B, C) == [0, 6, 7]
    stack.up(data(C, 7, 8))
    assert got(stack, C) == [8]


def test_a_digest_without_replacement_leaves_known_senders_alone() -> None:
    stack = joined(A, B)
    stack.up(data(B, 1, 6))
    stack.event_down(SetDigest(digest(b=2, c=4)))
    assert delivered(stack, B, C) == [6, 4]


def test_stable_messages_are_forgotten() -> None:
    stack = joined(A, B)
    stack.down(Batch(None, [b"1"], {}))
    stack.up(stack.take_down()[0])
    stack.up(data(B, 1, 3))
    stack.up(data(B, 4, 6))
    assert count(stack, "kept") == 7
    stack.event_down(Stable(digest(a=1, b=4)))
    assert count(stack, "kept") == 3
    assert stack.take_down_events(Stable)


def test_more_is_never_forgotten_than_was_delivered_here() -> None:
    stack = joined(A, B)
    stack.up(data(B, 1))
    stack.up(data(B, 3))
    stack.event_down(Stable(digest(a=0, b=3)))
    stack.up(data(B, 2))
    assert got(stack) == [1, 2, 3]


def test_a_sender_whose_messages_do_not_get_stable_is_asked_to_wait() -> None:
    stack = joined(A, B, max_unstable=2400)
    for _ in range(5):
        stack.down(Batch(None, [b"1"], {}))
    assert stack.take_up_events() == [FlowBlocked("NAKACK2", None, (B,), "stability")]
    for batch in stack.take_down():
        stack.up(batch)
    stack.event_down(Stable(digest(a=3, b=0)))
    assert stack.take_up_events() == [FlowOpened("NAKACK2", None)]
