"""A drill in virtual time of something that runs on trio: one process, a clock that jumps, a network in memory.

Channels, protocols and everything above are the real ones; only packets, time and the order of tasks come from the
seed. A workload defines how a member opens (``_open``), when all is ready (``_ready``), and the last look
(``_last_look``).
"""

from __future__ import annotations

import random
import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import trio

from jgroups_py.channel.channel import Channel
from jgroups_py.drill.file import stacks
from jgroups_py.drill.file.plan import START_SECONDS_MAX, DrillPlan, FaultFigures
from jgroups_py.drill.log import DrillRecord
from jgroups_py.drill.run import virtual_trio
from jgroups_py.drill.run.course import TrioCourse
from jgroups_py.drill.run.faulty_network import FaultyDriver, FaultyNetwork, MemberNetwork
from jgroups_py.drill.run.resolve import DrillError
from jgroups_py.drill.run.runner import Progress, RunLog
from jgroups_py.drill.run.user import Log, User
from jgroups_py.errors import Expelled, JGroupsError
from jgroups_py.stack.machine import Machine
from jgroups_py.values.address import Address
from jgroups_py.values.view import View

INSIDE = FaultFigures(latency=0.0002)
BETWEEN = FaultFigures(latency=0.04)
"""The default between sites."""
PORT, BRIDGE_PORT, MCAST_PORT = 7800, 8000, 45_000
EPOCH: Final = 1_800_000_000
"""The wall clock's seconds at the beginning of virtual time."""
SLICE_SECONDS: Final = 0.25
"""Virtual time between two looks of ``progress``."""


@dataclass(eq=False)
class SimulatedMember:
    """One incarnation of a member."""

    site: str
    name: str
    incarnation: int
    network: MemberNetwork
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    closing: trio.Event = field(default_factory=trio.Event)
    gone: bool = False
    vanished: bool = False
    paused: bool = False
    ended: bool = False
    channel: Channel | None = None
    user: User[Any, Any] | None = None
    traffic: trio.CancelScope | None = None
    bridge: View | None = None
    """The newest view of the bridge, while it is relay."""

    @property
    def origin(self) -> str:
        return f"{self.name}#{self.incarnation}"

    @property
    def view(self) -> tuple[str, ...]:
        """Return the view's names without incarnations."""
        channel = self.channel
        if channel is None:
            return ()
        return tuple(channel.name_of(m).partition("#")[0] for m in channel.view.members)


M = TypeVar("M", bound=SimulatedMember)


