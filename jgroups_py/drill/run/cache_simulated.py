"""A drill of caches in virtual time: one process, trio under a clock that jumps, a network in memory.

Caches, channels and protocols are the real ones; only packets, time and the order in which tasks run
come from the seed.
"""

from __future__ import annotations

import random
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import trio

from jgroups_py.cache import CacheSettings, TreeCache, open_tree_cache
from jgroups_py.drill.file import stacks
from jgroups_py.drill.file.cache_settings import keys_of, settings_of
from jgroups_py.drill.file.plan import START_SECONDS_MAX, Figures, Plan
from jgroups_py.drill.log import Record
from jgroups_py.drill.run import virtual_trio
from jgroups_py.drill.run.cache_user import CacheUser
from jgroups_py.drill.run.course import TrioCourse
from jgroups_py.drill.run.faulty_network import FaultyDriver, FaultyNetwork, MemberNetwork
from jgroups_py.drill.run.resolve import DrillError
from jgroups_py.drill.run.runner import Progress, RunLog
from jgroups_py.errors import Expelled, JGroupsError
from jgroups_py.stack.machine import Machine
from jgroups_py.values.address import Address
from jgroups_py.values.view import View

INSIDE = Figures(latency=0.0002)
BETWEEN = Figures(latency=0.04)
"""Where the drill names none."""
PORT, BRIDGE_PORT, MCAST_PORT = 7800, 8000, 45_000
SLICE_SECONDS = 0.25
"""Virtual time between two looks of ``progress``."""


def run_cache_simulated(plan: Plan, progress: Progress) -> RunLog:
    """A ``Runner``. Raises ``DrillError``, ``ConfigError``."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jgroups-drill-") as folder:
        drill = CacheSimulation(plan, progress, Path(folder))
        virtual_trio.run(drill.run, plan.seed)
    return RunLog(
        "simulated",
        lambda: iter(drill.records),
        time.monotonic() - begun,
        drill.ended,
        drill.notes,
    )


@dataclass(eq=False)
class Member:
    """One incarnation."""

    site: str
    name: str
    incarnation: int
    network: MemberNetwork
    scope: trio.CancelScope
    closing: trio.Event
    gone: bool = False
    vanished: bool = False
    paused: bool = False
    ended: bool = False
    cache: TreeCache | None = None
    user: CacheUser | None = None
    traffic: trio.CancelScope | None = None
    bridge: View | None = None
    """The newest one, while it is relay."""

    @property
    def origin(self) -> str:
        return f"{self.name}#{self.incarnation}"

    def linked(self, plan: Plan) -> bool:
        """Can the site's relay reach all other sites, as far as this member knows?"""
        if self.cache is None or len(plan.sites) == 1:
            return self.cache is not None
        return len(self.cache.buddies.sites.status.reachable) == len(plan.sites) - 1

    @property
    def view(self) -> tuple[str, ...]:
        """Names without incarnations."""
        return () if self.user is None else tuple(self.user.members)


