"""FileLock: one store at a time for one file, also of other processes.

Two caches on one file would silently overwrite each other's values. The lock is the system's (flock), on a file beside
the store's: SQLite's own locks would keep out the second connection that reads a picture. The lock ends with the
process; the file stays.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import Final

WAIT: Final = 1.0
"""Seconds that a killed process may take to end."""
_STEP: Final = 0.05


class FileLock:
    """A lock on ``file``, by any name or link. It is held from ``take`` to ``release``."""

    def __init__(self, file: str) -> None:
        self._name = os.path.realpath(file) + "-lock"
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take the lock; blocks for up to ``WAIT``. OSError: another process holds the lock, or the file cannot be created."""
        descriptor = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor, time.monotonic() + WAIT)
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock. More than one call is fine."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _lock(descriptor: int, until: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise OSError(_held_by(os.pread(descriptor, 20, 0))) from None
        time.sleep(_STEP)


def _held_by(text: bytes) -> str:
    number = text.strip()
    if number == b"%d" % os.getpid():
        who = "another store of this process"
    elif number.isdigit():
        who = f"process {number.decode()}"
    else:
        who = "another process"
    return f"{who} has it open, and two would overwrite each other's values: give each cache a file of its own"
