"""MapStore: entries and index of a host in an LMDB file. Exactly one process writes it at a time: the merger.

entries: key -> entry. changes: origin and number, big-endian -> key. graves: keys of tombstones. ends: time in ticks, big-endian, and key of entries
whose time will pass. facts: settings, the vector, how far inboxes are merged, what was
forgotten. times, uses: see eviction.py; empty while there are no limits. All in one transaction.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import islice
from mmap import PAGESIZE
from pathlib import Path
from typing import Any, Final

from jgroups_py.errors import ConfigError

try:
    import lmdb
except ImportError as error:
    raise ConfigError("maps need lmdb: pip install 'jgroups_py[maps]'") from error

from jgroups_py.maps.disk import reserve
from jgroups_py.maps.entry import MapEntry, decode_entry, origin_of
from jgroups_py.maps.errors import MapFileError, MapFull
from jgroups_py.maps.eviction import MapLimits, limits_of
from jgroups_py.maps.merging import (
    DOT,
    END,
    LACKING,
    NUMBER,
    SUM,
    Databases,
    Merging,
    numbers,
)
from jgroups_py.maps.rules import ConflictRule
from jgroups_py.maps.sums import Contents
from jgroups_py.maps.table import Vector
from jgroups_py.maps.upgrade import upgrade
from jgroups_py.maps.write_lock import WriteLock

VERSION: Final = b"2"
MAX_BYTES: Final = 16 * 1024**3
"""The default of ``max_bytes`` for a new file."""
READERS_MAX: Final = 1024
"""The most read transactions of all processes. Those of killed processes are freed by the next one that opens the
map."""
LOCK_BYTES: Final = 64 * READERS_MAX + 128
"""The bytes that LMDB needs for its table of readers."""
OPEN_WAIT: Final = 1.0
"""Seconds in which another process must end its transaction. One that does not was stopped."""
NO_SPACE: Final = "there is no space left on the disk"
TAIL_MAX: Final = 64 * 1024
"""The most bytes that may be missing at the end of a file: pages that a transaction took and gave back are not
written."""


class MapStore:
    """Opens or creates the file. ``settings``: those on which all openers must agree; None takes the file's, or the
    default for a new file.

    ``durable``: an index of DURABILITIES. From "interval" on a transaction is on the disk before the page that points to it,
    so a loss of power leaves a whole file; with "sync" also the last transaction.

    If another process does not end its transaction, because it was stopped, the file is open for reading only, until ``make_writable``.

    ``lock``: held by every reader. The merger's transaction does not need it. The merger takes it to read, and to adopt
    a new size of the file: LMDB then moves the file in memory, and no transaction of this process may run.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int | None,
        settings: Mapping[str, str | None],
        defaults: Mapping[str, str],
        lock: AbstractContextManager[Any] | None = None,
        durable: int = 0,
    ) -> None:
        self._lock = threading.RLock() if lock is None else lock
        self._folder = folder
        self.durable = durable
        self._read: Any = None
        self.lookup: Callable[[bytes, None, Any], bytes | None] = _no_snapshot
        """Returns the encoded entry of a key, called with None and ``entries_db``: LMDB's own function, for frequent
        reads."""
        self.settings: dict[str, str] = {}
        with ExitStack() as opened, self._errors():
            # 0: the file's size; ``_check`` decides.
            unknown = 0 if (folder / "data.mdb").exists() else MAX_BYTES
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _reserve(folder / "lock.mdb", LOCK_BYTES)
            self._write_lock = WriteLock(folder / "writing")
            opened.callback(self._write_lock.close)
            self._writable = self._write_lock.take(OPEN_WAIT)
            try:
                if self._writable:
                    _remove_half_made(folder)
                elif not (folder / "data.mdb").exists():
                    raise MapFileError(self._stopped())
                self._open_env(max_bytes or unknown, self._check_length)
                opened.callback(self._close_env)
                self._env.reader_check()
                with self._writing() if self._writable else self._env.begin() as txn:
                    size = self._check(txn, settings, defaults, max_bytes)
                self._env.set_mapsize(size)
            finally:
                if self._writable:
                    self._write_lock.release()
            opened.pop_all()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise MapFileError for errors of the system and of LMDB."""
        folder = self._folder
        try:
            yield
        except lmdb.Error as error:
            if "already open in this process" in str(error):
                raise MapFileError(
                    f"{folder} is already open in this process: use the map that is open, which threads may share"
                ) from None
            if isinstance(error, lmdb.DiskError):
                raise MapFileError(f"{folder} cannot be opened: {NO_SPACE}") from None
            raise MapFileError(f"{folder} is no map that can be opened: {error}") from None
        except OSError as error:
            raise MapFileError(f"{folder} cannot be opened: {error}") from None
        except ValueError as error:  # no system has this path
            raise MapFileError(f"{str(folder)!r} cannot be opened: {error}") from None

    def _open_env(self, size: int, check: Callable[[], None]) -> None:
        """Open LMDB's files; for reading only unless ``_writable``. ``check`` looks at the file before it is read."""
        self._env = lmdb.open(
            str(self._folder),
            map_size=size,
            max_dbs=8,
            max_readers=READERS_MAX,
            sync=self.durable > 0,
            metasync=self.durable > 1,
            mode=0o600,
            readonly=not self._writable,
        )
        names = (b"entries", b"changes", b"facts", b"graves", b"ends", b"times", b"uses")
        try:
            check()
            self._dbs = Databases(
                *(self._env.open_db(name, create=self._writable) for name in names)
            )
        except BaseException:
            self._env.close()
            raise
        self._entries, self._facts = self._dbs.entries, self._dbs.facts
        self.entries_db = self._entries

    def make_writable(self) -> None:
        """Open the file for writing, if another process was stopped while it wrote when this one opened it.
        MapFileError: the other process is still stopped."""
        if self._writable:
            return
        if not self._write_lock.take(OPEN_WAIT):
            raise MapFileError(self._stopped())
        try:
            with self._lock, self._errors():
                self._open_anew()
        finally:
            self._write_lock.release()

    def _open_anew(self) -> None:
        reads, size = self._read is not None, self._env.info()["map_size"]
        self._close_env()
        self._writable = True
        try:
            self._open_env(size, lambda: None)
        except BaseException:
            self._writable = False
            self._open_env(size, lambda: None)
            raise
        finally:
            if reads:
                self._begin_read()

    def _close_env(self) -> None:
        self.suspend()
        self._env.close()

    def _stopped(self) -> str:
        return f"{self._folder}: another process has been writing to the file for {OPEN_WAIT:g} s: is it stopped? Let it go on, or kill it"

    def _check_length(self) -> None:
        """Refuse a file that was cut off. A read beyond its end would kill the process (SIGBUS)."""
        need = self.used()[0]
        have = (self._folder / "data.mdb").stat().st_size
        if have >= need:
            return
        if need - have > TAIL_MAX:
            raise MapFileError(
                f"{self._folder} is cut off: data.mdb has {have:,} of {need:,} bytes"
            )
        _reserve(self._folder / "data.mdb", need)

    def _check(
        self,
        txn: Any,
        settings: Mapping[str, str | None],
        defaults: Mapping[str, str],
        max_bytes: int | None,
    ) -> int:
        """Check the settings, and return the largest size of the file. MapFileError: settings differ, or something is
        to be written and the file is open for reading only."""
        version = txn.get(b"version", db=self._facts)
        known = NUMBER.unpack(txn.get(b"max_bytes", default=bytes(8), db=self._facts))[0]
        size = max(known, max_bytes or (0 if known else MAX_BYTES))
        if not self._writable and (version in (None, b"1") or size != known):
            raise MapFileError(self._stopped())
        if version is None:
            txn.put(b"version", VERSION, db=self._facts)
            txn.put(b"file", secrets.token_bytes(16), db=self._facts)
            txn.put(b"life", NUMBER.pack(int(time.time() * 1000)), db=self._facts)
            for name, value in settings.items():
                made = defaults[name] if value is None else value
                txn.put(b"set " + name.encode(), made.encode(), db=self._facts)
        elif bytes(version) == b"1":
            upgrade(self._folder, txn, self._dbs)
            txn.put(b"version", VERSION, db=self._facts)
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
        life = NUMBER.unpack(txn.get(b"life", db=self._facts))[0]
        if size != known:  # LMDB keeps the writer's size, for ``take_size``
            txn.put(b"max_bytes", NUMBER.pack(size), db=self._facts)
        self.origin = origin_of(int(self.settings["identifier"]), life)
        return int(size)

    def suspend(self) -> None:
        """End the snapshot until ``refresh``."""
        if self._read is not None:
            self._read.abort()
            self._read, self.lookup = None, _no_snapshot

    def close(self) -> None:
        self._close_env()
        self._write_lock.close()

    def sync(self) -> None:
        """Write all changes to the disk."""
        if self._writable:
            self._env.sync(True)

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        """Run a transaction that writes. The caller has the lock of writers."""
        try:
            try:
                txn = self._env.begin(write=True)
            except lmdb.MapResizedError:
                self.take_size()
                txn = self._env.begin(write=True)
            with txn:
                yield txn
        except lmdb.MapFullError:
            raise MapFull(
                f"{self._folder} is full: max_bytes is {self._env.info()['map_size']}. Open it with a larger one, which all processes take over"
            ) from None
        except lmdb.DiskError:
            raise MapFileError(f"{self._folder} cannot be written: {NO_SPACE}") from None
        except lmdb.Error as error:
            raise MapFileError(f"{self._folder} cannot be written: {error}") from None

    def take_size(self) -> bool:
        """Adopt a larger size with which another process has opened the file. False: there is none. No transaction may
        run in this thread."""
        with self._lock:
            reads = self._read is not None
            self.suspend()
            before = self._env.info()["map_size"]
            self._env.set_mapsize(0)  # the last written state
            now = self._env.info()["map_size"]
            if now < before:
                self._env.set_mapsize(before)
            if reads:
                self._begin_read()
            return bool(now > before)

    # --- reading: one snapshot, which ``refresh`` renews

    def refresh(self) -> None:
        """Take a new snapshot, with all merges so far."""
        self.suspend()
        try:
            self._begin_read()
        except lmdb.MapResizedError:
            self.take_size()
            self._begin_read()

    def _begin_read(self) -> None:
        self._read = self._env.begin()
        self.lookup = self._read.get

    def raw(self, key: bytes) -> bytes | None:
        return self.lookup(key, None, self._entries)

    def some(self, after: bytes, most: int) -> list[tuple[bytes, bytes]]:
        """Return up to ``most`` keys above ``after`` and their encoded entries, in order, as of the last
        ``refresh``."""
        with self._read.cursor(db=self._entries) as cursor:
            if not (cursor.set_range(after + b"\0") if after else cursor.first()):
                return []
            return list(islice(cursor, most))

    def beyond(self, after: bytes, many: int) -> bytes | None:
        """Return the key at place ``many`` above ``after``. None: there are fewer keys."""
        with self._read.cursor(db=self._entries) as cursor:
            if not (cursor.set_range(after + b"\0") if after else cursor.first()):
                return None
            keys: Iterator[bytes] = islice(cursor.iternext(values=False), many - 1, None)
            return next(keys, None)

    def count(self) -> int:
        """Count the keys that are not removed; expired ones count."""
        txn = self._read
        return int(txn.stat(self._entries)["entries"]) - int(txn.stat(self._dbs.graves)["entries"])

    def used(self) -> tuple[int, int]:
        """Return the used bytes and the largest size."""
        info = self._env.info()
        return (info["last_pgno"] + 1) * self._env.stat()["psize"], info["map_size"]

    def contents(self) -> Contents:
        """Return a summary of the entries (sums.py)."""
        with self._env.begin() as txn:
            vector, sums = numbers(txn, self._facts, b"has "), numbers(txn, self._facts, SUM)
            return Contents(vector, sums, txn.get(LACKING, db=self._facts) is not None)

    def vector(self) -> Vector:
        return self.contents().vector

    @property
    def forgotten(self) -> Vector:
        with self._env.begin() as txn:
            return numbers(txn, self._facts, b"gone ")

    def merged(self) -> dict[int, int]:
        """Return, by slot, the merged offset of its inbox."""
        with self._lock, self._env.begin() as txn:
            return numbers(txn, self._facts, b"in ")

    def last_time(self) -> int:
        """Return the highest time of any change, as of the last ``refresh``."""
        data = self._read.get(b"time", db=self._facts)
        return int(NUMBER.unpack(data)[0]) if data else 0

    def changes(
        self, origin: int, after: int, to: int, most: int
    ) -> Iterator[tuple[int, bytes, MapEntry]]:
        with self._env.begin() as txn, txn.cursor(db=self._dbs.changes) as cursor:
            if not cursor.set_range(DOT.pack(origin, after + 1)):
                return
            for dot, key in cursor:
                of, number = DOT.unpack(dot)
                if of != origin or number > to or most <= 0:
                    return
                most -= 1
                yield number, key, decode_entry(txn.get(key, default=b"", db=self._entries))

    def tombstones(
        self, after: bytes = b"", most: int = sys.maxsize
    ) -> Iterator[tuple[bytes, MapEntry]]:
        with self._env.begin() as txn, txn.cursor(db=self._dbs.graves) as cursor:
            if not (cursor.set_range(after + b"\0") if after else cursor.first()):
                return
            for key in islice(cursor.iternext(values=False), most):
                yield key, decode_entry(txn.get(key, default=b"", db=self._entries))

    def tombstone_count(self) -> int:
        with self._env.begin() as txn:
            return int(txn.stat(self._dbs.graves)["entries"])

    def limits(self) -> MapLimits:
        with self._lock, self._env.begin() as txn:
            return limits_of(txn.get(b"limits", db=self._facts))

    def evicted(self) -> int:
        """Return the number of entries evicted since the file was made."""
        with self._lock, self._env.begin() as txn:
            return int(NUMBER.unpack(txn.get(b"evicted", default=bytes(8), db=self._facts))[0])

    def live_bytes(self) -> int:
        """Return the bytes of keys and values. They are counted while there are limits."""
        with self._lock, self._env.begin() as txn:
            return int(NUMBER.unpack(txn.get(b"live", default=bytes(8), db=self._facts))[0])

    def has_ended(self, now: int) -> bool:
        """Has an unburied entry expired at ``now`` (ticks)?"""
        with self._lock, self._env.begin() as txn, txn.cursor(db=self._dbs.ends) as cursor:
            return bool(cursor.first()) and END.unpack_from(cursor.key())[0] <= now

    # --- writing, by the merger only (limits also by an opener)

    def set_limits(self, rule: ConflictRule, limits: MapLimits) -> None:
        """Set limits, from the next transaction on."""
        with self.merging(rule) as merging:
            merging.set_limits(limits)

    @contextmanager
    def merging(self, rule: ConflictRule) -> Iterator[Merging]:
        """Run one transaction, whole or not at all. MapFull, MapFileError: nothing was changed."""
        self.make_writable()
        if not self._write_lock.take(OPEN_WAIT, yields=True):
            raise MapFileError(self._stopped())
        try:
            with self._writing() as txn:
                merging = Merging(txn, self._dbs, rule, self.origin)
                yield merging
                merging.finish()
        finally:
            self._write_lock.release()


def _remove_half_made(folder: Path) -> None:
    """Remove a data file without both its first pages: the disk was full when it was made, and LMDB never takes it. Without a control file the map
    has no other files."""
    file = folder / "data.mdb"
    if file.exists() and file.stat().st_size < 2 * PAGESIZE and not (folder / "control").exists():
        file.unlink()


def _reserve(file: Path, size: int) -> None:
    """Reserve disk space for the part of the file that LMDB may use. OSError: the disk has too little."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        reserve(handle, size)
    finally:
        os.close(handle)


def _no_snapshot(key: bytes, default: None, db: Any) -> bytes | None:
    raise AssertionError("there is no snapshot")  # pragma: no cover
