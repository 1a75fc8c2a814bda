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
import sys
import time
from typing import Any, Final

import trio

_MONOTONIC: Final = 1
_NONBLOCK: Final = os.O_NONBLOCK
_ABSOLUTE: Final = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Timer(ctypes.Structure):
    _fields_ = (("interval", _Time), ("value", _Time))


class _Alarm:
    """A timer of the kernel."""

    def __init__(self) -> None:
        assert _libc is not None
        self.file = _libc.timerfd_create(_MONOTONIC, _NONBLOCK)
        if self.file < 0:
            raise OSError(ctypes.get_errno(), "no timer can be made")
        self._timer = _Timer()
        self._value = self._timer.value
        self._at = ctypes.byref(self._timer)
        self._set = _libc.timerfd_settime

    def set(self, at: float) -> None:
        """Let the descriptor be ready from ``at`` on, and not before."""
        nanoseconds = int(at * 1e9)
        self._value.seconds, self._value.nanoseconds = divmod(nanoseconds, 10**9)
        self._set(self.file, _ABSOLUTE, self._at, None)


class Waits:
    """The waits of one process."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, int, trio.lowlevel.Task]] = []
        """A heap: the end, the number and the task of each wait."""
        self._number = 0
        self._gone: set[int] = set()
        """Cancelled waits whose ends have not come."""
        self._alarm: _Alarm | None = None

    async def wait(self, seconds: float) -> None:
        """Wait. On systems other than Linux it is a sleep."""
        if _libc is None:
            await trio.sleep(seconds)
            return
        if self._alarm is None:
            self._alarm = _Alarm()
            trio.lowlevel.spawn_system_task(self._wake)
        ends = self._ends
        self._number = number = self._number + 1
        end = time.monotonic() + seconds
        heapq.heappush(ends, (end, number, trio.lowlevel.current_task()))
        if ends[0][1] == number:
            self._alarm.set(end)

        def leave(_: Any) -> trio.lowlevel.Abort:
            self._gone.add(number)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    async def _wake(self) -> None:
        """Wake the tasks whose waits have ended, until the end of the loop."""
        alarm, ends = self._alarm, self._ends
        assert alarm is not None
        try:
            while True:
                await trio.lowlevel.wait_readable(alarm.file)
                now = time.monotonic()
                while ends and ends[0][0] <= now:
                    _, number, task = heapq.heappop(ends)
                    if number in self._gone:
                        self._gone.discard(number)
                    else:
                        trio.lowlevel.reschedule(task)
                if ends:
                    alarm.set(ends[0][0])
                else:
                    os.read(alarm.file, 8)  # it is not ready any more
        finally:
            self._alarm = None
            ends.clear()
            self._gone.clear()
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
