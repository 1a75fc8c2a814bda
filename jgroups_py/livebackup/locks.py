"""ObjectLock: who may change an object of the live node.

Operations that have changed something go first: others wait for what they hold up. An operation that has changed nothing yet holds up nobody, so
it may be let wait while the backups are behind (``pace.py``). Nobody waits for that with an object in its hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

MayBegin = Callable[["ObjectLock"], bool]


class ObjectLock:
    """A lock that is handed over in the order in which it is asked for. Taking a free one is no checkpoint."""

    __slots__ = ("_beginning", "_going_on", "_held", "key")

    def __init__(self, key: str) -> None:
        self.key = key
        """Of the object."""
        self._held = False
        self._going_on: dict[trio.lowlevel.Task, None] = {}
        self._beginning: dict[trio.lowlevel.Task, None] = {}

    async def acquire(self, begins: bool, may_begin: MayBegin) -> None:
        """``begins``: the operation has changed nothing yet. It waits for ``may_begin`` as well; see ``look_again``."""
        if not self._held and (not begins or (not self._beginning and may_begin(self))):
            self._held = True
            return
        waiting = self._beginning if begins else self._going_on
        task = trio.lowlevel.current_task()
        waiting[task] = None

        def abort(_: Any) -> trio.lowlevel.Abort:
            del waiting[task]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def release(self, may_begin: MayBegin) -> None:
        """The next one has it, and goes on in the next turn of the loop."""
        assert self._held
        self._held = False
        self.look_again(may_begin)

    def look_again(self, may_begin: MayBegin) -> None:
        """``may_begin`` may have become true."""
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
