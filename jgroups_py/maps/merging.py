"""Merging: applies records within one transaction of the merger.

Changed entries stay in memory until the transaction ends, so a key that changes often is written to the file once. With
the last-writer rule, of successive changes of one key by this host only the last is joined. The others are numbered,
but would lose to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from struct import Struct
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from jgroups_py.maps.entry import NODE_SHIFT, Dots, MapEntry, decode_entry
from jgroups_py.maps.eviction import (
    EVICTED_AT_ONCE,
    EVICTION_SLOT,
    FORGET,
    MapLimits,
    Uses,
    limits_of,
)
from jgroups_py.maps.rules import ConflictRule, LastWriter
from jgroups_py.maps.stamp import MapStamp
from jgroups_py.maps.sums import Sums, count
from jgroups_py.maps.table import numbered, placed, write

DOT: Final = Struct(">QQ")
NUMBER: Final = Struct("<Q")
END: Final = Struct(">Q")
SUM: Final = b"sum "
"""The facts with the sum of an era."""
LACKING: Final = b"lacking"
"""The fact that removals were forgotten that a host may lack."""
_NONE: Final[Dots] = {}


class Databases(NamedTuple):
    """The databases of a map's file; see store.py."""

    entries: Any
    changes: Any
    facts: Any
    graves: Any
    ends: Any
    times: Any
    uses: Any


def numbers(txn: Any, facts: Any, prefix: bytes) -> dict[int, int]:
    """Return, by number, the facts whose names are ``prefix`` and a hexadecimal number."""
    found = {}
    with txn.cursor(db=facts) as cursor:
        if cursor.set_range(prefix):
            for name, value in cursor:
                if not name.startswith(prefix):
                    break
                found[int(name[len(prefix) :], 16)] = NUMBER.unpack(value)[0]
    return found


def put_sums(txn: Any, facts: Any, sums: Sums, before: Sums) -> None:
    """Write the sums (sums.py) that differ from those ``before``."""
    for era, one in sums.items():
        if one != before.get(era):
            txn.put(SUM + b"%x" % era, NUMBER.pack(one), db=facts)
    for era in before:
        if era not in sums:
            txn.delete(SUM + b"%x" % era, db=facts)


