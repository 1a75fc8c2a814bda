"""Changed: which operation changed each object last, and which objects were removed. Of one live node in one term, without I/O.

A removal is a change with a number, and the counter of the object stays: a name that is used again goes on counting, so a backup that is behind
takes no new change for an old one. When every backup has confirmed the removal, nobody can have an older change of the object before
it. Then the live node forgets the counter and says so in the next operation that it sends. A backup forgets it when it takes that operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from jgroups_py.livebackup.applier import RECORD_MAX
from jgroups_py.livebackup.tickets import Counters

FORGOTTEN_MAX: Final = RECORD_MAX
"""Objects that are forgotten with one operation. It can remove no more."""


class Changed:
    """Knows the counters of the live node, and takes those out that are forgotten."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._by: dict[str, int] = {}
        """Object -> the newest operation that changed it."""
        self._removed: dict[str, tuple[int, int]] = {}
        """Object -> number of its newest removal, and the operation that made it; the oldest operation first."""
        self._newest_forgotten = 0
        """The newest operation with a removal that is forgotten."""
        self._under_way: dict[int, int] = {}
        """Operations that run, the oldest first -> the newest operation that had been sent when it began."""
        self._begun = 0

    def begins(self, last: int) -> int:
        """An operation begins; ``last`` is the newest one that was sent. Returns what ``ended`` is to be given."""
        self._begun += 1
        self._under_way[self._begun] = last
        return self._begun

    def ended(self, begun: int) -> None:
        """It is noted by ``sent``, or given up."""
        del self._under_way[begun]

    def sent(self, op: int, record: Iterable[tuple[str, int]], removed: Mapping[str, int]) -> None:
        """An operation has ended. ``removed``: object -> number of its removal."""
        for key, number in record:
            if number <= self._counters[key]:  # else it is forgotten already
                self._by[key] = op
        for key, number in removed.items():
            if number > self._removed.get(key, (0, 0))[0]:
                self._removed.pop(key, None)
                self._removed[key] = number, op

    def forgotten(self, is_settled: Callable[[int], bool]) -> list[str]:
        """Forget the objects that nobody can ask for any more. ``is_settled``: every backup has confirmed this operation. To be called before the
        operation that takes the list along is itself noted by ``sent``.

        An operation that had begun before the removal was sent may have made an older change and be under way: it is waited for.
        """
        found: list[str] = []
        oldest = next(iter(self._under_way.values()), None)
        while self._removed and len(found) < FORGOTTEN_MAX:
            key, (number, op) = next(iter(self._removed.items()))
            if not is_settled(op) or (oldest is not None and oldest < op):
                break
            del self._removed[key]
            if self._counters[key] == number:  # else it is there again
                self._counters.forget(key)
                self._by.pop(key, None)
                self._newest_forgotten = max(self._newest_forgotten, op)
                found.append(key)
        return found

    def since(self, op: int) -> int:
        """What is to be sent to a backup that needs what ``op`` or a later operation has changed: that, or 0 for everything, because a removal
        that it may need is forgotten."""
        return op if op > self._newest_forgotten else 0

    def is_changed(self, key: str, since: int) -> bool:
        """Whether this operation or a later one has changed the object."""
        return self._by.get(key, 0) >= since

    def removed(self) -> list[tuple[str, int]]:
        """Objects that are not there and whose counters count, with these. No operation is under way."""
        return [
            (key, number)
            for key, (number, _) in self._removed.items()
            if self._counters[key] == number
        ]
