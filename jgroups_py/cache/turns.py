"""Turns: callers of the same paths read and write one after the other. A turn is no lock; it saves work.

A call that reads and then writes may find that another call was first; then it runs again. With many callers nearly all
work would be wasted. So callers queue. At one member (``Turns``): first come, first served. Between members: a
replication has a ``Line`` of callers that lost a race. The write still compares the values read. A caller that has
waited too long may therefore go on without its turn, and a difference between members' lines costs work, not data.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import trio

from jgroups_py.cache.locks import LockRequest, PathLocks, Scope
from jgroups_py.cache.nested import refuse_nested

Place = tuple[bytes, int]
"""A member, and the number of its batch that lost a race."""
LINE_MAX = 10_000
"""The most places in a line. Beyond that a loser of a race gets none, which is counted."""


class Turn:
    """A caller's turn here. ``lost``: it lost the previous race. ``number``: its batch that may have a place in the
    line; 0: none."""

    __slots__ = ("held", "lost", "number", "scopes", "turns")

    def __init__(self, turns: Turns, scopes: Sequence[Scope], held: LockRequest) -> None:
        self.turns = turns
        self.scopes = scopes
        self.held = held
        self.lost = False
        self.number = 0

    def covers(self, scopes: Collection[Scope]) -> bool:
        """Does the turn cover all of these?"""
        return all(any(_covers(mine, scope) for mine in self.scopes) for scope in scopes)

    def meets(self, scope: Scope) -> bool:
        """Do the turn and ``scope`` overlap?"""
        return any(_meet(mine, scope) for mine in self.scopes)


class Turns:
    """The callers of one member, in the order of their arrival."""

    def __init__(self) -> None:
        self._locks = PathLocks()

    def __len__(self) -> int:
        """Count the paths on which a caller has the turn or waits for it."""
        return len(self._locks)

    @property
    def waits(self) -> int:
        """Count the turns that had to wait."""
        return self._locks.waits

    async def take(self, scopes: Sequence[Scope], timeout: float) -> Turn:
        """Wait for a turn. LockTimeout: others took more than ``timeout`` seconds. CacheRefused: a batch around this
        call has the turn. Nothing is held then."""
        refuse_nested(self, scopes)
        wanted = [Scope(scope.path, deep=scope.deep, write=True) for scope in scopes]
        return Turn(self, wanted, await self._locks.acquire(wanted, timeout))

    def end(self, turn: Turn) -> None:
        """End a turn; the next caller has it."""
        self._locks.release(turn.held)


class Line:
    """Callers that lost a race, in that order."""

    def __init__(self) -> None:
        self._places: dict[Place, tuple[Scope, ...]] = {}
        self.moved = trio.Event()
        self.full = 0
        """Callers that got no place."""

    def __len__(self) -> int:
        return len(self._places)

    def join(self, place: Place, scopes: tuple[Scope, ...]) -> None:
        """Add a place at the end, unless it is in the line already."""
        if place in self._places:
            return
        if len(self._places) >= LINE_MAX:
            self.full += 1
        else:
            self._places[place] = scopes

    def leave(self, place: Place) -> None:
        """Remove a place: its caller is done or has given up."""
        if self._places.pop(place, None) is not None:
            self._tell()

    def keep(self, members: Collection[bytes]) -> None:
        """Remove the places of members that are gone."""
        for place in [place for place in self._places if place[0] not in members]:
            self.leave(place)

    def clear(self) -> None:
        """Empty the line, after a merge."""
        self._places.clear()
        self._tell()

    def ahead(self, place: Place | None, scopes: Sequence[Scope]) -> list[Place]:
        """Return the places before ``place`` that want some of ``scopes``. ``place`` None: all places in the line count."""
        if place is not None and place not in self._places:
            return []
        found = []
        for other, wanted in self._places.items():
            if other == place:
                break
            if any(_meet(one, two) for one in scopes for two in wanted):
                found.append(other)
        return found

    def _tell(self) -> None:
        self.moved.set()
        self.moved = trio.Event()


def _meet(one: Scope, two: Scope) -> bool:
    return (
        one.path == two.path
        or (one.deep and two.path.is_within(one.path))
        or (two.deep and one.path.is_within(two.path))
    )


def _covers(wide: Scope, scope: Scope) -> bool:
    if wide.deep:
        return scope.path.is_within(wide.path)
    return wide.path == scope.path and not scope.deep
