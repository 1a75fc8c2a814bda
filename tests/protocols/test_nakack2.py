"""NAKACK2 between a fake above and a fake below."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jgroups_py.address import UUID, Address
from jgroups_py.batch import Batch
from jgroups_py.errors import ConfigError
from jgroups_py.events import (
    Event,
    Fetch,
    Fetched,
    FlowBlocked,
    FlowOpened,
    Freeze,
    GetDeparted,
    GetDigest,
    GetSeqno,
    MergeDigest,
    Release,
    SetDigest,
    Stable,
    StateAwaited,
    Thaw,
    ViewChange,
)
from jgroups_py.headers import FragHeader, NakAckHeader2, NakAckType
from jgroups_py.message import Flag, MessageType, Transient
from jgroups_py.protocols.nakack2 import NAKACK2
from jgroups_py.protocols.nakack2_repair import view_sum
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values import SeqnoList, Streamable
from jgroups_py.view import Digest, View, ViewId

A, B, C, D = (make_address(n) for n in range(1, 5))
JAVA = UUID(bytes(range(16)))
ID = 41


def data(src: Address, first: int, last: int | None = None, flags: int = 0) -> Batch:
    payloads = [b"%d" % n for n in range(first, (last or first) + 1)]
    return Batch(None, payloads, {ID: NakAckHeader2(NakAckType.MSG, first)}, src, flags)


def request(asker: Address, sender: Address, *seqnos: int) -> Batch:
    header = NakAckHeader2(NakAckType.XMIT_REQ, 0, sender)
    payload = Streamable(15, SeqnoList.of(seqnos))
    batch = Batch.of(A, ID, header, payload=payload, type=MessageType.OBJECT, flags=5)
    batch.src = asker
    return batch


def view_change(number: int, *members: Address, old: View | None = None) -> ViewChange:
    return ViewChange(View(ViewId(members[0], number), members), old)


def digest(**seqnos: int) -> Digest:
    names = {"a": A, "b": B, "c": C, "d": D}
    return Digest({names[name]: (seqno, seqno) for name, seqno in seqnos.items()})


def joined(*members: Address, **config: Any) -> FakeStack:
    stack = FakeStack(NAKACK2(**config), address=A)
    members = members or (A, B, C)
    stack.event_down(SetDigest(Digest({m: (0, 0) for m in members})))
    stack.event_down(view_change(1, *members))
    stack.take_down_events()
    return stack


def got(stack: FakeStack, src: Address = B) -> list[int]:
    return [int(p) for batch in stack.take_up() if batch.src == src for p in batch.payloads]


def sent(stack: FakeStack, kind: NakAckType) -> list[tuple[Address | None, Any]]:
    out: list[tuple[Address | None, Any]] = []
    for batch in stack.take_down():
        header = batch.header(ID, NakAckHeader2)
        if header is not None and header.type == kind:
            if kind == NakAckType.XMIT_REQ:
                out.append((batch.dest, (header.sender, list(batch.payloads[0].value))))
            else:
                seqnos = list(range(header.seqno, header.seqno + len(batch)))
                out.append((batch.dest, seqnos))
    return out


def asked(stack: FakeStack) -> list[tuple[Address | None, Any]]:
    return sent(stack, NakAckType.XMIT_REQ)


def delivered(stack: FakeStack, *members: Address) -> list[int]:
    answer = stack.protocol.answer(GetDigest(members))
    return [answer.delivered(m) for m in members]


def count(stack: FakeStack, name: str) -> float:
    return stack.protocol.statistics()[name]


# --- order


def test_multicasts_are_numbered_from_one_and_a_run_takes_as_many_numbers_as_it_has_messages() -> (
    None
):
    stack = joined()
    stack.down(Batch(None, [b"x", b"y", b"z"], {}))
    stack.down(Batch(None, [b"w"], {}))
    headers = [batch.headers[ID] for batch in stack.take_down()]
    assert headers == [NakAckHeader2(NakAckType.MSG, 1), NakAckHeader2(NakAckType.MSG, 4)]
    assert stack.protocol.answer(GetSeqno()) == 4


def test_unicasts_and_unreliable_multicasts_pass_unnumbered() -> None:
    stack = joined()
    stack.down(Batch(B, [b"x"], {}))
    stack.down(Batch(None, [b"y"], {}, flags=Flag.NO_RELIABILITY))
    assert [ID in batch.headers for batch in stack.take_down()] == [False, False]
    stack.up(Batch(None, [b"z"], {}, B, Flag.NO_RELIABILITY))
    assert len(stack.take_up()) == 1


def test_messages_of_one_sender_are_delivered_in_order_once() -> None:
    stack = joined()
    for first, last in [(1, 2), (5, 6), (1, 2), (4, 5), (3, 3), (2, 8)]:
        stack.up(data(B, first, last))
    assert got(stack) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert count(stack, "duplicates") > 0


def test_runs_in_order_are_passed_on_as_they_are() -> None:
    stack = joined()
    run = data(B, 1, 50)
    stack.up(run)
    assert stack.take_up() == [run]


def test_senders_do_not_wait_for_each_other() -> None:
    stack = joined()
    stack.up(data(B, 2))
    stack.up(data(C, 1))
    assert got(stack, C) == [1]


def test_an_oob_message_is_delivered_at_once_and_never_again() -> None:
    stack = joined()
    stack.up(data(B, 2, flags=Flag.OOB))
    assert got(stack) == [2]
    stack.up(data(B, 2, flags=Flag.OOB))
    stack.up(data(B, 3))
    assert got(stack) == []
    stack.up(data(B, 1))
    assert got(stack) == [1, 3]
    assert delivered(stack, B) == [3]


def test_own_messages_come_back_and_are_delivered_in_order() -> None:
    stack = joined()
    stack.down(Batch(None, [b"1", b"2"], {}))
    stack.down(Batch(None, [b"3"], {}))
    for batch in stack.take_down():
        stack.up(batch)
    assert got(stack, A) == [1, 2, 3]
    assert stack.protocol.answer(GetDigest((A,))).seqnos[A] == (3, 3)


def test_own_messages_that_are_not_looped_back_leave_no_gap() -> None:
    stack = joined()
    stack.down(Batch(None, [b"1"], {}))
    stack.down(Batch(None, [b"2"], {}, transient=Transient.DONT_LOOPBACK))
    stack.down(Batch(None, [b"3"], {}))
    first, _, third = stack.take_down()
    stack.up(first)
    stack.up(third)
    assert got(stack, A) == [1, 3]
    assert delivered(stack, A) == [3]


def test_the_own_entry_of_a_digest_says_what_was_sent_though_not_delivered_yet() -> None:
    stack = joined(A, B)
    stack.down(Batch(None, [b"1", b"2"], {}))
    assert stack.protocol.answer(GetDigest((A,))).seqnos == {A: (0, 2)}


def test_a_view_sent_without_loopback_counts_as_delivered_at_once() -> None:
    stack = joined()
    stack.down(Batch(None, [b"1"], {}, transient=Transient.DONT_LOOPBACK))
    assert delivered(stack, A) == [1]


# --- gaps


def test_a_gap_is_asked_for_after_a_short_delay_and_then_with_back_off() -> None:
    stack = joined(xmit_interval=0.5, xmit_delay=0.02)
    stack.up(data(B, 1))
    stack.up(data(B, 4, 6))
    assert asked(stack) == []
    stack.advance(0.02)
    assert asked(stack) == [(B, (B, [2, 3]))]
    stack.up(data(B, 7, 8))
    stack.advance(0.4)
    assert asked(stack) == []
    stack.advance(0.1)
    assert asked(stack) == [(B, (B, [2, 3]))]
    stack.advance(0.9)
    assert asked(stack) == []
    stack.advance(0.1)
    assert asked(stack) == [(B, (B, [2, 3]))]


def test_a_packet_that_was_only_overtaken_is_not_asked_for() -> None:
    stack = joined()
    stack.up(data(B, 2))
    stack.advance(0.01)
    stack.up(data(B, 1))
    stack.advance(5)
    assert asked(stack) == []


def test_a_vain_request_goes_to_another_member_after_a_while() -> None:
    stack = joined(A, B, C, D, xmit_interval=0.5, ask_others_after=2)
    stack.up(data(B, 2))
    stack.advance(20)
    to = [dest for dest, _ in asked(stack)]
    assert to[:3] == [B, B, B]
    assert set(to[3:]) & {C, D}
    assert A not in to


def test_a_request_is_answered_by_multicast_or_to_the_asker_as_configured() -> None:
    for multicast in (True, False):
        stack = joined(use_mcast_xmit=multicast)
        stack.down(Batch(None, [b"1", b"2", b"3", b"4"], {}))
        stack.take_down()
        stack.up(request(B, A, 2, 3))
        answer = stack.take_down()
        assert len(answer) == 1
        kind = NakAckType.MSG if multicast else NakAckType.XMIT_RSP
        assert answer[0].dest == (None if multicast else B)
        assert answer[0].headers[ID] == NakAckHeader2(kind, 2)
        assert answer[0].payloads == [b"2", b"3"]
        assert answer[0].src == A
        assert answer[0].transient & Transient.DONT_LOOPBACK


def test_others_messages_are_answered_to_the_asker_with_their_sender() -> None:
    stack = joined()
    stack.up(data(C, 1, 5))
    stack.up(request(B, C, 4))
    answer = stack.take_down()[0]
    assert (answer.dest, answer.src) == (B, C)
    assert answer.headers[ID] == NakAckHeader2(NakAckType.XMIT_RSP, 4)


def test_an_answer_to_the_asker_is_delivered_as_a_multicast() -> None:
    stack = joined()
    stack.up(data(B, 2))
    stack.up(Batch(A, [b"1"], {ID: NakAckHeader2(NakAckType.XMIT_RSP, 1)}, B))
    batches = stack.take_up()
    assert [(b.dest, b.src, b.payloads[0]) for b in batches] == [(None, B, b"1"), (None, B, b"2")]


def test_one_asker_gets_no_more_than_its_share() -> None:
    stack = joined(max_xmit_bytes=10, xmit_interval=1.0)
    for _ in range(5):
        stack.down(Batch(None, [bytes(8)], {}))
    stack.take_down()
    stack.up(request(B, A, 1, 2, 3, 4, 5))
    assert sent(stack, NakAckType.MSG) == [(None, [1]), (None, [2])]
    stack.up(request(C, A, 1))
    assert sent(stack, NakAckType.MSG) == [(None, [1])]
    stack.advance(1.0)
    stack.take_down()
    stack.up(request(B, A, 3))
    assert sent(stack, NakAckType.MSG) == [(None, [3])]
    assert count(stack, "limited") == 1


def test_what_is_not_here_any_more_is_counted() -> None:
    stack = joined()
    stack.up(request(B, A, 1, 2))
    stack.up(request(B, D, 1))
    assert count(stack, "not_found") == 3


def test_rubbish_is_counted_and_dropped() -> None:
    stack = joined()
    bad = request(B, A, 1)
    bad.payloads = (None,)
    stack.up(bad)
    stack.up(data(B, 0))
    stack.up(data(A, 7))
    assert count(stack, "bad") == 3
    assert stack.take_up() == []


# --- the last message


def test_the_last_seqno_is_told_when_nothing_follows() -> None:
    stack = joined(xmit_interval=0.5, resend_last_seqno_max_count=2)
    stack.down(Batch(None, [b"1", b"2"], {}))
    stack.advance(0.4)
    stack.down(Batch(None, [b"3"], {}))
    stack.take_down()
    stack.advance(0.5)
    assert sent(stack, NakAckType.HIGHEST_SEQNO) == []
    stack.advance(0.2)
    assert sent(stack, NakAckType.HIGHEST_SEQNO) == [(None, [3])]
    stack.advance(100)
    assert sent(stack, NakAckType.HIGHEST_SEQNO) == [(None, [3])]


def test_what_is_stable_is_not_told_again() -> None:
    stack = joined()
    stack.down(Batch(None, [b"1"], {}))
    stack.up(stack.take_down()[0])
    stack.event_down(Stable(digest(a=1, b=0, c=0)))
    stack.advance(100)
    assert stack.take_down() == []


def test_a_lost_last_message_is_asked_for_at_once() -> None:
    stack = joined()
    stack.up(data(B, 1))
    stack.up(Batch(None, [None], {ID: NakAckHeader2(NakAckType.HIGHEST_SEQNO, 2)}, B, 5, 0, 2))
    stack.advance(0)
    assert asked(stack) == [(B, (B, [2]))]
    assert got(stack) == [1]


def test_a_stability_digest_shows_a_lost_last_message_once_it_can_no_longer_be_on_its_way() -> None:
    stack = joined()
    stack.event_down(Stable(Digest({A: (0, 0), B: (0, 3), C: (0, 0)})))
    stack.advance(stack.protocol.config.xmit_interval - 0.01)
    assert asked(stack) == []
    stack.advance(0.01)
    assert asked(stack) == [(B, (B, [1, 2, 3]))]


def test_a_seqno_beyond_the_window_is_dropped() -> None:
    stack = joined(max_window=10)
    stack.up(data(B, 11))
    assert count(stack, "window_dropped") == 1
    stack.up(data(B, 10))
    assert count(stack, "pending") == 1
    stack.up(Batch(None, [None], {ID: NakAckHeader2(NakAckType.HIGHEST_SEQNO, 1 << 60)}, B))
    stack.advance(1)
    assert asked(stack)[0] == (B, (B, list(range(1, 10))))


def test_own_messages_that_overtake_each_other_on_their_way_back_are_never_dropped() -> None:
    """Nobody would be asked for them (all 20228: a run out of band, longer than the window)."""
    stack = joined(max_window=10)
    stack.down(Batch(None, [b"%d" % n for n in range(1, 3)], {}))
    stack.down(Batch(None, [b"%d" % n for n in range(3, 21)], {}))
    stack.take_down()
    stack.up(data(A, 3, 20))
    assert count(stack, "pending") == 0, "of others"
    stack.up(data(A, 1, 2))
    assert got(stack, A) == list(range(1, 21))


def test_bytes_beyond_a_gap_are_limited_and_the_gap_can_always_be_closed() -> None:
    stack = joined(max_window_bytes=1000)
    stack.up(data(B, 2))
    stack.up(data(B, 3))
    stack.up(data(B, 4))
    assert (count(stack, "pending"), count(stack, "window_dropped")) == (2, 1)
    stack.up(data(B, 1))
    assert got(stack) == [1, 2, 3]
    stack.up(data(B, 4))
    assert got(stack) == [4]


# --- views and digests


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


def test_nothing_more_is_delivered_of_a_member_that_left() -> None:
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
    return list(protocol.left)


def departed(after: float) -> FakeStack:
    """B was at 3 when it left; all have the view without it, ``after`` seconds ago."""
    stack = joined(A, B, C)
    stack.up(data(B, 1, 3))
    stack.event_down(view_change(2, A, C))
    stack.event_down(Stable(digest(a=0, c=0)))
    stack.take_up()
    stack.advance(after)
    stack.event_down(Stable(digest(a=0, c=0)))
    return stack


def test_a_merge_brings_back_who_departed_where_it_was() -> None:
    """The other side has it in its view still, although it is dead, and knows less of it."""
    stack = departed(after=200.0)
    stack.event_down(MergeDigest(digest(a=0, b=2, c=0)))
    stack.event_down(view_change(5, A, B, C))
    stack.up(data(B, 3, 4))
    assert got(stack) == [4]


@pytest.mark.parametrize("stable", [True, False])
def test_a_merge_brings_no_out_of_band_message_of_who_departed_again(stable: bool) -> None:
    """It was handed out beyond a gap that nobody could fill (merge 21640)."""
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


def test_who_asks_for_what_we_have_forgotten_hears_that_it_is_gone() -> None:
    """It was stable in a view without the asker, which has lost the merge that said so (merge 23705)."""
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


def test_what_is_stable_and_kept_all_the_same_is_not_gone() -> None:
    stack = joined(A, B, C)
    for first, last in ((1, 2), (3, 6)):
        stack.down(Batch(None, [b"%d" % n for n in range(first, last + 1)], {}))
        stack.up(data(A, first, last))
    stack.event_down(Stable(digest(a=4, b=0, c=0)))
    stack.take_down()
    stack.up(request(B, A, *range(1, 7)))
    assert told_gone(stack) == [(B, 2)]


def test_nobody_says_of_others_that_something_is_gone_nor_to_java() -> None:
    stack = joined(A, B, C, JAVA)
    stack.up(data(B, 1, 3))
    stack.down(Batch(None, [b"1"], {}))
    stack.up(data(A, 1))
    stack.event_down(Stable(digest(a=1, b=3, c=0)))
    stack.take_down()
    stack.up(request(C, B, 2))
    stack.up(request(JAVA, A, 1))
    assert told_gone(stack) == []


def test_what_is_gone_is_passed_over_and_the_rest_handed_out() -> None:
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


def test_what_is_gone_ends_a_round_that_waited_for_it() -> None:
    stack = joined(A, B, C)
    stack.event_down(Freeze((B,)))
    stack.event_down(Fetch({B: (3, C)}))
    stack.advance(0)
    assert Fetched() not in stack.take_up_events()
    stack.up(gone(B, 3))
    stack.advance(0)
    assert Fetched() in stack.take_up_events()


@pytest.mark.parametrize(("src", "seqno"), [(B, 8), (A, 1), (D, 1)])
def test_nothing_is_passed_over_that_was_not_asked_for(src: Address, seqno: int) -> None:
    stack = joined(A, B, C)
    stack.up(data(B, 7))
    stack.up(gone(src, seqno))
    assert count(stack, "bad") == 1 and delivered(stack, B) == [0]


@pytest.mark.parametrize("stable", [True, False])
def test_it_knows_who_has_departed(stable: bool) -> None:
    stack = departed(after=1.0) if stable else joined(A, B, C)
    stack.event_down(view_change(2, A, C))
    assert stack.stack.ask(GetDeparted((A, B, C, D))) == (B,)


def test_who_departed_long_ago_is_forgotten() -> None:
    stack = departed(after=301.0)
    assert remembered(stack) == []


def test_who_joins_anew_under_its_old_address_begins_anew() -> None:
    """Addresses can be configured to stay; its numbers begin at 1 all the same."""
    stack = departed(after=1.0)
    stack.event_down(view_change(5, A, C, B))
    assert delivered(stack, B) == [0] and remembered(stack) == []


@pytest.mark.parametrize("stable", [True, False])
def test_a_state_is_as_old_as_its_digest_says_also_of_who_departed(stable: bool) -> None:
    stack = joined(A, B, C)
    stack.up(data(B, 1, 3))
    stack.event_down(view_change(2, A, C))
    if stable:
        stack.event_down(Stable(digest(a=0, c=0)))
    stack.take_up()
    stack.event_down(SetDigest(digest(b=2), replace=True))
    stack.up(data(B, 3, 4))
    assert got(stack) == [3, 4]


def test_of_many_that_departed_the_last_are_remembered() -> None:
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


def test_the_digest_of_a_state_replaces_what_was_delivered() -> None:
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


def test_what_is_stable_is_forgotten() -> None:
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


# --- survivors agree


def frozen() -> FakeStack:
    """B is gone; we delivered 1, 2 and hold 5, 6 of it. C is the holder of the rest."""
    stack = joined(A, B, C)
    stack.up(data(B, 1, 2))
    stack.up(data(B, 5, 6))
    stack.take_up()
    stack.event_down(Freeze((B,)))
    stack.take_down()
    return stack


def test_nothing_is_taken_of_a_frozen_sender() -> None:
    stack = frozen()
    stack.up(data(B, 3, 4))
    stack.advance(10)
    assert stack.take_up() == []
    assert asked(stack) == []
    assert stack.protocol.answer(GetDigest((B,))).seqnos[B] == (2, 2)
    assert count(stack, "frozen_dropped") == 2


def test_what_the_survivors_agree_on_is_fetched_from_the_holder_and_no_more() -> None:
    stack = frozen()
    stack.event_down(Fetch({B: (5, C)}))
    stack.advance(0)
    assert asked(stack) == [(C, (B, [3, 4]))]
    stack.advance(1.0)
    assert asked(stack) == [(C, (B, [3, 4]))]
    assert stack.take_up_events(Fetched) == []
    header = NakAckHeader2(NakAckType.XMIT_RSP, 3)
    stack.up(Batch(A, [b"3", b"4"], {ID: header}, B))
    assert got(stack) == [3, 4, 5]
    assert stack.take_up_events() == [Fetched()]
    stack.up(data(B, 6, 7))
    stack.advance(20)
    assert stack.take_up() == []
    assert asked(stack) == []
    assert delivered(stack, B) == [5]


@pytest.mark.parametrize("departed", [True, False])
def test_what_the_survivors_agree_on_is_fetched_a_window_at_a_time(departed: bool) -> None:
    """Goals may lie further off than the window is wide (all 2495)."""
    stack = joined(A, B, C, D, max_window=3)
    stack.event_down(Freeze((B if departed else D,)))
    stack.event_down(Fetch({B: (8, C)}))
    for low, high in [(1, 3), (4, 6), (7, 8)]:
        stack.advance(0.05)
        assert asked(stack) == [(C, (B, list(range(low, high + 1))))]
        assert stack.take_up_events() == []
        header = NakAckHeader2(NakAckType.XMIT_RSP, low)
        beyond = 9 if departed else high
        stack.up(Batch(A, [b"%d" % n for n in range(low, beyond + 1)], {ID: header}, B))
        assert got(stack) == list(range(low, high + 1))
    assert stack.take_up_events() == [Fetched()]


def test_what_a_round_wanted_is_asked_for_though_another_one_begins_at_once() -> None:
    """A goal told what B has sent; the next FREEZE came in the same step (merge 20091)."""
    stack = joined(A, B, C, D)
    stack.event_down(Freeze((D,)))
    stack.machine.enter()
    stack.stack.event_down(Fetch({B: (4, C)}))
    stack.stack.event_down(Freeze((C, D)))
    stack.machine.leave()
    stack.advance(0.05)
    assert asked(stack) == [(C, (B, [1, 2, 3, 4]))]


def test_out_of_band_messages_beyond_what_was_agreed_are_not_delivered_either() -> None:
    stack = frozen()
    stack.event_down(Fetch({B: (7, C)}))
    header = NakAckHeader2(NakAckType.XMIT_RSP, 7)
    stack.up(Batch(A, [b"7", b"8"], {ID: header}, B, Flag.OOB))
    assert got(stack) == [7]
    stack.up(Batch(A, [b"3", b"4"], {ID: NakAckHeader2(NakAckType.XMIT_RSP, 3)}, B))
    assert got(stack) == [3, 4, 5, 6]
    assert stack.take_up_events() == [Fetched()]


def test_fetched_is_told_at_once_when_nothing_is_missing() -> None:
    stack = frozen()
    stack.event_down(Fetch({B: (2, A), D: (7, C)}))
    assert stack.take_up_events() == [Fetched()]
    assert stack.take_up() == []


def test_the_cut_leaves_the_buffers_with_the_view() -> None:
    stack = frozen()
    stack.event_down(Fetch({B: (2, A)}))
    stack.event_down(view_change(2, A, C))
    stack.up(request(C, B, 2, 5))
    assert sent(stack, NakAckType.XMIT_RSP) == [(C, [2])]


@pytest.mark.parametrize("events", [(Thaw((B,)), Release()), (Release(), Thaw((B,)))])
def test_a_frozen_sender_goes_on_after_thaw(events: tuple[Event, ...]) -> None:
    stack = frozen()
    for event in events:
        stack.event_down(event)
    stack.advance(0)
    assert asked(stack) == [(B, (B, [3, 4]))]
    stack.up(data(B, 3, 4))
    assert got(stack) == [3, 4, 5, 6]


def test_a_round_thawed_in_the_middle_of_fetching_loses_nothing() -> None:
    stack = frozen()
    stack.event_down(Fetch({B: (3, C)}))
    stack.event_down(Thaw((B,)))
    stack.event_down(Release())
    stack.up(data(B, 3, 8))
    assert got(stack) == [3, 4, 5, 6, 7, 8]
    assert stack.take_up_events(Fetched) == []


def test_what_others_send_meanwhile_is_handed_out_after_the_view() -> None:
    stack = frozen()
    stack.up(data(C, 1, 2))
    stack.up(data(C, 5))
    stack.down(Batch(None, [b"own"], {}))
    stack.advance(0.1)
    assert stack.take_up() == []
    assert asked(stack) == [(C, (C, [3, 4]))], "what is missing is asked for all the same"
    stack.up(data(C, 3, 4))
    assert stack.take_up() == [] and delivered(stack, C) == [0]
    stack.event_down(view_change(2, A, C))
    stack.advance(0)
    assert got(stack, C) == [1, 2, 3, 4, 5]


def test_what_is_held_and_agreed_on_is_handed_out_before_the_view() -> None:
    stack = frozen()
    stack.up(data(C, 1, 2))
    stack.event_down(Fetch({B: (2, A), C: (3, D)}))
    stack.advance(0)
    assert got(stack, C) == [1, 2]
    assert asked(stack) == [(D, (C, [3]))], "who has it for certain is asked first"
    stack.up(data(C, 3, 4))
    assert got(stack, C) == [3]
    assert stack.take_up_events(Fetched) == [Fetched()]
    stack.event_down(Release())
    stack.advance(0)
    assert got(stack, C) == [4]


def test_own_messages_are_held_like_all_others() -> None:
    """The application has its own message when the others have it, or after the view."""
    stack = frozen()
    for payload in (b"1", b"2"):
        stack.down(Batch(None, [payload], {}))
    for batch in stack.take_down():
        stack.up(replace(batch, src=A))
    assert stack.take_up() == []
    stack.event_down(Fetch({A: (1, C)}))
    stack.advance(0)
    assert [p for b in stack.take_up() for p in b.payloads] == [b"1"]
    assert stack.take_up_events(Fetched) == [Fetched()]
    stack.event_down(view_change(2, A, C))
    stack.advance(0)
    assert [p for b in stack.take_up() for p in b.payloads] == [b"2"]


def test_what_is_agreed_on_after_the_hold_has_ended_opens_no_frozen_sender() -> None:
    """Held for too long, then the round's goals come after all: of B no more than these."""
    stack = frozen()
    before = delivered(stack, B)[0]
    stack.event_down(Release())
    stack.event_down(Fetch({B: (before + 1, C)}))
    stack.advance(0)
    stack.up(data(B, before + 1))
    stack.advance(0)
    assert got(stack) == [before + 1]
    stack.up(data(B, before + 2))
    stack.advance(0)
    assert got(stack) == []


