"""Store: entries and index of a host in an LMDB file. Exactly one process writes it at a time: the merger.

entries: key -> entry. changes: origin and number, big-endian -> key. graves: keys of tombstones. ends: time in ticks, big-endian, and key of entries
whose time will pass. facts: settings, the vector, how far inboxes are merged, what was
forgotten. All in one transaction.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import Any, Final

from jgroups_py.errors import ConfigError

try:
    import lmdb
except ImportError as error:
    raise ConfigError("maps need lmdb: pip install 'jgroups_py[maps]'") from error

from jgroups_py.maps.entry import Entry, decode_entry, origin_of
from jgroups_py.maps.errors import MapFileError, MapFull
from jgroups_py.maps.rules import ConflictRule
from jgroups_py.maps.table import Vector, numbered, placed, write

VERSION: Final = b"1"
MAX_BYTES: Final = 16 * 1024**3
"""Of a new file."""
READERS_MAX: Final = 1024
"""Read transactions of all processes. Those of killed processes are freed by the next one that opens the map."""
_DOT: Final = Struct(">QQ")
_NUMBER: Final = Struct("<Q")
_END: Final = Struct(">Q")


class Store:
    """Opens or makes the file. ``settings``: what all who open it must agree on; None: whatever the file says, and a new one gets the
    default.

    ``lock``: held by whoever reads. The merger has its own transaction without it, and takes it to read, and to take over a new size of the file:
    LMDB moves the file in memory then, and no transaction of this process may be under way.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int | None,
        settings: Mapping[str, str | None],
        defaults: Mapping[str, str],
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._lock = threading.RLock() if lock is None else lock
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        # 0: what the file says; ``_check`` has the last word.
        unknown = 0 if (folder / "data.mdb").exists() else MAX_BYTES
        try:
            self._env = lmdb.open(
                str(folder),
                map_size=max_bytes or unknown,
                max_dbs=8,
                max_readers=READERS_MAX,
                sync=False,
                mode=0o600,
            )
            self._entries = self._env.open_db(b"entries")
            self._changes = self._env.open_db(b"changes")
            self._facts = self._env.open_db(b"facts")
            self._graves = self._env.open_db(b"graves")
            self._ends = self._env.open_db(b"ends")
        except lmdb.Error as error:
            raise MapFileError(f"{folder} is no map that can be opened: {error}") from None
        self._env.reader_check()
        self._read: Any = None
        self.settings: dict[str, str] = {}
        try:
            self._env.set_mapsize(self._check(settings, defaults, max_bytes))
        except BaseException:
            self._env.close()
            raise

    def _check(
        self,
        settings: Mapping[str, str | None],
        defaults: Mapping[str, str],
        max_bytes: int | None,
    ) -> int:
        """How large the file may get."""
        with self._writing() as txn:
            version = txn.get(b"version", db=self._facts)
            if version is None:
                txn.put(b"version", VERSION, db=self._facts)
                txn.put(b"file", secrets.token_bytes(16), db=self._facts)
                txn.put(b"life", _NUMBER.pack(int(time.time() * 1000)), db=self._facts)
                for name, value in settings.items():
                    made = defaults[name] if value is None else value
                    txn.put(b"set " + name.encode(), made.encode(), db=self._facts)
            elif bytes(version) != VERSION:
                raise MapFileError(
                    f"{self._folder} is of version {bytes(version).decode('ascii', 'replace')}, not {VERSION.decode()}"
                )
            for name, value in settings.items():
                is_ = bytes(txn.get(b"set " + name.encode(), default=b"", db=self._facts)).decode()
                if value is not None and is_ != value:
                    raise MapFileError(f"{self._folder} was made with {name} {is_}, not {value}")
                self.settings[name] = is_
            self.file = bytes(txn.get(b"file", db=self._facts))
            life = _NUMBER.unpack(txn.get(b"life", db=self._facts))[0]
            known = _NUMBER.unpack(txn.get(b"max_bytes", default=bytes(8), db=self._facts))[0]
            size = max(known, max_bytes or (0 if known else MAX_BYTES))
            if size != known:  # LMDB keeps the size of who writes, for ``take_size``
                txn.put(b"max_bytes", _NUMBER.pack(size), db=self._facts)
        self.origin = origin_of(int(self.settings["identifier"]), life)
        return int(size)

    def suspend(self) -> None:
        """Ends the snapshot until ``refresh``."""
        if self._read is not None:
            self._read.abort()
            self._read = None

    def close(self) -> None:
        self.suspend()
        self._env.close()

    def sync(self) -> None:
        """Onto the disk."""
        self._env.sync(True)

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        try:
            txn = self._env.begin(write=True)
        except lmdb.MapResizedError:
            self.take_size()
            txn = self._env.begin(write=True)
        try:
            with txn:
                yield txn
        except lmdb.MapFullError:
            raise MapFull(
                f"{self._folder} is full: max_bytes is {self._env.info()['map_size']}. Open it with a larger one, which all processes take over"
            ) from None

    def take_size(self) -> bool:
        """Whether somebody has opened the file with a larger size. Then it is the size here, too. No transaction may be under way in this thread."""
        with self._lock:
            reads = self._read is not None
            self.suspend()
            before = self._env.info()["map_size"]
            self._env.set_mapsize(0)  # what was written last
            now = self._env.info()["map_size"]
            if now < before:
                self._env.set_mapsize(before)
            if reads:
                self._read = self._env.begin()
            return bool(now > before)

    # --- reading: one snapshot, which ``refresh`` renews

    def refresh(self) -> None:
        """What was merged since the last time is seen from now on."""
        self.suspend()
        try:
            self._read = self._env.begin()
        except lmdb.MapResizedError:
            self.take_size()
            self._read = self._env.begin()

    def raw(self, key: bytes) -> bytes | None:
        found: bytes | None = self._read.get(key, db=self._entries)
        return found

    def some(self, after: bytes, most: int) -> list[tuple[bytes, bytes]]:
        """Up to ``most`` keys above ``after`` and their encoded entries, in the order of keys, as the last ``refresh`` saw them."""
        with self._read.cursor(db=self._entries) as cursor:
            if not (cursor.set_range(after + b"\0") if after else cursor.first()):
                return []
            return list(islice(cursor, most))

    def count(self) -> int:
        """Keys that are not removed (those whose time has passed count)."""
        txn = self._read
        return int(txn.stat(self._entries)["entries"]) - int(txn.stat(self._graves)["entries"])

    def used(self) -> tuple[int, int]:
        """How much is used of how much."""
        info = self._env.info()
        return (info["last_pgno"] + 1) * self._env.stat()["psize"], info["map_size"]

    def vector(self) -> Vector:
        with self._env.begin() as txn:
            return self._numbers(txn, b"has ")

    @property
    def forgotten(self) -> Vector:
        with self._env.begin() as txn:
            return self._numbers(txn, b"gone ")

    def merged(self) -> dict[int, int]:
        """By slot, how far its inbox is merged."""
        with self._lock, self._env.begin() as txn:
            return self._numbers(txn, b"in ")

    def last_time(self) -> int:
        """The highest time of any change, as the last ``refresh`` saw it."""
        data = self._read.get(b"time", db=self._facts)
        return int(_NUMBER.unpack(data)[0]) if data else 0

    def _numbers(self, txn: Any, prefix: bytes) -> dict[int, int]:
        found = {}
        with txn.cursor(db=self._facts) as cursor:
            if cursor.set_range(prefix):
                for name, value in cursor:
                    if not name.startswith(prefix):
                        break
                    found[int(name[len(prefix) :], 16)] = _NUMBER.unpack(value)[0]
        return found

    def changes(
        self, origin: int, after: int, to: int, most: int
    ) -> Iterator[tuple[int, bytes, Entry]]:
        with self._env.begin() as txn, txn.cursor(db=self._changes) as cursor:
            if not cursor.set_range(_DOT.pack(origin, after + 1)):
                return
            for dot, key in cursor:
                of, number = _DOT.unpack(dot)
                if of != origin or number > to or most <= 0:
                    return
                most -= 1
                yield number, key, decode_entry(txn.get(key, default=b"", db=self._entries))

    def tombstones(self) -> Iterator[tuple[bytes, Entry]]:
        with self._env.begin() as txn, txn.cursor(db=self._graves) as cursor:
            for key, _ in cursor:
                yield key, decode_entry(txn.get(key, default=b"", db=self._entries))

    def has_ended(self, now: int) -> bool:
        """Whether the time of an entry has passed at ``now`` (ticks) that is not buried yet."""
        with self._lock, self._env.begin() as txn, txn.cursor(db=self._ends) as cursor:
            return bool(cursor.first()) and _END.unpack_from(cursor.key())[0] <= now

    # --- writing, by the merger only

    @contextmanager
    def merging(self, rule: ConflictRule) -> Iterator[Merging]:
        """One transaction: whole, or not at all."""
        with self._writing() as txn:
            merging = Merging(self, txn, rule)
            yield merging
            merging.finish()


