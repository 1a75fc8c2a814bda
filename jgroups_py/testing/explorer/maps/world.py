"""Hosts with maps in virtual time: replicas, tables in memory, links that delay, break and come back, or share a medium that loses."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from jgroups_py.maps.entry import MapEntry, origin_of
from jgroups_py.maps.orders import CloseLink, SendAll, SendToPeer, Told
from jgroups_py.maps.replica import Replica
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.rules import LAST_WRITER, ConflictRule, LastWriter
from jgroups_py.maps.stamp import HybridClock, MapStamp
from jgroups_py.maps.table import MemoryTable

STEP: Final = 0.01
HEAL_SECONDS: Final = 8.0
"""Virtual seconds in which maps must have become equal after all faults."""
FAR: Final = 100.0
"""The largest error of clocks, in seconds."""


@dataclass
class LinkDirection:
    """One direction of a link."""

    to: int
    link: int
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque)
    shared: deque[tuple[float, bytes]] = field(default_factory=deque)
    """Multicasts; they may overtake messages to one host."""


class ExploredHost:
    """A table, and its replica while the host runs. ``told``: its reports."""

    def __init__(self, world: MapWorld, node: int, life: int = 1) -> None:
        self.world, self.node = world, node
        self.origin = origin_of(node, life)
        self.table = MemoryTable(world.rule)
        self.offset = 0.0
        self.links: dict[int, LinkDirection] = {}
        self.told: list[Told] = []
        self.up = False
        self.file = bytes([node, life])
        self.start()

    def start(self) -> None:
        self.clock = HybridClock(
            lambda: int((1_000_000 + self.world.now + self.offset) * 1e9),
            slot=0,
            hybrid=self.world.hybrid,
        )
        for entry in self.table.entries.values():
            self.clock.observe(entry.stamp.time)
        settings = ReplicaSettings(
            map="m",
            node=self.node,
            origin=self.origin,
            file=self.file,
            rule=self.world.rule.name,
            **self.world.settings,
        )
        self.replica = Replica(settings, self.table, self.clock, self.world.now)
        self.up = True

    def write(self, key: bytes, value: bytes | None) -> None:
        time = self.clock.next()
        life = 0
        if not isinstance(self.world.rule, LastWriter):
            mine = self.table.entry(key)
            life = time if value is None else (mine.life if mine else 0)
        entry = MapEntry(value, MapStamp(time, self.node), {}, 0, life)
        self.table.change(self.origin, key, entry)
        self.replica.changed()

    def values(self) -> dict[bytes, bytes]:
        return {k: e.value for k, e in self.table.entries.items() if e.value is not None}


class MapWorld:
    """Hosts 1 to ``nodes`` and their links."""

    def __init__(
        self,
        nodes: int,
        seed: int = 0,
        *,
        rule: ConflictRule = LAST_WRITER,
        hybrid: bool = True,
        shared: bool = False,
        loss: float = 0.0,
        **settings: Any,
    ) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.rule, self.hybrid, self.settings = rule, hybrid, settings
        self.shared, self.loss = shared, loss
        """True if links share a medium; and the share of multicasts that get lost."""
        self.multicasts = 0
        self._links = 0
        self.messages = 0
        self.bytes = 0
        self.hosts = {node: ExploredHost(self, node) for node in range(1, nodes + 1)}

    def connect(self, one: int, other: int) -> None:
        a, b = self.hosts[one], self.hosts[other]
        if not (a.up and b.up) or self.connected(one, other):
            return
        self._links += 2
        link_a, link_b = self._links - 1, self._links
        a.links[link_a] = LinkDirection(other, link_b)
        b.links[link_b] = LinkDirection(one, link_a)
        a.replica.link_opened(link_a, shared=self.shared)
        b.replica.link_opened(link_b, shared=self.shared)
        self.drain(a)
        self.drain(b)

    def connected(self, one: int, other: int) -> bool:
        return any(pipe.to == other for pipe in self.hosts[one].links.values())

    def connect_all(self) -> None:
        nodes = list(self.hosts)
        for i, one in enumerate(nodes):
            for other in nodes[i + 1 :]:
                self.connect(one, other)

    def cut(self, one: int, other: int) -> None:
        for link, pipe in list(self.hosts[one].links.items()):
            if pipe.to == other:
                self._close(self.hosts[one], link)

    def crash(self, node: int) -> None:
        host = self.hosts[node]
        for link in list(host.links):
            self._close(host, link)
        host.up = False

    def _close(self, host: ExploredHost, link: int) -> None:
        pipe = host.links.pop(link, None)
        if pipe is None:
            return
        host.replica.link_closed(link)
        other = self.hosts[pipe.to]
        if other.links.pop(pipe.link, None) is not None:
            other.replica.link_closed(pipe.link)
        self.drain(host)
        self.drain(other)

    def drain(self, host: ExploredHost) -> None:
        for out in host.replica.take():
            if isinstance(out, SendToPeer):
                pipe = host.links.get(out.link)
                if pipe is not None:
                    last = pipe.waiting[-1][0] if pipe.waiting else 0.0
                    due = max(last, self.now + self.random.uniform(0, 0.05))
                    pipe.waiting.append((due, out.data))
                    self.messages += 1
                    self.bytes += len(out.data)
            elif isinstance(out, SendAll):
                self.multicasts += 1
                self.bytes += len(out.data)
                for pipe in host.links.values():
                    if self.random.random() >= self.loss:
                        last = pipe.shared[-1][0] if pipe.shared else 0.0
                        due = max(last, self.now + self.random.uniform(0, 0.05))
                        pipe.shared.append((due, out.data))
            elif isinstance(out, CloseLink):
                pipe = host.links.get(out.link)
                if pipe is not None:  # earlier messages arrive first
                    self._deliver(host, out.link, pipe, all_of_it=True)
                    self._close(host, out.link)
            elif isinstance(out, Told):
                host.told.append(out)

    def _deliver_shared(self, host: ExploredHost, link: int, pipe: LinkDirection) -> None:
        while pipe.shared and pipe.shared[0][0] <= self.now and host.links.get(link) is pipe:
            _, data = pipe.shared.popleft()
            other = self.hosts[pipe.to]
            other.replica.received(pipe.link, data, self.now, shared=True)
            self.drain(other)

    def _deliver(
        self, host: ExploredHost, link: int, pipe: LinkDirection, all_of_it: bool = False
    ) -> None:
        while pipe.waiting and (all_of_it or pipe.waiting[0][0] <= self.now):
            if host.links.get(link) is not pipe:
                return
            _, data = pipe.waiting.popleft()
            other = self.hosts[pipe.to]
            other.replica.received(pipe.link, data, self.now)
            self.drain(other)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += STEP
            for host in self.hosts.values():
                for link, pipe in list(host.links.items()):
                    self._deliver(host, link, pipe)
                    self._deliver_shared(host, link, pipe)
            for host in self.hosts.values():
                if host.up:
                    host.replica.tick(self.now)
                    self.drain(host)

    def heal(self, seconds: float = HEAL_SECONDS) -> None:
        for host in self.hosts.values():
            host.offset = 0.0
            if not host.up:
                host.start()
        self.connect_all()
        # Changes that were too far ahead have come near.
        if self.settings.get("max_ahead", FAR) < FAR:
            self.run(2.0)
            self.now += FAR
        self.run(seconds)
