"""BucketMachine: the components of one member. Messages, views and times go in; messages come out. It has no
I/O, no clock and no random numbers.

machine.on_view(members)            machine.receive(member, data)       machine.advance(now)
machine.take() -> [(member or None for all, bytes)]                     machine.next_due -> time
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from collections.abc import Callable

from jgroups_py.buckets.census import NAME as CENSUS
from jgroups_py.buckets.census import Census
from jgroups_py.buckets.ends import Cep, ProxyId
from jgroups_py.buckets.index import IndexCopy
from jgroups_py.buckets.manager import BucketManager
from jgroups_py.buckets.messages import (
    AskStatistics,
    BadMessage,
    BucketLoad,
    BucketPacket,
    ComponentCounts,
    ComponentInfo,
    Deliver,
    Entries,
    Findable,
    Hello,
    Message,
    NodeStatistics,
    Statistics,
    decode,
    encode,
)
from jgroups_py.buckets.mirror import IndexMirror
from jgroups_py.buckets.pages import NAME as PAGER
from jgroups_py.buckets.pages import Pager
from jgroups_py.buckets.plugin import Plugin
from jgroups_py.buckets.port import Index
from jgroups_py.buckets.proxies import ProxyManager
from jgroups_py.buckets.router import Router
from jgroups_py.buckets.settings import InstanceSettings

EARLY_MAX = 1_000
"""The most messages of members that are not in the view yet. Beyond it the oldest is dropped, counted
``early_dropped``."""
ROUTER_NUMBERS = 2**48
"""The size of the range of request numbers for each router of a member."""
WITHOUT_LEASE = 20
"""Pings of a manager without a lease, in the time of one lease."""
ALL = "*"
"""The component's name in a message to a whole member."""


class MemberPort:
    """The interface of the machine for a component."""

    def __init__(self, machine: BucketMachine, cep: Cep) -> None:
        self._machine, self.cep = machine, cep
        self.random = machine.random

    @property
    def members(self) -> tuple[str, ...]:
        return self._machine.members

    @property
    def hellos(self) -> dict[str, Hello]:
        return self._machine.hellos

    @property
    def now(self) -> float:
        return self._machine.now

    @property
    def wall(self) -> float:
        return self._machine.now + self._machine.wall_offset

    def after(self, delay: float, job: Callable[[], None]) -> None:
        self._machine.after(delay, job)

    def post(self, to: Cep, message: Message) -> None:
        self._machine.post(self.cep, to, message)


