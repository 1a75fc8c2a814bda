"""MemoryLinks: maps of one process replicate through memory. For tests, and for trying out without a port."""

from __future__ import annotations

import math
from collections import deque
from itertools import combinations

import trio

from jgroups_py.maps.host import MapHost


class MemoryLinks:
    """One object for all maps that replicate with each other: ``open_map(..., network=links)``. ``cut`` and ``heal``
    break connections and make them anew."""

    def __init__(self) -> None:
        self._hosts: list[MapHost] = []
        self._cut: set[frozenset[int]] = set()
        self._pipes: dict[tuple[MapHost, MapHost], tuple[_End, _End]] = {}

    async def run(self, host: MapHost) -> None:
        """See ``Network``."""
        self._hosts.append(host)
        try:
            self._connect()
            await trio.sleep(math.inf)
        finally:
            self._hosts.remove(host)
            for pair in [pair for pair in self._pipes if host in pair]:
                self._close(pair)

    def cut(self, one: int, other: int) -> None:
        """Break the connection of two hosts, by identifier, until ``heal``."""
        self._cut.add(frozenset((one, other)))
        for pair in list(self._pipes):
            if self._is_cut(pair):
                self._close(pair)

    def heal(self) -> None:
        """Connect all hosts again."""
        self._cut.clear()
        self._connect()

    def _is_cut(self, pair: tuple[MapHost, MapHost]) -> bool:
        return frozenset(host.settings.node for host in pair) in self._cut

    def _connect(self) -> None:
        for pair in combinations(self._hosts, 2):
            if not self._is_cut(pair) and pair not in self._pipes:
                ends = _End(self, pair, pair[0]), _End(self, pair, pair[1])
                ends[0].other, ends[1].other = ends[1], ends[0]
                self._pipes[pair] = ends
                for end in ends:
                    end.number = end.host.link_opened(end)

    def _close(self, pair: tuple[MapHost, MapHost]) -> None:
        for end in self._pipes.pop(pair, ()):
            end.closed = True
            end.host.link_closed(end.number)


class _End:
    """The link of one of two hosts."""

    other: _End

    def __init__(self, links: MemoryLinks, pair: tuple[MapHost, MapHost], host: MapHost) -> None:
        self._links = links
        self._pair = pair
        self.host = host
        self.number = 0
        self.closed = False
        self._coming: deque[bytes] = deque()

    def send(self, data: bytes) -> None:
        self.other.take(data)

    def close(self) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(self._links._close, self._pair)

    def take(self, data: bytes) -> None:
        self._coming.append(data)
        if len(self._coming) == 1:
            trio.lowlevel.current_trio_token().run_sync_soon(self._deliver)

    def _deliver(self) -> None:
        coming, self._coming = self._coming, deque()
        for data in coming:
            if not self.closed:
                self.host.received(self.number, data)
