"""Changed: the last operation that changed each object, and removed objects. The table of one live node in one term,
without I/O.

A removal is a numbered change, and the object's counter stays. A name that is used again goes on counting, so a late
backup takes no new change for an old one. When every backup has confirmed the removal, no older change is on its way.
The live node then forgets the counter and lists the object in its next operation. A backup forgets the counter with
that operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from jgroups_py.livebackup.applier import RECORD_MAX
from jgroups_py.livebackup.tickets import Counters

FORGOTTEN_MAX: Final = RECORD_MAX
"""The most objects forgotten with one operation, as many as one can remove."""


class Changed:
    """Uses the live node's counters, and removes the forgotten ones."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._by: dict[str, int] = {}
        """The newest operation that changed an object, by object."""
        self.removals: dict[str, tuple[int, int]] = {}
        """The number of an object's newest removal and the operation that made it, by object; the oldest operation
        first. For reading only."""
        self._newest_forgotten = 0
        """The newest operation with a forgotten removal."""

    def sent(self, op: int, record: Iterable[tuple[str, int]], removed: Mapping[str, int]) -> None:
        """Note an ended operation. ``removed``: numbers of removals, by object."""
        for key, number in record:
            if number <= self._counters[key]:  # otherwise the removal is forgotten already
                self._by[key] = op
        if removed:
            self._note_removed(op, removed)

    def _note_removed(self, op: int, removed: Mapping[str, int]) -> None:
        for key, number in removed.items():
            if number > self.removals.get(key, (0, 0))[0]:
                self.removals.pop(key, None)
                self.removals[key] = number, op

    def forgotten(
        self, is_settled: Callable[[int], bool], begun_after: int | None = None
    ) -> list[str]:
        """Forget removed objects that no backup can need, and return their keys. ``is_settled``: has every backup
        confirmed this operation? ``begun_after``: of the operations that ``sent`` has not noted, the oldest one began after
        this one was sent; None: all are noted. Call it before ``sent`` notes the operation that carries the list.

        An operation that began before the removal was sent may carry an older change, so its end is awaited.
        """
        found: list[str] = []
        while self.removals and len(found) < FORGOTTEN_MAX:
            key, (number, op) = next(iter(self.removals.items()))
            if not is_settled(op) or (begun_after is not None and begun_after < op):
                break
            del self.removals[key]
            if self._counters[key] == number:  # otherwise the object exists again
                self._counters.forget(key)
                self._by.pop(key, None)
                self._newest_forgotten = max(self._newest_forgotten, op)
                found.append(key)
        return found

    def since(self, op: int) -> int:
        """Return the ``since`` of a snapshot for a backup that needs changes from ``op`` on. 0: everything, because a
        removal that it may need is forgotten."""
        return op if op > self._newest_forgotten else 0

    def is_changed(self, key: str, since: int) -> bool:
        """Has this operation or a later one changed the object?"""
        return self._by.get(key, 0) >= since

    def removed(self) -> list[tuple[str, int]]:
        """Return removed objects and their counters. Call it while no operation is running."""
        return [
            (key, number)
            for key, (number, _) in self.removals.items()
            if self._counters[key] == number
        ]
