"""MapHost: the process of a host that replicates ties the file, the replica and the links together, on trio.

    replicate      waits for the lock "replicator" of the file, so that one process of a host speaks for it (K14). When that process ends, another
                   one gets the lock within ``TAKEOVER_INTERVAL`` and its networks begin
    a network      opens connections to peers, and gives each to ``MapHost.link_opened``, its messages to ``received``, its end to ``link_closed``
    a link         takes messages: a host uses only ``Link.send`` and ``Link.close``

All of this runs in one task tree of one thread (K13).
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import trio

from jgroups_py.driver.unwrap import reraise
from jgroups_py.maps.digests import Side
from jgroups_py.maps.errors import InboxFull, MapFull
from jgroups_py.maps.held import HeldMessages
from jgroups_py.maps.links import Link, Medium
from jgroups_py.maps.orders import Arrived, CloseLink, SendAll, SendToPeer, Sent, Told
from jgroups_py.maps.replica import Replica, ReplicaTable
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.replication_status import STATUS_INTERVAL, ReplicationStatus, write_status
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import HybridClock
from jgroups_py.maps.telling import Telling

TAKEOVER_INTERVAL: Final = 0.2
"""Seconds between checks for the end of the replicating process."""

MapEvent = Told | Arrived | Sent


class PeerNetwork(Protocol):
    """Connections to peers, as long as ``run`` runs."""

    async def run(self, host: MapHost) -> None:
        """Run until cancelled. No peer may end it. An error that it raises ends the map's block (an address in use)."""


class HostFile(ReplicaTable, Protocol):
    """The table of a host, with the clock that gives its changes their stamps."""

    @property
    def clock(self) -> HybridClock: ...


