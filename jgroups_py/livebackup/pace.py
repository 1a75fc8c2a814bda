"""ObjectPace: how far the live node may run ahead of its backups with one object.

Both sides change an object one change after the other. When a backup is a little slower, operations gather there, as many as clients wait for that
object, and each new one is behind by all of them. So only so many operations of an object are on their way at a time: as many as the
backups confirm in half of ``lag_aim``, at the rate that they show. The others wait on the live node for their first change, where they hold up nobody. While the
oldest one is older than that half, no more are sent, however fast the backups were before.

The shortest way there and back that was seen is added to that half: a far network or changes that take long are no reason to wait. Two may always be on their
way, so that a backup has the next one when it has made one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import ceil
from typing import Final

from jgroups_py.livebackup.locks import ObjectLock

LEAST: Final = 2
"""Operations of an object that may always be on their way."""
FIRST: Final = 4
"""So many may be, before the backups have shown how fast they are. Each time they show it, at most twice as many as before."""
KEPT: Final = 1.0
"""Seconds for which it is remembered how fast the backups were with an object of which nothing is on its way."""
SHORTEST: Final = 1e-6
"""Seconds between two confirmations, at least."""


class _Ahead:
    """Operations that changed an object first and are not settled."""

    __slots__ = ("interval", "last", "most", "sent")

    def __init__(self) -> None:
        self.sent: deque[tuple[int, float]] = deque()
        """Number, and when it was sent; the oldest first."""
        self.most = FIRST
        self.interval = 0.0
        """Seconds between two confirmations while there is something to confirm, smoothed. 0: not known."""
        self.last = 0.0
        """When the last one came."""


class ObjectPace:
    """Of one live node in one term."""

    def __init__(
        self, aim: float, is_settled: Callable[[int], bool], clock: Callable[[], float]
    ) -> None:
        """``aim``: seconds, 0 for no limit. ``is_settled``: whether every backup has confirmed that operation."""
        self._half = aim / 2
        self._is_settled, self._clock = is_settled, clock
        self._ahead: dict[str, _Ahead] = {}
        self._empty: dict[str, float] = {}
        """Objects of which nothing is on its way, and since when; the longest first."""
        self._order: deque[tuple[int, str]] = deque()
        """All operations with their objects, the oldest first."""
        self._shortest: float | None = None
        """Seconds from sending to the last confirmation, at least. None: not known."""
        self._held: dict[ObjectLock, None] = {}
        self.held = 0
        """How often an object began to be held back."""

    def __len__(self) -> int:
        """Operations that are not known to be settled."""
        return len(self._order)

    @property
    def objects(self) -> int:
        """Objects of which something is known."""
        return len(self._ahead)

    def sent(self, key: str, number: int) -> None:
        """Operation ``number``, which changed this object first, was sent to backups."""
        if not self._half:
            return
        now = self._clock()
        self._forget(now)
        self._order.append((number, key))
        ahead = self._ahead.get(key)
        if ahead is None:
            ahead = self._ahead[key] = _Ahead()
        ahead.sent.append((number, now))
        self._empty.pop(key, None)

    def _forget(self, now: float) -> None:
        """What is settled, also of objects that nobody asks for again; and such objects."""
        while self._order and self._is_settled(self._order[0][0]):
            number, key = self._order.popleft()
            ahead = self._ahead.get(key)
            if ahead is not None and ahead.sent and ahead.sent[0][0] == number:
                self._take_settled(key, ahead)
        while self._empty:
            key, since = next(iter(self._empty.items()))
            if now - since <= KEPT:
                break
            del self._empty[key], self._ahead[key]

    def _take_settled(self, key: str, ahead: _Ahead) -> list[tuple[int, float]]:
        found = []
        while ahead.sent and self._is_settled(ahead.sent[0][0]):
            found.append(ahead.sent.popleft())
        if found:
            lag = self._clock() - found[-1][1]
            self._shortest = lag if self._shortest is None else min(self._shortest, lag)
            if not ahead.sent:
                self._empty[key] = self._clock()
        return found

    @property
    def _patience(self) -> float:
        """How old the oldest operation may be."""
        return self._half + (self._shortest or 0.0)

    def backups_changed(self) -> None:
        """Other ways are to be measured."""
        self._shortest = None

    def may_begin(self, lock: ObjectLock) -> bool:
        """Whether an operation may begin with this object. If not, ``confirmed`` tells when to ask again."""
        ahead = self._ahead.get(lock.key)
        if ahead is None:
            return True
        self._take_settled(lock.key, ahead)
        number = len(ahead.sent)
        if number < LEAST:
            return True
        if number < ahead.most and self._clock() - ahead.sent[0][1] <= self._patience:
            return True
        self.held += lock not in self._held
        self._held[lock] = None
        return False

    def confirmed(self) -> list[ObjectLock]:
        """Operations were confirmed. Returns the locks of which to ask ``may_begin`` again."""
        locks, self._held = list(self._held), {}
        for lock in locks:
            ahead = self._ahead.get(lock.key)
            if ahead is not None:
                self._learn(ahead, self._take_settled(lock.key, ahead))
        return locks

    def _learn(self, ahead: _Ahead, settled: list[tuple[int, float]]) -> None:
        """Of an object that was held back: so its operations are seen as soon as they are settled."""
        if not settled:
            return
        now = self._clock()
        interval = (now - max(ahead.last, settled[0][1])) / len(settled)
        ahead.interval = (ahead.interval + interval) / 2 if ahead.interval else interval
        ahead.last = now
        fitting = self._patience / max(ahead.interval, SHORTEST)
        ahead.most = max(LEAST, min(ceil(fitting), 2 * ahead.most))
