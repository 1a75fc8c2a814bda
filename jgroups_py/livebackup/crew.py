"""Crew: tasks that run the operations of one side of a term.

An operation needs a task, because it may wait. Most do not wait, and a new task costs more than they do. So one task
runs one operation after the other. Before each it wakes the next task, which takes over if that operation waits. A task
that is woken runs in the next turn of the loop. So several tasks are woken at once while operations wait: otherwise a
message with ten operations would take ten turns to begin them.

Each operation has a context of its own: it sees no context variable of its caller, nor of the operation before it. A task
is woken with a new context for its first operation. The operations that follow in the same step run through ``in_context``.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, Final, TypeVar

import trio

from jgroups_py.livebackup.wake import WAKE, waited

IDLE_MAX: Final = 100
"""The most tasks that are kept for later operations."""
WIDTH_MAX: Final = 16
"""The most tasks that are woken at once."""
V = TypeVar("V")
Job = Callable[[], Coroutine[Any, Any, None]]


@types.coroutine
def in_context(
    context: Context, coroutine: Coroutine[Any, Any, V]
) -> Generator[Any, Any, tuple[V, bool]]:
    """Run the coroutine in this task and in that context. Return its value, and whether it waited for something."""
    run = context.run
    step: Callable[[Any], Any] = coroutine.send
    given: Any = None
    has_waited = False
    while True:
        try:
            trap = run(step, given)
        except StopIteration as end:
            return end.value, has_waited
        has_waited = True
        try:
            given, step = (yield trap), coroutine.send
        except BaseException as error:
            given, step = error, coroutine.throw


class Crew:
    """Runs jobs from ``stay`` on, until it is cancelled. Earlier jobs wait for ``stay``."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._idle: list[trio.lowlevel.Task] = []
        self._coming = 0
        """Tasks that have been woken and have not run since."""
        self._width = 1
        """Tasks to be woken at once. The more of the newest jobs have waited, the more."""
        self._context = copy_context()
        self._nursery: trio.Nursery | None = None
        self._is_ending = False
        """From now on the nursery takes a new task only while it has others."""
        self._scope = trio.CancelScope()
        self._gone = trio.Event()

    @property
    def tasks(self) -> int:
        """Count running and resting tasks."""
        return len(self._nursery.child_tasks) if self._nursery is not None else 0

    async def stay(self) -> None:
        """Run the tasks until ``cancel``."""
        try:
            with self._scope:
                async with trio.open_nursery() as self._nursery:
                    self._call()
                    try:
                        await trio.sleep_forever()
                    finally:
                        self._is_ending = True
        finally:
            self._nursery = None
            self._gone.set()

    def start(self, job: Job) -> None:
        """Run a job soon."""
        jobs = self._jobs
        jobs.append(job)
        if self._coming < self._width and self._coming < len(jobs):
            self._wake()

    def start_next(self, job: Job) -> None:
        """Run a job before all waiting ones. If the calling task is one of the crew, it runs the job right after its
        own."""
        self._jobs.appendleft(job)
        self._call()

    async def cancel(self) -> None:
        """Cancel all jobs and wait for their ends. No further job begins."""
        self._jobs.clear()
        self._scope.cancel()
        await self._gone.wait()

    def _call(self) -> None:
        while self._coming < self._width and self._coming < len(self._jobs):
            if not self._wake():
                return

    def _wake(self) -> bool:
        """Wake a task, or begin one. Return False before ``stay`` and after it."""
        nursery = self._nursery
        if nursery is None or (self._is_ending and not nursery.child_tasks):
            return False
        self._coming += 1
        idle = self._idle
        while idle:
            task = idle.pop()
            if task.custom_sleep_data is self:  # it is not cancelled
                task.context = self._context.copy()  # trio runs the task's next step in it
                trio.lowlevel.reschedule(task, WAKE)
                return True
        self._context.run(nursery.start_soon, self._work)  # it copies this context
        return True

    async def _work(self) -> None:
        jobs, idle, task = self._jobs, self._idle, trio.lowlevel.current_task()
        while True:
            self._coming -= 1
            is_first = True
            while jobs:
                job = jobs.popleft()
                if jobs and self._coming < self._width:
                    self._call()
                task.custom_sleep_data = self
                if is_first:
                    is_first = False
                    await job()
                else:
                    await in_context(self._context.copy(), job())
                if task.custom_sleep_data is self:  # trio clears it when the task is woken
                    self._width = 1
                elif self._width < WIDTH_MAX:
                    self._width = min(2 * self._width, WIDTH_MAX)
            if len(idle) >= IDLE_MAX:
                return
            idle.append(task)
            task.custom_sleep_data = self
            await waited()
