"""ChangeLog: the changes of a tree, batch by batch, with the origin and number of each.

A place in the log is the last number of each origin before it. All members of a replicated cache pass through the
same places, so a reader of one member's log can go on with another's. Old batches go when the log is larger than its
limits; then asking for them raises ``Trimmed``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from jgroups_py.cache.changes import Changes
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.node import Node
from jgroups_py.export.errors import Behind, Diverged, Trimmed
from jgroups_py.export.limits import ExportLimits
from jgroups_py.export.messages import Offset

ENTRY_BYTES = 100
"""Bytes that are counted for each change beside its names and values."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One batch. ``nodes`` has the new node of each path, or None if it was removed. ``time`` is in microseconds. ``stamps``
    has a text for each change; of two changes of a path the later one has the higher text."""

    origin: str
    number: int
    time: int
    paths: Sequence[Fqn]
    nodes: Sequence[Node | None]
    size: int
    stamps: Sequence[str]


class Missing(Behind):
    """A place has a number of an origin that has not come yet."""

    def __init__(self, origin: str, number: int) -> None:
        super().__init__(f"this member has not seen number {number} of {origin}")
        self.origin = origin


class ChangeLog:
    """``id`` names this log among all logs. ``floor`` has the numbers that the tree contained at the beginning."""

    def __init__(self, id: str, floor: Mapping[str, int], limits: ExportLimits) -> None:
        self.id = id
        self._limits = limits
        self._entries: list[LogEntry] = []
        self._base = 0  # the position of _entries[0]; entries before _first will be removed
        self._first = 0
        self._size = 0
        self._changes = 0
        self._floor = dict(floor)
        self._head = dict(floor)
        self._sum = sum(floor.values())
        self.trimmed = 0
        """The number of changes that are gone."""

    @property
    def first(self) -> int:
        """The position of the oldest batch that is kept."""
        return self._first

    @property
    def end(self) -> int:
        """The position after the newest batch."""
        return self._base + len(self._entries)

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return self._size

    def append(self, origin: str, number: int, time: int, changes: Changes) -> None:
        """Add a batch that was applied; it may have changed nothing."""
        paths = [change.path for change in changes]
        nodes = [change.after for change in changes]
        size = ENTRY_BYTES * (1 + len(paths)) + sum(
            [node.size for node in nodes if node is not None]
        )
        size += sum(map(len, chain.from_iterable(paths)))
        # All members pass through the same places, so the sum of the numbers grows equally at all members.
        self._sum += number - self._head.get(origin, 0)
        stamps = [f"{self._sum:016x}"] * len(paths)
        self._entries.append(LogEntry(origin, number, time, paths, nodes, size, stamps))
        self._head[origin] = number
        self._size += size
        self._changes += len(paths)
        while (
            self._size > self._limits.log_bytes or self._changes > self._limits.log_changes
        ) and self._first < self.end:
            self._trim()

    def reset(self, id: str, floor: Mapping[str, int]) -> None:
        """Begin another history: no place of the old one leads into it. Positions go on rising."""
        self.id = id
        self._base = self._first = self.end
        self._entries.clear()
        self._size = self._changes = 0
        self._floor = dict(floor)
        self._head = dict(floor)
        self._sum = sum(floor.values())

    def _trim(self) -> None:
        entry = self._entries[self._first - self._base]
        self._floor[entry.origin] = entry.number
        self._size -= entry.size
        self._changes -= len(entry.paths)
        self.trimmed += len(entry.paths)
        self._first += 1
        if self._first - self._base > 1000 + len(self._entries) // 2:
            del self._entries[: self._first - self._base]
            self._base = self._first

    # --- places

    def end_offset(self) -> Offset:
        return Offset(self.id, self.end, dict(self._head))

    def first_offset(self) -> Offset:
        return Offset(self.id, self._first, dict(self._floor))

    def after(self, offset: Offset, max_changes: int | None) -> tuple[Offset, int]:
        """Return the end, or the place at which at most ``max_changes`` have come since ``offset`` (but at least one batch), and
        the number of changes.

        Raises:
            Trimmed, Diverged: as ``position``.
        """
        at = self.position(offset)
        origins, count = dict(offset.origins), 0
        for entry in self._from(at):
            if max_changes is not None and count and count + len(entry.paths) > max_changes:
                break
            origins[entry.origin] = entry.number
            count += len(entry.paths)
            at += 1
        return Offset(self.id, at, origins), count

    def between(self, start: int, stop: int) -> Iterator[LogEntry]:
        """Yield batches by position. Raise Trimmed also when they go while they are read."""
        while start < stop:
            if start < self._first:
                raise self._trimmed()
            yield self._entries[start - self._base]
            start += 1

    def position(self, offset: Offset) -> int:
        """Return the position of a place in this log.

        Raises:
            Trimmed: the place is before the beginning.
            Missing: the place has not come yet.
            Diverged: the place is of another history.
        """
        if offset.log == self.id:
            if offset.at < self._first:
                raise self._trimmed()
            if offset.at > self.end:
                raise Diverged(f"offset {offset.at} is beyond the end of the log, {self.end}")
            return offset.at
        return self._search(offset.origins)

    def _search(self, wanted: Mapping[str, int]) -> int:
        if any(wanted.get(origin, 0) < number for origin, number in self._floor.items()):
            raise self._trimmed()
        missing = {o: n for o, n in wanted.items() if n > self._floor.get(o, 0) and n}
        at = self._first
        while missing:
            if at == self.end:
                raise Missing(min(missing), missing[min(missing)])
            entry = self._entries[at - self._base]
            number = missing.get(entry.origin, 0)
            if entry.number > max(number, wanted.get(entry.origin, 0)):
                raise Diverged(
                    f"number {entry.number} of {entry.origin} came earlier here: groups merged, and this "
                    "offset is of the other side"
                )
            if entry.number == number:
                del missing[entry.origin]
            at += 1
        return at

    def _from(self, at: int) -> Iterator[LogEntry]:
        for index in range(at - self._base, len(self._entries)):
            yield self._entries[index]

    def _trimmed(self) -> Trimmed:
        return Trimmed(
            f"the change log begins at {self._first}, after that offset ({self.trimmed} changes were "
            "trimmed): take a snapshot and follow from its offset"
        )