def run_on_trio(
    plan: DrillPlan,
    progress: Progress,
    kind: Callable[[DrillPlan, Progress, Path], TrioSimulation[Any]],
) -> RunLog:
    """Run a plan with members of a kind. Raises ``DrillError``, ``ConfigError``."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jgroups-drill-") as folder:
        drill = kind(plan, progress, Path(folder))
        virtual_trio.run(drill.run, plan.seed)
    return RunLog(
        "simulated",
        lambda: iter(drill.records),
        time.monotonic() - begun,
        drill.ended,
        drill.notes,
    )


class TrioSimulation(TrioCourse[M]):
    """One run. ``folder``: for files of this run."""

    unready = "not every member has its full view"
    """The error text if ``_ready`` never becomes true."""

    def __init__(self, plan: DrillPlan, progress: Progress, folder: Path) -> None:
        super().__init__(plan, progress)
        self.records: list[DrillRecord] = []
        self.ended = 0.0
        self.folder = folder
        self._zero = 0.0
        self._bridge: dict[Address, M] = {}
        self._index = {site.name: number for number, site in enumerate(plan.sites)}
        self._hosts = {
            (site.name, name): f"10.{s + 1}.{m // 250}.{m % 250 + 1}"
            for s, site in enumerate(plan.sites)
            for m, name in enumerate(site.members)
        }
        self._stacks = {who: self._stack_of(*who) for who in plan.members}
        self._network: FaultyNetwork

    def _stack_of(self, site: str, name: str) -> stacks.Settings:
        hosts = self._hosts
        file = self.folder / f"{site}.{name}.bridge.xml"
        stacks.write_bridge(
            self.plan,
            file,
            bind_addr=hosts[site, name],
            hosts=[f"{host}[{BRIDGE_PORT}]" for host in hosts.values()],
            port=BRIDGE_PORT,
        )
        own = [hosts[site, other] for other in self.plan.site(site).members]
        return stacks.site_settings(
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

    # --- defined by a workload

    @abstractmethod
    def _new_member(self, site: str, name: str, incarnation: int, network: MemberNetwork) -> M: ...

    @abstractmethod
    async def _open(self, member: M, chance: random.Random, started: Callable[[], None]) -> None:
        """Open the member's objects, call ``started``, keep them open until ``member.closing``. Call ``_opened``
        meanwhile."""

    def _ready(self) -> bool:
        """May the drill begin: does every member have its full view?"""
        return all(
            sorted(member.view) == sorted(self.plan.site(member.site).members)
            for member in self._members.values()
        )

    async def _last_look(self) -> None:
        """Look at all members when the drill is over, before the verdict."""

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
            for member in self._members.values():
                _forget_group(member)
            nursery.cancel_scope.cancel()

    async def _start_all(self) -> None:
        try:
            with trio.fail_after(START_SECONDS_MAX):
                for site, name in self.plan.members:
                    await self._start(site, name, 1)
                await self._until(self._ready)
        except trio.TooSlowError:
            raise DrillError(
                f"{self.plan.file}: after {START_SECONDS_MAX:.0f} s {self.unready}"
            ) from None

    def _there(self) -> list[M]:
        return [m for m in self._members.values() if not (m.gone or m.paused)]

    # --- members

    async def _start(self, site: str, name: str, incarnation: int) -> M:
        stream = f"{self.plan.seed}:{site}.{name}#{incarnation}"

        def prepare(machine: Machine) -> None:
            machine.random.seed(f"{stream}:{len(member.network.drivers)}")
            machine.trace = partial(self._on_trace, member)

        network = self._network.of((site, name), prepare)
        member = self._new_member(site, name, incarnation, network)
        self._members[site, name] = member
        await self._nursery.start(self._live, member, random.Random(f"{stream}:requests"))
        return member

    async def _live(
        self, member: M, chance: random.Random, *, task_status: trio.TaskStatus[None]
    ) -> None:
        started = False

        def start() -> None:
            nonlocal started
            started = True
            task_status.started()

        try:
            with member.scope:
                await self._open(member, chance, start)
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

    def _opened(self, member: M, channel: Channel, view: View) -> None:
        """Note that the member has its channel and this view. It is logged from now on."""
        member.channel = channel
        self._log(member, "join", incarnation=member.incarnation)
        self._on_view(member, view)
        channel.driver.before_flush.append(partial(self._watch_bridge, member))

    async def _until_closing(
        self, member: M, beside: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Run ``beside`` as long as the member exists."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beside)
            await member.closing.wait()
            nursery.cancel_scope.cancel()

    def _others(self, site: str) -> tuple[str, ...]:
        return tuple(other.name for other in self.plan.sites if other.name != site)

    def _begin(self, member: M) -> None:
        self._nursery.start_soon(self._traffic, member)

    async def _traffic(self, member: M) -> None:
        assert member.user is not None
        names = self.plan.site(member.site).members
        with trio.CancelScope() as member.traffic:
            async with trio.open_nursery() as nursery:
                for load in self.plan.loads:
                    if (load.site, load.member) != (member.site, member.name) or load.rate <= 0:
                        continue
                    phase = names.index(member.name) / len(names) / load.rate
                    nursery.start_soon(
                        member.user.requests,
                        load.asks,
                        load.rate,
                        load.start + phase,
                        load.stop,
                        self._zero,
                    )

    # --- log records

    def _log_of(self, member: M) -> Log:
        return partial(self._log, member)

    def _log(
        self,
        member: M,
        event: str,
        origin: str | None = None,
        seqno: int | None = None,
        **detail: Any,
    ) -> None:
        if member.gone and event not in ("crash", "vanish", "leave"):
            return
        self.records.append(DrillRecord.of_member(self.now, member, event, origin, seqno, **detail))

    def _note(self, event: str, site: str | None = None, **detail: Any) -> None:
        self.records.append(DrillRecord.of_many(self.now, event, site, **detail))

    def _on_view(self, member: M, view: View) -> None:
        assert member.channel is not None
        name = member.channel.name_of
        self._log(
            member,
            "view",
            id=f"{name(view.view_id.creator)}|{view.view_id.id}",
            members=[name(address) for address in view.members],
        )

    def _watch_bridge(self, member: M) -> None:
        """Log the sites on the bridge, as in a drill of messages."""
        if member.channel is None or member.gone:
            return
        child = stacks.bridge_stack(member.channel.stack)
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
        self, who: M, _t: float, _name: str, protocol: str, what: str, details: dict[str, Any]
    ) -> None:
        found = stacks.traced(protocol, what, details)
        if found is not None and found[0] == "suspect" and who.channel is not None:
            name = who.channel.name_of
            self._log(who, "suspect", members=[name(m) for m in found[3]["members"]])

    # --- the network

    def _figures(self, src: FaultyDriver, dst: FaultyDriver) -> FaultFigures:
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

    def _names(self, member: M) -> tuple[str, ...]:
        return member.view

    def _fault(self, event: str, member: M, **detail: Any) -> None:
        self._log(member, event, **detail)

    async def _end(self, member: M, how: str, **detail: Any) -> None:
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
        _forget_group(member)
        member.scope.cancel()

    async def _leave(self, member: M) -> None:
        member.gone = True
        if member.traffic is not None:
            member.traffic.cancel()
        member.closing.set()

    def _sleep(self, member: M) -> None:
        member.paused = True
        assert member.user is not None
        member.user.awake = False
        for driver in member.network.drivers:
            driver.pause()

    def _wake_up(self, member: M) -> None:
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
        self.records.append(DrillRecord(self.now, site, name, "restart", incarnation=number))
        self._begin(await self._start(site, name, number))

    async def _tell_relay(self, relay: M, what: str, site: str) -> None:
        raise AssertionError(f"{what} is no fault of this workload")


def _forget_group(member: SimulatedMember) -> None:
    """End a member without a goodbye: nobody would answer."""
    if member.channel is not None:
        member.channel.driver_ended()
