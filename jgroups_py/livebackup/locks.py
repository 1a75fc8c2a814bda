"""ObjectLock: the right to change an object of the live node.

Operations that have changed something go first, because others wait for them. An operation without changes holds up
nobody, so it may wait while the backups are behind (``pace.py``). No operation waits for that with a changed object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

MayBegin = Callable[["ObjectLock"], bool]


class InLine:
    """The operations that wait for an object, of all objects of a live node."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class ObjectLock:
    """A fair lock. Taking a free one is no checkpoint."""

    __slots__ = ("_beginning", "_going_on", "_held", "key")

    def __init__(self, key: str) -> None:
        self.key = key
        """Of the object."""
        self._held = False
        self._going_on: dict[trio.lowlevel.Task, None] = {}
        self._beginning: dict[trio.lowlevel.Task, None] = {}

    async def acquire(self, begins: bool, may_begin: MayBegin, line: InLine | None = None) -> None:
        """Take the lock. ``begins``: the operation has changed nothing yet and also waits for ``may_begin``; see
        ``look_again``. ``line`` counts the operation while it waits."""
        if not self._held and (not begins or (not self._beginning and may_begin(self))):
            self._held = True
            return
        waiting = self._beginning if begins else self._going_on
        task = trio.lowlevel.current_task()
        waiting[task] = None

        def abort(_: Any) -> trio.lowlevel.Abort:
            del waiting[task]
            return trio.lowlevel.Abort.SUCCEEDED

        if line is not None:
            line.number += 1
        try:
            await trio.lowlevel.wait_task_rescheduled(abort)
        finally:
            if line is not None:
                line.number -= 1

    def release(self, may_begin: MayBegin) -> None:
        """Give the lock to the next one, which goes on in the next turn of the loop."""
        assert self._held
        self._held = False
        self.look_again(may_begin)

    def look_again(self, may_begin: MayBegin) -> None:
        """Check waiters again: Check waiters again: ``may_begin`` may have become true."""
        if self._held:
            return
        if self._going_on:
            waiting = self._going_on
        elif self._beginning and may_begin(self):
            waiting = self._beginning
        else:
            return
        self._held = True
        task = next(iter(waiting))
        del waiting[task]
        trio.lowlevel.reschedule(task)