class CacheSimulation(TrioCourse[Member]):
    """One run."""

    looks_after_failures = True

    def __init__(self, plan: Plan, progress: Progress, folder: Path) -> None:
        super().__init__(plan, progress)
        self.records: list[Record] = []
        self.ended = 0.0
        self._folder = folder
        self._zero = 0.0
        self._bridge: dict[Address, Member] = {}
        self._index = {site.name: number for number, site in enumerate(plan.sites)}
        self._hosts = {
            (site.name, name): f"10.{s + 1}.{m // 250}.{m % 250 + 1}"
            for s, site in enumerate(plan.sites)
            for m, name in enumerate(site.members)
        }
        self._settings = {who: self._make_settings(*who) for who in plan.members}
        self._network: FaultyNetwork

    def _make_settings(self, site: str, name: str) -> CacheSettings:
        hosts = self._hosts
        file = self._folder / f"{site}.{name}.bridge.xml"
        stacks.write_bridge(
            self.plan,
            file,
            bind_addr=hosts[site, name],
            hosts=[f"{host}[{BRIDGE_PORT}]" for host in hosts.values()],
            port=BRIDGE_PORT,
        )
        own = [hosts[site, other] for other in self.plan.site(site).members]
        made = stacks.site_settings(
            self.plan,
            site,
            bind_addr=hosts[site, name],
            bridge_file=file,
            properties={
                "jgroups.bind_port": str(PORT),
                "jgroups.udp.mcast_port": str(MCAST_PORT + self._index[site]),
                "jgroups.tcpping.initial_hosts": ",".join(f"{h}[{PORT}]" for h in own),
            },
        )
        return settings_of(self.plan, site, made, self._folder / f"{site}.{name}.xml")

    # --- the course of it

    @property
    def now(self) -> float:
        return trio.current_time() - self._zero

    async def run(self) -> None:
        self._network = FaultyNetwork(random.Random(f"{self.plan.seed}:network"), self._figures)
        self._network.cut = self._is_cut
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._network.carry)
            await self._start_all()
            self._zero = trio.current_time()
            self.records = [r._replace(t=r.t - self._zero) for r in self.records]
            for member in self._members.values():
                self._begin(member)
            for event in self.plan.events:
                nursery.start_soon(self._at, event.at, self._fire, event)
            t = 0.0
            while t < self.plan.end:
                self.progress.at(t)
                t = min(t + SLICE_SECONDS, self.plan.end)
                await trio.sleep_until(self._zero + t)
            await self._last_look()
            self.ended = trio.current_time()
            nursery.cancel_scope.cancel()

    async def _start_all(self) -> None:
        try:
            with trio.fail_after(START_SECONDS_MAX):
                for site, name in self.plan.members:
                    await self._start(site, name, 1)
                await self._until(self._protected)
        except trio.TooSlowError:
            raise DrillError(
                f"{self.plan.file}: after {START_SECONDS_MAX:.0f} s not every member has its full"
                " view, its buddies and its way to the other sites"
            ) from None

    def _protected(self) -> bool:
        for member in self._members.values():
            names = self.plan.site(member.site).members
            if member.cache is None or sorted(member.view) != sorted(names):
                return False
            if not member.cache.buddies.protected or not member.linked(self.plan):
                return False
        return True

    async def _last_look(self) -> None:
        """The owners of all keys are asked; then each key is read once more, where it is at home."""
        there = [m for m in self._members.values() if not (m.gone or m.paused)]
        keys = keys_of(self.plan)
        for member in there:
            assert member.user is not None
            await member.user.census(keys)
        for site in self.plan.sites:
            living = [m for m in there if m.site == site.name]
            for number, member in enumerate(living):
                assert member.user is not None
                await member.user.last_look(range(number, keys, len(living)))

    # --- members

    async def _start(self, site: str, name: str, incarnation: int) -> Member:
        stream = f"{self.plan.seed}:{site}.{name}#{incarnation}"

        def prepare(machine: Machine) -> None:
            machine.random.seed(f"{stream}:{len(member.network.drivers)}")
            machine.trace = partial(self._on_trace, member)

        network = self._network.of((site, name), prepare)
        member = Member(site, name, incarnation, network, trio.CancelScope(), trio.Event())
        self._members[site, name] = member
        await self._nursery.start(self._live, member, random.Random(f"{stream}:requests"))
        return member

    async def _live(
        self, member: Member, chance: random.Random, *, task_status: trio.TaskStatus[None]
    ) -> None:
        started = False
        try:
            with member.scope:
                async with open_tree_cache(
                    self._settings[member.site, member.name],
                    cluster=f"drill-{member.site}",
                    name=member.origin,
                    transport=member.network,
                ) as cache:
                    member.cache = cache
                    log = partial(self._log, member)
                    member.user = CacheUser(
                        cache, member.site, member.origin, chance, log, self._others(member.site)
                    )
                    log("join", incarnation=member.incarnation)
                    self._on_view(member, cache.buddies.view)
                    cache.buddies.on_view = partial(self._on_view, member)
                    channel = cache.buddies.channel
                    channel.driver.before_flush.append(partial(self._watch_bridge, member))
                    task_status.started()
                    started = True
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(member.user.watch)
                        await member.closing.wait()
                        nursery.cancel_scope.cancel()
        except Expelled as error:
            if member.user is not None:
                member.user.last_words()
            self._log(member, "leave", expelled=True)
            self.notes.append(f"{member.site}.{member.origin} was expelled: {error}")
            member.gone = True
        except JGroupsError as error:
            raise DrillError(f"{member.site}.{member.name} failed: {error}") from error
        finally:
            member.ended = True
            if not started:
                member.gone = True

    def _others(self, site: str) -> tuple[str, ...]:
        return tuple(other.name for other in self.plan.sites if other.name != site)

    def _begin(self, member: Member) -> None:
        self._nursery.start_soon(self._traffic, member)

    async def _traffic(self, member: Member) -> None:
        assert member.user is not None
        names = self.plan.site(member.site).members
        with trio.CancelScope() as member.traffic:
            async with trio.open_nursery() as nursery:
                for load in self.plan.loads:
                    if (load.site, load.member) != (member.site, member.name) or load.rate <= 0:
                        continue
                    assert load.cache is not None
                    phase = names.index(member.name) / len(names) / load.rate
                    nursery.start_soon(
                        member.user.requests,
                        load.cache,
                        load.rate,
                        load.start + phase,
                        load.stop,
                        self._zero,
                    )

    # --- what is logged

    def _log(
        self,
        member: Member,
        event: str,
        origin: str | None = None,
        seqno: int | None = None,
        **detail: Any,
    ) -> None:
        if member.gone and event not in ("crash", "vanish", "leave"):
            return
        self.records.append(
            Record(
                self.now,
                member.site,
                member.name,
                event,
                origin,
                seqno,
                detail or None,
                member.incarnation,
            )
        )

    def _note(self, event: str, site: str | None = None, **detail: Any) -> None:
        self.records.append(Record(self.now, site, None, event, None, None, detail or None))

    def _on_view(self, member: Member, view: View) -> None:
        assert member.cache is not None
        name = member.cache.name_of
        self._log(
            member,
            "view",
            id=f"{name(view.view_id.creator)}|{view.view_id.id}",
            members=[name(address) for address in view.members],
        )

    def _watch_bridge(self, member: Member) -> None:
        """The sites that the relays see, as in a drill of messages."""
        if member.cache is None or member.gone:
            return
        channel = member.cache.buddies.channel
        child = stacks.bridge_stack(channel.stack)
        view = None if child is None else stacks.bridge_view(child)
        if child is None or view is None or view is member.bridge:
            return
        member.bridge = view
        self._bridge[child.address] = member
        peers = [self._bridge[a] for a in view.members if a in self._bridge]
        names = [f"{peer.site}.{peer.origin}" for peer in peers]
        sites = [peer.site for peer in peers]
        self._log(member, "view", id=str(view.view_id), members=names, bridge=True, sites=sites)

    def _on_trace(
        self, who: Member, _t: float, _name: str, protocol: str, what: str, details: dict[str, Any]
    ) -> None:
        found = stacks.traced(protocol, what, details)
        if found is not None and found[0] == "suspect" and who.cache is not None:
            self._log(who, "suspect", members=[who.cache.name_of(m) for m in found[3]["members"]])

    # --- the network

    def _figures(self, src: FaultyDriver, dst: FaultyDriver) -> Figures:
        same = src.who[0] == dst.who[0]
        figures = self.plan.network if same else self.plan.bridge.figures
        default = INSIDE if same else BETWEEN
        if figures.latency is None:
            return replace(figures, latency=default.latency)
        return figures

    def _is_cut(self, src: FaultyDriver, dst: FaultyDriver) -> bool:
        for sides in self._cuts:
            at = {who: n for n, side in enumerate(sides) for who in side}
            one, other = at.get(src.who), at.get(dst.who)
            if one is not None and other is not None and one != other:
                return True
        return False

    async def _cuts_changed(self) -> None:
        self._network.healed()

    # --- faults

    def _names(self, member: Member) -> tuple[str, ...]:
        return member.view

    def _fault(self, event: str, member: Member, **detail: Any) -> None:
        self._log(member, event, **detail)

    async def _end(self, member: Member, how: str, **detail: Any) -> None:
        if member.user is not None:
            member.user.last_words()
        self._log(member, how, **detail)
        member.gone = True
        if member.paused:
            self._wake_up(member)
        for driver in member.network.drivers:
            driver.kill() if how == "crash" else driver.vanish()
        if member.traffic is not None:
            member.traffic.cancel()
        member.scope.cancel()

    async def _leave(self, member: Member) -> None:
        member.gone = True
        if member.traffic is not None:
            member.traffic.cancel()
        member.closing.set()

    def _sleep(self, member: Member) -> None:
        member.paused = True
        assert member.user is not None
        member.user.awake = False
        for driver in member.network.drivers:
            driver.pause()

    def _wake_up(self, member: Member) -> None:
        member.paused = False
        assert member.user is not None
        member.user.awake = True
        for driver in member.network.drivers:
            driver.resume()

    async def _restart(self, site: str, name: str) -> None:
        former = self._members[site, name]
        await self._until(lambda: former.ended)
        for driver in former.network.drivers:
            driver.unbind()
        self.progress.say(self.now, f"restart {site}.{name}")
        number = former.incarnation + 1
        self.records.append(Record(self.now, site, name, "restart", incarnation=number))
        self._begin(await self._start(site, name, number))

    async def _look_after(self, site: str) -> None:
        there = [m for m in self._members.values() if not (m.gone or m.paused or m.site == site)]
        for member in there:
            if member.user is not None and not member.gone:
                await member.user.holds(keys_of(self.plan), site)

    async def _tell_relay(self, relay: Member, what: str, site: str) -> None:
        assert relay.cache is not None
        sites = relay.cache.buddies.sites
        if what == "promote":
            sites.promote()
        else:
            sites.bootstrap(site)