class Merging:
    """Made by ``Store.merging``, which calls ``finish``. ``origin``: of this host's changes."""

    def __init__(self, txn: Any, dbs: Databases, rule: ConflictRule, origin: int) -> None:
        self._txn = txn
        self._dbs = dbs
        self._rule = rule
        self._last_writer = isinstance(rule, LastWriter)
        self._origin = origin
        self._vector = numbers(txn, dbs.facts, b"has ")
        self._before = dict(self._vector)
        self._number = self._vector.get(origin, 0)
        self._time = self._had = self._fact(b"time")
        self._floor = self._floor_before = self._fact(b"floor")
        self._sums = numbers(txn, dbs.facts, SUM)
        self._sums_before = dict(self._sums)
        self._was: dict[bytes, MapEntry | None] = {}
        """The file's entries of the keys below."""
        self._now: dict[bytes, MapEntry | None] = {}
        """Entries read or written in this transaction."""
        self._latest: dict[bytes, tuple[int, int, bytes]] = {}
        """Changes of this host that are not joined yet: time, number and encoded entry."""
        self._limits = limits_of(txn.get(b"limits", db=dbs.facts))
        self._uses = Uses(txn, dbs.times, dbs.uses)
        self._used: dict[bytes, int] = {}
        """The times when keys were read."""
        self._live = self._fact(b"live")
        """Bytes of keys and values; counted while there are limits."""
        self.evicted = 0

    def _fact(self, name: bytes) -> int:
        return int(NUMBER.unpack(self._txn.get(name, default=bytes(8), db=self._dbs.facts))[0])

    # --- records

    def change(self, key: bytes, encoded: bytes) -> None:
        """Take a change of this host. Those of one process come one after another; ``settle`` follows."""
        self._number += 1
        if not self._last_writer:
            self._change(key, self._number, encoded)
            return
        time = int.from_bytes(encoded[:8], "little")
        before = self._latest.get(key)
        if before is not None and before[0] >= time:
            self.settle()  # an earlier process of this inbox had a clock that was ahead
        # The order of keys stays that of their first changes, on which ``placed`` depends.
        self._latest[key] = time, self._number, encoded

    def settle(self) -> None:
        """Apply all changes of this host so far."""
        for key, (_, number, encoded) in self._latest.items():
            self._change(key, number, encoded)
        self._latest.clear()

    def _change(self, key: bytes, number: int, encoded: bytes) -> None:
        mine = self.entry(key)
        entry, self._floor = placed(self._rule, mine, decode_entry(encoded), self._floor)
        self.join(key, numbered(self._rule, mine, entry, self._origin, number))

    def join(self, key: bytes, entry: MapEntry) -> None:
        """Join an entry of another host."""
        self._time = max(self._time, entry.stamp.time)
        write(self, self._rule, key, entry)

    def advance(self, origin: int, number: int) -> None:
        if origin == self._origin:
            self._number = max(self._number, number)
        else:
            self._vector[origin] = max(self._vector.get(origin, 0), number)

    def forget(self, key: bytes, tombstone: MapEntry) -> None:
        """Forget a tombstone. It is ignored if the key was written or removed again meanwhile."""
        entry = self.entry(key)
        if entry is None or entry != tombstone:
            return
        self._now[key] = None
        self._floor = max(self._floor, entry.stamp.time)
        for origin, number in entry.dots.items():
            self._gone(origin, number)

    def _gone(self, origin: int, number: int) -> None:
        name = b"gone %x" % origin
        if number > self._fact(name):
            self._txn.put(name, NUMBER.pack(number), db=self._dbs.facts)

    def note_lacking(self) -> None:
        """See ``MemoryTable.note_lacking``."""
        self._txn.put(LACKING, b"1", db=self._dbs.facts)

    def drop(self, dots: Iterable[tuple[int, ...]]) -> None:
        """See ``MemoryTable.drop``."""
        self._write_entries()
        for origin, number in dots:
            key = self._txn.get(DOT.pack(origin, number), db=self._dbs.changes)
            entry = None if key is None else self.entry(key)
            if entry is None or entry.dots.get(origin) != number:
                continue
            left = {o: n for o, n in entry.dots.items() if o != origin}
            self._now[key] = replace(entry, dots=left) if left else None
            self._gone(origin, number)

    def bury(self, now: int, most: int) -> int:
        """Turn expired entries into tombstones and return their number. Stamps and dots stay, so this is no change."""
        ended = []
        with self._txn.cursor(db=self._dbs.ends) as cursor:
            for row in islice(cursor.iternext(values=False), most):
                if END.unpack_from(row)[0] > now:
                    break
                ended.append(row[END.size :])
        for key in ended:
            entry = self.entry(key)
            assert entry is not None
            self.set_entry(key, replace(entry, value=None))
        return len(ended)

    def use(self, key: bytes, time: int) -> None:
        """Note a read of a key."""
        self._used[key] = max(time, self._used.get(key, 0))

    def merged(self, slot: int, offset: int) -> None:
        """Note the offset to which a slot's inbox is merged."""
        self._txn.put(b"in %x" % slot, NUMBER.pack(offset), db=self._dbs.facts)

    # --- into the file

    def finish(self) -> None:
        self.settle()
        self._write_entries()
        if self._limits:
            self._keep_limits()
        facts = self._dbs.facts
        if self._number:
            self._vector[self._origin] = self._number
        for origin, number in self._vector.items():
            if self._before.get(origin) != number:
                self._txn.put(b"has %x" % origin, NUMBER.pack(number), db=facts)
        put_sums(self._txn, facts, self._sums, self._sums_before)
        if self._time != self._had:
            self._txn.put(b"time", NUMBER.pack(self._time), db=facts)
        if self._floor != self._floor_before:
            self._txn.put(b"floor", NUMBER.pack(self._floor), db=facts)

    def _write_entries(self) -> None:
        txn, was = self._txn, self._was
        entries, changes, _, graves, ends, _, _ = self._dbs
        index: list[tuple[bytes, bytes]] = []
        for key, entry in self._now.items():
            before = was[key]
            if entry is before:
                continue
            if before is not None:
                count(self._sums, before)
            if entry is not None:
                count(self._sums, entry)
            old = _NONE if before is None else before.dots
            new = _NONE if entry is None else entry.dots
            for origin, number in old.items():
                if new.get(origin) != number:
                    txn.delete(DOT.pack(origin, number), db=changes)
            for origin, number in new.items():
                if old.get(origin) != number:
                    index.append((DOT.pack(origin, number), key))
            if before is not None and before.expires and not before.removed:
                txn.delete(END.pack(before.expires) + key, db=ends)
            if entry is not None and entry.expires and not entry.removed:
                txn.put(END.pack(entry.expires) + key, b"", db=ends)
            is_grave = entry is not None and entry.removed
            if is_grave != (before is not None and before.removed):
                if is_grave:
                    txn.put(key, b"", db=graves)
                else:
                    txn.delete(key, db=graves)
            if entry is None:
                txn.delete(key, db=entries)
            else:
                txn.put(key, entry.encode(), db=entries)
            if self._limits:
                self._live += _size(key, entry) - _size(key, before)
                if entry is None or entry.removed:
                    self._uses.drop(key)
                else:
                    self._uses.set(key, entry.stamp.time)
        with txn.cursor(db=changes) as cursor:  # this runs after all evictions
            cursor.putmulti(index)
        self._now.clear()
        self._was.clear()

    # --- limits

    def set_limits(self, limits: MapLimits) -> None:
        """Set limits. Without counted uses, the last write of each entry counts as its use."""
        if limits and not self._limits:
            self._write_entries()
            self._uses.clear()
            self._live = 0
            with self._txn.cursor(db=self._dbs.entries) as cursor:
                for key, data in cursor:
                    entry = decode_entry(data)
                    self._live += _size(key, entry)
                    if not entry.removed:
                        self._uses.set(key, entry.stamp.time)
        self._limits = limits
        self._txn.put(b"limits", limits.encode(), db=self._dbs.facts)

    def _keep_limits(self) -> None:
        for key, time in self._used.items():
            if self._uses.knows(key):
                self._uses.set(key, time)
        for key in self._excess():
            entry = self.entry(key)
            assert entry is not None
            self._now[key] = None if self._limits.evict == FORGET else self._removed(entry)
            self.evicted += 1
        if self.evicted:
            self._write_entries()
            total = self._fact(b"evicted") + self.evicted
            self._txn.put(b"evicted", NUMBER.pack(total), db=self._dbs.facts)
        self._txn.put(b"live", NUMBER.pack(self._live), db=self._dbs.facts)

    def _excess(self) -> list[bytes]:
        """Return the keys to evict, at most EVICTED_AT_ONCE."""
        limits, txn, dbs = self._limits, self._txn, self._dbs
        count = txn.stat(dbs.uses)["entries"]
        live = self._live
        found: list[bytes] = []
        for key in islice(self._uses.oldest(), EVICTED_AT_ONCE):
            over = 0 < limits.max_entries < count - len(found)
            if not over and not 0 < limits.max_live_bytes < live:
                break
            live -= _size(key, self.entry(key))
            found.append(key)
        return found

    def _removed(self, entry: MapEntry) -> MapEntry:
        """Return a removal by this host, newer than all changes in the file."""
        self._number += 1
        self._time = (max(self._time >> 8, entry.stamp.time >> 8) + 1) << 8 | EVICTION_SLOT
        stamp = MapStamp(self._time, self._origin >> NODE_SHIFT)
        life = 0 if self._last_writer else self._time
        return numbered(
            self._rule, entry, MapEntry(None, stamp, {}, 0, life), self._origin, self._number
        )

    # --- Rows

    def entry(self, key: bytes) -> MapEntry | None:
        if key in self._now:
            return self._now[key]
        data = self._txn.get(key, db=self._dbs.entries)
        entry = self._was[key] = self._now[key] = None if data is None else decode_entry(data)
        return entry

    def set_entry(self, key: bytes, entry: MapEntry) -> None:
        if key not in self._now:
            self.entry(key)
        self._now[key] = entry

    def add_dot(self, origin: int, number: int, key: bytes) -> None:
        """Do nothing: the index is written with the entries."""

    def drop_dot(self, origin: int, number: int) -> None:
        """Do nothing: the index is written with the entries."""


def _size(key: bytes, entry: MapEntry | None) -> int:
    """Return the entry's bytes for ``max_live_bytes``."""
    return 0 if entry is None or entry.value is None else len(key) + len(entry.value)
