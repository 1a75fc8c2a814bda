"""Tombstones are scanned a few at a time: a map may have very many of them (jgroups_py/maps/forgetting.py)."""

from __future__ import annotations

from collections.abc import Iterator

from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.forgetting import TOMBSTONES_AT_ONCE
from jgroups_py.maps.replica import Replica
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.stamp import TICKS_PER_S, HybridClock, MapStamp
from jgroups_py.maps.table import MemoryTable

NOW = 1_000_000
"""The present time in seconds."""


class Counted(MemoryTable):
    """Records the number of tombstones in each scan."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[int] = []

    def tombstones(self, after: bytes = b"", most: int = 10**9) -> Iterator[tuple[bytes, MapEntry]]:
        found = list(super().tombstones(after, most))
        self.looks.append(len(found))
        return iter(found)


def test_old_tombstones_are_found_behind_many_that_must_stay() -> None:
    table = Counted()
    many = 2 * TOMBSTONES_AT_ONCE + 10
    for number in range(1, many + 1):
        seconds = NOW - (1 if number < many else 100)
        stamp = MapStamp(seconds * TICKS_PER_S, 1)
        table.apply([(b"%05d" % number, MapEntry(None, stamp, {1: number}))], {1: number})
    clock = HybridClock(lambda: NOW * 10**9)
    settings = ReplicaSettings(map="m", node=1, origin=1, file=b"", tombstone_age=50.0)
    replica = Replica(settings, table, clock)
    now = 0.0
    for _ in range(3):
        now = replica.tick(now)
    assert table.looks == [TOMBSTONES_AT_ONCE, TOMBSTONES_AT_ONCE, 10]
    assert replica.counters["tombstones_forgotten"] == 1 and len(table.entries) == many - 1
    for _ in range(90):  # a pause of two intervals of half a second
        now = replica.tick(now)
    assert len(table.looks) == 3
    for _ in range(20):
        now = replica.tick(now)
    assert len(table.looks) == 6
