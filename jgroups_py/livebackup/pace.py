"""ObjectPace: limits how far the live node runs ahead of its backups with one object.

Both sides change an object one change after the other. At a slightly slower backup the operations of all clients that
wait for an object pile up, and each new operation lags behind all of them. So the number of an object's operations on
their way is limited: to those that the backups confirm in half of ``lag_aim`` at their measured rate. The others wait on
the live node before their first change, where they do not hold up any operation. While the oldest one is older than that
half, no more are sent.

The shortest round trip seen is added to that half, so that a distant network or long changes are no reason to wait. Two
may always be on their way, so that a backup never runs dry.

Most objects have one operation on its way. Only its number and its time are noted, until another one is sent meanwhile.
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
"""Operations that may be on their way before the rate is measured. Each measurement at most doubles the number."""
KEPT: Final = 1.0
"""Seconds for which the rate of an idle object is remembered."""
NEWEST_MIN: Final = 64
"""The least number of objects with noted newest operations beyond which settled ones are looked for and forgotten."""
SHORTEST: Final = 1e-6
"""The least assumed seconds between two confirmations."""


class _Ahead:
    """Unsettled operations that changed this object first."""

    __slots__ = ("interval", "last", "most", "sent")

    def __init__(self) -> None:
        self.sent: deque[tuple[int, float]] = deque()
        """Operations by number, and when each was sent; the oldest first."""
        self.most = FIRST
        self.interval = 0.0
        """Smoothed seconds between two confirmations while some are open. 0: unknown."""
        self.last = 0.0
        """The time of the last confirmation."""


class ObjectPace:
    """The pace of one live node in one term."""

    def __init__(
        self, aim: float, is_open: Callable[[int], bool], clock: Callable[[], float]
    ) -> None:
        """``aim``: seconds, 0 for no limit. ``is_open``: do clients still wait for a backup that must confirm that
        operation? An object without waiting operations is not held back; only the named limits of the lag hold
        for it."""
        self._half = aim / 2
        self._is_open, self._clock = is_open, clock
        self._newest: dict[str, tuple[int, float]] = {}
        """The newest operation that changed an object first, and when it was sent, by object."""
        self._newest_max = NEWEST_MIN
        self._ahead: dict[str, _Ahead] = {}
        """Objects with several operations on their way, now or a short time ago."""
        self._empty: dict[str, float] = {}
        """Idle objects, and since when they are idle; the longest first."""
        self._order: deque[tuple[int, str]] = deque()
        """Their operations with their objects, about the oldest first."""
        self._shortest: float | None = None
        """The shortest seconds from sending to the last confirmation. None: unknown."""
        self._held: dict[ObjectLock, None] = {}
        self.held = 0
        """Number of times that operations of an object began to be held back."""

    def __len__(self) -> int:
        """Count the operations of such objects that are not known to be settled."""
        return len(self._order)

    @property
    def objects(self) -> int:
        """Count the known objects."""
        return len(self._newest.keys() | self._ahead.keys())

    def sent(self, key: str, number: int, now: float) -> None:
        """Note that operation ``number``, which changed this object first, is sent now."""
        if not self._half:
            return
        newest = self._newest
        before = newest.get(key)
        newest[key] = one = (number, now)
        if before is not None and self._is_open(before[0]):
            self._note(key, before, one)
        elif len(newest) > self._newest_max:
            self._newest = {key: one for key, one in newest.items() if self._is_open(one[0])}
            self._newest_max = max(NEWEST_MIN, 2 * len(self._newest))

    def _note(self, key: str, *several: tuple[int, float]) -> None:
        """Note operations of an object that are on their way together."""
        ahead = self._ahead.get(key)
        if ahead is None:
            ahead = self._ahead[key] = _Ahead()
        for one in several:
            if not ahead.sent or ahead.sent[-1][0] < one[0]:  # otherwise it was noted before
                ahead.sent.append(one)
                self._order.append((one[0], key))
        self._empty.pop(key, None)

    def _forget(self, now: float) -> None:
        """Forget settled operations, and idle objects."""
        order, is_open, find, empty = self._order, self._is_open, self._ahead.get, self._empty
        newest: float | None = None
        while order and not is_open(order[0][0]):
            number, key = order.popleft()
            ahead = find(key)
            if ahead is None:
                continue
            sent = ahead.sent
            if sent and sent[0][0] == number:  # otherwise it was taken before
                newest = sent.popleft()[1]
                if not sent:
                    empty[key] = now
        if newest is not None:
            self._note_lag(now - newest)
        while empty:
            key, since = next(iter(empty.items()))
            if now - since <= KEPT:
                break
            del empty[key], self._ahead[key]

    def _take_settled(self, key: str, ahead: _Ahead, now: float) -> list[tuple[int, float]]:
        found = []
        while ahead.sent and not self._is_open(ahead.sent[0][0]):
            found.append(ahead.sent.popleft())
        if found:
            self._note_lag(now - found[-1][1])
            if not ahead.sent:
                self._empty[key] = now
        return found

    def _note_lag(self, lag: float) -> None:
        if self._shortest is None or lag < self._shortest:
            self._shortest = lag

    @property
    def _patience(self) -> float:
        """Return the largest age that the oldest operation may have."""
        return self._half + (self._shortest or 0.0)

    def backups_changed(self) -> None:
        """Measure anew: the backups have changed."""
        self._shortest = None

    def may_begin(self, lock: ObjectLock) -> bool:
        """May an operation begin with this object? If not, ``confirmed`` tells when to ask again."""
        ahead = self._ahead.get(lock.key)
        if ahead is None:
            return True
        number = len(ahead.sent)
        if number >= LEAST:
            self._take_settled(lock.key, ahead, self._clock())
            number = len(ahead.sent)
        if number < LEAST:
            return True
        if number < ahead.most and self._clock() - ahead.sent[0][1] <= self._patience:
            return True
        self.held += lock not in self._held
        self._held[lock] = None
        return False

    def confirmed(self) -> list[ObjectLock]:
        """Note confirmations. Return the locks for which to ask ``may_begin`` again."""
        if not self._order and not self._held and not self._empty:
            return []
        now = self._clock()
        locks, self._held = list(self._held), {}
        for lock in locks:
            ahead = self._ahead.get(lock.key)
            if ahead is not None:
                self._learn(ahead, self._take_settled(lock.key, ahead, now), now)
        self._forget(now)
        return locks

    def _learn(self, ahead: _Ahead, settled: list[tuple[int, float]], now: float) -> None:
        """Update the rate of a held object. Its operations are seen as soon as they are settled."""
        if not settled:
            return
        interval = (now - max(ahead.last, settled[0][1])) / len(settled)
        ahead.interval = (ahead.interval + interval) / 2 if ahead.interval else interval
        ahead.last = now
        fitting = self._patience / max(ahead.interval, SHORTEST)
        ahead.most = max(LEAST, min(ceil(fitting), 2 * ahead.most))
