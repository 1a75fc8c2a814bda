"""A change got its stamp before a removal, and is stored after the tombstone has been forgotten: hosts that still have
the tombstone accept the change."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.rules import LAST_WRITER
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import TICKS_PER_S, MapStamp
from jgroups_py.maps.table import MemoryTable

OTHER = 7
"""Origin of the host that removes."""
REMOVED = MapEntry(None, MapStamp(5_000 << 8, 2), {OTHER: 1})
"""A time later than all puts below."""


def late(slot: int, number: int) -> MapEntry:
    return MapEntry(b"late %d" % number, MapStamp((1_000 + number) << 8 | slot, 1))


def table_that_forgot() -> MemoryTable:
    table = MemoryTable()
    table.apply([(b"key", REMOVED)], {OTHER: 1})
    table.forget([b"key"])
    return table


def test_a_late_change_is_newer_than_the_tombstone_that_was_forgotten_here() -> None:
    table = table_that_forgot()
    table.change(1, b"key", late(3, 0))
    mine = table.entries[b"key"]
    elsewhere = MemoryTable()
    elsewhere.apply([(b"key", REMOVED)], {OTHER: 1})
    elsewhere.apply([(b"key", mine)], {1: 1})
    assert elsewhere.entries[b"key"].value == b"late 0"
    assert mine.stamp.time & 0xFF == 3  # times of one host still differ between its processes


def test_the_later_of_two_late_changes_of_a_process_wins_everywhere() -> None:
    table = table_that_forgot()
    table.change(1, b"key", late(3, 0))
    first = table.entries[b"key"]
    table.change(1, b"another", late(3, 1))  # the first one is not the one that was raised last
    table.change(1, b"key", late(3, 2))
    second = table.entries[b"key"]
    assert second.value == b"late 2"
    elsewhere = MemoryTable()
    elsewhere.apply([(b"key", second), (b"key", first)], {1: 2})
    assert elsewhere.entries[b"key"].value == b"late 2"


def test_late_changes_of_two_processes_follow_each_other_as_they_are_stored() -> None:
    table = table_that_forgot()
    table.change(1, b"key", late(3, 1))
    table.change(1, b"key", late(4, 0))
    assert table.entries[b"key"].value == b"late 0"


@pytest.mark.parametrize("slot", [3, 4])
def test_a_late_removal_removes_an_earlier_late_value(slot: int) -> None:
    table = table_that_forgot()
    table.change(1, b"key", late(3, 0))
    table.change(1, b"key", MapEntry(None, late(slot, 1).stamp))
    assert table.entries[b"key"].removed
    table.change(1, b"key", late(slot, 2))
    assert table.entries[b"key"].value == b"late 2"


def test_a_later_removal_by_this_host_stays() -> None:
    table = table_that_forgot()
    table.change(1, b"key", MapEntry(None, MapStamp(6_000 << 8 | 4, 1)))
    table.change(1, b"key", late(3, 0))
    assert table.entries[b"key"].removed


def test_a_later_write_of_another_host_stays() -> None:
    table = table_that_forgot()
    table.apply([(b"key", MapEntry(b"x", MapStamp(4_000 << 8 | 3, 2), {OTHER: 2}))], {OTHER: 2})
    table.change(1, b"key", late(3, 0))
    assert table.entries[b"key"].value == b"x"


def test_a_change_of_a_key_that_is_there_keeps_its_stamp() -> None:
    table = table_that_forgot()
    table.apply([(b"there", MapEntry(b"x", MapStamp(900 << 8, 2), {OTHER: 2}))], {OTHER: 2})
    table.change(1, b"there", late(3, 0))
    assert table.entries[b"there"].stamp == late(3, 0).stamp


def forget_one(shared: SharedFile, removed: MapEntry) -> None:
    assert shared.wait_merged(20)
    with shared._merger.lock, shared.store.merging(LAST_WRITER) as merging:
        merging.join(b"key", removed)
    with shared._merger.lock, shared.store.merging(LAST_WRITER) as merging:
        merging.forget(b"key", removed)


def test_the_file_remembers_the_stamp_of_forgotten_removals(tmp_path: Path) -> None:
    settings = FileSettings(max_bytes=1 << 24)
    with closing(SharedFile(tmp_path / "m", settings)) as shared:
        forget_one(shared, REMOVED)
    with (
        closing(SharedFile(tmp_path / "m", settings)) as shared,
        shared._merger.lock,
        shared.store.merging(LAST_WRITER) as merging,
    ):
        merging.change(b"key", late(3, 0).encode())
        merging.settle()
        found = merging.entry(b"key")
    assert found is not None
    assert found.stamp.is_newer(REMOVED.stamp)


def test_a_write_after_a_merged_late_change_is_read_at_once(tmp_path: Path) -> None:
    with closing(SharedFile(tmp_path / "m", FileSettings(max_bytes=1 << 24))) as shared:
        ahead = shared.clock.wall_time() + 3600 * TICKS_PER_S
        forget_one(shared, MapEntry(None, MapStamp(ahead, 2), {OTHER: 1}))
        shared.write(b"key", b"late")  # this process's clock has not seen that time
        assert shared.wait_merged(20)
        assert shared.get(b"key") == b"late"
        entry = shared.entry(b"key")
        assert entry is not None and entry.stamp.time > ahead
        with shared._merger.lock:
            shared.write(b"key", b"next")
            assert shared.get(b"key") == b"next"
