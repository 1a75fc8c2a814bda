"""Pace: how far the live node may run ahead of its backups with one object.

Both sides change an object one change after the other. When a backup is a little slower, operations gather there, as many as clients wait for that
object, and each new one is behind by all of them. So the object rests on the live node until the backup has come nearer; the operations wait for their first
change, where they hold up nobody. Two operations may always be on their way, so that the backup has the next one when it has made one: an object whose
changes take longer than ``lag_aim`` is not slowed by it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from jgroups_py.livebackup.locks import ObjectLock

ALWAYS: Final = 2
"""Operations of an object that may be on their way, whatever their age."""


class Pace:
    """Of one live node in one term."""

    def __init__(
        self, aim: float, is_settled: Callable[[int], bool], clock: Callable[[], float]
    ) -> None:
        """``aim``: seconds, 0 for no limit. ``is_settled``: whether every backup has confirmed that operation."""
        self._half = aim / 2
        """Half of it: what is held back at that age is confirmed before the whole."""
        self._is_settled, self._clock = is_settled, clock
        self._sent: dict[str, deque[tuple[int, float]]] = {}
        """Object -> operations that changed it first and are not settled, with the times at which they were sent."""
        self._order: deque[tuple[int, str]] = deque()
        """All of these, the oldest first."""
        self._held: dict[ObjectLock, None] = {}
        self.held = 0
        """How often an object began to be held back."""

    def __len__(self) -> int:
        """Operations that are not known to be settled."""
        return len(self._order)

    def sent(self, key: str, number: int) -> None:
        """Operation ``number``, which changed this object first, was sent to backups."""
        if not self._half:
            return
        self._forget_settled()
        self._order.append((number, key))
        self._sent.setdefault(key, deque()).append((number, self._clock()))

    def _forget_settled(self) -> None:
        """Those of objects that nobody asks for again, too."""
        while self._order and self._is_settled(self._order[0][0]):
            number, key = self._order.popleft()
            sent = self._sent.get(key)
            if sent and sent[0][0] == number:
                sent.popleft()
                if not sent:
                    del self._sent[key]

    def may_begin(self, lock: ObjectLock) -> bool:
        """Whether an operation may begin with this object. If not, ``let_go`` tells when to ask again."""
        sent = self._sent.get(lock.key)
        if sent is None:
            return True
        while sent and self._is_settled(sent[0][0]):
            sent.popleft()
        if not sent:
            del self._sent[lock.key]
        if len(sent) < ALWAYS or self._clock() - sent[0][1] <= self._half:
            return True
        self.held += lock not in self._held
        self._held[lock] = None
        return False

    def let_go(self) -> list[ObjectLock]:
        """Operations were confirmed: the locks of which to ask ``may_begin`` again."""
        locks, self._held = list(self._held), {}
        return locks
