"""UNICAST3, messages of unknown connections: a few of each sender wait until its connection begins. A table that knows no
protocol."""

from __future__ import annotations

from jgroups_py.stack.windows import compact
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch


class _Waiting:
    """The messages of one sender. ``asked_at``: when it was last asked for the beginning of its connection."""

    __slots__ = ("asked_at", "batches")

    def __init__(self) -> None:
        self.asked_at = -1e9
        self.batches: list[Batch] = []


class UnknownConnections:
    """``max_senders``: the most senders, ``max_cached``: the most batches of each."""

    def __init__(self, max_senders: int, max_cached: int) -> None:
        self._senders: dict[Address, _Waiting] = {}
        self._max_senders = max_senders
        self._max_cached = max_cached

    def __len__(self) -> int:
        """Count the senders."""
        return len(self._senders)

    def make_room(self, src: Address) -> bool:
        """Make room for ``src``. True: the messages of another sender are forgotten."""
        senders = self._senders
        if src in senders or len(senders) < self._max_senders:
            return False
        del senders[next(iter(senders))]
        return True

    def keep(self, src: Address, batch: Batch, room: int) -> bool:
        """Keep a batch of ``src``, if all its batches have no more than ``room`` bytes. Return whether it is kept."""
        waiting = self._senders.setdefault(src, _Waiting())
        kept = sum([other.length for other in waiting.batches])
        if len(waiting.batches) >= self._max_cached or kept + batch.length > room:
            return False
        waiting.batches.append(compact(batch))
        return True

    def may_ask(self, src: Address, now: float, interval: float) -> bool:
        """Return whether ``src``, which waits here, may be asked now: once in an ``interval``."""
        waiting = self._senders[src]
        if now < waiting.asked_at + interval:
            return False
        waiting.asked_at = now
        return True

    def take(self, src: Address) -> list[Batch]:
        """Return the batches of ``src``, and forget them."""
        waiting = self._senders.pop(src, None)
        return [] if waiting is None else waiting.batches

    def forget_idle(self, idle: float) -> None:
        """Forget senders that were last asked at ``idle`` or before."""
        self._senders = {s: w for s, w in self._senders.items() if w.asked_at > idle}

    def check(self) -> None:
        assert len(self._senders) <= self._max_senders
        assert all(len(w.batches) <= self._max_cached for w in self._senders.values())
