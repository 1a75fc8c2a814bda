"""Calls that read the nodes they write run again until no other member was first. Their callers queue (turns.py).

This part owns the turns of this member. It gets the chain of interceptors as a function. Of replication it uses only
the line between members.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from jgroups_py.cache.call import CacheCall
from jgroups_py.cache.changes import Modification
from jgroups_py.cache.container import Container
from jgroups_py.cache.locks import Scope
from jgroups_py.cache.options import Options
from jgroups_py.cache.replication import MemberReplication
from jgroups_py.cache.steps import Invocation
from jgroups_py.cache.turns import Turn, Turns
from jgroups_py.errors import BatchConflict

REWRITES_MAX: Final = 100
"""The most times that a call is run again because another member was first."""


class Rewriter:
    """``handle``: the chain. ``lock_timeout``: seconds that a caller waits for its turn, unless its options say otherwise."""

    def __init__(
        self,
        handle: Callable[[CacheCall], Awaitable[None]],
        invocation: Invocation,
        replication: MemberReplication,
        lock_timeout: float,
    ) -> None:
        self._handle = handle
        self._invocation = invocation
        self._replication = replication
        self._lock_timeout = lock_timeout
        self._turns = Turns()

    def __len__(self) -> int:
        """Count the paths on which a caller has the turn or waits for it."""
        return len(self._turns)

    @property
    def waits(self) -> int:
        """Count the turns that had to wait."""
        return self._turns.waits

    async def run(
        self,
        name: str,
        scopes: Sequence[Scope],
        body: Callable[[CacheCall, Container], Sequence[Modification]],
        options: Options,
        *,
        queue: bool = True,
    ) -> CacheCall:
        """Run the call until no other member was first, and return it. ``queue`` False: it takes a turn only when it has lost a race.

        Raises:
            BatchConflict: others were first ``REWRITES_MAX`` times; nothing was changed.
        """
        turn = await self.take_turn(options, scopes) if queue else None
        try:
            for _ in range(REWRITES_MAX):
                if turn is not None:
                    await self.come_up(turn)
                call = CacheCall(name, scopes, body, options, depends=scopes, turn=turn)
                try:
                    await self._handle(call)
                except BatchConflict as error:
                    conflict = error
                    turn = turn or await self.take_turn(options, scopes)
                    turn.lost = True
                else:
                    return call
            raise BatchConflict(f"{conflict}, {REWRITES_MAX} times")
        finally:
            if turn is not None:
                self.end_turn(turn)

    async def take_turn(self, options: Options, scopes: Sequence[Scope]) -> Turn:
        """Wait for the turn on these paths, here."""
        return await self._turns.take(scopes, options.lock_timeout or self._lock_timeout)

    async def come_up(self, turn: Turn) -> None:
        """Wait until it is this caller's turn at all members."""
        with self._invocation.under_way():
            await self._replication.come_up(turn)

    def end_turn(self, turn: Turn) -> None:
        """Let the next caller have its turn."""
        self._replication.step_back(turn)
        self._turns.end(turn)