def test_a_goal_beyond_what_we_have_sent_is_no_more_than_that() -> None:
    """Nobody can send us what we have not sent: a report that says so was forged."""
    stack = frozen()
    stack.down(Batch(None, [b"1"], {}))
    for batch in stack.take_down():
        stack.up(replace(batch, src=A))
    stack.event_down(Fetch({A: (1000, C)}))
    stack.advance(0)
    assert [p for b in stack.take_up() for p in b.payloads] == [b"1"]
    assert stack.take_up_events(Fetched) == [Fetched()]


def test_a_view_that_keeps_a_frozen_member_thaws_it() -> None:
    stack = frozen()
    stack.event_down(view_change(2, A, B, C))
    stack.up(data(B, 3, 4))
    assert got(stack) == [3, 4, 5, 6]


def test_a_second_departure_adds_to_the_round() -> None:
    stack = joined(A, B, C, D)
    stack.up(data(B, 1))
    stack.event_down(Freeze((B,)))
    stack.event_down(Freeze((B, C)))
    stack.event_down(Fetch({B: (1, D), C: (2, D)}))
    stack.advance(0)
    assert asked(stack) == [(D, (C, [1, 2]))]
    stack.up(data(C, 1, 2))
    assert stack.take_up_events() == [Fetched()]


