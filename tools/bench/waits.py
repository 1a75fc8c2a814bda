"""Waits of an exact length, like waits for a disk.

``trio.sleep`` is not exact: epoll counts in whole milliseconds and begins anew each time that another event wakes the
loop. A sleep of 1 ms takes 1.1 to 2 ms, longer on a busy loop. A timer of the kernel (timerfd) is exact and wakes the
loop as a descriptor that is ready. All waits share one timer, which is set to the earliest end. So a wait costs hardly
more than the wake of its task, and the bench measures the work beside the waits.
"""

from __future__ import annotations

import ctypes
import heapq
import os
import struct
import sys
import time
from typing import Final

import trio

from jgroups_py.livebackup.wake import WAKE, waited

_MONOTONIC: Final = 1
_NONBLOCK: Final = os.O_NONBLOCK
_ABSOLUTE: Final = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


_TIMER: Final = struct.Struct("@4l")
"""Seconds and nanoseconds of the interval, which is nothing, and of the end."""


class _Alarm:
    """A timer of the kernel."""

    def __init__(self) -> None:
        assert _libc is not None
        self.file = _libc.timerfd_create(_MONOTONIC, _NONBLOCK)
        if self.file < 0:
            raise OSError(ctypes.get_errno(), "no timer can be made")
        self._timer = ctypes.create_string_buffer(_TIMER.size)
        self._set = _libc.timerfd_settime
        self._set.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)

    def set(self, at: float) -> None:
        """Let the descriptor be ready from ``at`` on, and not before."""
        seconds, nanoseconds = divmod(int(at * 1e9), 10**9)
        _TIMER.pack_into(self._timer, 0, 0, 0, seconds, nanoseconds)
        self._set(self.file, _ABSOLUTE, self._timer, None)


class Waits:
    """The waits of one process."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, int, trio.lowlevel.Task]] = []
        """A heap: the end, the number and the task of each wait."""
        self._number = 0
        self._alarm: _Alarm | None = None

    async def wait(self, seconds: float) -> None:
        """Wait. On systems other than Linux it is a sleep."""
        if _libc is None:
            await trio.sleep(seconds)
            return
        if self._alarm is None:
            self._alarm = _Alarm()
            trio.lowlevel.spawn_system_task(self._wake)
        ends, task = self._ends, trio.lowlevel.current_task()
        self._number = number = self._number + 1
        end = time.monotonic() + seconds
        task.custom_sleep_data = entry = (end, number, task)
        heapq.heappush(ends, entry)
        if ends[0][1] == number:
            self._alarm.set(end)
        await waited()

    async def _wake(self) -> None:
        """Wake the tasks whose waits have ended, until the end of the loop."""
        alarm, ends = self._alarm, self._ends
        assert alarm is not None
        try:
            while True:
                await trio.lowlevel.wait_readable(alarm.file)
                now = time.monotonic()
                while ends and ends[0][0] <= now:
                    entry = heapq.heappop(ends)
                    task = entry[2]
                    if task.custom_sleep_data is entry:  # it is not cancelled
                        trio.lowlevel.reschedule(task, WAKE)
                if ends:
                    alarm.set(ends[0][0])
                else:
                    os.read(alarm.file, 8)  # it is not ready any more
        finally:
            self._alarm = None
            ends.clear()
            os.close(alarm.file)


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
