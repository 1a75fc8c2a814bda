"""RELAY's buffer and numbers, by themselves and against a model."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py.protocols.relay.home.buffer import OVERHEAD, RUN_OVERHEAD, RelayBuffer
from jgroups_py.protocols.relay.home.spill import SpillFile
from jgroups_py.protocols.relay.state import RelayState, minimum
from jgroups_py.values.message import MessageType

A, B = b"a" * 16, b"b" * 16
BYTES = MessageType.BYTES


def buffer(messages: int = 1000, size: int = 1_000_000, age: float = 0.0) -> RelayBuffer:
    return RelayBuffer(messages, size, age)


def fill(held: RelayBuffer, origin: bytes, first: int, count: int, at: float = 0.0) -> int:
    payloads = [b"%d" % n for n in range(first, first + count)]
    return held.add(origin, first, payloads, 0, BYTES, at)


def test_runs_are_kept_as_they_come_and_cut_on_demand() -> None:
    held = buffer()
    fill(held, A, 1, 10)
    found = held.get(A, 4, 6, 1_000_000)
    assert found is not None
    assert list(found[1]) == [b"4", b"5", b"6"]
    assert held.get(A, 11, 20, 1_000_000) is None
    assert len(list(held.runs(A))) == 1


def test_a_piece_holds_as_many_as_fit_and_at_least_one() -> None:
    held = buffer()
    held.add(A, 1, [b"x" * 100] * 5, 0, BYTES, 0.0)
    for room, count in ((1, 1), (100 + OVERHEAD, 1), (2 * (100 + OVERHEAD), 2), (10_000, 5)):
        found = held.get(A, 1, 5, room)
        assert found is not None
        assert len(found[1]) == count


def test_messages_that_are_there_already_are_not_taken_twice() -> None:
    held = buffer()
    fill(held, A, 3, 2)
    assert fill(held, A, 1, 6) == 4
    assert held.ranges(A) == [(1, 6)]
    assert [bytes(held.get(A, n, n, 99)[1][0]) for n in range(1, 7)] == [  # type: ignore[index]
        b"%d" % n for n in range(1, 7)
    ]


def test_small_views_of_large_packets_are_copied() -> None:
    packet = memoryview(bytes(60_000))
    held = buffer()
    held.add(A, 1, [packet[:2000]], 0, BYTES, 0.0)
    assert held.bytes == 2000 + OVERHEAD + RUN_OVERHEAD
    held.add(A, 2, [packet[i : i + 2000] for i in range(0, 60_000, 2000)], 0, BYTES, 0.0)
    assert isinstance(held.get(A, 2, 2, 9999)[1][0], memoryview)  # type: ignore[index]
    held.check()


def test_the_oldest_go_first_and_only_as_many_as_must() -> None:
    held = buffer(messages=5)
    fill(held, A, 1, 3)
    fill(held, B, 1, 4)
    assert held.overflow(0.0) == (None, [(A, 1, 2, "max_messages")])
    assert held.ranges(A) == [(3, 3)]
    assert held.ranges(B) == [(1, 4)]


def test_messages_that_leave_from_the_middle_are_counted() -> None:
    """An origin that looks the same from both ends is not always the same (relay 2)."""
    held = buffer(messages=9)
    for first in (4, 1, 7):
        fill(held, A, first, 3 if first < 7 else 2)
    held.check()
    fill(held, B, 1, 3)
    assert held.overflow(0.0) == (None, [(A, 4, 5, "max_messages")])
    assert held.ranges(A) == [(1, 3), (6, 8)]
    held.check()


def test_runs_that_are_gone_leave_the_lists() -> None:
    held = buffer()
    for first in range(1, 601, 2):  # every second number is missing, so runs do not join
        fill(held, A, first, 1)
    for upto in range(1, 580, 2):
        held.trim(A, upto)
        held.check()
    origin = held._origins[A]
    assert len(origin.runs) == len(origin.firsts) <= 2 * 65
    assert held.ranges(A) == [(n, n) for n in range(581, 601, 2)]


def test_messages_that_are_spilled_from_the_middle_are_counted(tmp_path: Path) -> None:
    """The same number of messages has left the file meanwhile (all 7107)."""
    held = RelayBuffer(9, 1_000_000, 0.0, SpillFile(str(tmp_path), 1_000_000))
    for origin, first in ((B, 1), (A, 4), (A, 1), (A, 7)):
        fill(held, origin, first, 3)
    held.overflow(0.0)
    held.check()
    assert held.spilled == 3 == held.trim(B, 3)
    fill(held, B, 4, 1)
    held.overflow(0.0)
    assert [run.payloads is None for run in held.runs(A)] == [False, True, False]
    held.check()
    held.close()


def test_age_counts_from_arrival() -> None:
    held = buffer(age=5.0)
    fill(held, A, 1, 2, at=0.0)
    fill(held, A, 3, 1, at=3.0)
    assert held.overflow(5.0) == (None, [])
    assert held.overflow(5.5) == (None, [(A, 1, 2, "max_age")])


def test_spilled_messages_are_read_back_and_their_file_is_emptied(tmp_path: Path) -> None:
    spill = SpillFile(str(tmp_path), 1000)
    held = RelayBuffer(3, 1_000_000, 0.0, spill)
    for first in range(1, 9, 2):
        fill(held, A, first, 2)
        held.overflow(0.0)
    held.check()
    assert (held.messages, held.spilled) == (8, 6)
    assert held.ranges(A) == [(1, 8)]
    assert held.get(A, 2, 2, 99)[1] == [b"2"]  # type: ignore[index]
    held.trim(A, 3)
    held.check()
    assert held.get(A, 4, 4, 99)[1] == [b"4"]  # type: ignore[index]
    held.trim(A, 8)
    held.check()
    assert spill.size == 0
    held.close()


def test_a_part_of_a_spilled_run_stays_in_the_file(tmp_path: Path) -> None:
    """Read back into memory, the run exceeded the limit (a simulated drill found it)."""
    held = RelayBuffer(5, 1_000_000, 0.0, SpillFile(str(tmp_path), 1000))
    fill(held, A, 1, 5)
    fill(held, A, 6, 5)
    held.overflow(0.0)
    assert (held.messages, held.spilled) == (10, 5)
    size = held.bytes
    assert held.trim(A, 2) == 2
    assert (held.messages, held.spilled, held.bytes) == (8, 3, size)
    found = held.get(A, 4, 9, 1_000_000)
    assert found is not None
    assert list(found[1]) == [b"4", b"5"]
    assert held.cut(A, 3) == 7
    assert (held.messages, held.spilled, held.bytes) == (1, 1, 0)
    found = held.get(A, 3, 9, 1_000_000)
    assert found is not None
    assert list(found[1]) == [b"3"]
    held.check()
    held.close()


def test_a_full_spill_file_drops_the_oldest(tmp_path: Path) -> None:
    held = RelayBuffer(2, 1_000_000, 0.0, SpillFile(str(tmp_path), 10))
    for first in range(1, 13, 2):
        fill(held, A, first, 2)
    spilled, dropped = held.overflow(0.0)
    assert spilled is not None
    assert dropped
    held.check()
    held.close()


NUMBERS = st.integers(1, 30)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "trim", "cut", "limit"]), NUMBERS, st.integers(1, 6)),
        max_size=30,
    ),
    st.booleans(),
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_buffer_agrees_with_a_dictionary(
    actions: list[tuple[str, int, int]], spills: bool
) -> None:
    spill = SpillFile("", 10_000) if spills else None
    held = RelayBuffer(12, 1_000_000, 0.0, spill)
    model: dict[int, bytes] = {}
    for action, number, count in actions:
        if action == "add":
            fill(held, A, number, count)
            model.update({n: b"%d" % n for n in range(number, number + count)})
        elif action == "trim":
            held.trim(A, number)
            model = {n: p for n, p in model.items() if n > number}
        elif action == "cut":
            held.cut(A, number)
            model = {n: p for n, p in model.items() if n <= number}
        else:
            for _, first, last, _ in held.overflow(0.0)[1]:
                for gone in range(first, last + 1):
                    del model[gone]
            assert held.messages - held.spilled <= 12
        held.check()
        numbers = [n for low, high in held.ranges(A) for n in range(low, high + 1)]
        assert numbers == sorted(model)
        for n in range(36):
            found = held.get(A, n, n, 99)
            assert (None if found is None else found[1][0]) == model.get(n)
            assert held.next_above(A, n) == min((m for m in model if m > n), default=None)
        missing = [n for low, high in held.missing(A, 1, 36) for n in range(low, high + 1)]
        assert missing == [n for n in range(1, 37) if n not in model]
    held.close()


def test_out_of_band_messages_beyond_a_gap_count_when_it_closes() -> None:
    state = RelayState("NYC", "NYC", ())
    state.note_delivered(A, 3, 4, False)
    assert state.delivered.get(A, 0) == 0
    state.note_delivered(A, 1, 1, True)
    assert state.delivered[A] == 1
    state.note_delivered(A, 2, 2, True)
    assert state.delivered[A] == 4


def test_below_a_message_in_order_nothing_will_come() -> None:
    state = RelayState("NYC", "NYC", ())
    state.note_delivered(A, 8, 9, True)
    assert state.delivered[A] == 9


def test_the_minimum_takes_a_missing_entry_for_zero() -> None:
    one = {"NYC": {A: 5, B: 2}}
    two = {"NYC": {A: 3}, "LON": {B: 1}}
    assert minimum([one, two]) == {"NYC": {A: 3, B: 0}, "LON": {B: 0}}
    assert minimum([]) == {}


def test_the_higher_epoch_wins_and_a_tie_is_decided_by_the_site() -> None:
    state = RelayState("NYC", "NYC", ())
    state.begin_epoch((1, "SFO"), {})
    assert not state.relays()
    assert not state.accepts(0, "NYC")
    assert state.accepts(1, "SFO")
    assert not state.accepts(1, "LON")
    assert state.accepts(2, "LON")
    assert RelayState("NYC", "all", ()).accepts(0, "LON")


@pytest.mark.parametrize(("size", "run"), [(10, 1), (100, 1), (1000, 1), (10, 50), (100, 50)])
def test_the_counted_size_is_the_size_that_python_needs(size: int, run: int) -> None:
    held = buffer(200_000, 100_000_000)
    datagrams = [[memoryview(bytes([n % 256]) * size) for _ in range(run)] for n in range(2000)]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number, payloads in enumerate(datagrams):
        held.add(A, 1 + number * run, payloads, 0, BYTES, float(number))
    needed = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert needed <= 1.1 * held.bytes
    held.check()


def test_entries_of_spilled_runs_are_limited_too(tmp_path: Path) -> None:
    room = 100 * RUN_OVERHEAD
    held = RelayBuffer(1_000_000, room, 0, SpillFile(str(tmp_path), 1_000_000_000))
    for number in range(1, 2000):
        held.add(A, number, [b"x" * 10], 0, BYTES, float(number))
        held.overflow(float(number))
        held.check()
    assert held.spilled_runs <= 51
    held.close()


def test_dropped_messages_are_not_held() -> None:
    held = buffer(1_000_000, 1_000_000)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(1, 8000):
        held.add(A if number % 2 else B, number, [bytes(1000)], 0, BYTES, float(number))
        held.overflow(float(number))
        assert tracemalloc.get_traced_memory()[0] - before < 1_700_000, number
    tracemalloc.stop()
    held.check()
