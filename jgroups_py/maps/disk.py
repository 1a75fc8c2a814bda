"""The disk: space reserved for writes through a memory mapping; file names that survive a loss of power."""

from __future__ import annotations

import os
from pathlib import Path


def reserve(handle: int, size: int) -> None:
    """Give an open file at least ``size`` bytes and disk space for them. Writing a mapped page without disk space would
    kill the process.

    OSError: the disk is full. On a system without ``posix_fallocate`` (macOS) the file only gets its size.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
    elif os.fstat(handle).st_size < size:
        os.ftruncate(handle, size)


def flush_folder(folder: Path) -> None:
    """Write the names of a folder's files to the disk. OSError: the folder cannot be opened or written."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