def test_an_oob_message_at_the_goal_takes_nothing_beyond_it_along() -> None:
    stack = joined(A, B, C)
    stack.up(data(B, 1))
    stack.up(data(B, 3))
    stack.event_down(Freeze((B,)))
    stack.event_down(Fetch({B: (2, C)}))
    stack.up(data(B, 2, flags=Flag.OOB))
    assert got(stack) == [1, 2]
    assert stack.take_up_events(Fetched) == [Fetched()]
    stack.event_down(view_change(2, A, C))
    assert got(stack) == []


def test_while_a_state_is_awaited_what_is_stable_is_kept_since_it_may_be_older() -> None:
    stack = joined()
    stack.up(data(B, 1, 8))
    stack.event_down(StateAwaited(True))
    stack.down(Batch(None, [b"own"], {}))
    for batch in stack.take_down():
        stack.up(replace(batch, src=A))
    stack.event_down(Stable(digest(a=1, b=5)))
    stack.take_up()
    stack.event_down(SetDigest(digest(b=2), replace=True))
    stack.event_down(StateAwaited(False))
    stack.advance(0)
    assert got(stack) == [3, 4, 5, 6, 7, 8]
    assert count(stack, "unstable") == 0, "its own are never delivered again"
    stack.event_down(Stable(digest(b=5)))
    stack.up(request(C, B, 5))
    assert sent(stack, NakAckType.XMIT_RSP) == [(C, [5])], "a run is forgotten as a whole"
    stack.event_down(Stable(digest(b=8)))
    assert count(stack, "kept") == 0


