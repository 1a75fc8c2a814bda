"""SqliteStore: nodes in one SQLite file, written in transactions, read by ranges of keys.

Why SQLite: it is in the standard library, its transactions make a batch atomic, the file survives a killed process, and
any tool can read it. LMDB reads faster, but needs a library and a map size in advance; values that a cache reads often
are in memory.

The key of a node is its path in UTF-8, each part closed by a zero byte (a zero or one inside a part
is written as two bytes), so that a subtree is one range and parents come before children.

Calls run in one of trio's threads, one at a time. A running call is not cancelled.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import trio

from jgroups_py.cache.file_lock import FileLock
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.node import Node, node_bytes, node_from_bytes
from jgroups_py.cache.store import Row, Store, StorePicture
from jgroups_py.errors import CacheRefused, StoreError

_SCHEMA: Final = "CREATE TABLE IF NOT EXISTS node (path BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID"
_FORMAT: Final = 0x6A67_0001  # PRAGMA user_version of our files
IN_MEMORY: Final = ":memory:"
"""SQLite's name for a database in memory, without a file."""
R = TypeVar("R")


class SqliteStore(Store):
    """``file``: if missing, it is made for its owner alone (0600); an existing one keeps its mode. One store at a time
    has it open: ``open`` of a second one raises StoreError, in other processes, too (``FILE-lock`` beside it;
    file_lock.py). ``durable``: a write survives a power cut (fsync each); without, it survives a killed process."""

    def __init__(self, file: str | os.PathLike[str], *, durable: bool = True) -> None:
        self.file = os.fsdecode(file)
        if not self.file:
            raise CacheRefused("SqliteStore needs the name of a file, got an empty one")
        self._lock = None if self.file == IN_MEMORY else FileLock(self.file)
        self._durable = durable
        self._connection: sqlite3.Connection | None = None
        self._one = trio.CapacityLimiter(1)

    async def open(self) -> None:
        await self._run("open", self._open)

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                await self._run("close", connection.close)
            finally:
                if self._lock is not None:
                    self._lock.release()

    async def load(self, path: Fqn) -> Node | None:
        def read() -> Node | None:
            row = self._db.execute("SELECT data FROM node WHERE path = ?", (_key(path),)).fetchone()
            return None if row is None else node_from_bytes(row[0])

        return await self._run(f"read {path} from", read)

    async def load_many(self, paths: Sequence[Fqn]) -> Sequence[tuple[Fqn, Node]]:
        def read() -> list[tuple[Fqn, Node]]:
            found = []
            for path in paths:
                row = self._db.execute(
                    "SELECT data FROM node WHERE path = ?", (_key(path),)
                ).fetchone()
                if row is not None:
                    found.append((path, _node(path, row[0])))
            return found

        return await self._run(f"read {len(paths)} nodes from", read)

    async def load_within(self, path: Fqn, limit: int) -> Sequence[tuple[Fqn, Node]]:
        def read() -> list[tuple[Fqn, Node]]:
            rows = self._db.execute(
                "SELECT path, data FROM node WHERE path >= ? AND path < ? LIMIT ?",
                (*_range(path), limit),
            ).fetchall()
            return [(_path(key), node_from_bytes(data)) for key, data in rows]

        return await self._run(f"read below {path} from", read)

    async def names(self, path: Fqn) -> Sequence[str]:
        def read() -> list[str]:
            after, high = _range(path)  # no key equals the end of a range
            names: list[str] = []
            while True:
                row = self._db.execute(
                    "SELECT path FROM node WHERE path > ? AND path < ? ORDER BY path LIMIT 1",
                    (after, high),
                ).fetchone()
                if row is None:
                    return names
                name = _path(row[0])[len(path)]
                names.append(name)
                after = _range(path.child(name))[1]

        return await self._run(f"read the names below {path} from", read)

    async def apply(self, rows: Sequence[Row]) -> None:
        written = [(_key(path), node_bytes(node)) for path, node in rows if node is not None]
        deleted = [(_key(path),) for path, node in rows if node is None]

        def write() -> None:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany("INSERT OR REPLACE INTO node VALUES (?, ?)", written)
                self._db.executemany("DELETE FROM node WHERE path = ?", deleted)

        await self._run("write to", write)

    async def purge(self) -> None:
        def delete() -> None:
            with self._db:
                self._db.execute("DELETE FROM node")

        await self._run("purge", delete)

    async def picture(self) -> StorePicture:
        picture = _Picture(self.file)
        await self._run("begin to read", picture.begin)
        return picture

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.ProgrammingError("it is not open")
        return self._connection

    def _open(self) -> None:
        if self._connection is not None:
            return
        folder = os.path.dirname(os.path.abspath(self.file))
        if not os.path.isdir(folder):
            raise OSError(f"there is no folder {folder}")
        if os.path.isdir(self.file):
            raise OSError("it is a folder; location is a file in one")
        if self._lock is not None:
            self._lock.take()
        try:
            self._connection = self._connected()
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise

    def _connected(self) -> sqlite3.Connection:
        if self.file != IN_MEMORY:
            _make_private(self.file)
        db = sqlite3.connect(self.file, isolation_level=None, check_same_thread=False)
        try:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if version != _FORMAT and tables:
                raise sqlite3.DatabaseError("it is a database of something else")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            db.execute(_SCHEMA)
            db.execute(f"PRAGMA user_version = {_FORMAT}")
        except BaseException:
            db.close()
            raise
        return db

    async def _run(self, doing: str, work: Callable[[], R]) -> R:
        return await _in_thread(self.file, self._one, doing, work)


