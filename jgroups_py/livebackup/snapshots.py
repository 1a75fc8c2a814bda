"""Snapshots: their parts, the operations that a joiner keeps meanwhile, and their receivers. Without I/O.

A joiner asks the live node for all objects, or for those changed since an operation. It keeps arriving operations and
takes the objects when all parts are there. If it asks anew before that, it takes no answer to an older ask: the live
node does not count it as a backup until the newest one is answered. It drops a snapshot that it cannot take, and asks
again after ``RETRY_SECONDS``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from jgroups_py.livebackup.applier import OPERATIONS_MAX
from jgroups_py.livebackup.errors import LiveBackupError
from jgroups_py.livebackup.messages import Op, Part, Whole

TAIL_MAX: Final = OPERATIONS_MAX
"""The most operations that a joiner keeps while its snapshot comes. Beyond this it asks for another one."""
OBJECTS_MAX: Final = 10_000_000
"""The most objects of one snapshot."""
RETRY_SECONDS: Final = 5.0
"""Seconds between a snapshot that could not be taken and the next ask."""

Objects = list[tuple[str, int, Any]]
"""Key, counter and state of objects."""
Removed = list[tuple[str, int]]
"""Key and counter of removed objects."""
A = TypeVar("A", bound=Hashable)


class BadSnapshot(LiveBackupError):
    """A snapshot that cannot be taken: an unknown kind, a state that its class refuses, missing parts."""


class ArrivedSnapshot(NamedTuple):
    """A complete snapshot. ``is_all``: it has all objects, not only the requested ones."""

    objects: Objects
    removed: Removed
    is_all: bool


class Arrival:
    """The parts that a joiner has received, and the operations after them."""

    def __init__(self, *, tail_max: int = TAIL_MAX, objects_max: int = OBJECTS_MAX) -> None:
        self._tail: deque[Op] = deque()
        self._objects: Objects = []
        self._removed: Removed = []
        self._ask = self._since = 0
        self._tail_max, self._objects_max = tail_max, objects_max

    @property
    def ask(self) -> int:
        """Return the number of the newest ask."""
        return self._ask

    def begin(self, ask: int, since: int = 0) -> None:
        """Begin a new ask. ``since``: only for objects changed by this operation or a later one; 0: for all."""
        self._ask, self._since = ask, since
        self.clear()

    def clear(self) -> None:
        self._tail.clear()
        self._objects, self._removed = [], []

    def keep(self, op: Op) -> bool:
        """Keep an operation. False: there are too many."""
        if len(self._tail) >= self._tail_max:
            return False
        self._tail.append(op)
        return True

    def tail(self, last: int) -> list[Op]:
        """Remove and return the operations after number ``last``."""
        found = [op for op in self._tail if op.number > last]
        self._tail.clear()
        return found

    def part(self, part: Part) -> None:
        """Take a part. BadSnapshot: there are too many objects."""
        if part.snapshot != self._ask:
            return
        self._objects += part.objects
        self._removed += part.removed
        if len(self._objects) + len(self._removed) > self._objects_max:
            self._objects, self._removed = [], []
            raise BadSnapshot(f"more than {self._objects_max} objects came")

    def whole(self, whole: Whole) -> ArrivedSnapshot | None:
        """Take the end of a snapshot and return it. None: the snapshot answers an older ask. BadSnapshot: parts are
        missing."""
        if whole.snapshot != self._ask:
            return None
        found = ArrivedSnapshot(self._objects, self._removed, not whole.since)
        self._objects, self._removed = [], []
        number = len(found.objects) + len(found.removed)
        if number != whole.objects:
            raise BadSnapshot(f"{number} objects came, {whole.objects} were said")
        if whole.since not in (0, self._since):
            raise BadSnapshot(f"objects since {whole.since} came, and not since {self._since}")
        return found


class SnapshotAsk(NamedTuple):
    """``number``: of the ask. ``since``: as in ``Join``."""

    number: int
    since: int


class Givings(Generic[A]):
    """The receivers of a live node's snapshots. A member that asks meanwhile gets one more, however often it asks."""

    def __init__(self) -> None:
        self._newest: dict[A, SnapshotAsk] = {}

    def asked(self, by: A, asked: SnapshotAsk) -> bool:
        """Take an ask. True: begin a snapshot now."""
        begins = by not in self._newest
        self._newest[by] = asked
        return begins

    def newest(self, by: A) -> SnapshotAsk:
        """Return the ask that the next snapshot answers."""
        return self._newest[by]

    def ended(self, to: A, asked: SnapshotAsk) -> bool:
        """End a snapshot, sent or given up. True: begin another snapshot."""
        if self._newest[to] != asked:
            return True
        del self._newest[to]
        return False
