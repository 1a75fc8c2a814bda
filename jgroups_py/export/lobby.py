"""Lobby: the clients that have not proved yet that they know the token.

Anybody may connect, so they have few places, in all and for each host. A client keeps its place for a
moment, which is enough to prove itself. After that it is disconnected when another client needs the place. Few may wait
for a place. The newest of them is let in first. So silent connections keep nobody out for long, and a hundred honest
clients that come at once pass one after the other.

Limits: a host that connects much faster than places become free keeps out clients of the same host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio

from jgroups_py.export.limits import ExportLimits
from jgroups_py.protocols.transport.crowd import goes


@dataclass(eq=False)
class _Guest:
    """A client in the lobby, or one that waits for a place. ``scope`` is cancelled to disconnect it."""

    host: str
    since: float = 0.0
    """The time when the client got its place."""
    admitted: trio.Event = field(default_factory=trio.Event)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)


class Lobby:
    """See the module's docstring. ``sent_away(host)`` is called for each client that is disconnected."""

    def __init__(self, limits: ExportLimits, sent_away: Callable[[str], None]) -> None:
        self._limits = limits
        self._sent_away = sent_away
        self._guests: dict[_Guest, None] = {}
        self._waiting: dict[_Guest, None] = {}

    def __len__(self) -> int:
        """Clients that have a place."""
        return len(self._guests)

    async def visit(self, host: str, greeting: Callable[[], Awaitable[bool]]) -> bool:
        """Run ``greeting`` as soon as there is a place, and return its value. Return False if the client had to go."""
        guest, passed = _Guest(host), False
        with guest.scope:
            try:
                if not self._take_place(guest):
                    await self._wait(guest)
                passed = await greeting()
            finally:
                self._guests.pop(guest, None)
                self._waiting.pop(guest, None)
                self._let_in()
        return passed

    def _take_place(self, guest: _Guest) -> bool:
        first = self._first(guest)
        if first is not None:
            if trio.current_time() < first.since + self._limits.lobby_patience:
                return False
            del self._guests[first]
            self._send_away(first)
        guest.since = trio.current_time()
        self._guests[guest] = None
        return True

    def _first(self, guest: _Guest) -> _Guest | None:
        """Return the client that goes first for ``guest``. None: there is a place."""
        limits = self._limits
        return goes(list(self._guests), guest.host, limits.lobby_max, limits.lobby_per_host)

    def _send_away(self, guest: _Guest) -> None:
        guest.scope.cancel()
        self._sent_away(guest.host)

    async def _wait(self, guest: _Guest) -> None:
        """Return when ``guest`` has a place. The one that has waited longest goes if too many wait."""
        self._waiting[guest] = None
        if len(self._waiting) > self._limits.lobby_waiting_max:
            longest = next(iter(self._waiting))
            del self._waiting[longest]
            self._send_away(longest)
        while not guest.admitted.is_set():
            first = self._first(guest)
            with trio.CancelScope() as scope:
                if first is not None:
                    scope.deadline = first.since + self._limits.lobby_patience
                await guest.admitted.wait()
            self._let_in()

    def _let_in(self) -> None:
        """Give places to those that wait, the newest first."""
        for guest in reversed(list(self._waiting)):
            if self._take_place(guest):
                del self._waiting[guest]
                guest.admitted.set()
