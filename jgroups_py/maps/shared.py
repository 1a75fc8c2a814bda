"""SharedFile: the map of a host as one process has it open (K14-K16).

    put      a record goes into this process' inbox, and into its overlay: no lock that another process could hold, no wait (K7)
    get      what other processes have written meanwhile is read into the overlay; then overlay, then the file
    merge    a thread: one process at a time, whoever has the lock, moves what all inboxes have into the file, in one transaction; when it
             is killed, another one goes on from where the file says

A process that is stopped while it merges keeps nobody from putting and reading: everybody reads everybody's inboxes. Only an inbox that is full
ends that.

Differs: Chronicle Map locks segments of shared memory, so a process that stops inside one stops the others.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from struct import Struct, pack_into
from typing import Any, Final, Protocol
from zlib import crc32

from jgroups_py.maps.control import SLOTS, Control
from jgroups_py.maps.entry import KEY_MAX, Entry, decode_entry, value_at
from jgroups_py.maps.errors import MapBusy, MapClosed, MapError, MapFileError
from jgroups_py.maps.inbox import (
    ADVANCE,
    ANEW,
    CHANGE,
    ENTRY,
    FORGET,
    Inbox,
    InboxFile,
    keyed,
    split_keyed,
)
from jgroups_py.maps.merger_child import END_TIMEOUT, MergerChild
from jgroups_py.maps.rules import LAST_WRITER, RULES, ConflictRule, LastWriter, merged
from jgroups_py.maps.stamp import IDENTIFIER_MAX, WIDE_IDENTIFIER_MAX, HybridClock, Stamp
from jgroups_py.maps.store import Store
from jgroups_py.maps.table import Changed, Vector

LOG: Final = logging.getLogger("jgroups_py.maps")
RECORDS_MAX: Final = 20_000
"""Records that one transaction merges."""
ITEMS_AT_ONCE: Final = 1000
"""Keys that an iteration reads at a time; nobody waits longer for it."""
BURY_INTERVAL: Final = 0.5
"""Seconds between looks for entries whose time has passed."""
LOCKS: Final = 4096
"""Ranges of the lock file that ``locked`` spreads keys over."""
CATCH_UPS: Final = 10
"""How often one call reads the inboxes again because they were merged meanwhile."""
PRUNED_AT_ONCE: Final = 500
"""Merged records that one call forgets; the rest are forgotten by the next ones, so that no put waits for all of them."""
DEFAULTS: Final = {
    "identifier": "1",
    "rule": LAST_WRITER.name,
    "hybrid": "True",
    "name": "",
    "key": "bytes",
    "value": "bytes",
}
"""Of a new file, what all its processes must agree on."""
_OF_A_MERGER: Final = (
    *("max_bytes", "inbox_bytes", "durability", "sync_interval", "merge_interval"),
)
DURABILITIES: Final = ("process", "interval", "sync")

_DOT: Final = Struct("<QQ")
_FLOCK: Final = "hhqqi4x"


@dataclass(frozen=True, kw_only=True)
class FileSettings:
    """Of a map's file. What all processes of a host must agree on may be None: then it is what the file says."""

    identifier: int | None = None
    """1..127, unique among hosts; with ``wide_identifiers`` up to 65,535. A single host may leave it (K15); a new file has 1 then."""
    wide_identifiers: bool = False
    rule: ConflictRule | None = None
    """The default of a new file is the last writer."""
    hybrid: bool | None = None
    """Hybrid logical clock, the default of a new file; False: the wall clock alone."""
    name: str | None = None
    """Of the map; a new file has that of its folder."""
    key: str | None = None
    value: str | None = None
    """Names of codecs, ``bytes`` in a new file."""
    max_bytes: int = 16 * 1024**3
    """How large the file may get. The file is sparse: it takes what it needs."""
    inbox_bytes: int = 16 * 1024**2
    """Of each process: what may wait to be merged."""
    durability: str = "process"
    """When a put survives: "process": the process' death at any time; "interval": also the loss of power, ``sync_interval`` later;
    "sync": also the loss of power, at once (the put waits for the disk)."""
    sync_interval: float = 1.0
    merger: str = "thread"
    """Who merges, if this process is the one that does: a "thread" of it, or a "process" that it starts. A thread may keep a put waiting for some
    milliseconds. A rule of your own is always merged by a thread."""
    merge_interval: float = 0.005
    """Seconds between looks for something to merge."""
    lock_timeout: float = 5.0
    """How long ``update`` and its kind wait for somebody who changes the same key."""

    def __post_init__(self) -> None:
        most = WIDE_IDENTIFIER_MAX if self.wide_identifiers else IDENTIFIER_MAX
        if self.identifier is not None and not 1 <= self.identifier <= most:
            hint = "" if self.wide_identifiers else ", or up to 65535 with wide_identifiers"
            raise MapError(f"identifier must be from 1 to {most}{hint}, got {self.identifier}")
        if self.durability not in DURABILITIES:
            raise MapError(
                f'durability must be one of {", ".join(DURABILITIES)}, got "{self.durability}"'
            )
        if self.merger not in ("thread", "process"):
            raise MapError(f'merger must be thread or process, got "{self.merger}"')
        if self.max_bytes < 1024**2 or self.inbox_bytes < 4096:
            raise MapError(
                f"max_bytes must be at least 1 MB and inbox_bytes at least 4 KB, got {self.max_bytes} and {self.inbox_bytes}"
            )
        for name in ("sync_interval", "merge_interval", "lock_timeout"):
            if not getattr(self, name) > 0:
                raise MapError(f"{name} must be more than 0 seconds, got {getattr(self, name)}")


