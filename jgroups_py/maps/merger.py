"""Merger: moves the records of all processes' inboxes into the file, in one transaction after the other.

One process at a time merges: the one that has the lock on the file ``merger``. A transaction includes the merged offset
of each inbox. A killed merger therefore leaves no half transaction, and another one goes on from there.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Final, Protocol

from jgroups_py.maps.control import SLOTS, Control
from jgroups_py.maps.entry import decode_entry
from jgroups_py.maps.errors import MapFull
from jgroups_py.maps.eviction import EVICTED_AT_ONCE, TIME, MapLimits
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.inbox import (
    ADVANCE,
    CHANGE,
    DROP,
    ENTRY,
    FORGET,
    LACKING,
    USE,
    InboxFiles,
    split_keyed,
)
from jgroups_py.maps.merging import Merging
from jgroups_py.maps.rules import ConflictRule
from jgroups_py.maps.stamp import HybridClock
from jgroups_py.maps.store import MapStore

LOG: Final = logging.getLogger("jgroups_py.maps")
RECORDS_MAX: Final = 20_000
"""The most records that one transaction merges."""
BYTES_MAX: Final = 16 * 1024**2
"""The most bytes of those records; a larger one is merged alone. They are in memory twice until the transaction
ends."""
RECORDS_A_SIGN: Final = 500
"""Records after which the merger shows waiting puts that it works."""
PROBLEM_PAUSE: Final = 0.05
"""Seconds until another try after a failed merge."""
BURY_INTERVAL: Final = 0.5
"""Seconds between looks for expired entries."""

_DOT: Final = Struct("<QQ")


class Merged(Protocol):
    """The part of a file that a merger needs."""

    folder: Path
    settings: FileSettings
    store: MapStore
    control: Control
    rule: ConflictRule
    clock: HybridClock
    closing: threading.Event
    problem: Exception | None


class Merger:
    """Merges the inboxes of all processes, as long as no other process does. ``handle``: of the file that the merger
    locks."""

    def __init__(self, shared: Merged, handle: int | None = None) -> None:
        self._shared = shared
        if handle is None:
            handle = os.open(shared.folder / "merger", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._handle = handle
        self._mine = False
        self.lock = threading.Lock()
        """Held while records are merged."""
        self._inboxes = InboxFiles(shared.folder, shared.control.inbox_bytes)
        self._synced = self._bury_at = time.monotonic()
        self._first = 0
        """The slot with which the next transaction begins."""
        self._limits = MapLimits()
        """The limits in force."""

    def release(self) -> None:
        self._inboxes.close()
        os.close(self._handle)

    def run(self, each_time: Callable[[], None] | None = None) -> None:
        """Run until the file is closing. ``each_time`` is called at least a few times a second, without a lock."""
        shared = self._shared
        pause = shared.settings.merge_interval
        while True:
            if each_time is not None:
                each_time()
            closing = shared.closing.is_set()
            try:
                with self.lock:
                    worked = self._merge() if self._take() else False
                    shared.problem = None
            except Exception as error:  # the inboxes keep their records for others or the next try
                worked = isinstance(error, MapFull) and shared.store.take_size()
                if not worked:
                    if type(error) is not type(shared.problem):
                        LOG.error("the map %s cannot be merged: %s", shared.folder, error)
                    shared.problem = error
            if closing and not worked:
                break
            if not worked:
                shared.closing.wait(pause if shared.problem is None else PROBLEM_PAUSE)
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
        ) in self._shared.store.merged().items():  # a merger may have died in between
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
        ends: dict[int, int] = {}
        with shared.store.merging(shared.rule) as merging:
            records = size = 0
            # The inbox that filled the last transaction comes last in this one, so a fast writer does not hold up
            # others.
            for slot in sorted(slots, key=lambda slot: (slot - self._first) % SLOTS):
                file = self._inboxes.of(slot)
                for end, kind, data in file.records(control.merged(slot), control.written(slot)):
                    _carry_out(merging, kind, data)
                    ends[slot] = end
                    records, size = records + 1, size + len(data)
                    if records % RECORDS_A_SIGN == 0 and shared.problem is None:
                        control.worked()
                    if records >= RECORDS_MAX or size >= BYTES_MAX:
                        self._first = slot + 1
                        break
                merging.settle()
                if slot in ends:
                    merging.merged(slot, ends[slot])
                if records >= RECORDS_MAX or size >= BYTES_MAX:
                    break
        if control.durable() > shared.store.durable:
            # Another process has asked for a higher durability since this one opened the file. Space in an inbox is
            # free only when its records are on the disk.
            shared.store.sync()
        for slot, end in ends.items():
            control.set_merged(slot, end)
        if merging.evicted >= EVICTED_AT_ONCE:
            self._limits, self._bury_at = MapLimits(), 0.0  # more entries must be evicted
        control.worked()
        control.next_generation()
        self._sync()
        return bool(ends)

    def _bury(self) -> bool:
        """Turn expired entries into tombstones, and apply new limits. Return whether more is to be done."""
        now = time.monotonic()
        if now < self._bury_at:
            return False
        store, ticks = self._shared.store, self._shared.clock.wall_time()
        buried = evicted = 0
        limits = store.limits()
        if limits and limits != self._limits:  # new limits may be exceeded already
            with store.merging(self._shared.rule) as merging:
                pass
            evicted = merging.evicted
            self._shared.control.next_generation()
        if not evicted:
            self._limits = limits
        if store.has_ended(ticks):
            with store.merging(self._shared.rule) as merging:
                buried = merging.bury(ticks, RECORDS_MAX)
            self._shared.control.next_generation()
        if buried < RECORDS_MAX and not evicted:
            self._bury_at = now + BURY_INTERVAL
        return buried + evicted > 0

    def _sync(self) -> None:
        now, shared = time.monotonic(), self._shared
        if shared.control.durable() and now - self._synced >= shared.settings.sync_interval:
            self._synced = now
            shared.store.sync()


def _carry_out(merging: Merging, kind: int, data: bytes) -> None:
    if kind == CHANGE:
        merging.change(*split_keyed(data))
        return
    if kind == USE:
        merging.use(data[8:], TIME.unpack_from(data)[0])
        return
    merging.settle()
    if kind == ENTRY:
        key, encoded = split_keyed(data)
        merging.join(key, decode_entry(encoded))
    elif kind == ADVANCE:
        merging.advance(*_DOT.unpack(data))
    elif kind == FORGET:
        key, encoded = split_keyed(data)
        merging.forget(key, decode_entry(encoded))
    elif kind == DROP:
        merging.drop(_DOT.iter_unpack(data))
    elif kind == LACKING:
        merging.note_lacking()
