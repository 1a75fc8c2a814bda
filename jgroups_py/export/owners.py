"""OwnerLogs: the changes of a cache with buddies at one member: its own, and those of owners whose backups it has.

Each owner numbers its changes. Its holders have the same entries under the same numbers, so a reader of an owner's
log goes on at a holder when the owner is gone. Only the stamp of each change orders entries of different owners: of
two values that a path has had, the later one has the higher stamp (``text_of``).

    floor     entries up to here are not kept any more
    have      entries after ``floor`` up to here are kept; a missing number changed nothing
    end       entries up to here may be read: all holders have them, or the member that adopted a dead owner's nodes
              has; -1: another member must be asked
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from jgroups_py.buddy.messages import Changes
from jgroups_py.buddy.values import Stamp
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.holding import PlaceOfMember
from jgroups_py.cache.node import Node
from jgroups_py.export.errors import Trimmed
from jgroups_py.export.limits import ExportLimits
from jgroups_py.export.log import ENTRY_BYTES, LogEntry, Missing
from jgroups_py.export.messages import LogPlace, Offset
from jgroups_py.values.address import Address

UNKNOWN: Final = -1


def origin_of(owner: Address) -> str:
    """Return the name by which clients know an owner."""
    return bytes(owner).hex()


def text_of(stamp: Stamp) -> str:
    """Return a text that is ordered like its stamp."""
    (view, count), owner = stamp.epoch, bytes(stamp.owner).hex()
    return f"{stamp.site:04x}{view:08x}{count:08x}{stamp.version:012x}{owner}"


class OwnerLog:
    """The log of one owner. A place in it is the number of an entry."""

    def __init__(self, origin: str, floor: int, have: int) -> None:
        self.origin = origin
        self.floor = floor
        self.have = have
        self.end = UNKNOWN
        self._numbers: list[int] = []
        self._entries: list[tuple[int, Changes, int]] = []  # time, changes, bytes
        self._totals: list[
            int
        ] = []  # the number of changes up to and with each entry, with those that are gone
        self._gone = (
            0  # the number of entries that were trimmed and are still at the beginning of the lists
        )
        self._dropped = 0  # the number of changes that were trimmed

    def append(self, number: int, time: int, changes: Changes, size: int) -> None:
        self._numbers.append(number)
        self._entries.append((time, changes, size))
        self._totals.append((self._totals[-1] if self._totals else self._dropped) + len(changes))

    def trim(self) -> tuple[int, int]:
        """Remove the oldest entry. Return its numbers of changes and bytes."""
        time, changes, size = self._entries[self._gone]
        self.floor = self._numbers[self._gone]
        self._entries[self._gone] = time, (), 0
        self._dropped += len(changes)
        self._gone += 1
        if self._gone > 1000 + len(self._numbers) // 2:
            for kept in (self._numbers, self._entries, self._totals):
                del kept[: self._gone]
            self._gone = 0
        return len(changes), size

    # --- read like a ChangeLog

    @property
    def first(self) -> int:
        """See ``floor``."""
        return self.floor

    def first_offset(self) -> Offset:
        return self._place(self.floor)

    def end_offset(self) -> Offset:
        return self._place(self.have)

    def position(self, offset: Offset) -> int:
        """Return the position of a place. Raise Trimmed or Missing if it is not in the entries that are kept."""
        if offset.at < self.floor:
            raise Trimmed(
                f"the changes of {self.origin} begin at {self.floor} here, after number {offset.at}: "
                "take a snapshot and follow from its offset"
            )
        if offset.at > self.have:
            raise Missing(self.origin, offset.at)
        return offset.at

    def after(self, offset: Offset, max_changes: int | None) -> tuple[Offset, int]:
        """Return a place like ``ChangeLog.after``. The end is the last entry that is here, whether it may be read or not."""
        at = self.position(offset)
        begin = bisect_right(self._numbers, at)
        before = self._totals[begin - 1] if begin else self._dropped
        stop = len(self._numbers)
        if max_changes is not None:
            stop = min(stop, max(begin + 1, bisect_right(self._totals, before + max_changes)))
        whole = stop == len(self._numbers)
        count = (self._totals[stop - 1] if stop else self._dropped) - before
        return self._place(self.have if whole else self._numbers[stop - 1]), count

    def between(self, start: int, stop: int) -> Iterator[LogEntry]:
        """Yield entries after number ``start``, up to ``stop``. Raise Trimmed also when they go while they are read."""
        at = start
        while True:
            if at < self.floor:
                self.position(self._place(at))
            index = bisect_right(self._numbers, at)
            if index == len(self._numbers) or self._numbers[index] > stop:
                return
            at = self._numbers[index]
            time, changes, size = self._entries[index]
            yield LogEntry(
                self.origin,
                at,
                time,
                [Fqn.of_checked(path) for path, _ in changes],
                [None if n is None or n.removed else Node(n.value) for _, n in changes],
                size,
                [text_of(n.stamp) for _, n in changes if n is not None],
            )

    def _place(self, number: int) -> Offset:
        return Offset(self.origin, number, {self.origin: number})


def _size(changes: Changes) -> int:
    """Return the bytes of paths, names and values, and the overhead of each change."""
    values = [node.value for _, node in changes if node is not None and node.value]
    texts = chain.from_iterable([path for path, _ in changes])
    parts = chain(
        texts, chain.from_iterable(values), chain.from_iterable([v.values() for v in values])
    )
    return ENTRY_BYTES * (1 + len(changes)) + sum(map(len, parts))


class OwnerLogs:
    """A ``Journal``. ``holding`` returns the state of this member's part."""

    def __init__(
        self, me: Address, holding: Callable[[], PlaceOfMember], limits: ExportLimits
    ) -> None:
        self._me = me
        self._holding = holding
        self._limits = limits
        self._of: dict[Address, OwnerLog] = {}
        self._order: deque[OwnerLog] = deque()  # a log for each entry, the oldest entry first
        self._size = 0
        self._changes = 0
        self.trimmed = 0
        """The number of changes that are gone."""

    # --- calls of the machine

    def begins(self, owner: Address, seq: int, wrote: int) -> None:
        log = self._of.get(owner)
        if log is None or log.have < wrote:  # this member lacks the entries between
            self._new(owner, wrote, seq)
        else:
            log.have = max(log.have, seq)

    def logged(self, owner: Address, seq: int, changes: Changes) -> None:
        log = self._of.get(owner)
        if log is None:  # forgotten, because there were too many
            log = self._new(owner, seq - 1, seq)
        log.have = seq
        if not changes:
            return
        size = _size(changes)
        log.append(seq, time.time_ns() // 1000, changes, size)
        self._order.append(log)
        self._size += size
        self._changes += len(changes)
        while self._size > self._limits.log_bytes or self._changes > self._limits.log_changes:
            count, size = self._order.popleft().trim()
            self._changes -= count
            self._size -= size
            self.trimmed += count

    def ended(self, owner: Address, seq: int) -> None:
        log = self._of.get(owner)
        if log is None:
            log = self._new(owner, seq, seq)  # this member keeps only its end
        log.end = seq

    def _new(self, owner: Address, floor: int, have: int) -> OwnerLog:
        old = self._of.pop(owner, None)
        log = self._of[owner] = OwnerLog(origin_of(owner), floor, have)
        if old is not None:
            self._forget(old)
        while len(self._of) > self._limits.log_origins:
            self._forget(self._of.pop(self._first_to_go(owner)))
        return log

    def _first_to_go(self, new: Address) -> Address:
        """Return the owner to be forgotten: the first of those that are gone, or the first of all."""
        others = [o for o in self._of if o not in (self._me, new)] or [new]
        return next((o for o in others if self._of[o].end != UNKNOWN), others[0])

    def _forget(self, log: OwnerLog) -> None:
        for _ in range(self._order.count(log)):
            count, size = log.trim()
            self._changes -= count
            self._size -= size
            self.trimmed += count
        self._order = deque(other for other in self._order if other is not log)

    # --- questions

    def places(self) -> dict[str, LogPlace]:
        """Return the range of each owner, by origin."""
        mine, said = self._of[self._me], self._holding()
        mine.have = said.seq
        mine.end = max(mine.end, said.told)
        return {log.origin: LogPlace(log.floor, log.have, log.end) for log in self._of.values()}

    def log_of(self, origin: str) -> OwnerLog:
        """Return the log of an owner. Raise Trimmed if this member keeps no part of it."""
        self._of[self._me].have = self._holding().seq
        for log in self._of.values():
            if log.origin == origin:
                return log
        raise Trimmed(f"no change of {origin} is kept here")

    @property
    def origins(self) -> list[str]:
        return [log.origin for log in self._of.values()]
