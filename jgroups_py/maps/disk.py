"""A place on the disk for what is written through a mapping, taken beforehand."""

from __future__ import annotations

import os


def reserve(handle: int, size: int) -> None:
    """An open file has at least ``size`` bytes afterwards, and they have a place on the disk: a mapped page that finds none when it is written ends the process.

    OSError: there is none. On a system without ``posix_fallocate`` (macOS) the file only gets its size.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
    elif os.fstat(handle).st_size < size:
        os.ftruncate(handle, size)
