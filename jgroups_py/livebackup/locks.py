"""ObjectLock: the right to change an object of the live node.

Operations that have changed something go first, because others wait for them. An operation without changes does not
hold up others, so it may wait while the backups are behind (``pace.py``). An operation that has changed an object does
not wait for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from jgroups_py.livebackup.crew import Job
from jgroups_py.livebackup.waiting import Change, WaitingChange, make_changes

MayBegin = Callable[["ObjectLock"], bool]


class Locks:
    """The common state of all locks of a live node in one term."""

    __slots__ = ("in_line", "may_begin", "start")

    def __init__(self, may_begin: MayBegin, start: Callable[[Job], None]) -> None:
        """``may_begin``: may an operation make its first change at the object of this lock? ``start`` runs a job in a
        task of the term, before all jobs that wait."""
        self.may_begin, self.start = may_begin, start
        self.in_line = 0
        """Number of changes that wait for an object."""


class ObjectLock:
    """A fair lock. Making a change of an object that is free is no checkpoint.

    ``LiveWork.change`` takes and frees it as ``take`` and ``free`` do, without their calls."""

    __slots__ = ("beginning", "going_on", "is_held", "key")

    def __init__(self, key: str) -> None:
        self.key = key
        """The object's key."""
        self.is_held = False
        self.going_on: dict[WaitingChange, None] = {}
        """Waiting changes of operations that have changed something. For reading only, as ``beginning``."""
        self.beginning: dict[WaitingChange, None] = {}

    async def change(self, begins: bool, change: Change, locks: Locks) -> Any:
        """Make a change when the object is free; return its value. ``begins``: as for ``take``."""
        if not self.take(begins, locks):
            return await self.change_in_line(begins, change, locks)
        try:
            return await change()
        finally:
            self.free(locks)

    def take(self, begins: bool, locks: Locks) -> bool:
        """Take the object for a change, if it is free. The caller calls ``free`` after it. ``begins``: the operation has
        changed nothing yet and also waits for ``may_begin``; see ``look_again``."""
        if self.is_held or (begins and (self.beginning or not locks.may_begin(self))):
            return False
        self.is_held = True
        return True

    def free(self, locks: Locks) -> None:
        """The change is made. Let others make theirs."""
        self.is_held = False
        if self.going_on or self.beginning:
            self.look_again(locks)

    async def change_in_line(self, begins: bool, change: Change, locks: Locks) -> Any:
        """Wait for the object, which another task takes for this change; return the value of the change."""
        line = self.beginning if begins else self.going_on
        waiting = WaitingChange(change)
        line[waiting] = None
        locks.in_line += 1
        return await waiting.result(partial(self._leave, waiting, line, locks))

    def _leave(self, waiting: WaitingChange, line: dict[WaitingChange, None], locks: Locks) -> None:
        del line[waiting]
        locks.in_line -= 1

    def look_again(self, locks: Locks) -> None:
        """Check the waiting changes again: ``may_begin`` may have become true."""
        if not self.is_held and self._line(locks) is not None:
            self.is_held = True
            locks.start(partial(make_changes, self._those_in_line(locks)))

    def _line(self, locks: Locks) -> dict[WaitingChange, None] | None:
        """Return the line whose first change is next. None: no change may begin."""
        if self.going_on:
            return self.going_on
        return self.beginning if self.beginning and locks.may_begin(self) else None

    def _those_in_line(self, locks: Locks) -> Iterator[WaitingChange]:
        """Take one change after the other out of its line, until none may begin. Then the object is free."""
        while (line := self._line(locks)) is not None:
            following = next(iter(line))
            self._leave(following, line, locks)
            yield following
        self.is_held = False
