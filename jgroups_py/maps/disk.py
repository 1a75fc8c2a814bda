"""Reserve disk space for writes through a memory mapping."""

from __future__ import annotations

import os


def reserve(handle: int, size: int) -> None:
    """Give an open file at least ``size`` bytes and disk space for them. Writing a mapped page without disk space would
    kill the process.

    OSError: the disk is full. On a system without ``posix_fallocate`` (macOS) the file only gets its size.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
    elif os.fstat(handle).st_size < size:
        os.ftruncate(handle, size)
