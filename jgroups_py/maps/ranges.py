"""Locks on bytes of a file. They belong to the opened file and are free when its process dies."""

from __future__ import annotations

import fcntl
import os
from struct import Struct
from typing import Final

_FLOCK: Final = Struct("hhqqi4x")


def set_range(handle: int, kind: int, place: int) -> bool:
    """Lock (``F_WRLCK``, ``F_RDLCK``) or free (``F_UNLCK``) one byte. False: another process has the lock."""
    try:
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, _request(kind, place))
    except (BlockingIOError, PermissionError):
        return False
    return True


def is_locked(handle: int, place: int) -> bool:
    """Return whether another process has a lock on this byte."""
    found = fcntl.fcntl(handle, fcntl.F_OFD_GETLK, _request(fcntl.F_WRLCK, place))
    return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


def _request(kind: int, place: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, place, 1, 0)
