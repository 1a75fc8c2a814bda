"""NAKACK2 in rounds: senders are frozen, and agreed messages are fetched."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nakack2_harness import (
    ID,
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

from jgroups_py.testing import FakeStack
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Event,
    Fetch,
    Fetched,
    Freeze,
    GetDigest,
    MergeDigest,
    Release,
    SetDigest,
    Stable,
    StateAwaited,
    Thaw,
)
from jgroups_py.values.message import Flag
from jgroups_py.wire.headers import NakAckHeader2, NakAckType


def frozen() -> FakeStack:
    """B departed; we delivered its messages 1 and 2, and hold 5 and 6. C has the other messages."""
    stack = joined(A, B, C)
    stack.up(data(B, 1, 2))
    stack.up(data(B, 5, 6))
    stack.take_up()
    stack.event_down(Freeze((B,)))
    stack.take_down()
    return stack


def test_messages_of_a_frozen_sender_are_not_taken() -> None:
    stack = frozen()
    stack.up(data(B, 3, 4))
    stack.advance(10)
    assert stack.take_up() == []
    assert asked(stack) == []
    assert stack.protocol.answer(GetDigest((B,))).seqnos[B] == (2, 2)
    assert count(stack, "frozen_dropped") == 2


def test_agreed_messages_are_fetched_from_the_holder_and_no_more() -> None:
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
def test_agreed_messages_are_fetched_a_window_at_a_time(departed: bool) -> None:
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


def test_messages_that_a_round_wanted_are_asked_for_though_another_round_begins_at_once() -> None:
    """A goal gave the number of B's messages; the next FREEZE came in the same step (merge 20091)."""
    stack = joined(A, B, C, D)
    stack.event_down(Freeze((D,)))
    stack.machine.enter()
    stack.stack.event_down(Fetch({B: (4, C)}))
    stack.stack.event_down(Freeze((C, D)))
    stack.machine.leave()
    stack.advance(0.05)
    assert asked(stack) == [(C, (B, [1, 2, 3, 4]))]


def test_out_of_band_messages_beyond_the_agreement_are_not_delivered_either() -> None:
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


def test_messages_that_others_send_meanwhile_are_handed_out_after_the_view() -> None:
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


def test_held_messages_that_are_agreed_on_are_handed_out_before_the_view() -> None:
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
    """The application gets its own message when the others have it, or after the view."""
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


def test_an_agreement_after_the_hold_has_ended_opens_no_frozen_sender() -> None:
    """We held messages for too long, then the round's goals come after all: no message of B beyond them is
    delivered."""
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


def test_a_goal_beyond_our_sent_numbers_is_cut_to_them() -> None:
    """No member can have messages that we have not sent: a report of such messages was forged."""
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


def test_while_a_state_is_awaited_stable_messages_are_kept_since_it_may_be_older() -> None:
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
    """Explored: all 4214. They have been delivered: members that lack them get them from us."""
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
    """Explored: state 1462. No more messages of a departing sender are accepted; present ones are kept."""
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
    """The sender has gone on in the other subgroup, where the messages that we lack have been forgotten."""
    stack = frozen()
    stack.event_down(MergeDigest(digest(b=40)))
    stack.event_down(view_change(2, A, B, C))
    stack.up(data(B, 41))
    assert got(stack) == [41]
    assert asked(stack) == []
