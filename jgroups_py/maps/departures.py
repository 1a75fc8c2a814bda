"""Departures: entries leave for peers, oldest number first, each key once with its latest value (K3), within ``max_bandwidth`` and at most
``window`` bytes ahead of what a peer has acknowledged (K4).

Own changes leave once for all peers of a medium that are equally far; the others get theirs alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final, Protocol

from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.messages import OriginChanges, encode
from jgroups_py.maps.orders import Out, SendAll, SendToPeer, Sent
from jgroups_py.maps.peer_link import PeerLink
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.table import Vector

CHUNK: Final = 256 * 1024
"""Bytes of entries in one message, roughly."""
CHUNK_ENTRIES: Final = 1000
"""The most entries in one message."""


class TableOfChanges(Protocol):
    """The part of a table that is needed here."""

    def vector(self) -> Vector: ...
    def changes(
        self, origin: int, after: int, to: int, most: int
    ) -> Iterator[tuple[int, bytes, MapEntry]]: ...


class MapDepartures:
    """``newest``: the latest time of any change that was sent. ``now`` is in seconds."""

    def __init__(
        self, settings: ReplicaSettings, table: TableOfChanges, counters: Counter[str], now: float
    ) -> None:
        self._settings = settings
        self._table = table
        self._counters = counters
        self._budget = 0.0
        """Bytes that ``max_bandwidth`` allows now; negative after a message that was larger."""
        self._budget_at = now
        self.newest = 0

    def refill(self, now: float) -> None:
        """Begin a flush: the time that has passed allows more bytes."""
        rate = self._settings.max_bandwidth
        if not rate:
            self._budget = float("inf")
            return
        passed, self._budget_at = now - self._budget_at, now
        self._budget = min(self._budget + passed * rate, rate)

    def for_all(self, links: Collection[PeerLink]) -> Iterator[Out]:
        """Send own changes once for all peers of a medium that are equally far."""
        own = self._settings.origin
        to = self._table.vector().get(own, 0)
        while self._budget > 0:
            ready = [p for p in links if p.shared and p.heard and own not in p.wants]
            after = max((p.sent.get(own, 0) for p in ready), default=to)
            ready = [
                p
                for p in ready
                if p.sent.get(own, 0) == after and p.on_the_way < self._settings.window
            ]
            if after >= to or len(ready) < 2:
                break
            entries, size, upto = self._chunk(own, after, to)
            data = encode(OriginChanges(own, after, upto, entries))
            yield SendAll(tuple(p.number for p in ready), data)
            self._counters["shared_sent"] += 1
            for peer in ready:
                peer.on_its_way(own, upto, size)
                yield Sent(peer.node, own, entries)

    def for_one(self, peer: PeerLink) -> Iterator[Out]:
        """Send a peer the own changes that it lacks, and the changes of others that it has requested."""
        mine = self._table.vector()
        for origin in [self._settings.origin, *peer.wants]:
            to = mine.get(origin, 0)
            yield from self._changes(peer, origin, to)
            if origin in peer.wants and peer.sent.get(origin, 0) >= to:
                del peer.wants[origin]

    def _changes(self, peer: PeerLink, origin: int, to: int) -> Iterator[Out]:
        while peer.sent.get(origin, 0) < to:
            if peer.on_the_way >= self._settings.window or self._budget <= 0:
                self._counters["throttled"] += 1
                return
            after = peer.sent.get(origin, 0)
            entries, size, upto = self._chunk(origin, after, to)
            yield SendToPeer(peer.number, encode(OriginChanges(origin, after, upto, entries)))
            peer.on_its_way(origin, upto, size)
            yield Sent(peer.node, origin, entries)

    def _chunk(
        self, origin: int, after: int, to: int
    ) -> tuple[list[tuple[bytes, bytes]], int, int]:
        """Return the next entries of an origin, their bytes, and the number up to which they are complete."""
        entries: list[tuple[bytes, bytes]] = []
        size, last, upto = 0, after, to
        most = min(CHUNK, self._settings.window)
        if self._settings.max_bandwidth:
            most = min(most, int(self._budget) + 1)
        for number, key, entry in self._table.changes(origin, after, to, CHUNK_ENTRIES):
            data = entry.encode()
            entries.append((key, data))
            size += len(key) + len(data) + 24
            last = number
            self.newest = max(self.newest, entry.stamp.time)
            if size >= most:
                upto = last
                break
        if len(entries) == CHUNK_ENTRIES:
            upto = last
        self._counters["entries_sent"] += len(entries)
        self._budget -= size
        return entries, size, upto
