"""A drill in virtual time: one process, the simulator's world, the real protocol code."""

from __future__ import annotations

import tempfile
import time
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from pathlib import Path
from typing import Any

from jgroups_py.drill import log
from jgroups_py.drill.file import stacks
from jgroups_py.drill.file.plan import START_SECONDS_MAX, DrillPlan, FaultFigures, Load
from jgroups_py.drill.log import DrillRecord, Payload
from jgroups_py.drill.run.course import Course, Sides
from jgroups_py.drill.run.resolve import DrillError
from jgroups_py.drill.run.runner import Progress, RunLog
from jgroups_py.testing.check.relay_oracle import violated
from jgroups_py.testing.check.violation import Violated, violation_of
from jgroups_py.testing.sim import LinkSettings, Member, World
from jgroups_py.testing.sim.host import Host
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Failed
from jgroups_py.values.view import View

SAMPLE_SECONDS = 0.1
"""Seconds between samples of the relays' buffers."""
SLICE_SECONDS = 0.25
"""Virtual time between two looks of ``progress``."""
REST_SECONDS = 120.0
"""Virtual time after the drill's end in which RELAY must come to rest."""
BLOCKED_SECONDS = 0.01
"""Seconds after which a load generator without credit tries again."""
BEHIND_RUN, BEHIND_FACTOR = 10, 10
"""The most messages that a late load generator sends at once, and the multiple of its rate at which it catches up. Flow
control can therefore still stop it in time."""
INSIDE_LATENCY, BETWEEN_LATENCY = 0.0002, 0.04
"""The default latencies."""
TCP_PORT, BRIDGE_PORT = 7800, 8000  # FD_SOCK2 listens 100 ports above each


class BrokenInvariant(DrillError):
    """An invariant failed after a step: a bug in the stack, with any verdict."""