def test_out_of_band_messages_that_came_while_all_is_held_are_told_when_their_sender_departs() -> (
    None
):
    """Explored: all 4214. They have been handed out: who lacks them gets them of us."""
    stack = joined(A, B, C, D)
    stack.up(data(B, 1, 3))
    stack.event_down(Freeze((D,)))
    stack.up(data(B, 4, 5, flags=Flag.OOB))
    stack.up(data(B, 7, flags=Flag.OOB))
    assert got(stack) == [1, 2, 3, 4, 5, 7]
    assert delivered(stack, B) == [3]
    stack.event_down(Freeze((B,)))
    assert delivered(stack, B) == [5]
    stack.event_down(Fetch({B: (5, C)}))
    assert stack.take_up_events(Fetched) == [Fetched()]
    stack.up(request(C, B, 4, 5))
    assert sent(stack, NakAckType.XMIT_RSP) == [(C, [4, 5])]


def test_an_older_state_that_comes_in_a_round_has_a_frozen_sender_handed_out_again() -> None:
    """Explored: state 1462. Nothing more is taken of who departs; what is here is kept."""
    stack = joined()
    stack.event_down(StateAwaited(True))
    stack.up(data(B, 1, 5))
    stack.event_down(Stable(digest(b=3)))
    stack.event_down(Freeze((B,)))
    stack.take_up()
    stack.event_down(SetDigest(digest(b=2), replace=True))
    stack.event_down(StateAwaited(False))
    assert got(stack) == [3, 4, 5]
    stack.event_down(SetDigest(digest(b=5), replace=True))
    stack.event_down(SetDigest(digest(b=9), replace=True))
    assert got(stack) == []
    stack.event_down(Fetch({B: (6, C)}))
    stack.up(data(B, 6, flags=Flag.OOB))
    assert got(stack) == [6]
    assert stack.take_up_events(Fetched) == [Fetched()]


def test_a_merge_moves_a_frozen_sender() -> None:
    """In the other subgroup it has sent on, and what we lack is forgotten there."""
    stack = frozen()
    stack.event_down(MergeDigest(digest(b=40)))
    stack.event_down(view_change(2, A, B, C))
    stack.up(data(B, 41))
    assert got(stack) == [41]
    assert asked(stack) == []


# --- configuration


@pytest.mark.parametrize(
    "bad", [{"xmit_interval": 0}, {"xmit_delay": -1}, {"max_window": 0}, {"max_unstable": 0}]
)
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        NAKACK2(**bad)


def test_other_events_pass() -> None:
    class Mine(Event):
        pass

    stack = joined()
    stack.event_down(Mine())
    assert len(stack.take_down_events()) == 1