class Merging:
    """What a merger does within one transaction."""

    def __init__(self, store: Store, txn: Any, rule: ConflictRule) -> None:
        self._txn = txn
        self._rule = rule
        self._entries, self._index = store._entries, store._changes
        self._facts, self._graves = store._facts, store._graves
        self._origin = store.origin
        self._vector = store._numbers(txn, b"has ")
        self._before = dict(self._vector)
        data = txn.get(b"time", db=self._facts)
        self._time = _NUMBER.unpack(data)[0] if data else 0
        self._had = self._time
        data = txn.get(b"floor", db=self._facts)
        self._floor = self._floor_before = _NUMBER.unpack(data)[0] if data else 0
        self._ends = store._ends
        self._last: tuple[bytes, Entry | None] = (b"", None)
        """The entry that was read last."""

    def change(self, key: bytes, entry: Entry) -> None:
        """A change of this host."""
        number = self._vector.get(self._origin, 0) + 1
        self._vector[self._origin] = number
        mine = self.entry(key)
        entry, self._floor = placed(self._rule, mine, entry, self._floor)
        self.join(key, numbered(self._rule, mine, entry, self._origin, number))

    def join(self, key: bytes, entry: Entry) -> None:
        """An entry of another host."""
        self._time = max(self._time, entry.stamp.time)
        write(self, self._rule, key, entry)

    def advance(self, origin: int, number: int) -> None:
        self._vector[origin] = max(self._vector.get(origin, 0), number)

    def forget(self, key: bytes, tombstone: Entry) -> None:
        """A tombstone goes. Nothing happens if the key was written, or removed once more, meanwhile."""
        entry = self.entry(key)
        if entry is None or entry != tombstone:
            return
        self._delete(key, entry)
        self._floor = max(self._floor, entry.stamp.time)
        for origin, number in entry.dots.items():
            name = b"gone %x" % origin
            have = _NUMBER.unpack(self._txn.get(name, default=bytes(8), db=self._facts))[0]
            self._txn.put(name, _NUMBER.pack(max(have, number)), db=self._facts)

    def begin_anew(self, vector: Mapping[int, int]) -> None:
        """As ``MemoryTable.begin_anew``."""
        with self._txn.cursor(db=self._entries) as cursor:
            keys = [key for key, _ in cursor]
        for key in keys:
            entry = self.entry(key)
            assert entry is not None
            if all(number <= vector.get(origin, 0) for origin, number in entry.dots.items()):
                self._delete(key, entry)
        own = self._vector.get(self._origin, 0)
        for origin in self._before:
            self._txn.delete(b"has %x" % origin, db=self._facts)
        self._before = {}
        self._vector = {self._origin: own}

    def merged(self, slot: int, offset: int) -> None:
        self._txn.put(b"in %x" % slot, _NUMBER.pack(offset), db=self._facts)

    def finish(self) -> None:
        for origin, number in self._vector.items():
            if self._before.get(origin) != number:
                self._txn.put(b"has %x" % origin, _NUMBER.pack(number), db=self._facts)
        if self._time != self._had:
            self._txn.put(b"time", _NUMBER.pack(self._time), db=self._facts)
        if self._floor != self._floor_before:
            self._txn.put(b"floor", _NUMBER.pack(self._floor), db=self._facts)

    def bury(self, now: int, most: int) -> int:
        """Makes tombstones of entries whose time has passed, with the stamps and dots that they have, so that it is no change. How many."""
        ended = []
        with self._txn.cursor(db=self._ends) as cursor:
            for row in islice(cursor.iternext(values=False), most):
                if _END.unpack_from(row)[0] > now:
                    break
                ended.append(row[_END.size :])
        for key in ended:
            entry = self.entry(key)
            assert entry is not None
            self.set_entry(key, replace(entry, value=None))
        return len(ended)

    def _drop_end(self, key: bytes, entry: Entry | None) -> None:
        if entry is not None and entry.expires and not entry.removed:
            self._txn.delete(_END.pack(entry.expires) + key, db=self._ends)

    def _delete(self, key: bytes, entry: Entry) -> None:
        self._drop_end(key, entry)
        self._last = b"", None
        self._txn.delete(key, db=self._entries)
        self._txn.delete(key, db=self._graves)
        for origin, number in entry.dots.items():
            self.drop_dot(origin, number)

    # --- Rows

    def entry(self, key: bytes) -> Entry | None:
        data = self._txn.get(key, db=self._entries)
        entry = None if data is None else decode_entry(data)
        self._last = key, entry
        return entry

    def set_entry(self, key: bytes, entry: Entry) -> None:
        before = self._last[1] if self._last[0] == key else self.entry(key)
        self._drop_end(key, before)
        if entry.expires and not entry.removed:
            self._txn.put(_END.pack(entry.expires) + key, b"", db=self._ends)
        self._last = key, entry
        self._txn.put(key, entry.encode(), db=self._entries)
        if entry.removed:
            self._txn.put(key, b"", db=self._graves)
        else:
            self._txn.delete(key, db=self._graves)

    def add_dot(self, origin: int, number: int, key: bytes) -> None:
        self._txn.put(_DOT.pack(origin, number), key, db=self._index)

    def drop_dot(self, origin: int, number: int) -> None:
        self._txn.delete(_DOT.pack(origin, number), db=self._index)
