"""NAKACK2 between a fake above and a fake below: order, gaps, limits."""

from __future__ import annotations

from typing import Any

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
    highest,
    joined,
    request,
    sent,
)

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Event,
    GetDigest,
    GetSeqno,
    Stable,
)
from jgroups_py.values.message import Flag, Transient
from jgroups_py.values.view import Digest
from jgroups_py.wire.headers import NakAckHeader2, NakAckType

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


def test_the_own_entry_of_a_digest_counts_sent_messages_before_delivery() -> None:
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


def test_an_answer_that_stops_is_asked_for_again_soon() -> None:
    """The rest of a burst of answers does not fit into a slow member's socket buffer."""
    for last in (data(B, 9), highest(B, 9)):
        stack = joined(xmit_interval=0.5, xmit_delay=0.02)
        stack.up(data(B, 1))
        stack.up(last)
        stack.advance(0.02)
        missing = asked(stack)[0][1][1]
        assert missing[:7] == [2, 3, 4, 5, 6, 7, 8]
        stack.advance(0.05)
        stack.up(data(B, 2, 4))
        stack.advance(0.11)
        assert asked(stack) == []
        stack.advance(0.06)
        assert asked(stack) == [(B, (B, missing[3:]))]


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


def test_messages_that_are_not_here_any_more_are_counted() -> None:
    stack = joined()
    stack.up(request(B, A, 1, 2))
    stack.up(request(B, D, 1))
    assert count(stack, "not_found") == 3


def test_a_request_that_does_not_say_whose_messages_it_wants_is_rubbish() -> None:
    stack = joined()
    stack.up(request(B, None, 1))
    assert (count(stack, "bad"), count(stack, "not_found")) == (1, 0)


def test_a_message_of_nobody_is_rubbish() -> None:
    stack = joined()
    nobodys = data(B, 1)
    nobodys.src = None
    stack.up(nobodys)
    assert count(stack, "bad") == 1 and stack.take_up() == []


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


def test_a_stable_digest_is_not_told_again() -> None:
    stack = joined()
    stack.down(Batch(None, [b"1"], {}))
    stack.up(stack.take_down()[0])
    stack.event_down(Stable(digest(a=1, b=0, c=0)))
    stack.advance(100)
    assert stack.take_down() == []


def test_a_lost_last_message_is_asked_for_at_once() -> None:
    stack = joined()
    stack.up(data(B, 1))
    stack.up(highest(B, 2))
    stack.advance(0)
    assert asked(stack) == [(B, (B, [2]))]
    assert got(stack) == [1]


def test_a_stability_digest_reveals_a_lost_last_message_after_xmit_interval() -> None:
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
    """Otherwise no member would be asked for them (all 20228: an out-of-band run that is longer than the window)."""
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
