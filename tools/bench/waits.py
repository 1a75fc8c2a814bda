"""Waits of an exact length, like waits for a disk.

``trio.sleep`` is not exact: epoll counts in whole milliseconds and begins anew each time that another event wakes the
loop. A sleep of 1 ms takes 1.1 to 2 ms, longer on a busy loop. The kernel's timers (timerfd) are exact and wake the
loop as a descriptor that is ready.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from functools import lru_cache
from typing import Any, Final

import trio

_MONOTONIC: Final = 1
_NONBLOCK: Final = os.O_NONBLOCK
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Timer(ctypes.Structure):
    _fields_ = (("interval", _Time), ("value", _Time))


@lru_cache(10)
def _once(seconds: float) -> Any:
    nanoseconds = max(1, round(seconds * 1e9))
    value = _Time(nanoseconds // 10**9, nanoseconds % 10**9)
    return ctypes.byref(_Timer(_Time(0, 0), value))


class Waits:
    """Timers of one process. They are kept for the next wait."""

    def __init__(self) -> None:
        self._free: list[int] = []

    async def wait(self, seconds: float) -> None:
        """Wait. On systems other than Linux it is a sleep."""
        if _libc is None:
            await trio.sleep(seconds)
            return
        timer = self._free.pop() if self._free else _libc.timerfd_create(_MONOTONIC, _NONBLOCK)
        if timer < 0:
            raise OSError(ctypes.get_errno(), "no timer can be made")
        _libc.timerfd_settime(
            timer, 0, _once(seconds), None
        )  # reset the descriptor, if it was ready
        try:
            await trio.lowlevel.wait_readable(timer)
        except BaseException:
            os.close(timer)
            raise
        self._free.append(timer)


async def bare(tasks: int, seconds: float, waits: int = 200) -> float:
    """Return the mean seconds that a wait takes when so many plain tasks wait again and again, and this process does
    nothing else."""
    timers = Waits()

    async def again() -> None:
        for _ in range(waits):
            await timers.wait(seconds)

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(tasks):
            nursery.start_soon(again)
    return (time.perf_counter() - began) / waits
