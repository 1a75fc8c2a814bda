"""Turns: who reads and writes the same paths next. Waiting for it makes no promise; it saves work.

A call that writes what it worked out from what it read may find that somebody else was first, and then
it runs again. With many callers nearly all work is done in vain. So callers queue: here (``Turns``),
first come, first served; and between members, where a replication has a ``Line`` of those that lost a
race. The values read are compared all the same when it is written, so a caller that has waited for too
long goes on without its turn, and a line that differs from another member's costs work, not data.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import trio

from jgroups_py.cache.locks import LockRequest, PathLocks, Scope
from jgroups_py.cache.nested import refuse_nested

Place = tuple[bytes, int]
"""A member, and the number of its batch that lost a race."""
LINE_MAX = 10_000
"""Places in a line. A caller that loses a race then gets none, which is counted."""


class Turn:
    """A caller's turn here. ``lost``: the race before. ``number``: of its batch that may have a place in the line; 0:
    none has."""

    __slots__ = ("held", "lost", "number", "scopes", "turns")

    def __init__(self, turns: Turns, scopes: Sequence[Scope], held: LockRequest) -> None:
        self.turns = turns
        self.scopes = scopes
        self.held = held
        self.lost = False
        self.number = 0

    def covers(self, scopes: Collection[Scope]) -> bool:
        """Is it for all of these?"""
        return all(any(_covers(mine, scope) for mine in self.scopes) for scope in scopes)

    def meets(self, scope: Scope) -> bool:
        """Is some of this a part of that, or the other way round?"""
        return any(_meet(mine, scope) for mine in self.scopes)


class Turns:
    """The callers of one member, in the order in which they came."""

    def __init__(self) -> None:
        self._locks = PathLocks()

    def __len__(self) -> int:
        """Paths that somebody waits for, or has the turn of."""
        return len(self._locks)

    @property
    def waits(self) -> int:
        """Turns that had to be waited for."""
        return self._locks.waits

    async def take(self, scopes: Sequence[Scope], timeout: float) -> Turn:
        """LockTimeout: others took more than ``timeout`` seconds; CacheRefused: this very caller has it, in a batch
        around this call. Nothing is held."""
        refuse_nested(self, scopes)
        wanted = [Scope(scope.path, deep=scope.deep, write=True) for scope in scopes]
        return Turn(self, wanted, await self._locks.acquire(wanted, timeout))

    def end(self, turn: Turn) -> None:
        """The next one's."""
        self._locks.release(turn.held)


class Line:
    """Those that lost a race, in the order in which they lost it."""

    def __init__(self) -> None:
        self._places: dict[Place, tuple[Scope, ...]] = {}
        self.moved = trio.Event()
        self.full = 0
        """Times that there was no place."""

    def __len__(self) -> int:
        return len(self._places)

    def join(self, place: Place, scopes: tuple[Scope, ...]) -> None:
        """At the end, unless it is in the line already."""
        if place in self._places:
            return
        if len(self._places) >= LINE_MAX:
            self.full += 1
        else:
            self._places[place] = scopes

    def leave(self, place: Place) -> None:
        """Done, or given up."""
        if self._places.pop(place, None) is not None:
            self._tell()

    def keep(self, members: Collection[bytes]) -> None:
        """Those who are gone wait for nothing."""
        for place in [place for place in self._places if place[0] not in members]:
            self.leave(place)

    def clear(self) -> None:
        """Two lines became one group's."""
        self._places.clear()
        self._tell()

    def ahead(self, place: Place | None, scopes: Sequence[Scope]) -> list[Place]:
        """The caller that goes first. None: of somebody who is not in the line; nobody is, if it lost its place."""
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
