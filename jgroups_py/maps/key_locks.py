"""Locks of keys: for changes that read first. They are ranges of a lock file, so they are free when their process dies.

Keys share ``LOCKS`` ranges. A lock of a thread stands before each range, since a range belongs to the whole process.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from struct import pack_into
from typing import Final
from zlib import crc32

from jgroups_py.maps.errors import MapBusy

LOCKS: Final = 4096
"""Ranges of the lock file that keys are spread over."""
PAUSE_MIN: Final = 0.0001
PAUSE_MAX: Final = 0.01
"""Seconds between two tries; each is twice as long as the one before."""

_FLOCK: Final = "hhqqi4x"


class KeyLocks:
    """``timeout``: how long somebody waits for a key that is locked."""

    def __init__(self, file: Path, timeout: float) -> None:
        self._handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._timeout = timeout
        self._threads = [threading.Lock() for _ in range(64)]
        self._closed = False

    def take(self, key: bytes) -> bool:
        """Whether nobody else of this host had it. If so, the caller has it until ``release``."""
        place = crc32(key) % LOCKS
        lock = self._threads[place % len(self._threads)]
        if not lock.acquire(blocking=False):
            return False
        taken = False
        try:
            taken = self._range(fcntl.F_WRLCK, place)
        finally:
            if not taken:
                lock.release()
        return taken

    def release(self, key: bytes) -> None:
        place = crc32(key) % LOCKS
        if not self._closed:
            self._range(fcntl.F_UNLCK, place)
        self._threads[place % len(self._threads)].release()

    def pauses(self, key: bytes) -> Iterator[float]:
        """How long to wait, in seconds, before each further ``take``. Raises MapBusy after ``timeout``."""
        limit = time.monotonic() + self._timeout
        pause = PAUSE_MIN
        while time.monotonic() < limit:
            yield pause
            pause = min(pause * 2, PAUSE_MAX)
        raise MapBusy(
            f"somebody changes key {key[:40]!r}, or one beside it, since {self._timeout:g} s: another process (is it stopped?) "
            "or a thread of this one"
        )

    def close(self) -> None:
        self._closed = True
        os.close(self._handle)

    def _range(self, kind: int, place: int) -> bool:
        request = bytearray(32)
        pack_into(_FLOCK, request, 0, kind, os.SEEK_SET, place, 1, 0)
        try:
            fcntl.fcntl(self._handle, fcntl.F_OFD_SETLK, bytes(request))
        except (BlockingIOError, PermissionError):
            return False
        return True
