"""Tables: the entries of one host, with an index of changes by origin and number.

``MemoryTable`` is a table in memory; ``store.py`` has the one in a file. Both use ``write`` below, so that the meaning
of a change is defined once.
"""

from __future__ import annotations

import sys
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from msgspec.structs import replace

from jgroups_py.maps.entry import Dots, MapEntry
from jgroups_py.maps.rules import LAST_WRITER, ConflictRule, LastWriter, join, merged
from jgroups_py.maps.stamp import MapStamp
from jgroups_py.maps.sums import Contents, Sums, count

Vector = dict[int, int]
"""By origin, the number up to which all its changes are here, or were replaced by newer ones that are here."""


@dataclass(frozen=True, slots=True)
class ChangedKey:
    """A key whose entry has changed. ``diverged``: two values had one stamp."""

    key: bytes
    old: MapEntry | None
    new: MapEntry
    diverged: bool = False


class Rows(Protocol):
    """The part of a table that ``write`` needs: entries and index."""

    def entry(self, key: bytes) -> MapEntry | None: ...
    def set_entry(self, key: bytes, entry: MapEntry) -> None: ...
    def add_dot(self, origin: int, number: int, key: bytes) -> None: ...
    def drop_dot(self, origin: int, number: int) -> None: ...


def write(rows: Rows, rule: ConflictRule, key: bytes, theirs: MapEntry) -> ChangedKey | None:
    """Join an entry with the present one. None: nothing has changed."""
    mine = rows.entry(key)
    new, diverged = join(rule, mine, theirs)
    if new is mine:
        return ChangedKey(key, mine, mine, True) if diverged and mine is not None else None
    before: Dots = mine.dots if mine is not None else {}
    for origin, number in before.items():
        if new.dots.get(origin) != number:
            rows.drop_dot(origin, number)
    for origin, number in new.dots.items():
        if before.get(origin) != number:
            rows.add_dot(origin, number, key)
    rows.set_entry(key, new)
    return ChangedKey(key, mine, new, diverged)


def numbered(
    rule: ConflictRule, mine: MapEntry | None, new: MapEntry, origin: int, number: int
) -> MapEntry:
    """Return the stored form of a change of this host. With a merging rule it contains the present entry, so that no
    earlier change is undone."""
    if isinstance(rule, LastWriter) or mine is None or new.life > mine.life:
        return replace(new, dots={origin: number})
    value = new.value
    if value is not None and mine.value is not None:
        value, _ = merged(rule, mine.value, value)
    return replace(new, value=value, dots={**mine.dots, origin: number}, life=mine.life)


def placed(
    rule: ConflictRule, mine: MapEntry | None, new: MapEntry, floor: int
) -> tuple[MapEntry, int]:
    """Return a change of this host with its final stamp, and the new ``floor``: the latest time of a forgotten
    tombstone or of a raised change.

    A change may get its stamp before another host's removal is known here, and be stored after that tombstone is
    forgotten: its process was stopped in between, or the host uses the wall clock alone. Hosts with the tombstone would
    refuse the change, the others would keep it. So a change without an entry under its key is raised above all forgotten
    tombstones. The next late change of the key is raised, too, else it would lose to the first one.
    """
    if new.stamp.time > floor or not isinstance(rule, LastWriter):
        return new, floor
    if mine is not None:
        if mine.stamp.time < new.stamp.time or not _was_raised(mine.stamp, new.stamp, floor):
            return new, floor
        floor = max(floor, mine.stamp.time)
    time = ((floor >> 8) + 1) << 8 | (new.stamp.time & 0xFF)
    return replace(new, stamp=MapStamp(time, new.stamp.node)), time


def _was_raised(mine: MapStamp, new: MapStamp, floor: int) -> bool:
    """Does ``mine``, later than ``new``, have its time from ``placed``? It does if nothing was raised since, or if both
    are of one process, whose changes are stored in order."""
    return mine.node == new.node and (mine.time == floor or mine.time & 0xFF == new.time & 0xFF)


