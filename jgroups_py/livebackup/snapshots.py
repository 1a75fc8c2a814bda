"""Snapshots: how they come in parts, what a joiner keeps meanwhile, and who is being given one. Without I/O.

A joiner asks the live node for all objects, or for those that an operation or a later one has changed. It keeps the operations that come, and takes the objects when all parts are there. It may ask anew before that.
Then it takes no answer to an older ask: the live node does not count it as a backup until the newest one is answered. A snapshot that it
cannot take is thrown away, and it asks again after ``RETRY_SECONDS``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from jgroups_py.livebackup.applier import OPERATIONS_MAX
from jgroups_py.livebackup.errors import LiveBackupError
from jgroups_py.livebackup.messages import Op, Part, Whole

TAIL_MAX: Final = OPERATIONS_MAX
"""Operations that a joiner keeps while its snapshot comes. Beyond this it asks for another one."""
OBJECTS_MAX: Final = 10_000_000
"""Objects of one snapshot."""
RETRY_SECONDS: Final = 5.0
"""Between a snapshot that could not be taken and the next question."""

Objects = list[tuple[str, int, Any]]
"""Key, counter and state of objects."""
Removed = list[tuple[str, int]]
"""Key and counter of objects that are not there any more."""
A = TypeVar("A", bound=Hashable)


class BadSnapshot(LiveBackupError):
    """A snapshot that cannot be taken: a kind that is not here, a state that its class refuses, parts that are missing."""


class ArrivedSnapshot(NamedTuple):
    """A snapshot. ``is_all``: of all objects, whatever was asked for."""

    objects: Objects
    removed: Removed
    is_all: bool


class Arrival:
    """Of a joiner: the parts that came, and the operations after them."""

    def __init__(self, *, tail_max: int = TAIL_MAX, objects_max: int = OBJECTS_MAX) -> None:
        self._tail: deque[Op] = deque()
        self._objects: Objects = []
        self._removed: Removed = []
        self._ask = self._since = 0
        self._tail_max, self._objects_max = tail_max, objects_max

    @property
    def ask(self) -> int:
        """The number of the newest ask."""
        return self._ask

    def begin(self, ask: int, since: int = 0) -> None:
        """The joiner asks anew. ``since``: for the objects that this operation or a later one has changed; 0: for all."""
        self._ask, self._since = ask, since
        self.clear()

    def clear(self) -> None:
        self._tail.clear()
        self._objects, self._removed = [], []

    def keep(self, op: Op) -> bool:
        """An operation came. False: it was not kept, because there are too many."""
        if len(self._tail) >= self._tail_max:
            return False
        self._tail.append(op)
        return True

    def tail(self, last: int) -> list[Op]:
        """The operations after number ``last``. They are not kept any more."""
        found = [op for op in self._tail if op.number > last]
        self._tail.clear()
        return found

    def part(self, part: Part) -> None:
        """Raises BadSnapshot for more objects than one may have."""
        if part.snapshot != self._ask:
            return
        self._objects += part.objects
        self._removed += part.removed
        if len(self._objects) + len(self._removed) > self._objects_max:
            self._objects, self._removed = [], []
            raise BadSnapshot(f"more than {self._objects_max} objects came")

    def whole(self, whole: Whole) -> ArrivedSnapshot | None:
        """All parts are here. None: they answer an older ask. Raises BadSnapshot when parts are missing."""
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
    """Of a live node: who is being given a snapshot. Who asks meanwhile gets one more, however often it asks."""

    def __init__(self) -> None:
        self._newest: dict[A, SnapshotAsk] = {}

    def asked(self, by: A, asked: SnapshotAsk) -> bool:
        """Returns whether to begin now."""
        begins = by not in self._newest
        self._newest[by] = asked
        return begins

    def newest(self, by: A) -> SnapshotAsk:
        """What the next snapshot answers."""
        return self._newest[by]

    def ended(self, to: A, asked: SnapshotAsk) -> bool:
        """A snapshot was sent or given up. Returns whether to begin once more."""
        if self._newest[to] != asked:
            return True
        del self._newest[to]
        return False