def run_simulated(plan: DrillPlan, progress: Progress, *, check: bool = True) -> RunLog:
    """A ``Runner``. Raises ``DrillError``, ``ConfigError``; ``BrokenInvariant`` if ``check``."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jgroups-drill-") as folder:
        simulation = Simulation(plan, progress, Path(folder), check)
        try:
            simulation.run()
        except AssertionError as error:
            raise BrokenInvariant(simulation.explain(error)) from error
        finally:
            simulation.world.close()
    return RunLog(
        "simulated",
        lambda: iter(simulation.records),
        time.monotonic() - begun,
        simulation.ended,
    )


@types.coroutine
def _until(t: float) -> Generator[float, None, None]:
    """Wait, in a course, until ``t``; ``Simulation`` then goes on with the course."""
    yield t


class Simulation(Course[Member]):
    """One run. ``world`` is there for tests that want to plant a fault."""

    def __init__(
        self, plan: DrillPlan, progress: Progress, folder: Path, check: bool = True
    ) -> None:
        super().__init__(plan, progress)
        self.records: list[DrillRecord] = []
        self.world = World(
            plan.seed,
            inside=_link(plan.network, INSIDE_LATENCY),
            between=_link(plan.bridge.figures, BETWEEN_LATENCY),
            check=check,
        )
        self.ended = 0.0
        """The world's time at the end of the drill."""
        self._over = False
        self._zero = 0.0
        self._folder = folder
        self._who: dict[Address, tuple[str, str, int]] = {}
        self._bridge_seen: dict[Host, View | None] = {}
        self._member_of: dict[Host, Member] = {}
        self._leaving: dict[Member, None] = {}
        self._tokens: dict[int, int] = {}
        """Tokens of unhealed partitions, by their sides."""
        self._seqnos: dict[Member, int] = {}
        self._site_index = {site.name: i for i, site in enumerate(plan.sites)}
        self._index = {
            (site.name, name): i for site in plan.sites for i, name in enumerate(site.members)
        }
        self._bridged = len(plan.sites) > 1
        self._hosts = {who: self.world.host_address(*who) for who in plan.members}
        self.world.after_each_step.append(self._watch_bridge)
        self._settings = {who: self._make_settings(*who) for who in plan.members}
        self._relays = any("RELAY.site" in s.attributes for s in self._settings.values())

    def _make_settings(self, site: str, name: str) -> stacks.Settings:
        bind_addr = self._hosts[site, name]
        file = self._folder / f"{site}.{name}.xml"
        stacks.write_bridge(
            self.plan,
            file,
            bind_addr=bind_addr,
            hosts=[f"{host}[{BRIDGE_PORT}]" for host in self._hosts.values()],
            port=BRIDGE_PORT,
        )
        hosts = [self._hosts[site, other] for other in self.plan.site(site).members]
        return stacks.site_settings(
            self.plan,
            site,
            bind_addr=bind_addr,
            bridge_file=file,
            properties={
                "jgroups.bind_port": str(TCP_PORT),
                "jgroups.tcpping.initial_hosts": ",".join(f"{h}[{TCP_PORT}]" for h in hosts),
            },
        )

    # the course of it

    def run(self) -> None:
        self._start_all()
        self._zero = self.world.now
        self.records = [r._replace(t=r.t - self._zero) for r in self.records]
        for load in self.plan.loads:
            self._begin_load(load)
        for event in self.plan.events:
            self._go(self._at, event.at, self._fire, event)
        self._later(0.0, self._sample)
        t = 0.0
        while t < self.plan.end:
            self.progress.at(t)
            t = min(t + SLICE_SECONDS, self.plan.end)
            self.world.run(self._zero + t)
        self._take_sample()
        self.ended = self.world.now
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        """Check, without a log, that RELAY comes to rest wherever it is complete."""
        oracle = self.world.oracle
        if oracle is None:
            return
        self._over = True
        end = self.world.now + REST_SECONDS
        while oracle.can_rest and (problem := oracle.unrest()) is not None:
            if self.world.now >= end:
                raise violated(self.world, "at rest", "RELAY", problem)
            self.world.run_for(2 * SLICE_SECONDS)

    def explain(self, error: AssertionError) -> str:
        """Return one line about a broken invariant."""
        found = violation_of(error, self.world.now)
        what, t = found.detail, found.at - self._zero
        if isinstance(error, Violated):
            what = f"{found.check.removeprefix('relay_').replace('_', ' ')}, {what}"
        seed = self.plan.seed
        return f"{self.plan.file}: seed {seed}, {t:.3f} s: a bug, an invariant is broken: {what}"

    def _later(self, t: float, action: Callable[..., None], *args: Any) -> None:
        self.world.at(self._zero + t, action, *args)

    def _go(self, action: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        self._go_on(action(*args))

    def _go_on(self, running: Coroutine[float, None, None]) -> None:
        """Run a course until it waits. Run it again when its wait is over."""
        try:
            t = running.send(None)
        except StopIteration:
            return
        self._later(t, self._go_on, running)

    async def _wait(self, seconds: float) -> None:
        await self._wait_until(self.now + seconds)

    async def _wait_until(self, t: float) -> None:
        await _until(t)

    @property
    def now(self) -> float:
        """Return the seconds since the drill's zero."""
        return self.world.now - self._zero

    def _start_all(self) -> None:
        longest = max(len(site.members) for site in self.plan.sites)
        for i in range(longest):
            for site in self.plan.sites:
                if i < len(site.members):
                    self._start(site.name, site.members[i])
            self._reach(lambda i=i: self._joined(i + 1), "not every member has its full view")  # type: ignore[misc]
        if self._bridged and self._relays:
            self._reach(self._relays_met, "the relays have not met on the bridge")

    def _reach(self, condition: Callable[[], bool], problem: str) -> None:
        if not self.world.run_until(condition, limit=START_SECONDS_MAX - self.world.now):
            raise DrillError(f"{self.plan.file}: after {START_SECONDS_MAX:.0f} s {problem}")

    def _joined(self, count: int) -> bool:
        for site in self.plan.sites:
            names = site.members[:count]
            if any(self.world.member(n, site.name).view_names != names for n in names):
                return False
        return True

    def _relays_met(self) -> bool:
        for site in self.plan.sites:
            relay = self.world.member(site.members[0], site.name)
            view = self._bridge_seen.get(relay.host)
            if view is None or len(view) != len(self.plan.sites):
                return False
        return True

    # log records

    def _log(
        self,
        member: Member,
        event: str,
        origin: str | None = None,
        seqno: int | None = None,
        **detail: Any,
    ) -> None:
        if self._over:
            return
        self.records.append(DrillRecord.of_member(self.now, member, event, origin, seqno, **detail))

    def _note(self, event: str, site: str | None = None, **detail: Any) -> None:
        self.records.append(DrillRecord.of_many(self.now, event, site, **detail))

    def _name(self, address: Address) -> str:
        who = self._who.get(address)
        return str(address) if who is None else f"{who[1]}#{who[2]}"

    def _on_view(self, member: Member, view: View) -> None:
        self._log(
            member,
            "view",
            id=f"{self._name(view.view_id.creator)}|{view.view_id.id}",
            members=[self._name(address) for address in view.members],
        )

    def _on_batch(self, member: Member, batch: Batch) -> None:
        for run in log.runs(p for p in batch.payloads if p is not None):
            site = self.plan.sites[run.site]
            detail: dict[str, Any] = {"count": run.length} if run.length > 1 else {}
            if site.name != member.site:
                detail["from"] = site.name
            origin = f"{site.members[run.member]}#{run.incarnation}"
            self._log(member, "deliver", origin, run.first, **detail)

    def _watch_bridge(self, host: Host) -> None:
        machine = host.machine
        if len(machine.stacks) < 2:
            return
        member = self._member_of.get(host)
        if member is None:
            return
        child = stacks.bridge_stack(member.stack)
        if child is None:
            return
        view = stacks.bridge_view(child)
        if view is self._bridge_seen.get(host):
            return
        self._bridge_seen[host] = view
        if child.address not in self._who:
            self._who[child.address] = (member.site, member.name, member.incarnation)
        if view is None:
            return
        sites = [self._who[a][0] for a in view.members if a in self._who]
        names = [f"{self._who[a][0]}.{self._name(a)}" for a in view.members if a in self._who]
        self._log(member, "view", id=str(view.view_id), members=names, bridge=True, sites=sites)

    def _on_trace(
        self, who: Member, _t: float, _name: str, protocol: str, what: str, details: dict[str, Any]
    ) -> None:
        found = stacks.traced(protocol, what, details)
        if found is None:
            return
        event, origin, seqno, detail = found
        if event == "suspect":
            detail["members"] = [self._name(address) for address in detail["members"]]
        if origin is not None:
            newest = self.world.members.get(f"{who.site}/{origin}")
            origin = f"{origin}#{1 if newest is None else newest.incarnation}"
        self._log(who, event, origin, seqno, **detail)

    def _sample(self) -> None:
        self._take_sample()
        self._later(self.now + SAMPLE_SECONDS, self._sample)

    def _take_sample(self) -> None:
        if not self._relays:
            return
        for member in self.world.members.values():
            if member.alive:
                found = stacks.sample(member.stack)
                if found:
                    self._log(member, "buffer", **found)

    # members

    def _start(self, site: str, name: str) -> Member:
        settings = self._settings[site, name]
        member = self.world.start(
            name,
            settings.stack,
            f"drill-{site}",
            site=site,
            attributes=settings.attributes,
            properties=settings.properties,
        )
        member.keep_batches = False
        member.on_view = self._on_view
        member.on_batch = self._on_batch
        self._who[member.address] = (site, name, member.incarnation)
        self._member_of[member.host] = member
        member.host.machine.trace = partial(self._on_trace, member)
        self._log(member, "join", incarnation=member.incarnation)
        return member

    def _member(self, site: str, name: str) -> Member:
        return self.world.member(name, site)

    def _runs(self, member: Member) -> bool:
        if any(isinstance(event, Failed) for event in member.events):
            problem = next(e.problem for e in member.events if isinstance(e, Failed))
            raise DrillError(f"{member.site}.{member.name} failed: {problem}")
        return member.alive and member not in self._leaving

    def _is_asleep(self, member: Member) -> bool:
        return member.alive and member.host.paused

    def _names(self, member: Member) -> tuple[str, ...]:
        return member.view_names

    # traffic

    def _begin_load(self, load: Load) -> None:
        if load.rate <= 0 or load.stop <= load.start:
            return
        names = self.plan.site(load.site).members
        # The members of a site send in turns, not all at the same instant.
        phase = names.index(load.member) / len(names) / load.rate
        self._later(load.start + phase, self._load, load, load.start + phase)

    def _load(self, load: Load, due: float) -> None:
        """Send the messages that are due since ``due``, the time of the next message."""
        if due >= load.stop:
            return
        member = self.world.member(load.member, load.site)
        interval = 1 / load.rate
        if not self._runs(member) or member.host.paused or member.view is None:
            # absent or paused: its messages are not made up for
            self._later(self.now + interval, self._load, load, self.now + interval)
            return
        if member.blocked:
            self._later(self.now + BLOCKED_SECONDS, self._load, load, due)
            return
        count = 0
        most = max(BEHIND_RUN, int(load.rate * BLOCKED_SECONDS * BEHIND_FACTOR))
        while due <= self.now + 1e-9 and due < load.stop and count < most:
            count += 1
            due += interval
        if count:
            self._send(member, load.size, count)
        again = self.now + BLOCKED_SECONDS if due <= self.now else due
        self._later(again, self._load, load, due)

    def _send(self, member: Member, size: int, count: int) -> None:
        first = self._seqnos.get(member, 0) + 1
        self._seqnos[member] = first + count - 1
        who = (self._site_index[member.site], self._index[member.site, member.name])
        payloads = [
            Payload(*who, member.incarnation, seqno, self.now).pack(size)
            for seqno in range(first, first + count)
        ]
        detail = {"count": count} if count > 1 else {}
        self._log(member, "send", f"{member.name}#{member.incarnation}", first, **detail)
        member.send(*payloads)

    # faults

    def _fault(self, event: str, member: Member, **detail: Any) -> None:
        self._log(member, event, **detail)

    async def _end(self, member: Member, how: str, **detail: Any) -> None:
        self._log(member, how, **detail)
        if how == "crash":
            member.crash()
        else:
            member.vanish()

    async def _leave(self, member: Member) -> None:
        self._leaving[member] = None
        member.leave()

    def _sleep(self, member: Member) -> None:
        member.pause()

    def _wake_up(self, member: Member) -> None:
        member.resume()

    async def _restart(self, site: str, name: str) -> None:
        former = self.world.member(name, site)
        while former.alive:  # the former member is still leaving
            await self._wait(BLOCKED_SECONDS)
        self._leaving.pop(former, None)
        self.progress.say(self.now, f"restart {site}.{name}")
        self.records.append(
            DrillRecord(self.now, site, name, "restart", incarnation=former.incarnation + 1)
        )
        self._start(site, name)

    async def _cut(self, sides: Sides) -> None:
        self._tokens[id(sides)] = self.world.partition(
            *([self.world.member(name, site) for site, name in side] for side in sides)
        )

    async def _heal(self, sides: Sides) -> None:
        self.world.heal(self._tokens.pop(id(sides)))

    async def _tell_relay(self, relay: Member, what: str, site: str) -> None:
        stacks.promote(relay.stack)
        relay.host.after_step()


def _link(figures: FaultFigures, latency: float) -> LinkSettings:
    return LinkSettings(
        latency=latency if figures.latency is None else figures.latency,
        jitter=figures.jitter,
        loss=figures.loss,
        duplicate=figures.duplicate,
        reorder=figures.reorder,
    )


__all__ = ["Simulation", "run_simulated"]
