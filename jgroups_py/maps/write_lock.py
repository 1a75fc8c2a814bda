"""WriteLock: the process that may write to the data file now. It is taken around each writing transaction, for a bounded time.

LMDB has such a lock, too, and waits for it without end. A process that opens the map even keeps its interpreter meanwhile. Beside a process that was stopped inside a transaction, a program that
opens the map would stand still. Here it learns that in time, and opens the file only for reading (store.py).
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from jgroups_py.maps.ranges import is_locked, set_range

PAUSE: Final = 0.0005
"""Seconds between two tries."""
YIELD: Final = 0.002
"""Seconds that a merger waits before a transaction if another process wants to write."""
_WRITER: Final = 0
_WANTED: Final = 1
"""Locked for reading by those that wait."""


class WriteLock:
    """Opens or creates the file. OSError: that failed."""

    def __init__(self, file: Path) -> None:
        self._handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, timeout: float, *, yields: bool = False) -> bool:
        """Take the lock until ``release``. False: another process has had it for ``timeout`` seconds. ``yields``: others that wait
        go first, because a merger takes it again and again."""
        if yields and is_locked(self._handle, _WANTED):
            time.sleep(YIELD)
        if set_range(self._handle, fcntl.F_WRLCK, _WRITER):
            return True
        set_range(self._handle, fcntl.F_RDLCK, _WANTED)
        try:
            limit = time.monotonic() + timeout
            is_over = timeout <= 0
            # A process that was stopped meanwhile tries once more, too.
            while not is_over:
                is_over = time.monotonic() >= limit
                time.sleep(PAUSE)
                if set_range(self._handle, fcntl.F_WRLCK, _WRITER):
                    return True
            return False
        finally:
            set_range(self._handle, fcntl.F_UNLCK, _WANTED)

    def release(self) -> None:
        set_range(self._handle, fcntl.F_UNLCK, _WRITER)

    def close(self) -> None:
        os.close(self._handle)
