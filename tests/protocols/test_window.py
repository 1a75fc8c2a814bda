"""Runs in windows: order, overlap, gaps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py.stack.windows import GapClock, ReceiveWindow, RunStore, compact, span_list, spans_of
from jgroups_py.testing import make_address
from jgroups_py.values.batch import Batch
from jgroups_py.values.header import Header
from jgroups_py.values.message import Flag
from jgroups_py.values.payloads import SeqnoList
from jgroups_py.wire.headers import NakAckHeader2, NakAckType

A = make_address(1)


def run(first: int, last: int, flags: int = 0) -> Batch:
    header: Header = NakAckHeader2(NakAckType.MSG, first)
    payloads = [b"%d" % seqno for seqno in range(first, last + 1)]
    return Batch(None, payloads, {41: header}, A, flags)


def texts(*runs: Batch) -> list[int]:
    return [int(payload) for batch in runs for payload in batch.payloads]


def taken(window: ReceiveWindow) -> list[int]:
    out: list[int] = []
    while (batch := window.next()) is not None:
        header = batch.header(41, NakAckHeader2)
        assert header is not None and header.seqno == texts(batch)[0]
        out += texts(batch)
    return out


def test_a_store_keeps_only_the_new_part_of_an_overlapping_run() -> None:
    store = RunStore()
    store.append(5, run(5, 8))
    pieces = store.insert(3, run(3, 12))
    assert [(first, texts(piece)) for first, piece in pieces] == [
        (3, [3, 4]),
        (9, [9, 10, 11, 12]),
    ]
    assert store.firsts == [3, 5, 9]
    assert store.count == 10
    store.check()


def test_a_store_gives_back_slices_with_their_own_seqno() -> None:
    store = RunStore()
    store.append(1, run(1, 5))
    store.append(8, run(8, 10))
    found = list(store.between(4, 8))
    assert [(first, texts(piece)) for first, piece in found] == [(4, [4, 5]), (8, [8])]
    assert [piece.headers[41].seqno for _, piece in found] == [4, 8]  # type: ignore[attr-defined]
    assert store.missing(4, 12) == [(6, 7), (11, 12)]
    assert list(store.between(6, 7)) == []


def test_a_store_drops_runs_that_end_at_or_below_and_keeps_those_that_go_on() -> None:
    store = RunStore()
    store.append(1, run(1, 5))
    store.append(6, run(6, 10))
    assert store.drop_to(4) == 0
    assert store.drop_to(7) == 5
    assert store.firsts == [6]
    assert store.drop_to(10) == 5
    assert not store
    assert store.last == 0


def test_messages_beyond_a_gap_wait_for_it() -> None:
    window = ReceiveWindow(0)
    window.add(3, run(3, 4))
    assert taken(window) == []
    assert window.missing() == [(1, 2)]
    window.add(1, run(1, 2))
    assert taken(window) == [1, 2, 3, 4]
    assert not window.has_gap


def test_oob_messages_take_their_place_and_are_not_handed_out_again() -> None:
    window = ReceiveWindow(0)
    pieces = window.add(2, run(2, 2, Flag.OOB))
    assert len(pieces) == 1
    window.add(1, run(1, 1))
    assert taken(window) == [1]
    assert window.delivered == 2


def test_a_window_can_be_moved_into_the_middle_of_a_pending_run() -> None:
    window = ReceiveWindow(0)
    window.add(5, run(5, 9))
    window.move_to(6)
    assert taken(window) == [7, 8, 9]


def test_messages_that_were_handed_out_early_stay_so_when_their_run_is_cut() -> None:
    window = ReceiveWindow(0)
    window.add(3, run(3, 8, Flag.OOB))
    window.split_at(5)
    window.check()
    window.move_to(3)
    window.add(9, run(9, 9))
    assert taken(window) == [9]
    assert window.delivered == 9


def test_a_closed_window_hands_out_nothing() -> None:
    window = ReceiveWindow(0)
    window.add(1, run(1, 3))
    window.closed = True
    assert taken(window) == []
    window.closed = False
    assert taken(window) == [1, 2, 3]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 8), st.booleans()), max_size=25))
def test_every_message_is_handed_out_once_and_in_order(
    arrivals: list[tuple[int, int, bool]],
) -> None:
    oob = {seqno for first, _, flag in arrivals if flag for seqno in [first]}
    window = ReceiveWindow(0)
    regular: list[int] = []
    early: list[int] = []
    got: set[int] = set()
    for first, more, _ in arrivals:
        last = first
        while last < first + more and first not in oob and last + 1 not in oob:
            last += 1
        got |= set(range(first, last + 1))
        pieces = window.add(first, run(first, last, Flag.OOB if first in oob else 0))
        if first in oob:
            early += texts(*[piece for _, piece in pieces])
        regular += taken(window)
        window.check()
    reach = 0
    while reach + 1 in got:
        reach += 1
    assert window.delivered == reach
    assert regular == [s for s in range(1, reach + 1) if s not in oob]
    assert sorted(early) == sorted(got & oob)
    assert window.received == max(got, default=0)


@given(st.lists(st.integers(1, 400), min_size=1, unique=True), st.integers(1, 50))
def test_spans_and_lists_of_seqnos_tell_the_same(seqnos: list[int], limit: int) -> None:
    seqnos.sort()
    spans = spans_of(SeqnoList.of(seqnos), 1024)
    assert [s for low, high in spans for s in range(low, high + 1)] == seqnos
    limited = span_list(spans, limit)
    assert limited is not None
    assert list(limited) == [s for s in seqnos if s < seqnos[0] + limit * 64][:limit]
    few = spans_of(SeqnoList.of(seqnos), limit)
    assert sum(high - low + 1 for low, high in few) <= limit


def test_a_hostile_list_of_seqnos_costs_little() -> None:
    size = 400_000
    bits = int("10" * (size // 2), 2)
    assert len(spans_of(SeqnoList(1, size, bits), 1024)) == 1024


def gap(window: ReceiveWindow, clock: GapClock, now: float) -> list[int] | None:
    wanted = clock.due(window, now, 0.02, 10)
    return None if wanted is None else list(wanted)


def test_a_gap_is_asked_for_once_and_then_at_growing_intervals() -> None:
    window, clock = ReceiveWindow(0), GapClock(1.0)
    window.add(3, run(3, 3))
    assert clock.saw(window.known, 0.02)
    assert not clock.saw(window.known, 0.02)
    assert gap(window, clock, 0.01) is None
    assert gap(window, clock, 0.02) == [1, 2]
    asked: list[float] = []
    now = 0.02
    while len(asked) < 5:
        assert clock.deadline is not None
        now = clock.deadline
        if gap(window, clock, now) == [1, 2]:
            asked.append(round(now, 2))
    assert asked == [1.02, 3.02, 7.02, 15.02, 23.02]


def test_intervals_grow_while_nothing_comes_and_begin_anew_when_something_came() -> None:
    window, clock = ReceiveWindow(10), GapClock(1.0)
    window.add(13, run(13, 13))
    clock.saw(window.known, 0.0)

    def next_ones(count: int) -> list[float]:
        """Return the times of the next requests, beginning with the last one."""
        times = []
        for _ in range(count):
            assert clock.deadline is not None
            times.append(clock.deadline)
            assert gap(window, clock, clock.deadline)
        return times

    assert next_ones(4) == [0.0, 1.0, 3.0, 7.0]
    window.add(11, run(11, 11))
    assert taken(window) == [11]
    assert next_ones(4) == [15.0, 17.0, 21.0, 29.0]


def test_an_answer_that_stops_is_asked_for_again_after_twice_the_time_it_took_to_begin() -> None:
    window, clock = ReceiveWindow(0), GapClock(1.0)
    clock.answered(0.01, 0.02)
    assert clock.deadline is None, "nothing was asked for"
    window.add(9, run(9, 9))
    clock.saw(window.known, 0.02)
    assert gap(window, clock, 0.02) == list(range(1, 9))
    window.add(1, run(1, 2))
    clock.answered(0.12, 0.02)
    assert clock.deadline == pytest.approx(0.34)
    clock.answered(0.30, 0.02)
    assert clock.deadline == pytest.approx(0.52), "it went on"
    assert taken(window) == [1, 2]
    assert gap(window, clock, 0.52) == list(range(3, 9))
    assert clock.deadline == pytest.approx(1.52), "the first request was not in vain"
    clock.answered(0.53, 0.02)
    assert clock.deadline == pytest.approx(0.65), "one quick answer halves the time, no more"
    assert gap(window, clock, 0.65)
    clock.answered(9.0, 0.02)
    assert clock.deadline == 10.0, "never later than a request without any answer"


def test_a_window_that_is_moved_beyond_everything_known_lacks_nothing() -> None:
    window = ReceiveWindow(0)
    window.add(3, run(3, 4))
    window.move_to(20)
    window.check()
    assert not window.has_gap and window.missing() == []
    window.add(22, run(22, 22))
    assert window.missing() == [(21, 21)]


def test_a_second_gap_does_not_wait_for_the_first() -> None:
    window, clock = ReceiveWindow(0), GapClock(1.0)
    window.add(2, run(2, 2))
    clock.saw(window.known, 0.02)
    assert gap(window, clock, 0.02) == [1]
    window.add(5, run(5, 5))
    assert clock.saw(window.known, 0.5)
    assert gap(window, clock, 0.5) == [3, 4]
    assert gap(window, clock, 1.02) == [1, 3, 4]


def test_a_large_gap_is_asked_for_in_parts() -> None:
    window, clock = ReceiveWindow(0), GapClock(1.0)
    window.add(26, run(26, 26))
    clock.saw(window.known, 0.02)
    asked: list[int] = []
    now = 0.02
    while now < 1.0:
        asked += gap(window, clock, now) or []
        assert clock.deadline is not None
        now = clock.deadline
    assert asked == list(range(1, 26))


def test_a_closed_gap_is_not_asked_for() -> None:
    window, clock = ReceiveWindow(0), GapClock(1.0)
    window.add(2, run(2, 2))
    clock.saw(window.known, 0.02)
    window.add(1, run(1, 1))
    assert taken(window) == [1, 2]
    assert gap(window, clock, 0.02) is None
    assert clock.deadline is None


def test_a_small_part_of_a_packet_is_copied_and_a_large_one_is_not() -> None:
    packet = memoryview(bytes(10_000))
    small = Batch(None, [packet[:10], packet[10:20]], {}, A)
    large = Batch(None, [packet[:9000]], {}, A)
    assert [type(p) for p in compact(small).payloads] == [bytes, bytes]
    assert compact(large) is large


def test_messages_that_were_handed_out_early_are_not_fresh_after_they_were_forgotten() -> None:
    window = ReceiveWindow(0)
    window.add(3, run(3, 4, Flag.OOB))
    window.add(6, run(6, 7))
    window.forget_pending()
    assert (window.known, window.pending.count) == (0, 0)
    window.check()
    assert texts(*window.fresh(window.add(2, run(2, 6, Flag.OOB)))) == [2, 5, 6]
    window.check()
    window.add(1, run(1, 1))
    assert taken(window) == [1] and window.delivered == 6
    window.forget_pending()
    assert window.passed == frozenset(), "those up to here cannot come again"
