"""Multicasts of the relay for other sites: each origin's numbers in order, once, or a gap that is said."""

from __future__ import annotations

from collections.abc import Iterable

from jgroups_py.protocols.relay.state import RelayState, fresh_from
from jgroups_py.protocols.relay.wire import Gap, Lack


class Incoming:
    """The state of each origin is in ``state``. Missing numbers are here."""

    def __init__(self, state: RelayState) -> None:
        self.came_back = False
        """The origin of the last run had been forgotten and is known again."""
        self._state = state
        self._lacking: dict[tuple[str, bytes], int] = {}
        """By site and origin: something came beyond this number."""

    def take(self, site: str, origin: bytes, first: int, last: int) -> int | None:
        """Numbers ``first .. last`` of ``origin`` are here. Returns the first that is new, ``last + 1`` if none is.
        None: the run is beyond a gap, ``lack`` says what to ask for."""
        state = self._state
        have = state.has(site, origin)
        self.came_back = not have and state.comes_back(site, origin)
        if self.came_back:
            have = state.has(site, origin)
        fresh = fresh_from(have, first, last)
        if fresh is not None and fresh <= last:
            state.advance(site, origin, last)
            if self._lacking:
                self._lacking.pop((site, origin), None)
        return fresh

    def lack(self, site: str, origin: bytes) -> Lack | None:
        """The report to the relay about the gap that ``take`` has found, once for each gap."""
        have = self._state.has(site, origin)
        if self._lacking.get((site, origin)) == have:
            return None
        self._lacking[site, origin] = have
        return Lack(site, {origin: have})

    def skip(self, gap: Gap) -> list[tuple[bytes, int, int]]:
        """The numbers of ``gap`` will not come. Returns what is lost of them: origin, first and last number."""
        state, site = self._state, gap.site
        lost = []
        for origin, upto in gap.numbers.items():
            state.comes_back(site, origin)
            have = state.has(site, origin)
            if upto <= have:
                continue
            state.advance(site, origin, upto)
            self._lacking.pop((site, origin), None)
            if not gap.start:
                lost.append((origin, have + 1, upto))
        return lost

    def lacks(self) -> list[Lack]:
        """Reports of all gaps that are still open."""
        return [Lack(site, {origin: have}) for (site, origin), have in self._lacking.items()]

    def forget(self, site: str, origins: Iterable[bytes]) -> None:
        for origin in origins:
            self._lacking.pop((site, origin), None)
