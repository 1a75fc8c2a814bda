"""A change that got its stamp before a removal, and is stored when the tombstone is forgotten already, is not refused by hosts that still have it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from jgroups_py.maps.entry import Entry
from jgroups_py.maps.rules import LAST_WRITER
from jgroups_py.maps.shared import FileSettings, SharedFile
from jgroups_py.maps.stamp import Stamp
from jgroups_py.maps.table import MemoryTable

OTHER = 7
"""Origin of the host that removes."""
REMOVED = Entry(None, Stamp(5_000 << 8, 2), {OTHER: 1})
"""Newer than all that is put below."""


def late(slot: int, number: int) -> Entry:
    return Entry(b"late %d" % number, Stamp((1_000 + number) << 8 | slot, 1))


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
    assert mine.stamp.time & 0xFF == 3  # times of one host still differ by its processes


def test_of_two_late_changes_the_later_one_wins_everywhere() -> None:
    table = table_that_forgot()
    table.change(1, b"key", late(3, 0))
    first = table.entries[b"key"]
    table.entries.pop(b"key")
    table.change(1, b"key", late(3, 1))
    assert table.entries[b"key"].stamp.is_newer(first.stamp)


def test_a_change_of_a_key_that_is_there_keeps_its_stamp() -> None:
    table = table_that_forgot()
    table.apply([(b"there", Entry(b"x", Stamp(900 << 8, 2), {OTHER: 2}))], {OTHER: 2})
    table.change(1, b"there", late(3, 0))
    assert table.entries[b"there"].stamp == late(3, 0).stamp


def test_the_file_remembers_what_it_has_forgotten(tmp_path: Path) -> None:
    settings = FileSettings(max_bytes=1 << 24)
    with closing(SharedFile(tmp_path / "m", settings)) as shared:
        assert shared.wait_merged(20)
        with shared._merger.lock, shared.store.merging(LAST_WRITER) as merging:
            merging.join(b"key", REMOVED)
        with shared._merger.lock, shared.store.merging(LAST_WRITER) as merging:
            merging.forget(b"key", REMOVED)
    with (
        closing(SharedFile(tmp_path / "m", settings)) as shared,
        shared._merger.lock,
        shared.store.merging(LAST_WRITER) as merging,
    ):
        merging.change(b"key", late(3, 0))
        found = merging.entry(b"key")
    assert found is not None
    assert found.stamp.is_newer(REMOVED.stamp)
