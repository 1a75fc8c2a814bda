"""The change log: places, ranges, trims, compared with a model that keeps everything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jgroups_py.cache.changes import NodeChange
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.node import Node
from jgroups_py.export.errors import Diverged, Trimmed
from jgroups_py.export.limits import ExportLimits
from jgroups_py.export.log import ChangeLog
from jgroups_py.export.messages import Offset

Batch = tuple[str, int]
batches = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=40)
"""The origin, and the number of changed nodes."""


def changes(count: int) -> tuple[NodeChange, ...]:
    return tuple(NodeChange(Fqn(("n", str(i))), None, Node({"k": b"v"})) for i in range(count))


def filled(given: list[Batch], **limits: int) -> ChangeLog:
    log = ChangeLog("one", {}, ExportLimits(**limits))
    numbers: dict[str, int] = {}
    for origin, count in given:
        numbers[origin] = numbers.get(origin, 0) + 1
        log.append(origin, numbers[origin], 0, changes(count))
    return log


def told(log: ChangeLog, start: int, stop: int) -> list[tuple[str, int, int]]:
    return [(e.origin, e.number, len(e.paths)) for e in log.between(start, stop)]


@given(batches, st.integers(1, 5))
def test_steps_of_a_few_changes_tell_every_batch_once_in_order(
    given: list[Batch], step: int
) -> None:
    log = filled(given)
    offset, got = log.first_offset(), []
    while offset.at < log.end:
        then, count = log.after(offset, step)
        part = told(log, log.position(offset), log.position(then))
        assert sum(size for *_, size in part) == count
        assert count <= step or sum(size > 0 for *_, size in part) == 1
        got += part
        offset = then
    assert got == told(log, 0, len(given)) and offset == log.end_offset()


@given(batches, st.integers(0, 40), st.integers(1, 20))
def test_a_place_is_found_in_another_members_log_or_it_is_trimmed(
    given: list[Batch], at: int, kept: int
) -> None:
    """The other log has another name and no longer has its beginning."""
    at = min(at, len(given))
    whole = filled(given)
    offset = whole.after(whole.first_offset(), None)[0]
    origins: dict[str, int] = {}
    for origin, _ in given[:at]:
        origins[origin] = origins.get(origin, 0) + 1
    other = filled(given, log_changes=kept)
    place = Offset("another", 10**6, origins)
    if at < other.first:
        with pytest.raises(Trimmed, match="snapshot"):
            other.position(place)
    else:
        assert other.position(place) == at
        assert told(other, at, other.end) == told(whole, at, whole.end)
    assert offset.at == len(given)


def test_a_place_that_never_was_has_diverged() -> None:
    log = filled([("a", 1), ("b", 1), ("a", 1)])
    for origins in ({"a": 2}, {"b": 1}, {"a": 3, "b": 1}, {"c": 1}, {"a": 1, "b": 1, "c": 1}):
        with pytest.raises(Diverged):
            log.position(Offset("another", 0, origins))
    assert log.position(Offset("another", 0, {"a": 1, "b": 1})) == 2
    with pytest.raises(Diverged, match="beyond"):
        log.position(Offset("one", 4, {}))


def test_limits_hold_and_the_trimmed_are_counted() -> None:
    log = filled([("a", 2)] * 5000, log_changes=100)
    assert log.end == 5000 and log.first == 4950 and log.trimmed == 9900
    assert len(log._entries) < 3000
    with pytest.raises(Trimmed, match="4950"):
        log.position(Offset("one", 4949, {}))
    assert told(log, 4998, 5000) == [("a", 4999, 2), ("a", 5000, 2)]
    bytes_max = 10_000
    small = filled([("a", 2)] * 100, log_bytes=bytes_max)
    assert 0 < small.size <= bytes_max and small.first > 0


def test_after_a_reset_old_places_have_diverged_and_positions_go_on() -> None:
    log = filled([("a", 1), ("b", 1)])
    old = log.end_offset()
    log.reset("two", {"a": 7})
    with pytest.raises((Diverged, Trimmed)):
        log.position(old)
    assert log.end == 2 and log.position(log.end_offset()) == 2
    log.append("b", 4, 0, changes(1))
    assert told(log, 2, 3) == [("b", 4, 1)]


@given(batches, st.dictionaries(st.sampled_from("abc"), st.integers(1, 9)))
def test_stamps_rise_from_batch_to_batch_of_any_writer_and_are_equal_at_a_later_member(
    given_: list[Batch], before: dict[str, int]
) -> None:
    def filled_from(floor: dict[str, int], rest: list[Batch]) -> list[str]:
        log = ChangeLog("one", floor, ExportLimits())
        numbers = dict(floor)
        for origin, count in rest:
            numbers[origin] = numbers.get(origin, 0) + 1
            log.append(origin, numbers[origin], 0, changes(count))
        assert all(len(e.stamps) == len(e.paths) for e in log.between(0, log.end))
        return [stamp for e in log.between(0, log.end) for stamp in e.stamps[:1]]

    stamps = filled_from(before, given_)
    assert stamps == sorted(set(stamps))
    half = dict(before)
    for origin, _ in given_[:5]:
        half[origin] = half.get(origin, 0) + 1
    later = filled_from(half, given_[5:])
    assert later == stamps[len(stamps) - len(later) :]