def _make_private(file: str) -> None:
    """Make ``file`` if it is missing, so that only its owner may read it. SQLite gives its mode to the files beside it.

    An existing file is not opened: closing it would end the locks that SQLite has on it in this process.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with suppress(FileExistsError):
        os.close(os.open(os.path.realpath(file), flags, 0o600))


class _Picture(StorePicture):
    """A read transaction on a connection of its own. With a write-ahead log it sees the rows of its beginning and
    blocks nobody. The log grows until it ends."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._one = trio.CapacityLimiter(1)
        self._db: sqlite3.Connection

    def begin(self) -> None:
        """Begin the transaction, in the store's thread between two of its calls."""
        db = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA query_only = ON")
            db.execute("BEGIN")
            db.execute("SELECT 1 FROM node LIMIT 1").fetchone()  # the transaction begins here
        except BaseException:
            db.close()
            raise
        self._db = db

    async def page(
        self, path: Fqn, after: Fqn | None, limit: int, *, values: bool = True
    ) -> Sequence[tuple[Fqn, bytes]]:
        def read() -> list[tuple[Fqn, bytes]]:
            low, high = _range(path)
            sign, begin = (">=", low) if after is None else (">", _key(after))
            column = "data" if values else "x''"
            rows = self._db.execute(
                f"SELECT path, {column} FROM node WHERE path {sign} ? AND path < ? "
                "ORDER BY path LIMIT ?",
                (begin, high, limit),
            ).fetchall()
            return [(_path(key), bytes(data)) for key, data in rows]

        return await _in_thread(self._file, self._one, f"read below {path} from", read)

    async def aclose(self) -> None:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._db.close, limiter=self._one)


def _node(path: Fqn, data: bytes) -> Node:
    try:
        return node_from_bytes(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


async def _in_thread(
    file: str, limiter: trio.CapacityLimiter, doing: str, work: Callable[[], R]
) -> R:
    try:
        return await trio.to_thread.run_sync(work, limiter=limiter)
    except (sqlite3.Error, OSError, ValueError, CacheRefused) as error:
        raise StoreError(f"cannot {doing} {file}: {error}") from error


def _key(path: Fqn) -> bytes:
    return b"".join(_escape(part.encode()) + b"\0" for part in path)


def _escape(part: bytes) -> bytes:
    if b"\0" not in part and b"\1" not in part:
        return part
    return part.replace(b"\1", b"\1\2").replace(b"\0", b"\1\1")


def _path(key: bytes) -> Fqn:
    parts = key.split(b"\0")[:-1]
    return Fqn(p.replace(b"\1\1", b"\0").replace(b"\1\2", b"\1").decode() for p in parts)


def _range(path: Fqn) -> tuple[bytes, bytes]:
    """Return the range of keys, end excluded, of the node and all below it."""
    key = _key(path)
    return key, (key[:-1] + b"\1" if key else b"\xff")
