"""Tombstones are forgotten when every known peer has them and nothing older can come, or at ``tombstone_age``. They are
checked a few at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from jgroups_py.maps.confirmations import Confirmations
from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.errors import MapFull
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.stamp import TICKS_PER_S, HybridClock
from jgroups_py.maps.surveys import MapSurveys
from jgroups_py.maps.table import Vector

TOMBSTONES_AT_ONCE: Final = 200
"""Tombstones checked in one flush interval. With more tombstones a full round takes longer."""


class TableOfTombstones(Protocol):
    """The part of a table that is needed here. ``forget`` may take effect later."""

    def vector(self) -> Vector: ...
    def tombstones(self, after: bytes, most: int) -> Iterator[tuple[bytes, MapEntry]]:
        """Yield the first ``most`` tombstones above ``after``, in the order of keys."""

    def forget(self, keys: Iterable[bytes]) -> None: ...


class MapForgetting:
    """Rounds over all tombstones of a table. ``now`` is in seconds."""

    def __init__(
        self,
        settings: ReplicaSettings,
        table: TableOfTombstones,
        clock: HybridClock,
        surveys: MapSurveys,
        confirmations: Confirmations,
        now: float,
    ) -> None:
        self._settings = settings
        self._table = table
        self._clock = clock
        self._surveys = surveys
        self._confirmations = confirmations
        self._due = now
        self._after = b""
        """The last checked tombstone; empty: a new round begins."""
        self._looked_at = 0
        """Tombstones checked in this round."""

    def tick(self, now: float, counters: Counter[str]) -> None:
        """Check some tombstones, if they are due. The next ones are due at the next call, or after a rest."""
        if now < self._due:
            return
        self._confirmations.settle(self._table.vector())
        found = list(self._table.tombstones(self._after, TOMBSTONES_AT_ONCE))
        self._forget_some(found, counters)
        self._looked_at += len(found)
        if len(found) == TOMBSTONES_AT_ONCE:
            self._after = found[-1][0]
            return
        rounds = max(1, self._looked_at // TOMBSTONES_AT_ONCE)
        self._due = now + self._settings.have_interval * rounds
        self._after, self._looked_at = b"", 0

    def _forget_some(
        self, tombstones: Iterable[tuple[bytes, MapEntry]], counters: Counter[str]
    ) -> None:
        wanted = self._settings.peers - {self._settings.node}
        now = self._clock.wall_time()
        old = now - int(self._settings.tombstone_age * TICKS_PER_S)
        kept = now - int(self._settings.tombstone_min_age * TICKS_PER_S)
        forgotten, aged = [], False
        for key, entry in tombstones:
            everywhere = bool(wanted) and self._confirmations.cover(wanted, entry.dots)
            everywhere = everywhere and entry.stamp.time <= kept
            everywhere = everywhere and self._settings.rule == "last-writer"
            if everywhere or entry.stamp.time < old:
                forgotten.append(key)
                aged = aged or not everywhere
        if forgotten:
            try:
                if aged:
                    self._surveys.note_lacking()  # this happens before the tombstones are gone
                self._table.forget(forgotten)
            except MapFull:  # some may be forgotten; the next round finds the others
                counters["forget_full"] += 1
            else:
                counters["tombstones_forgotten"] += len(forgotten)