class MemoryTable:
    """A table in memory: for tests and the simulator, and the model of the one in a file."""

    def __init__(self, rule: ConflictRule = LAST_WRITER) -> None:
        self.rule = rule
        self.entries: dict[bytes, MapEntry] = {}
        self._index: dict[int, tuple[list[int], dict[int, bytes]]] = {}
        self._vector: Vector = {}
        self._sums: Sums = {}
        self._lacking = False
        self.forgotten: Vector = {}
        """By origin, the highest number of a forgotten tombstone."""
        self._floor = 0

    # --- reading

    def entry(self, key: bytes) -> MapEntry | None:
        return self.entries.get(key)

    def vector(self) -> Vector:
        return dict(self._vector)

    def contents(self) -> Contents:
        """Return a summary of the entries (sums.py)."""
        return Contents(dict(self._vector), dict(self._sums), self._lacking)

    def changes(
        self, origin: int, after: int, to: int, most: int
    ) -> Iterator[tuple[int, bytes, MapEntry]]:
        """Yield at most ``most`` changes of an origin above ``after`` and up to ``to``, in order."""
        numbers, keys = self._index.get(origin, ([], {}))
        first = bisect_right(numbers, after)
        for number in numbers[first : first + most]:
            if number > to:
                return
            yield number, keys[number], self.entries[keys[number]]

    def tombstones(
        self, after: bytes = b"", most: int = sys.maxsize
    ) -> Iterator[tuple[bytes, MapEntry]]:
        """Yield the first ``most`` tombstones above ``after``, in the order of keys."""
        found = ((k, entry) for k, entry in self.entries.items() if entry.removed and k > after)
        return islice(iter(sorted(found)), most)

    # --- writing

    def apply(
        self, entries: Iterable[tuple[bytes, MapEntry]], advance: Mapping[int, int]
    ) -> Sequence[ChangedKey]:
        """Join entries and raise the vector."""
        changed = [
            change for key, entry in entries if (change := write(self, self.rule, key, entry))
        ]
        for origin, number in advance.items():
            self._vector[origin] = max(self._vector.get(origin, 0), number)
        return changed

    def change(self, origin: int, key: bytes, entry: MapEntry) -> ChangedKey | None:
        """Store a change of this host (``entry`` has no dots) under the next number of ``origin``."""
        number = self._vector.get(origin, 0) + 1
        self._vector[origin] = number
        entry, self._floor = placed(self.rule, self.entry(key), entry, self._floor)
        return write(
            self, self.rule, key, numbered(self.rule, self.entry(key), entry, origin, number)
        )

    def forget(self, keys: Iterable[bytes]) -> None:
        """Forget tombstones for good."""
        for key in keys:
            entry = self.entries.pop(key)
            assert entry.removed
            self._floor = max(self._floor, entry.stamp.time)
            for origin, number in entry.dots.items():
                self.drop_dot(origin, number)
                self.forgotten[origin] = max(self.forgotten.get(origin, 0), number)

    def note_lacking(self) -> None:
        """Note for good that removals were forgotten that a host may lack."""
        self._lacking = True

    def drop(self, dots: Iterable[tuple[int, int]]) -> None:
        """Drop changes (origin, number) that a peer has seen, and whose entries are gone there. An entry goes with its
        last change."""
        for origin, number in dots:
            key = self._index.get(origin, ([], {}))[1].get(number)
            if key is None:
                continue
            entry = self.entries[key]
            self.drop_dot(origin, number)
            left = {o: n for o, n in entry.dots.items() if o != origin}
            if left:
                self.set_entry(key, replace(entry, dots=left))
            else:
                count(self._sums, entry)
                del self.entries[key]
            self.forgotten[origin] = max(self.forgotten.get(origin, 0), number)

    # --- Rows

    def set_entry(self, key: bytes, entry: MapEntry) -> None:
        if (before := self.entries.get(key)) is not None:
            count(self._sums, before)
        count(self._sums, entry)
        self.entries[key] = entry

    def add_dot(self, origin: int, number: int, key: bytes) -> None:
        numbers, keys = self._index.setdefault(origin, ([], {}))
        if number not in keys:
            insort(numbers, number)
        keys[number] = key

    def drop_dot(self, origin: int, number: int) -> None:
        numbers, keys = self._index.get(origin, ([], {}))
        if keys.pop(number, None) is not None:
            numbers.pop(bisect_right(numbers, number) - 1)