@dataclass(slots=True)
class _Waiting:
    """What the inboxes have of a key, joined."""

    entry: Entry
    slot: int
    end: int


class SharedFile:
    """Opens or makes the map's folder. Threads may share it. After a fork the child has a slot of its own."""

    def __init__(self, folder: Path, settings: FileSettings | None = None) -> None:
        self.folder = folder
        self.settings = settings or FileSettings()
        self._lock = threading.RLock()
        self.on_change: Callable[[bytes, Entry], None] | None = None
        """Called with each change that this process comes to know of, its own too, from whatever thread finds it. It must not wait."""
        self._open()
        _OPEN.add(self)

    def _open(self) -> None:
        settings = self.settings
        self.store = Store(
            self.folder,
            max_bytes=settings.max_bytes,
            settings={
                "identifier": _text(settings.identifier),
                "rule": None if settings.rule is None else settings.rule.name,
                "hybrid": _text(settings.hybrid),
                "name": settings.name,
                "key": settings.key,
                "value": settings.value,
            },
            defaults={**DEFAULTS, "name": self.folder.name},
        )
        agreed = self.store.settings
        self.name, self.identifier = agreed["name"], int(agreed["identifier"])
        self.key_codec, self.value_codec = agreed["key"], agreed["value"]
        self.hybrid = agreed["hybrid"] == "True"
        if settings.rule is None and agreed["rule"] not in RULES:
            self.store.close()
            raise MapFileError(
                f'{self.folder} was made with the rule "{agreed["rule"]}", which is not shipped: give it as rule'
            )
        self.rule = settings.rule or RULES[agreed["rule"]]()
        self._last_writer = isinstance(self.rule, LastWriter)
        self._files: dict[int, InboxFile] = {}
        try:
            self.control = Control(self.folder / "control", settings.inbox_bytes)
            try:
                self.slot = self._take_slot()
            except BaseException:
                self.control.close()
                raise
        except BaseException:
            self.store.close()
            raise
        self._inbox = Inbox(self._files[self.slot], self.control, self.slot)
        self.clock: HybridClock = _Clock(self._lock, self.slot, self.hybrid)
        self._locks = os.open(self.folder / "locks", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._replicator = os.open(
            self.folder / "replicator", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        self._vector: tuple[int, Vector] = (-1, {})
        self._key_locks = [threading.Lock() for _ in range(64)]
        self._overlay: dict[bytes, _Waiting] = {}
        self._pending: dict[int, deque[tuple[int, bytes]]] = {}
        self._read_to: dict[int, int] = {}
        self._merged_to = [0] * SLOTS
        self._behind = False
        self._mark = b""
        self._generation = -1
        self.store.refresh()
        self._catch_up()
        self.problem: Exception | None = None
        """Why this process cannot merge."""
        self.closing = threading.Event()
        self._merger = Merger(self)
        self._child: MergerChild | None = None
        if settings.merger == "process" and self.rule.name in RULES:
            options = {n: getattr(settings, n) for n in _OF_A_MERGER}
            self._child = MergerChild(self.folder, options, self.closing)
        self._thread = threading.Thread(
            target=self._run_merger, name=f"maps-merge {self.folder.name}", daemon=True
        )
        self._thread.start()

    def _run_merger(self) -> None:
        if self._child is not None:
            self._child.run()
        self._merger.run()

    def _take_slot(self) -> int:
        for slot in range(SLOTS):
            file = InboxFile(self._inbox_of(slot), self.control.inbox_bytes)
            if file.lock():
                self._files[slot] = file
                return slot
            file.close()
        raise MapFileError(f"{self.folder} is open in {SLOTS} processes already")

    def _inbox_of(self, slot: int) -> Path:
        return self.folder / f"inbox.{slot}"

    def close(self) -> None:
        """What was put is merged first, if nobody else does it."""
        with self._lock:
            if self.closing.is_set():
                return
            self.closing.set()
        self._thread.join(END_TIMEOUT + 5)  # a child that does not end is killed before
        with self._lock:
            self._abandon()
        _OPEN.discard(self)

    def _abandon(self) -> None:
        if self._child is not None:
            self._child.abandon()
        self._merger.release()
        self.store.close()
        for file in self._files.values():
            file.close()
        self.control.close()
        os.close(self._locks)
        os.close(self._replicator)

    def _pause(self) -> None:
        """Before a fork: no transaction is under way, since the child's copy of one would end the parent's."""
        self._merger.lock.acquire()
        self._lock.acquire()
        if not self.closing.is_set():
            self.store.suspend()

    def _go_on(self, child: bool) -> None:
        if child:
            self._lock, self._merger.lock = threading.RLock(), threading.Lock()
            if not self.closing.is_set():
                self._abandon()
                self._open()
            return
        self._generation, self._mark = -1, b""
        if not self.closing.is_set():
            self.store.refresh()
        self._lock.release()
        self._merger.lock.release()

    @property
    def closed(self) -> bool:
        return self.closing.is_set()

    @property
    def origin(self) -> int:
        """The origin of this host's changes."""
        return self.store.origin

    @property
    def file_id(self) -> bytes:
        """Which file this is, by chance."""
        return self.store.file

    # --- reading

    def get(self, key: bytes) -> bytes | None:
        """The value as stored; None: there is none."""
        with self._lock:
            self._look()
            waiting = self._overlay.get(key) if self._overlay else None
            if waiting is None:
                data = self.store.raw(key)
                return None if data is None else value_at(data, time.time_ns() * 256 // 1000)
            entry = self._entry(key)
            if entry is None or entry.is_over(self.clock.wall_time()):
                return None
            return entry.value

    def entry(self, key: bytes) -> Entry | None:
        """The entry, removed or not. Its dots are only those that are merged."""
        with self._lock:
            self._look()
            return self._entry(key)

    def _entry(self, key: bytes) -> Entry | None:
        data = self.store.raw(key)
        base = None if data is None else decode_entry(data)
        waiting = self._overlay.get(key)
        return base if waiting is None else self._joined(base, waiting.entry)

    def _joined(self, base: Entry | None, new: Entry) -> Entry:
        if base is None or new.life > base.life:
            return new
        if self._last_writer:
            return new if new.stamp.is_newer(base.stamp) or new.stamp == base.stamp else base
        if base.life > new.life:
            return base
        if base.value is None or new.value is None:
            return base if new.value is None else new
        newer = new if new.stamp.is_newer(base.stamp) else base
        return Entry(
            merged(self.rule, base.value, new.value)[0],
            newer.stamp,
            base.dots,
            max(base.expires, new.expires),
            base.life,
        )

    def items(self) -> Iterator[tuple[bytes, Entry]]:
        """All entries that are not removed, in the order of keys. What is written meanwhile may be given or not; a key is given once."""
        found, after = self._some(b"")  # at once: a map that was closed says so here
        return chain(found, self._others(after))

    def _others(self, after: bytes | None) -> Iterator[tuple[bytes, Entry]]:
        while after is not None:
            found, after = self._some(after)
            yield from found

    def _some(self, after: bytes) -> tuple[list[tuple[bytes, Entry]], bytes | None]:
        """Entries above a key, and the last key, from which one goes on; None: these were the last ones."""
        with self._lock:
            self._look()
            stored = self.store.some(after, ITEMS_AT_ONCE)
            last = stored[-1][0] if len(stored) == ITEMS_AT_ONCE else None
            found = {
                key: self._overlay[key].entry
                for key in self._overlay
                if key > after and (last is None or key <= last)
            }
            for key, data in stored:
                entry = decode_entry(data)
                new = found.get(key)
                found[key] = entry if new is None else self._joined(entry, new)
            now = self.clock.wall_time()
        return [
            (key, entry)
            for key, entry in sorted(found.items(), key=itemgetter(0))
            if entry.value is not None and not entry.is_over(now)
        ], last

    @contextmanager
    def _open_still(self) -> Iterator[None]:
        """The lock, of a file that is not closed."""
        with self._lock:
            if self.closing.is_set():
                raise MapClosed(f"the map {self.folder} is closed")
            yield

    def _look(self) -> None:
        if self.closing.is_set():
            raise MapClosed(f"the map {self.folder} is closed")
        if self.control.mark() != self._mark:
            self._catch_up()

    def _catch_up(self) -> None:
        """Reads what others have written, and forgets what was merged."""
        control = self.control
        for _ in range(CATCH_UPS):
            mark = control.mark()
            if self._behind or control.generation() != self._generation:
                self._behind = False
                self._generation = control.generation()
                # Before the snapshot, so that it has all of that.
                self._merged_to = [control.merged(slot) for slot in range(SLOTS)]
                self.store.refresh()
                if (
                    self.hybrid
                ):  # a change of this host may have got a later time when it was merged
                    self.clock.observe(self.store.last_time())
            complete = self._prune()
            for slot in range(SLOTS):
                written = control.written(slot)
                begin = max(self._read_to.get(slot, 0), self._merged_to[slot])
                if begin < written:
                    self._read_to[slot] = self._read_inbox(slot, begin, written)
                    complete = complete and self._read_to[slot] >= written
            self._mark = mark if complete else b""
            if not self._behind:
                return

    def _prune(self) -> bool:
        """Forgets records that the snapshot has. Whether none is left."""
        left = PRUNED_AT_ONCE
        for slot, pending in self._pending.items():
            merged = self._merged_to[slot]
            while pending and pending[0][0] <= merged:
                if left <= 0:
                    return False
                left -= 1
                end, key = pending.popleft()
                waiting = self._overlay.get(key)
                if waiting is not None and (waiting.slot, waiting.end) == (slot, end):
                    del self._overlay[key]
        return True

    def _read_inbox(self, slot: int, begin: int, written: int) -> int:
        file = self._files.get(slot)
        if file is None:
            file = self._files[slot] = InboxFile(self._inbox_of(slot), self.control.inbox_bytes)
        for end, kind, data in file.records(begin, written):
            if self.control.merged(slot) > begin:
                break
            begin = end
            if kind in (CHANGE, ENTRY):
                key, encoded = split_keyed(data)
                self._note(key, decode_entry(encoded), slot, end)
        if self.control.merged(slot) > begin:
            self._behind = True  # it is in the file, and may have been overwritten here
        return begin

    def _note(self, key: bytes, entry: Entry, slot: int, end: int) -> None:
        if self.hybrid:
            self.clock.observe(entry.stamp.time)
        waiting = self._overlay.get(key)
        self._pending.setdefault(slot, deque()).append((end, key))
        if waiting is None:
            self._overlay[key] = _Waiting(entry, slot, end)
        else:
            joined = self._joined(waiting.entry, entry)
            if joined is not waiting.entry:
                self._overlay[key] = _Waiting(joined, slot, end)
        if self.on_change is not None:
            self.on_change(key, entry)

    # --- writing

    def write(self, key: bytes, value: bytes | None, expires: int = 0) -> int:
        """A change of this host; None removes. Gives the place in the inbox. MapFull, MapError: nothing was changed."""
        if not 0 < len(key) <= KEY_MAX:
            raise MapError(f"a key must have 1 to {KEY_MAX} bytes, got {len(key)}")
        with self._lock:
            self._look()
            stamp = Stamp(self.clock.next(), self.identifier)
            life = 0
            if not self._last_writer:
                mine = self._entry(key)
                life = stamp.time if value is None else (mine.life if mine is not None else 0)
            entry = Entry(value, stamp, {}, expires, life)
            end = self._inbox.append(CHANGE, keyed(key, entry.encode()))
            self._note(key, entry, self.slot, end)
            self._read_to[self.slot] = end
        if self.settings.durability == "sync":
            self._inbox.flush()
        return end

    def alone(self) -> AbstractContextManager[object]:
        """Inside it no other thread of this process reads or writes. It must not be held while waiting."""
        return self._lock

    def try_lock(self, key: bytes) -> bool:
        """Whether nobody else of this host was inside for this key. If so, the caller is until ``unlock``. Plain writes do not ask for it."""
        place = crc32(key) % LOCKS
        lock = self._key_locks[place % len(self._key_locks)]
        if not lock.acquire(blocking=False):
            return False
        try:
            with self._open_still():
                taken = _range(self._locks, fcntl.F_WRLCK, place)
        except BaseException:
            lock.release()
            raise
        if not taken:
            lock.release()
        return taken

    def unlock(self, key: bytes) -> None:
        place = crc32(key) % LOCKS
        with self._lock:
            if not self.closing.is_set():
                _range(self._locks, fcntl.F_UNLCK, place)
        self._key_locks[place % len(self._key_locks)].release()

    def pauses(self, key: bytes) -> Iterator[float]:
        """How long to wait, in seconds, before each further ``try_lock``. Raises MapBusy after ``lock_timeout``."""
        limit = time.monotonic() + self.settings.lock_timeout
        pause = 0.0001
        while time.monotonic() < limit:
            yield pause
            pause = min(pause * 2, 0.01)
        raise MapBusy(
            f"somebody changes key {key[:40]!r}, or one beside it, since {self.settings.lock_timeout:g} s: another process (is it stopped?) "
            "or a thread of this one"
        )

    @contextmanager
    def locked(self, key: bytes) -> Iterator[None]:
        """Nobody else of this host is inside for this key. MapBusy after ``lock_timeout``."""
        pauses = self.pauses(key)
        while not self.try_lock(key):
            time.sleep(next(pauses))
        try:
            yield
        finally:
            self.unlock(key)

    # --- the table of a replica (replica.py); what is written takes effect when it is merged

    def vector(self) -> Vector:
        with self._open_still():
            generation = (
                self.control.generation()
            )  # first: what is merged meanwhile is read next time
            if self._vector[0] != generation:
                self._vector = generation, self.store.vector()
            return dict(self._vector[1])

    def changes(
        self, origin: int, after: int, to: int, most: int
    ) -> Iterator[tuple[int, bytes, Entry]]:
        with self._open_still():
            return iter(list(self.store.changes(origin, after, to, most)))

    def tombstones(self) -> Iterator[tuple[bytes, Entry]]:
        with self._open_still():
            return iter(list(self.store.tombstones()))

    @property
    def forgotten(self) -> Vector:
        with self._open_still():
            return self.store.forgotten

    def apply(
        self, entries: Iterable[tuple[bytes, Entry]], advance: Mapping[int, int]
    ) -> Sequence[Changed] | None:
        with self._lock:
            self._look()
            for key, entry in entries:
                end = self._inbox.append(ENTRY, keyed(key, entry.encode()))
                self._note(key, entry, self.slot, end)
                self._read_to[self.slot] = end
            for origin, number in advance.items():
                self._read_to[self.slot] = self._inbox.append(ADVANCE, _DOT.pack(origin, number))
        return None

    def forget(self, keys: Iterable[bytes]) -> None:
        with self._lock:
            self._look()
            for key in keys:
                data = self.store.raw(key)
                if data is not None:
                    self._read_to[self.slot] = self._inbox.append(FORGET, keyed(key, data))

    def begin_anew(self, vector: Mapping[int, int], keep: int) -> None:
        with self._lock:
            self._look()
            data = b"".join(_DOT.pack(origin, number) for origin, number in vector.items())
            self._read_to[self.slot] = self._inbox.append(ANEW, data)

    # --- one process of the host replicates

    def take_replication(self) -> bool:
        """Whether this process speaks for the host now. It does until ``end_replication``, or its death."""
        if self.closing.is_set():
            raise MapClosed(f"the map {self.folder} is closed")
        try:
            fcntl.flock(self._replicator, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def end_replication(self) -> None:
        if not self.closing.is_set():
            fcntl.flock(self._replicator, fcntl.LOCK_UN)

    def written(self) -> list[int]:
        """How far the inbox of each slot is written."""
        with self._open_still():
            return [self.control.written(slot) for slot in range(SLOTS)]

    def has_merged(self, written: Sequence[int]) -> bool:
        """Whether all that was in the inboxes then is merged."""
        with self._open_still():
            return all(self.control.merged(slot) >= end for slot, end in enumerate(written))

    def wait_merged(self, timeout: float = 10.0) -> bool:
        """Waits until what this process has written is merged."""
        limit = time.monotonic() + timeout
        while self.waiting() > 0:
            if time.monotonic() > limit:
                return False
            time.sleep(0.001)
        return True

    def count(self) -> int:
        """How many keys there are. Those whose time has passed count until they are buried."""
        with self._lock:
            self._look()
            count = self.store.count()
            for key in self._overlay:
                before, now = self.store.raw(key), self._entry(key)
                count += bool(now is not None and not now.removed)
                count -= bool(before is not None and not decode_entry(before).removed)
            return count

    def generation(self) -> int:
        """Grows with each merge."""
        with self._open_still():
            return self.control.generation()

    @property
    def inbox_bytes(self) -> int:
        """Of each process' inbox."""
        with self._open_still():
            return self.control.inbox_bytes

    def file_bytes(self) -> int:
        """How much of ``max_bytes`` is in use, pages that are free again included."""
        with self._open_still():
            return self.store.used()[0]

    def max_bytes(self) -> int:
        with self._open_still():
            return self.store.used()[1]

    def waiting_of_all(self) -> int:
        """Bytes in the inboxes of all processes."""
        with self._open_still():
            control = self.control
            return sum(control.written(slot) - control.merged(slot) for slot in range(SLOTS))

    def is_replicated(self) -> bool:
        """Whether a process of this host replicates."""
        if not self.take_replication():
            return True
        self.end_replication()
        return False

    def waiting(self) -> int:
        """Bytes that this process has written and nobody has merged yet."""
        with self._open_still():
            return self.control.written(self.slot) - self.control.merged(self.slot)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


class _Clock(HybridClock):
    """A clock that several threads ask."""

    def __init__(self, lock: threading.RLock, slot: int, hybrid: bool) -> None:
        super().__init__(time.time_ns, slot=slot, hybrid=hybrid)
        self._lock = lock

    def next(self) -> int:
        with self._lock:
            return super().next()

    def observe(self, time: int) -> float:
        with self._lock:
            return super().observe(time)


class Merged(Protocol):
    """What a merger needs of a file."""

    folder: Path
    settings: FileSettings
    store: Store
    control: Control
    rule: ConflictRule
    clock: HybridClock
    closing: threading.Event
    problem: Exception | None


class Merger:
    """Merges the inboxes of all processes, as long as no other process does. ``handle``: of a file that is locked by the one who merges."""

    def __init__(self, shared: Merged, handle: int | None = None) -> None:
        self._shared = shared
        if handle is None:
            handle = os.open(shared.folder / "merger", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._handle = handle
        self._mine = False
        self.lock = threading.Lock()
        """Held while anything is merged."""
        self._files: dict[int, InboxFile] = {}
        self._synced = self._bury_at = time.monotonic()

    def release(self) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}
        os.close(self._handle)

    def run(self) -> None:
        shared = self._shared
        pause = shared.settings.merge_interval
        while True:
            closing = shared.closing.is_set()
            try:
                with self.lock:
                    worked = self._merge() if self._take() else False
                shared.problem = None
            except (
                Exception
            ) as error:  # the inboxes keep what they have: others, or the next try, may merge it
                if type(error) is not type(shared.problem):
                    LOG.error("the map %s cannot be merged: %s", shared.folder, error)
                shared.problem = error
                worked = False
            if closing and not worked:
                break
            if not worked:
                shared.closing.wait(pause)
        if self._mine:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def _take(self) -> bool:
        if self._mine:
            return True
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        control = self._shared.control
        for (
            slot,
            offset,
        ) in self._shared.store.merged().items():  # a merger may have died between both
            if control.merged(slot) < offset:
                control.set_merged(slot, offset)
        control.next_generation()
        self._mine = True
        return True

    def _merge(self) -> bool:
        shared, control = self._shared, self._shared.control
        buried = self._bury()
        slots = control.waiting()
        if not slots:
            self._sync()
            return buried
        left = RECORDS_MAX
        ends: dict[int, int] = {}
        with shared.store.merging(shared.rule) as merging:
            for slot in slots:
                file = self._files.get(slot)
                if file is None:
                    file = self._files[slot] = InboxFile(
                        shared.folder / f"inbox.{slot}", control.inbox_bytes
                    )
                for end, kind, data in file.records(control.merged(slot), control.written(slot)):
                    _carry_out(merging, kind, data)
                    ends[slot] = end
                    left -= 1
                    if left <= 0:
                        break
                if slot in ends:
                    merging.merged(slot, ends[slot])
                if left <= 0:
                    break
        for slot, end in ends.items():
            control.set_merged(slot, end)
        control.next_generation()
        self._sync()
        return bool(ends)

    def _bury(self) -> bool:
        """Entries whose time has passed become tombstones."""
        now = time.monotonic()
        if now < self._bury_at:
            return False
        store, ticks = self._shared.store, self._shared.clock.wall_time()
        buried = 0
        if store.has_ended(ticks):
            with store.merging(self._shared.rule) as merging:
                buried = merging.bury(ticks, RECORDS_MAX)
            self._shared.control.next_generation()
        if buried < RECORDS_MAX:
            self._bury_at = now + BURY_INTERVAL
        return buried > 0

    def _sync(self) -> None:
        settings = self._shared.settings
        now = time.monotonic()
        if settings.durability != "process" and now - self._synced >= settings.sync_interval:
            self._synced = now
            self._shared.store.sync()


def _carry_out(merging: Any, kind: int, data: bytes) -> None:
    if kind == CHANGE:
        key, encoded = split_keyed(data)
        merging.change(key, decode_entry(encoded))
    elif kind == ENTRY:
        key, encoded = split_keyed(data)
        merging.join(key, decode_entry(encoded))
    elif kind == ADVANCE:
        merging.advance(*_DOT.unpack(data))
    elif kind == FORGET:
        key, encoded = split_keyed(data)
        merging.forget(key, decode_entry(encoded))
    elif kind == ANEW:
        merging.begin_anew(dict(_DOT.iter_unpack(data)))


def _range(handle: int, kind: int, place: int) -> bool:
    request = bytearray(32)
    pack_into(_FLOCK, request, 0, kind, os.SEEK_SET, place, 1, 0)
    try:
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, bytes(request))
    except (BlockingIOError, PermissionError):
        return False
    return True


_OPEN: weakref.WeakSet[SharedFile] = weakref.WeakSet()


def _before_fork() -> None:
    for shared in list(_OPEN):
        shared._pause()


def _after_fork(child: bool) -> None:
    for shared in list(_OPEN):
        shared._go_on(child)


os.register_at_fork(
    before=_before_fork,
    after_in_parent=lambda: _after_fork(False),
    after_in_child=lambda: _after_fork(True),
)
