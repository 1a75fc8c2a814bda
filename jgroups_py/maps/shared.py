"""SharedFile: one process' handle on the map of a host (K14-K16).

    put      a record goes into this process' inbox, and into its overlay: no lock that another process could hold, no wait (K7)
    get others' new records are read into the overlay; then the overlay is asked, then the file
    merge a thread: the one process with the lock moves the records of all inboxes into the file, in one transaction. If
             it is killed, another one goes on from the offsets in the file

A process that is stopped while it merges blocks neither puts nor reads: all processes read all inboxes. Only a full
inbox blocks its writer.

Differs: Chronicle Map locks segments of shared memory, so a process that stops inside one stops the others.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import Final, TypeVar

from msgspec.structs import replace

from jgroups_py.maps import forks
from jgroups_py.maps.control import SLOTS, Control, durable_of
from jgroups_py.maps.disk import flush_folder
from jgroups_py.maps.entry import KEY_MAX, MapEntry, decode_entry, value_at
from jgroups_py.maps.errors import InboxFull, MapClosed, MapError, MapFileError, MapFull
from jgroups_py.maps.eviction import FORGET as FORGOTTEN
from jgroups_py.maps.eviction import REMOVE, TIME, MapLimits, Readings
from jgroups_py.maps.file_settings import DEFAULTS, DURABILITIES, FileSettings
from jgroups_py.maps.inbox import (
    ADVANCE,
    CHANGE,
    DROP,
    ENTRY,
    FORGET,
    LACKING,
    USE,
    Inbox,
    InboxFiles,
    keyed,
)
from jgroups_py.maps.key_locks import KeyLocks
from jgroups_py.maps.merger import Merger
from jgroups_py.maps.merger_child import END_TIMEOUT, MergerChild
from jgroups_py.maps.overlay import Overlay
from jgroups_py.maps.room import Room
from jgroups_py.maps.rules import RULES, LastWriter
from jgroups_py.maps.stamp import HybridClock, MapStamp
from jgroups_py.maps.store import MapStore
from jgroups_py.maps.sums import Contents
from jgroups_py.maps.table import ChangedKey, Vector

ITEMS_AT_ONCE: Final = 1000
"""The most keys that an iteration reads under one lock, which bounds the wait of others."""
SNAPSHOT_MAX: Final = 0.5
"""Seconds after which a snapshot of the file ends. LMDB uses no page again that a snapshot has, so the snapshot of a process that does nothing,
or is stopped later, would let the file grow with each merge."""
DROPPED_AT_ONCE: Final = 200
"""The most changes that one record drops; it fits into the smallest inbox."""
_OF_A_MERGER: Final = (
    *("max_bytes", "inbox_bytes", "durability", "sync_interval", "merge_interval"),
)

_DOT: Final = Struct("<QQ")
_T = TypeVar("_T")


class SharedFile:
    """Opens or creates the map's folder. Threads may share it. After a fork the child has its own slot."""

    def __init__(self, folder: Path, settings: FileSettings | None = None) -> None:
        self.folder = folder
        self.settings = settings or FileSettings()
        self._lock = threading.RLock()
        self._why_closed = "is closed"
        self.on_change: Callable[[bytes, MapEntry], None] | None = None
        """Called with each change that this process sees, own ones included, from any thread. It must not wait."""
        self._open()
        forks.watch(self)

    def _open(self) -> None:
        with ExitStack() as opened:
            try:
                self._open_files(opened)
            except OSError as error:
                raise MapFileError(f"{self.folder} cannot be opened: {error}") from None
            self._overlay = Overlay(
                self.store,
                self.control,
                self._inboxes,
                self.rule,
                self.clock if self.hybrid else None,
                self._changed,
            )
            self._overlay.look()
            self._snapshot_due = time.monotonic() + SNAPSHOT_MAX
            self.problem: Exception | None = None
            """The reason why this process cannot merge."""
            self.closing = threading.Event()
            self._room = self._new_room()
            self._child: MergerChild | None = None
            if self.settings.merger == "process" and self.rule.name in RULES:
                options = {n: getattr(self.settings, n) for n in _OF_A_MERGER}
                self._child = MergerChild(self.folder, options, self.closing)
            self._thread = threading.Thread(
                target=self._run_merger, name=f"maps-merge {self.folder.name}", daemon=True
            )
            self._thread.start()
            self._opened = opened.pop_all()

    def _open_files(self, opened: ExitStack) -> None:
        """Open the files. ``opened`` closes those that are open."""
        settings = self.settings
        asked = DURABILITIES.index(settings.durability)
        self.store = MapStore(
            self.folder,
            max_bytes=settings.max_bytes,
            settings=settings.agreed(),
            defaults={**DEFAULTS, "name": self.folder.name},
            lock=self._lock,
            durable=max(asked, durable_of(self.folder / "control")),
        )
        opened.callback(self.store.close)
        agreed = self.store.settings
        self.name, self.identifier = agreed["name"], int(agreed["identifier"])
        self.key_codec, self.value_codec = agreed["key"], agreed["value"]
        self.hybrid = agreed["hybrid"] == "True"
        if settings.rule is None and agreed["rule"] not in RULES:
            raise MapFileError(
                f'{self.folder} was made with the rule "{agreed["rule"]}", which is not shipped: give it as rule'
            )
        self.rule = settings.rule or RULES[agreed["rule"]]()
        self._last_writer = isinstance(self.rule, LastWriter)
        self.control = Control(self.folder / "control", settings.inbox_bytes)
        opened.callback(self.control.close)
        self.control.ask_durable(asked)
        self._inboxes = InboxFiles(self.folder, self.control.inbox_bytes)
        opened.callback(self._inboxes.close)
        self._inboxes.cut_damaged(self.control)
        self.slot = self._inboxes.take()
        self.control.use(self.slot, self.store.merged())
        self._inbox = Inbox(self._inboxes.of(self.slot), self.control, self.slot)
        self.clock: HybridClock = _Clock(self._lock, self.slot, self.hybrid)
        self._locks = KeyLocks(self.folder / "locks", settings.lock_timeout)
        opened.callback(self._locks.close)
        self._replicator = os.open(
            self.folder / "replicator", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        opened.callback(os.close, self._replicator)
        self._replicates = False
        self._contents = (-1, Contents({}, {}, False))
        if asked:
            flush_folder(self.folder)
        self._set_limits(settings.limits(self.store.limits()))
        self._merger = Merger(self)
        opened.callback(self._merger.release)

    def _new_room(self) -> Room:
        return Room(
            self.folder,
            self._inbox,
            self.control,
            self.store,
            self._open_still,
            lambda: self.problem,
            self.settings.full_timeout,
        )

    def _set_limits(self, limits: MapLimits) -> None:
        """Set the limits of the file. MapError: the map would forget entries, but it replicates."""
        if limits and limits.evict == FORGOTTEN and self.is_replicated():
            raise MapError(
                f'the map {self.folder} replicates, so it cannot forget entries (evict="{FORGOTTEN}"): give evict="{REMOVE}"'
            )
        if limits != self.store.limits():
            self.store.set_limits(self.rule, limits)
        self.limits = limits
        self._readings = Readings() if limits else None

    def _run_merger(self) -> None:
        if self._child is not None:
            self._child.run(self._end_snapshot)
        self._merger.run(self._end_snapshot)

    def _end_snapshot(self) -> None:
        """End the snapshot each SNAPSHOT_MAX. A thread that reads just now takes another snapshot at its next call."""
        now = time.monotonic()
        if now < self._snapshot_due or not self._lock.acquire(blocking=False):
            return
        try:
            self._snapshot_due = now + SNAPSHOT_MAX
            self._overlay.rest()
        finally:
            self._lock.release()

    def _changed(self, key: bytes, entry: MapEntry) -> None:
        if self.on_change is not None:
            self.on_change(key, entry)

    def close(self) -> None:
        """Close the map. Puts are merged first, if no other process merges."""
        with self._lock:
            if self.closing.is_set():
                return
            self.closing.set()
            self._overlay.begin_anew()  # readers check it, and find the map closed
        self._thread.join(END_TIMEOUT + 5)  # a child that does not end is killed before
        with self._lock:
            self._abandon()
        forks.forget(self)

    def _abandon(self) -> None:
        if self._child is not None:
            self._child.abandon()
        self._opened.close()

    def before_fork(self) -> None:
        """See ``Forked``."""
        self._merger.lock.acquire()
        self._lock.acquire()
        if not self.closing.is_set():
            self.store.suspend()

    def after_fork(self, child: bool) -> None:
        """See ``Forked``."""
        if child:
            self._lock, self._merger.lock = threading.RLock(), threading.Lock()
            if not self.closing.is_set():
                self._abandon()
                try:
                    self._open()
                except Exception as error:  # no caller could catch it here: later calls report it
                    self._why_closed = f"cannot be used in this forked process: {error}"
                    self.closing.set()
            return
        self._overlay.begin_anew()
        if not self.closing.is_set():
            self.store.refresh()
        self._lock.release()
        self._merger.lock.release()

    @property
    def closed(self) -> bool:
        return self.closing.is_set()

    @property
    def origin(self) -> int:
        """Return the origin of this host's changes."""
        return self.store.origin

    @property
    def file_id(self) -> bytes:
        """Return the random number of this file."""
        return self.store.file

    # --- reading

    def get(self, key: bytes) -> bytes | None:
        """Return the value as stored. None: there is none."""
        if not key:
            return None  # LMDB takes no such key, not even to look for it
        # The fast path, without a call of ours: nothing has changed and no inbox has the key. A closed map has no mark.
        overlay, store = self._overlay, self.store
        with self._lock:
            if self.control.mark() != overlay.mark:
                self._look()
            data = store.lookup(key, None, store.entries_db)
            if self._readings is not None:
                self._tell_use(key)
            if key not in overlay.waiting:
                return None if data is None else value_at(data, self.clock.wall_time)
            entry = overlay.entry(key, data)
        if entry is None or entry.is_over(self.clock.wall_time()):
            return None
        return entry.value

    def _tell_use(self, key: bytes) -> None:
        """Report a read of a key without waiting. A half full inbox gets no reports."""
        assert self._readings is not None
        if self._readings.is_due(key, time.monotonic()) and not self._inbox.is_half_full():
            with suppress(MapFull):  # the disk is full, and reading continues
                self._append(USE, TIME.pack(self.clock.wall_time()) + key)

    def entry(self, key: bytes) -> MapEntry | None:
        """Return the entry, removed or not. Its dots are only the merged ones."""
        with self._lock:
            self._look()
            return self._entry(key)

    def _entry(self, key: bytes) -> MapEntry | None:
        return self._overlay.entry(key, self.store.raw(key))

    def items(
        self, *, after: bytes = b"", removed: bool = False
    ) -> Iterator[tuple[bytes, MapEntry]]:
        """Yield all entries above ``after``, in the order of keys, each key once. ``removed``: tombstones, too. Entries
        written meanwhile may be missing."""
        found, last = self._some(after, removed)  # at once, so that a closed map raises here
        return chain(found, self._others(last, removed))

    def cuts(self, each: int) -> list[bytes]:
        """Return keys that cut the map into parts of ``each`` keys, removed ones included. The last part may have
        fewer."""
        found: list[bytes] = []
        while True:
            with self._lock:
                self._look()
                key = self.store.beyond(found[-1] if found else b"", each)
            if key is None:
                return found
            found.append(key)

    def _others(self, after: bytes | None, removed: bool) -> Iterator[tuple[bytes, MapEntry]]:
        while after is not None:
            found, after = self._some(after, removed)
            yield from found

    def _some(
        self, after: bytes, removed: bool
    ) -> tuple[list[tuple[bytes, MapEntry]], bytes | None]:
        """Return entries above a key, and the key to go on from. None: these were the last ones."""
        with self._lock:
            self._look()
            stored = self.store.some(after, ITEMS_AT_ONCE)
            last = stored[-1][0] if len(stored) == ITEMS_AT_ONCE else None
            base = dict(stored)
            keys = {*base, *self._overlay.between(after, last)}
            found = [(key, self._overlay.entry(key, base.get(key))) for key in sorted(keys)]
            now = self.clock.wall_time()
        if removed:
            # An expired entry counts as removed, buried or not.
            return [
                (key, replace(entry, value=None) if entry.is_over(now) else entry)
                for key, entry in found
                if entry is not None
            ], last
        return [
            (key, entry)
            for key, entry in found
            if entry is not None and entry.value is not None and not entry.is_over(now)
        ], last

    @contextmanager
    def _open_still(self) -> Iterator[None]:
        """Hold the lock. MapClosed: the file is closed."""
        with self._lock:
            if self.closing.is_set():
                raise MapClosed(f"the map {self.folder} {self._why_closed}")
            yield

    def _look(self) -> None:
        if self.closing.is_set():
            raise MapClosed(f"the map {self.folder} {self._why_closed}")
        self._overlay.look()

    # --- writing

    def write(self, key: bytes, value: bytes | None, expires: int = 0) -> int:
        """Write a change; None removes. Return its place in the inbox. It waits when there is no room (room.py).
        MapFull, MapError: nothing was changed."""
        try:
            end = self.write_now(key, value, expires)
        except InboxFull:
            return self.alone(lambda: self.write_now(key, value, expires))
        if self.settings.durability == "sync":
            self._inbox.flush()
        return end

    def write_now(self, key: bytes, value: bytes | None, expires: int = 0) -> int:
        """Write as ``write`` without waiting. InboxFull: there is no room."""
        if not 0 < len(key) <= KEY_MAX:
            raise MapError(f"a key must have 1 to {KEY_MAX} bytes, got {len(key)}")
        with self._lock:
            self._look()
            stamp = MapStamp(self.clock.next(), self.identifier)
            life = 0
            if not self._last_writer:
                mine = self._entry(key)
                life = stamp.time if value is None else (mine.life if mine is not None else 0)
            entry = MapEntry(value, stamp, {}, expires, life)
            end = self._inbox.append(CHANGE, keyed(key, entry.encode()))
            self._overlay.note(key, entry, self.slot, end)
            self._overlay.wrote(self.slot, end)
        return end

    def alone(self, function: Callable[[], _T]) -> _T:
        """Call ``function`` while no other thread of this process reads or writes. It must not wait; it writes once, at
        its end, with ``write_now``. Without room it is called again when there is some. MapFull: nothing was
        changed."""
        while True:
            try:
                with self._lock:
                    made = function()
                break
            except InboxFull as full:
                need = full.need
            self._room.wait(need)
        if self.settings.durability == "sync":
            self._inbox.flush()
        return made

    def try_lock(self, key: bytes) -> bool:
        """Take the lock of a key until ``unlock``. False: another caller on this host has it. Plain writes ignore
        it."""
        with self._open_still():
            return self._locks.take(key)

    def _try_nested(self, key: bytes) -> bool:
        with self._open_still():
            return self._locks.take_nested(key)

    def unlock(self, key: bytes) -> None:
        with self._lock:
            self._locks.release(key)

    def pauses(self, key: bytes) -> Iterator[float]:
        """Yield the seconds to wait before each further ``try_lock``. Raises MapBusy after ``lock_timeout``."""
        return self._locks.pauses(key)

    @contextmanager
    def locked(self, key: bytes) -> Iterator[None]:
        """Hold the lock of a key, in a thread. MapBusy after ``lock_timeout``, or at once if this thread holds it already."""
        pauses = self.pauses(key)
        while not self._try_nested(key):
            time.sleep(next(pauses))
        try:
            yield
        finally:
            self.unlock(key)

    # --- the table of a replica (replica.py); its writes take effect with the merge

    def vector(self) -> Vector:
        with self._open_still():
            return dict(self._contents_now().vector)

    def contents(self) -> Contents:
        """Return a summary of the merged entries (sums.py)."""
        with self._open_still():
            vector, sums, lacking = self._contents_now()
            return Contents(dict(vector), dict(sums), lacking)

    def _contents_now(self) -> Contents:
        generation = self.control.generation()  # this is first: later merges are read next time
        if self._contents[0] != generation:
            self._contents = generation, self.store.contents()
        return self._contents[1]

    def changes(
        self, origin: int, after: int, to: int, most: int
    ) -> Iterator[tuple[int, bytes, MapEntry]]:
        with self._open_still():
            return iter(list(self.store.changes(origin, after, to, most)))

    def tombstones(
        self, after: bytes = b"", most: int = sys.maxsize
    ) -> Iterator[tuple[bytes, MapEntry]]:
        with self._open_still():
            return iter(list(self.store.tombstones(after, most)))

    def tombstone_count(self) -> int:
        with self._open_still():
            return self.store.tombstone_count()

    @property
    def forgotten(self) -> Vector:
        with self._open_still():
            return self.store.forgotten

    def apply(
        self, entries: Iterable[tuple[bytes, MapEntry]], advance: Mapping[int, int]
    ) -> Sequence[ChangedKey] | None:
        done = 0
        with self._lock:
            self._look()
            try:
                for key, entry in entries:
                    end = self._inbox.append(ENTRY, keyed(key, entry.encode()))
                    self._overlay.note(key, entry, self.slot, end)
                    self._overlay.wrote(self.slot, end)
                    done += 1
                for origin, number in advance.items():
                    self._append(ADVANCE, _DOT.pack(origin, number))
            except InboxFull as full:
                full.done = done
                raise
        return None

    def forget(self, keys: Iterable[bytes]) -> None:
        with self._lock:
            self._look()
            for key in keys:
                data = self.store.raw(key)
                if data is not None:
                    self._append(FORGET, keyed(key, data))

    def note_lacking(self) -> None:
        with self._lock:
            self._look()
            self._append(LACKING, b"")

    def drop(self, dots: Iterable[tuple[int, int]]) -> None:
        packed = [_DOT.pack(origin, number) for origin, number in dots]
        with self._lock:
            self._look()
            for at in range(0, len(packed), DROPPED_AT_ONCE):
                self._append(DROP, b"".join(packed[at : at + DROPPED_AT_ONCE]))

    def _append(self, kind: int, data: bytes) -> None:
        self._overlay.wrote(self.slot, self._inbox.append(kind, data))

    # --- one process of the host replicates

    def take_replication(self) -> bool:
        """Become the replicating process, until ``end_replication`` or death. False: another process is. MapError: a map
        that forgets cannot replicate."""
        if self.closing.is_set():
            raise MapClosed(f"the map {self.folder} {self._why_closed}")
        try:
            fcntl.flock(self._replicator, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        self._replicates = True
        limits = self.store.limits()
        if limits and limits.evict == FORGOTTEN:
            self.end_replication()
            raise MapError(
                f'the map {self.folder} forgets entries (evict="{FORGOTTEN}") and cannot replicate: other hosts would keep them. Open it with evict="{REMOVE}"'
            )
        return True

    def end_replication(self) -> None:
        self._replicates = False
        if not self.closing.is_set():
            fcntl.flock(self._replicator, fcntl.LOCK_UN)

    def written(self) -> list[int]:
        """Return the written offset of each slot's inbox."""
        with self._open_still():
            return [self.control.written(slot) for slot in range(SLOTS)]

    def has_merged(self, written: Sequence[int]) -> bool:
        """Are the inboxes merged up to these offsets?"""
        with self._open_still():
            return all(self.control.merged(slot) >= end for slot, end in enumerate(written))

    def wait_merged(self, timeout: float = 60.0) -> bool:
        """Wait until this process' records are merged. False: ``timeout`` has passed."""
        limit = time.monotonic() + timeout
        while self.waiting() > 0:
            if time.monotonic() > limit:
                return False
            time.sleep(0.001)
        return True

    def count(self) -> int:
        """Count the keys. Expired ones count until they are buried."""
        with self._lock:
            self._look()
            count = self.store.count()
            for key in self._overlay:
                before, now = self.store.raw(key), self._entry(key)
                count += bool(now is not None and not now.removed)
                count -= bool(before is not None and not decode_entry(before).removed)
            return count

    def newest_time(self) -> int:
        """Return the latest time of any merged change, in ticks."""
        with self._lock:
            self._look()
            return self.store.last_time()

    def generation(self) -> int:
        """Return a number that grows with each merge."""
        with self._open_still():
            return self.control.generation()

    @property
    def inbox_bytes(self) -> int:
        """Return the size of each process' inbox."""
        with self._open_still():
            return self.control.inbox_bytes

    def file_bytes(self) -> int:
        """Return the used part of ``max_bytes``, freed pages included."""
        with self._open_still():
            return self.store.used()[0]

    def max_bytes(self) -> int:
        with self._open_still():
            return self.store.used()[1]

    def waiting_of_all(self) -> int:
        """Return the bytes in the inboxes of all processes."""
        with self._open_still():
            control = self.control
            return sum(control.written(slot) - control.merged(slot) for slot in range(SLOTS))

    def is_replicated(self) -> bool:
        """Does a process of this host replicate?"""
        if self._replicates:
            return True
        try:
            fcntl.flock(self._replicator, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self._replicator, fcntl.LOCK_UN)
        return False

    def evicted(self) -> int:
        """Return the number of entries evicted since the file was made."""
        with self._open_still():
            return self.store.evicted()

    def waiting(self) -> int:
        """Return the unmerged bytes of this process."""
        with self._open_still():
            return self.control.written(self.slot) - self.control.merged(self.slot)


class _Clock(HybridClock):
    """A clock shared by several threads."""

    def __init__(self, lock: threading.RLock, slot: int, hybrid: bool) -> None:
        super().__init__(time.time_ns, slot=slot, hybrid=hybrid)
        self._lock = lock

    def next(self) -> int:
        with self._lock:
            return super().next()

    def observe(self, time: int) -> float:
        with self._lock:
            return super().observe(time)