class MapHost:
    """Made by ``replicate``. Its functions are called in its trio task tree."""

    def __init__(
        self,
        file: HostFile,
        settings: ReplicaSettings,
        watch: Callable[[MapEvent], None] | None = None,
    ) -> None:
        """``watch`` is called with news, arrivals and sent entries. It must not wait. Its exceptions are counted and
        logged."""
        self.file = file
        self.settings = settings
        self.replica = Replica(settings, file, file.clock, trio.current_time())
        self.counters: Counter[str] = Counter()
        """links, watch_failures, held_full (messages that waited for a full inbox), links_closed_full (``held_max``
        bytes waited, or a change can never fit), overheard_full. The replica has counters of its own."""
        self._watch = watch
        self._telling = Telling(settings.map, trio.current_time)
        self._held = HeldMessages(settings.held_max, self._receive)
        self._links: dict[int, Link] = {}
        self._media: dict[int, Medium] = {}
        """By number of a link, the medium that it shares with others."""
        self._last_link = 0
        self._due = self._status_due = trio.current_time()

    # --- a network's side

    def link_opened(self, link: Link, medium: Medium | None = None) -> int:
        """Begin a link on an open connection, whichever side opened it. Return its number, for ``received`` and
        ``link_closed``. The first message may be sent before this returns."""
        self._last_link += 1
        number = self._last_link
        self._links[number] = link
        self.counters["links"] += 1
        if medium is not None:
            self._media[number] = medium
        self.replica.link_opened(number, shared=medium is not None)
        self._carry_out()
        return number

    def received(self, number: int, data: bytes, *, shared: bool = False) -> None:
        """Take one message. Any bytes may come; those of a closed link are ignored. With a full inbox it waits, and
        later ones wait behind it."""
        if number not in self._links:
            return
        if number not in self._held:
            try:
                self._receive(number, data, shared)
                return
            except InboxFull as full:
                self.counters["held_full"] += 1
                self.replica.tell("full", number, f"messages of a host wait: {full}")
        if not self._held.add(number, data, shared):
            self._close_full(
                number, f"more than {self.settings.held_max:,} bytes of hosts wait for the inbox"
            )
        self._carry_out()

    def _receive(self, number: int, data: bytes, shared: bool) -> None:
        """Hand a message to the replica. InboxFull: hand it over again."""
        try:
            self.replica.received(number, data, trio.current_time(), shared=shared)
        except InboxFull:
            raise
        except MapFull as error:
            self._close_full(number, str(error))
        self._carry_out()

    def _close_full(self, number: int, reason: str) -> None:
        """Close a link for lack of room. The peer sends again after its next connection."""
        self.counters["links_closed_full"] += 1
        self.replica.tell("full", number, f"a message of a host has no room: {reason}")
        self.link_closed(number, close=True)

    @property
    def held_bytes(self) -> int:
        """Return the bytes of peers' messages that wait for room in the inbox."""
        return self._held.size

    def overheard(self, data: bytes) -> None:
        """Take changes that a host without a link has sent to all, if none is missing before them."""
        try:
            self.replica.overheard(data, trio.current_time())
        except MapFull:
            self.counters["overheard_full"] += 1
        self._carry_out()

    def link_closed(self, number: int, *, close: bool = False) -> None:
        """End a link whose connection has ended. If the host closed it, the call is ignored."""
        link = self._pop(number)
        if link is None:
            return
        if close:
            link.close()
        self.replica.link_closed(number)
        self._carry_out()

    @property
    def compared(self) -> Side | None:
        """Return the map for comparisons: the file, not a table in memory."""
        return self.file if isinstance(self.file, SharedFile) else None

    # --- time

    async def run(self) -> None:
        """Send the writes of all processes of this host, as long as it runs."""
        while True:
            self._held.retry()
            self._due = self.replica.tick(trio.current_time())
            self._carry_out()
            if isinstance(self.file, SharedFile) and trio.current_time() >= self._status_due:
                self._status_due = trio.current_time() + STATUS_INTERVAL
                write_status(self.file.folder, self._status())
            await trio.sleep_until(self._due)

    def _status(self) -> ReplicationStatus:
        return ReplicationStatus(
            time.time(),
            os.getpid(),
            {node: hello.name for node, hello in self.replica.peers.items()},
            self.replica.lag(),
            self.held_bytes,
            dict(self.counters + self.replica.counters),
        )

    def _carry_out(self) -> None:
        while out := self.replica.take():
            for what in out:
                if isinstance(what, SendToPeer):
                    link = self._links.get(what.link)
                    if link is not None:
                        link.send(what.data)
                elif isinstance(what, SendAll):
                    media = [self._media[one] for one in what.links if one in self._media]
                    for medium in dict.fromkeys(media):
                        medium.send_all(what.data)
                elif isinstance(what, CloseLink):
                    link = self._pop(what.link)
                    if link is not None:
                        link.close()
                else:
                    if isinstance(what, Told):
                        self._telling.tell(what)
                    if self._watch is not None:
                        self._watched(self._watch, what)

    def _watched(self, watch: Callable[[MapEvent], None], what: MapEvent) -> None:
        try:
            watch(what)
        except Exception as error:
            self.counters["watch_failures"] += 1
            self._telling.raised(error)

    def _pop(self, number: int) -> Link | None:
        self._media.pop(number, None)
        self._held.drop(number)
        return self._links.pop(number, None)


async def replicate(
    file: SharedFile,
    settings: ReplicaSettings,
    networks: Iterable[PeerNetwork],
    *,
    watch: Callable[[MapEvent], None] | None = None,
    started: Callable[[MapHost], None] | None = None,
) -> None:
    """Replicate as soon as no other process of this host does, until it is cancelled. ``started`` gets the host when it begins."""
    while not file.take_replication():  # noqa: ASYNC110 - another process has it
        await trio.sleep(TAKEOVER_INTERVAL)
    try:
        # The writes of the previous process are merged first, so that the table has all of this host's changes.
        goal = file.written()
        while not file.has_merged(goal):  # noqa: ASYNC110 - another process may merge
            await trio.sleep(file.settings.merge_interval)
        host = MapHost(file, settings, watch)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host.run)
            for network in networks:
                nursery.start_soon(network.run, host)
            if started is not None:
                started(host)
            await trio.sleep(math.inf)
    except BaseExceptionGroup as group:
        reraise(group)
    finally:
        file.end_replication()
