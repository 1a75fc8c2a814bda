"""Locks of keys: for changes that read first. They are ranges of a lock file, so they are free when their process dies.

Keys share ``LOCKS`` ranges. A range belongs to the whole process, so a table has the thread that holds it.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from jgroups_py.maps.errors import MapBusy
from jgroups_py.maps.ranges import set_range

LOCKS: Final = 4096
"""Ranges of the lock file, shared by all keys."""
PAUSE_MIN: Final = 0.0001
PAUSE_MAX: Final = 0.01
"""The longest pause between two tries, in seconds. Pauses double."""


@dataclass(slots=True)
class _Held:
    """A range of this process."""

    thread: int
    keys: list[bytes]
    """Several if calls are nested."""


class KeyLocks:
    """``timeout``: the longest wait of a caller for a locked key, in seconds."""

    def __init__(self, file: Path, timeout: float) -> None:
        self._handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._timeout = timeout
        self._mutex = threading.Lock()
        self._held: dict[int, _Held] = {}
        self._closed = False

    def take(self, key: bytes) -> bool:
        """Take the lock of a key until ``release``. False: another caller on this host has it."""
        place = crc32(key) % LOCKS
        with self._mutex:
            if place in self._held or not set_range(self._handle, fcntl.F_WRLCK, place):
                return False
            self._held[place] = _Held(threading.get_ident(), [key])
            return True

    def take_nested(self, key: bytes) -> bool:
        """Take the lock as ``take`` does, in threads, where a function that changes one key may change others. Two keys
        may share a range.

        MapBusy: this thread has the key already, and would wait for itself.
        """
        with self._mutex:
            held = self._held.get(crc32(key) % LOCKS)
            if held is not None and held.thread == threading.get_ident():
                if key in held.keys:
                    raise MapBusy(f"key {key[:40]!r} is changed by the call around this one")
                held.keys.append(key)
                return True
        return self.take(key)

    def release(self, key: bytes) -> None:
        """Release the lock. In a forked child the call is ignored, because the parent has the lock."""
        place = crc32(key) % LOCKS
        with self._mutex:
            held = self._held.get(place)
            if held is None:
                return
            held.keys.remove(key)
            if not held.keys:
                del self._held[place]
                if not self._closed:
                    set_range(self._handle, fcntl.F_UNLCK, place)

    def pauses(self, key: bytes) -> Iterator[float]:
        """Yield the seconds to wait before each further ``take``. Raises MapBusy after ``timeout``."""
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