class BucketMachine:
    """One member of an instance. Components are added before the first view."""

    def __init__(
        self,
        member: str,
        settings: InstanceSettings,
        *,
        node: str,
        zone: str = "",
        seed: int | str,
        now: float = 0.0,
        wall_offset: float = 0.0,
    ) -> None:
        self.member, self.settings, self.node, self.zone = member, settings, node, zone
        self.random = random.Random(seed)
        self.now, self.wall_offset = now, wall_offset
        self.members: tuple[str, ...] = ()
        self.hellos: dict[str, Hello] = {}
        self.counts: Counter[str] = Counter()
        self.infos: list[ComponentInfo] = []
        self.managers: dict[str, BucketManager] = {}
        self.indices: dict[str, IndexCopy] = {}
        self.mirrors: dict[str, IndexMirror] = {}
        self.routers: dict[str, Router] = {}
        self.proxies: dict[str, ProxyManager] = {}
        self.outbox_bytes: Callable[[], int] = int
        """Bytes that wait for members that do not read. The channel's side knows them."""
        self.pager = Pager(MemberPort(self, Cep(member, PAGER)))
        self.census = Census(MemberPort(self, Cep(member, CENSUS)), self.statistics)
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer = 0
        self._out: list[tuple[str | None, bytes]] = []
        self._local: deque[BucketPacket] = deque()
        self._busy = False
        self._renewing = False
        self._told_findable: set[str] = set()
        self._early: deque[tuple[float, str, BucketPacket]] = deque()

    # --- components

    def add_manager(self, name: str, plugin: Plugin) -> BucketManager:
        """Add a bucket manager; it begins without buckets."""
        provider = plugin.provider
        info = ComponentInfo(
            name, "manager", self.node, self.zone,
            provider.application, provider.version, tuple(provider.reads), tuple(provider.writes),
        )  # fmt: skip
        port = MemberPort(self, Cep(self.member, name))
        manager = self.managers[name] = BucketManager(port, info, provider, self.settings)
        self.infos.append(info)
        return manager

    def add_index(
        self, name: str, placement: dict[int, tuple[str, str]] | None = None
    ) -> IndexCopy:
        """Add a copy of the index (CreateIndex). ``name`` is one of the static set."""
        info = ComponentInfo(name, "index", self.node, self.zone)
        port = MemberPort(self, Cep(self.member, name))
        index = self.indices[name] = IndexCopy(port, info, self.settings, placement)
        self.infos.append(info)
        return index

    def add_mirror(self, name: str) -> IndexMirror:
        """Add the mirror for a router at a member without index copy."""
        port = MemberPort(self, Cep(self.member, name))
        mirror = self.mirrors[name] = IndexMirror(port, self.settings)
        return mirror

    def add_router(self, name: str, plugin: Plugin, index: Index) -> Router:
        port = MemberPort(self, Cep(self.member, name))
        router = self.routers[name] = Router(
            port,
            plugin.classifier,
            self.settings,
            self._deliver,
            plugin.provider.read_at,
            first_number=len(self.routers) * ROUTER_NUMBERS,
        )
        router.use_index(index)
        self.infos.append(ComponentInfo(name, "router", self.node, self.zone))
        return router

    def add_proxies(self, name: str) -> ProxyManager:
        proxies = self.proxies[name] = ProxyManager(Cep(self.member, name))
        self.infos.append(ComponentInfo(name, "proxies", self.node, self.zone))
        return proxies

    def create_index(self, name: str) -> IndexCopy:
        """Add a copy of the index while the member runs (CreateIndex, A55). The first copy registers it. Routers of this member use it as soon as
        it has rows."""
        index = self.add_index(name)

        def use() -> None:
            for router in self.routers.values():
                if router.index is not index:
                    router.use_index(index)

        index.on_rows.append(use)
        self.hellos[self.member] = Hello(self.infos)
        self._broadcast(Hello(self.infos))
        self._members_changed()
        return index

    # --- in

    def on_view(self, members: tuple[str, ...], *, merged: bool = False) -> None:
        """Take a view with this member. ``merged``: the group was split; messages between its parts may be lost."""
        self.members = members
        self.hellos = {m: hello for m, hello in self.hellos.items() if m in members}
        self.hellos[self.member] = Hello(self.infos)
        self._broadcast(Hello(self.infos))
        self.tell_findable()
        self._members_changed(merged)
        early, self._early = self._early, deque()
        for came, sender, packet in early:
            if sender in members:
                self._handle(Cep(sender, packet.frm), packet.to, packet.message)
            elif came + self.settings.detection_max > self.now:
                # The view with this sender may be the next one: a loss and an arrival came together.
                self._early.append((came, sender, packet))
        self._run()
        if not self._renewing and self.managers:
            self._renewing = True
            self._renew()

    def receive(self, sender: str, data: bytes | memoryview | None) -> None:
        """Take bytes from another member. Invalid ones are counted ``bad_messages`` and dropped."""
        try:
            packet = decode(data or b"")
        except BadMessage:
            self.counts["bad_messages"] += 1
            return
        if sender not in self.members:
            # The sender is in a view that has not arrived here yet, or it has left.
            self._early.append((self.now, sender, packet))
            if len(self._early) > EARLY_MAX:
                self.counts["early_dropped"] += 1
                self._early.popleft()
            return
        self._handle(Cep(sender, packet.frm), packet.to, packet.message)
        self._run()

    def advance(self, now: float) -> None:
        """Let time pass, and call due timers."""
        self.now = max(self.now, now)
        while self._timers and self._timers[0][0] <= self.now:
            _, _, job = heapq.heappop(self._timers)
            job()
            self._run()
        self._run()

    # --- out

    @property
    def next_due(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def take(self) -> list[tuple[str | None, bytes]]:
        """Return the messages to send: to a member, or to all others (None)."""
        self._run()
        out, self._out = self._out, []
        return out

    # --- for components

    def after(self, delay: float, job: Callable[[], None]) -> None:
        self._timer += 1
        heapq.heappush(self._timers, (self.now + delay, self._timer, job))

    def post(self, frm: Cep, to: Cep, message: Message) -> None:
        packet = BucketPacket(frm.component, to.component, message)
        if to.member == self.member:
            self._local.append(packet)
        elif to.member in self.members:
            self._out.append((to.member, encode(packet)))
        else:
            self.counts["posted_to_nobody"] += 1

    def tell_findable(self) -> None:
        """Send all managers the proxies with attributes."""
        for name, proxies in self.proxies.items():
            found = proxies.findable()
            if found or name in self._told_findable:
                self._told_findable.add(name)
                self._broadcast(Findable(found), name)
                for manager in self.managers.values():
                    manager.handle(proxies.cep, Findable(found))

    def statistics(self, buckets: bool = False) -> NodeStatistics:
        """Return this member's counters. ``buckets``: with a list of its copies."""
        parts = [
            ComponentCounts(
                "member",
                "member",
                {
                    **self.counts,
                    **self.pager.counts,
                    "members": len(self.members),
                    "outbox_bytes": self.outbox_bytes(),
                },
            )
        ]
        loads = []
        for name, manager in self.managers.items():
            parts.append(ComponentCounts(name, "manager", manager.statistics()))
            if buckets:
                loads += [
                    BucketLoad(
                        bucket,
                        "master" if copy.row.master == manager.cep else "slave",
                        copy.row.epoch,
                        len(copy.bucket),
                        copy.counts["requests"],
                    )
                    for bucket, copy in sorted(manager.copies.items())
                ]
        for name, index in self.indices.items():
            sizes = {"version": index.state.version, "has_quorum": int(index.has_quorum)}
            parts.append(ComponentCounts(name, "index", {**index.counts, **sizes}))
        for name, router in self.routers.items():
            counts = {**router.counts, **router.latencies.counts(), "pending": router.pending}
            parts.append(ComponentCounts(name, "router", counts))
        for name, proxies in self.proxies.items():
            counts = {**proxies.counts, "proxies": len(proxies)}
            parts.append(ComponentCounts(name, "proxies", counts))
        return NodeStatistics(self.node, self.zone, self.member, parts, loads)

    # --- own

    def _broadcast(self, message: Message, frm: str = ALL) -> None:
        self._out.append((None, encode(BucketPacket(frm, ALL, message))))

    def _run(self) -> None:
        """Deliver messages between components of this member."""
        if self._busy:
            return
        self._busy = True
        try:
            while self._local:
                packet = self._local.popleft()
                self._handle(Cep(self.member, packet.frm), packet.to, packet.message)
        finally:
            self._busy = False

    def _handle(self, frm: Cep, to: str, message: Message) -> None:
        if isinstance(message, Hello):
            self.hellos[frm.member] = message
            self._members_changed()
            return
        if isinstance(message, Findable):
            for manager in self.managers.values():
                manager.handle(frm, message)
            return
        if isinstance(message, AskStatistics | Statistics):
            self.census.handle(frm, message)
            return
        if isinstance(message, Entries):
            self.pager.handle(frm, message)
            return
        if isinstance(message, Deliver):
            self._deliver(message.proxy, message.body)
            return
        component = (
            self.managers.get(to)
            or self.indices.get(to)
            or self.routers.get(to)
            or self.mirrors.get(to)
        )
        if component is None:
            self.counts["no_component"] += 1
            return
        component.handle(frm, message)

    def _members_changed(self, merged: bool = False) -> None:
        for kind in (self.indices, self.mirrors, self.managers, self.routers):
            for component in kind.values():
                component.on_view(merged)
        self.census.on_view()
        self._run()

    def _renew(self) -> None:
        """Renew leases four times in the time of a lease. A manager without one asks more often, because its buckets
        answer no reads."""
        often = 4
        for manager in self.managers.values():
            if not manager.lease.holds():
                often = WITHOUT_LEASE
            manager.renew_lease()
            manager.repeat_saves()
        self.after(self.settings.lease / often, self._renew)

    def _deliver(self, proxy: ProxyId, body: bytes) -> bool:
        manager = self.proxies.get(proxy.manager.component)
        if manager is None or proxy.manager.member != self.member:
            self.counts["no_component"] += 1
            return False
        return manager.deliver(proxy, body)
