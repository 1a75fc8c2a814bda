"""WaitingChange: a change that waits for its object, and is made by another task than its operation's.

While changes wait for an object, one task makes them, one right after the other. This is done on the live node
(``locks.py``) and on a backup (``backup.py``). Each operation goes on with its result in its own task. If each task
made its own change, the object would rest for a turn of the loop between two changes. Turns get longer with the load of
the node.

A change is cancelled with its operation, and only so.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextvars import copy_context
from typing import Any

import outcome
import trio

from jgroups_py.livebackup.crew import in_context

Change = Callable[[], Coroutine[Any, Any, Any]]


class WaitingChange:
    """One operation's change. It is created in the operation's task, which then waits for the result."""

    __slots__ = ("_change", "_context", "_scope", "_task", "is_gone")

    def __init__(self, change: Change) -> None:
        self._change = change
        self._task = trio.lowlevel.current_task()
        self._context = copy_context()
        self._scope: trio.CancelScope | None = None
        self.is_gone = False
        """The operation was cancelled before the change began."""

    async def result(self, leave: Callable[[], object]) -> Any:
        """Wait until the change is made; return its value or raise its error. ``leave`` is called if the operation is cancelled
        before the change begins."""

        def abort(_: Any) -> trio.lowlevel.Abort:
            if self._scope is not None:
                self._scope.cancel()
                return trio.lowlevel.Abort.FAILED  # ``make`` ends the wait
            self.is_gone = True
            leave()
            return trio.lowlevel.Abort.SUCCEEDED

        return await trio.lowlevel.wait_task_rescheduled(abort)

    async def make(self, scope: trio.CancelScope) -> bool:
        """Make the change and end the operation's wait. Return whether the change waited for something. ``scope`` is the
        caller's, and is cancelled with the operation."""
        if self.is_gone:
            return False
        self._scope = scope
        result: outcome.Outcome[Any]
        has_waited = False
        try:
            value, has_waited = await in_context(self._context, self._change())
            result = outcome.Value(value)
        except BaseException as error:  # also a cancellation, which is the operation's own
            result = outcome.Error(error)
        trio.lowlevel.reschedule(self._task, result)
        return has_waited


async def make_changes(changes: Iterator[WaitingChange]) -> None:
    """Make one change after the other, until none follows.

    After a change that did not wait, other tasks have their turn, and the change's operation goes on.
    """
    change = next(changes, None)
    while change is not None:
        with trio.CancelScope(shield=True) as scope:
            while change is not None and not scope.cancel_called:
                if not await change.make(scope):
                    await trio.lowlevel.cancel_shielded_checkpoint()
                change = next(changes, None)
