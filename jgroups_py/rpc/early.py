"""EarlyCalls: calls of members whose view has not come yet, and of strangers. No I/O, no clock, no tasks.

A joiner may call before this member has the view with it. Its call waits for that view. A stranger's call waits for
nothing, and is turned away when its time is over or others need its place. So no method runs for a caller that is not
in the view.

    take(batch, now)      keeps a call; returns the calls that have no place any more
    view(members)         returns the calls whose callers are in the view now, in their order
    expire(now)           returns the calls whose time is over
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container

from jgroups_py.stack.windows import compact
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch


class EarlyCalls:
    """Early calls: at most ``count_max`` batches of ``bytes_max`` bytes together, each for ``wait`` seconds."""

    def __init__(self, count_max: int, bytes_max: int, wait: float) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._wait = wait
        self._calls: deque[tuple[float, Batch]] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def deadline(self) -> float | None:
        """Return when the oldest call's time is over. None: no call waits."""
        return self._calls[0][0] if self._calls else None

    def take(self, batch: Batch, now: float) -> list[Batch]:
        self._calls.append((now + self._wait, compact(batch)))
        self.bytes += batch.length
        pushed_out = []
        while len(self._calls) > self._count_max or self.bytes > self._bytes_max:
            pushed_out.append(self._pop())
        return pushed_out

    def view(self, members: Container[Address]) -> list[Batch]:
        called = [batch for _, batch in self._calls if batch.src in members]
        if called:
            self._calls = deque(call for call in self._calls if call[1].src not in members)
            self.bytes -= sum(batch.length for batch in called)
        return called

    def expire(self, now: float) -> list[Batch]:
        over = []
        while self._calls and self._calls[0][0] <= now:
            over.append(self._pop())
        return over

    def _pop(self) -> Batch:
        _, batch = self._calls.popleft()
        self.bytes -= batch.length
        return batch
