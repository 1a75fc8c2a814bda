"""A drill for real: one operating-system process per member, real sockets on this machine.

Each run has ports and multicast groups of its own, so that several may run at once. Crashes and pauses are signals.
Loss, partitions and vanishing are made in the member's driver. Each member writes its own log; here they are merged by
time, which is the host's monotonic clock in every process.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import trio

from jgroups_py.config.file import load_stack
from jgroups_py.drill.file import stacks
from jgroups_py.drill.file.plan import START_SECONDS_MAX, DrillPlan
from jgroups_py.drill.log import DrillRecord, read_log
from jgroups_py.drill.run.course import TrioCourse
from jgroups_py.drill.run.member import JOIN_SECONDS_MAX, SAMPLE_SECONDS, MemberTraffic, Task
from jgroups_py.drill.run.patience import busy_text, patient
from jgroups_py.drill.run.port_block import (
    BRIDGE_OFFSET,
    FD_OFFSET,
    GROUP_OFFSET,
    HOST,
    MEMBERS_MAX,
    port_block,
)
from jgroups_py.drill.run.resolve import DrillError
from jgroups_py.drill.run.runner import Progress, RunLog
from jgroups_py.driver.multicast import probe_multicast

LOOK_SECONDS = 30.0
"""The most seconds for all members to report their contents, and again to read every key, on an idle machine."""
CLOSE_SECONDS = 5.0
"""The longest time for members to end after the drill, on an idle machine."""
SETTLE_FACTOR_MAX = 3.0
"""The largest factor on ``settle`` on a busy machine."""
STDERR_LINES = 3


def run_real(plan: DrillPlan, progress: Progress) -> RunLog:
    """A ``Runner``. Raises ``DrillError``, ``ConfigError``."""
    return run_drill(plan, progress, RealDrill)


def run_drill(plan: DrillPlan, progress: Progress, kind: type[RealDrill]) -> RunLog:
    """Do as ``run_real`` with members of another kind."""
    begun = time.monotonic()
    if len(plan.members) > MEMBERS_MAX:
        raise DrillError(f"{plan.file}: a real drill has at most {MEMBERS_MAX} members")
    with (
        tempfile.TemporaryDirectory(prefix="jgroups-drill-") as folder,
        port_block(len(plan.members)) as base,
    ):
        drill = kind(plan, progress, Path(folder), base)
        try:
            trio.run(drill.run)
        except BaseExceptionGroup as group:
            raise _single(group) from None
        records = list(drill.merged())
    return RunLog("real", lambda: iter(records), time.monotonic() - begun, None, drill.notes)


def _single(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the most important error: an interrupt, else one of a start, else the first."""
    _, rest = group.split(trio.Cancelled)
    leaves: list[BaseException] = []
    waiting: list[BaseException] = [rest or group]
    while waiting:
        error = waiting.pop()
        if isinstance(error, BaseExceptionGroup):
            waiting += error.exceptions
        else:
            leaves.append(error)
    matter = (KeyboardInterrupt, DrillError)
    return next((e for kind in matter for e in leaves if isinstance(e, kind)), leaves[0])


@dataclass(eq=False)
class Process:
    """One incarnation of a member."""

    site: str
    name: str
    incarnation: int
    process: trio.Process
    log: Path
    stderr: Path
    ready: bool = False
    view: tuple[str, ...] | None = None
    """Addresses (hex), coordinator first."""
    bridge: tuple[str, ...] = ()
    gone: bool = False
    """True: the member ended by a fault or left."""
    vanished: bool = False
    paused: bool = False
    ended: trio.Event = field(default_factory=trio.Event)
    telling: trio.Lock = field(default_factory=trio.Lock)

    @property
    def origin(self) -> str:
        return f"{self.name}#{self.incarnation}"

    def __str__(self) -> str:
        return f"{self.site}.{self.name}"


class RealDrill(TrioCourse[Process]):
    """One run. ``base``: the first of its ports (``port_block``)."""

    start_seconds = START_SECONDS_MAX
    sample_seconds = SAMPLE_SECONDS
    """Seconds between a member's samples of RELAY's buffer."""
    module = "jgroups_py.drill.run.member"
    """The module of a member's process."""

    def __init__(self, plan: DrillPlan, progress: Progress, folder: Path, base: int) -> None:
        super().__init__(plan, progress)
        self._folder = folder
        self._zero = 0.0
        self._records: list[DrillRecord] = []
        self._bridge_records: list[tuple[float, Process, str, list[str]]] = []
        self._everybody: list[Process] = []
        self._address: dict[str, Process] = {}
        self._bridge_address: dict[str, Process] = {}
        self._lost: dict[tuple[str, str], dict[tuple[str, str], None]] = {}
        """By member, the members that fell while cut off from it. Their messages still in this host's kernel would have
        been lost with them."""
        self._index = {who: i for i, who in enumerate(plan.members)}
        self._bridged = len(plan.sites) > 1
        self._base = base
        chance = random.Random(os.urandom(8))
        self._groups = {
            site.name: (f"239.255.{chance.randrange(1, 255)}.{chance.randrange(1, 255)}", port)
            for port, site in enumerate(plan.sites, base + GROUP_OFFSET)
        }
        self._stacks = {site.name: self._stack_of(site.stack) for site in plan.sites}
        faults = {event.fault for event in plan.events}
        self._inject = (
            not plan.network.nothing
            or not plan.bridge.figures.nothing
            or bool(faults & {"vanish", "fail_site", "partition"})
        )
        self._settings = {who: self._make_settings(*who) for who in plan.members}
        self._relays = any("RELAY.site" in s.attributes for s in self._settings.values())

    # the run has not started

    def _stack_of(self, stack: str) -> str:
        """Return the stack, or its TCP form if this machine has no usable multicast."""
        probe = probe_multicast(HOST)
        path = Path(stack)
        if probe or path.name not in ("udp.xml", "relay-udp.xml"):
            return stack
        other = path.with_name(path.name.replace("udp", "tcp"))
        note = f"no usable multicast ({probe.why}): {other.name} runs instead of {path.name}"
        if note not in self.notes:
            self.notes.append(note)
            self.progress.say(0.0, note)
        return str(other)

    def _ports(self, site: str, name: str) -> list[int]:
        """Return the ports: site, FD_SOCK2 in the site, bridge, FD_SOCK2 on the bridge."""
        port = self._base + self._index[site, name]
        return [port, port + FD_OFFSET, port + BRIDGE_OFFSET, port + BRIDGE_OFFSET + FD_OFFSET]

    def _make_settings(self, site: str, name: str) -> stacks.Settings:
        port, _, bridge_port, _ = self._ports(site, name)
        file = self._folder / f"{site}.{name}.xml"
        stacks.write_bridge(
            self.plan,
            file,
            bind_addr=HOST,
            hosts=[f"{HOST}[{self._ports(*who)[2]}]" for who in self.plan.members],
            port=bridge_port,
        )
        group, group_port = self._groups[site]
        names = self.plan.site(site).members
        hosts = ",".join(f"{HOST}[{self._ports(site, other)[0]}]" for other in names)
        settings = stacks.site_settings(
            self.plan,
            site,
            stack=self._stacks[site],
            bind_addr=HOST,
            bridge_file=file,
            properties={
                "jgroups.udp.mcast_addr": group,
                "jgroups.udp.mcast_port": str(group_port),
                "jgroups.bind_port": str(port),
                "jgroups.tcpping.initial_hosts": hosts,
            },
        )
        config = load_stack(settings.stack, settings.properties)
        for protocol in config.protocols:
            if protocol.name in ("UDP", "TCP", "TCP_NIO2"):
                settings.attributes.setdefault(f"{protocol.name}.bind_port", str(port))
                settings.attributes.setdefault(f"{protocol.name}.port_range", "0")
            elif protocol.name == "TCPPING":
                settings.attributes.setdefault("TCPPING.initial_hosts", hosts)
                settings.attributes.setdefault("TCPPING.port_range", "0")
        return settings

    # processes

    async def _spawn(self, site: str, name: str, incarnation: int) -> Process:
        label = f"{site}.{name}.{incarnation}"
        log, stderr = self._folder / f"{label}.jsonl", self._folder / f"{label}.err"
        with open(stderr, "wb") as errors:  # noqa: ASYNC230 - a local file, before the start
            process = await trio.lowlevel.open_process(
                [sys.executable, "-m", self.module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "IP_MULTICAST_IF": HOST},
                start_new_session=True,  # only the runner gets an interrupt, and ends the members
            )
        member = Process(site, name, incarnation, process, log, stderr)
        self._everybody.append(member)
        self._members[site, name] = member
        task = self._task(member)
        assert process.stdin is not None
        await process.stdin.send_all(msgspec.json.encode(task) + b"\n")
        self._nursery.start_soon(self._listen, member)
        return member

    def _task(self, member: Process) -> Task:
        plan, who = self.plan, (member.site, member.name)
        settings = self._settings[who]
        names = plan.site(member.site).members
        index = names.index(member.name)
        figures = (plan.network, plan.bridge.figures)
        inside, between = (
            [f.latency or 0.0, f.jitter, f.loss, f.duplicate, f.reorder] for f in figures
        )
        ports = [self._ports(*other) for other in plan.members]
        return Task(
            site=member.site,
            name=member.name,
            incarnation=member.incarnation,
            site_index=[site.name for site in plan.sites].index(member.site),
            member_index=index,
            names=[list(site.members) for site in plan.sites],
            site_names=[site.name for site in plan.sites],
            log=str(member.log),
            stack=settings.stack,
            attributes=settings.attributes,
            properties=settings.properties,
            cluster=f"drill-{member.site}",
            seed=f"{plan.seed}/{member.site}/{member.origin}",
            traffic=[
                MemberTraffic(
                    load.rate,
                    load.size,
                    load.start,
                    load.stop,
                    index / len(names) / load.rate,
                    {} if load.asks is None else asdict(load.asks),
                )
                for load in plan.loads
                if (load.site, load.member) == who and load.rate > 0
            ],
            inject=self._inject,
            inside=inside,
            between=between,
            bridge_ports=[port for four in ports for port in four[2:]],
            known_ports=[port for four in ports for port in four],
            sample_seconds=self.sample_seconds,
            join_seconds=patient(JOIN_SECONDS_MAX),
            cache=plan.site(member.site).cache,
            cache_properties=dict(plan.site(member.site).properties),
            identifier=self._index[who] + 1,
            folder=str(self._folder / f"{member.site}.{member.name}"),
            settings=dict(plan.settings),
        )

    async def _tell(self, member: Process, **command: Any) -> None:
        assert member.process.stdin is not None
        try:
            async with member.telling:
                await member.process.stdin.send_all(json.dumps(command).encode() + b"\n")
        except trio.BrokenResourceError:
            if not member.gone:
                raise DrillError(f"{member} does not listen any more: {_last(member)}") from None

    async def _listen(self, member: Process) -> None:
        """Read the member's lines until it ends."""
        assert member.process.stdout is not None
        buffer = b""
        async for data in member.process.stdout:
            buffer += data
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                self._heard(member, json.loads(line))
        await member.process.wait()
        member.ended.set()
        if not member.gone:
            code = member.process.returncode
            raise DrillError(f"{member} ended by itself (exit code {code}): {_last(member)}")

    def _heard(self, member: Process, told: dict[str, Any]) -> None:
        match told["what"]:
            case "ready":
                member.ready = True
            case "joined":
                self._address[told["address"]] = member
            case "view":
                member.view = tuple(told["members"])
            case "bridge":
                self._bridge_address[told["address"]] = member
                member.bridge = tuple(told["members"])
                self._bridge_records.append((told["t"], member, told["id"], told["members"]))
            case "vanished":
                # The member has logged this itself; its later actions do not count.
                if member.process.poll() is None:
                    os.kill(member.process.pid, signal.SIGSTOP)
            case "ended":
                if told["how"] == "failed":
                    raise DrillError(f"{member} failed: {told['problem']}")
                if told["how"] == "expelled" and not member.gone:
                    self._fault("leave", member, expelled=True)
                    note = f"{member.site}.{member.origin} was expelled: {told['problem']}"
                    self.notes.append(note)
                    self.progress.say(self.now, note)
                member.gone = True

    async def _kill_all(self) -> None:
        """Kill all processes of the drill."""
        for member in self._everybody:
            member.gone = True
            if member.process.returncode is None:
                member.process.kill()
        # Only an uninterruptible sleep survives a kill.
        with trio.move_on_after(patient(CLOSE_SECONDS)):
            for member in self._everybody:
                await member.process.wait()

    # the course of it

    @property
    def end(self) -> float:
        """Return the time of the verdict. On a busy machine a take-over and its messages need longer."""
        return self.plan.end + self.plan.settle * (min(SETTLE_FACTOR_MAX, patient(1.0)) - 1.0)

    @property
    def now(self) -> float:
        return time.monotonic() - self._zero if self._zero else 0.0

    async def run(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await self._run(nursery)
                # kill living members: the present state is judged
                await self._kill_all()
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._kill_all()

    async def _run(self, nursery: trio.Nursery) -> None:
        plan = self.plan
        self.progress.say(0.0, f"starting {len(plan.members)} processes")
        start_seconds = patient(self.start_seconds)
        with trio.move_on_after(start_seconds) as scope:
            for site, name in plan.members:
                await self._spawn(site, name, 1)
            await self._until(lambda: all(m.ready for m in self._everybody))
            await self._join_all()
            await self._until(self._settled)
        if scope.cancelled_caught:
            waited = f"after {start_seconds:.0f} s{busy_text()}"
            raise DrillError(f"{plan.file}: {waited} {self._unfinished()}")
        self._zero = time.monotonic()
        for member in self._everybody:
            await self._tell(member, do="start", zero=self._zero)
        for at, action, what in self._todo():
            nursery.start_soon(self._at, at, action, what)
        while (left := self.end - self.now) > 0:
            self.progress.at(self.now)
            await trio.sleep(min(0.1, left))
        await self._last_look()

    async def _last_look(self) -> None:
        """Look at all members when the drill is over, before the verdict."""

    def _todo(self) -> Iterator[tuple[float, Callable[[Any], Any], Any]]:
        """Yield the actions of the drill with their times."""
        for event in self.plan.events:
            yield event.at, self._fire, event

    async def _join_all(self) -> None:
        for i in range(max(len(site.members) for site in self.plan.sites)):
            for site in self.plan.sites:
                if i < len(site.members):
                    await self._tell(self._members[site.name, site.members[i]], do="join")
            await self._until(lambda count=i + 1: self._joined(count))  # type: ignore[misc]
        if self._bridged and self._relays:
            await self._until(self._relays_met)

    def _joined(self, count: int) -> bool:
        """Have the first ``count`` members of each site one view, and all of them? On a busy machine a member may be suspected and come
        back at another place. Only a relay must be the first one."""
        for site in self.plan.sites:
            names = site.members[:count]
            views = {self._names(self._members[site.name, name]) for name in names}
            view = views.pop()
            if views or sorted(view) != sorted(names):
                return False
            if self._bridged and view[0] != names[0]:
                return False
        return True

    def _names(self, member: Process) -> tuple[str, ...]:
        """Return the member's view, by name."""
        addresses = member.view or ()
        return tuple(self._address[a].name for a in addresses if a in self._address)

    def _relays_met(self) -> bool:
        relays = [self._members[site.name, site.members[0]] for site in self.plan.sites]
        return all(len(relay.bridge) == len(relays) for relay in relays)

    def _settled(self) -> bool:
        """May the drill begin: have all joined?"""
        return True

    def _unfinished(self) -> str:
        if not all(m.ready for m in self._everybody):
            return "not every process had started"
        if not self._joined(max(len(site.members) for site in self.plan.sites)):
            views = [f"{m.name}: {', '.join(self._names(m)) or 'none'}" for m in self._everybody]
            return f"not every member has its full view ({'; '.join(views)})"
        return "the relays have not met on the bridge"

    # faults

    def _fault(self, event: str, member: Process, **detail: Any) -> None:
        self._records.append(DrillRecord.of_member(time.monotonic(), member, event, **detail))

    def _note(self, event: str, site: str | None = None, **detail: Any) -> None:
        self._records.append(DrillRecord.of_many(time.monotonic(), event, site, **detail))

    async def _end(self, member: Process, how: str, **detail: Any) -> None:
        member.gone = True
        who = (member.site, member.name)
        for far in self._beyond(who):
            self._lost.setdefault(far, {})[who] = None
        if how == "crash":
            await self._before_crash(member)
            member.paused = False
            self._fault(how, member, **detail)
            os.kill(member.process.pid, signal.SIGKILL)
        else:
            member.vanished = True
            self._resume(member)  # a stopped process does not listen
            await self._tell(member, do="vanish", **detail)

    async def _before_crash(self, member: Process) -> None:
        """Collect the facts of a member before its crash."""

    async def _leave(self, member: Process) -> None:
        member.gone = True
        await self._tell(member, do="leave")

    def _sleep(self, member: Process) -> None:
        member.paused = True
        os.kill(member.process.pid, signal.SIGSTOP)

    def _wake_up(self, member: Process) -> None:
        member.paused = False
        if member.process.poll() is None:
            os.kill(member.process.pid, signal.SIGCONT)

    async def _restart(self, site: str, name: str) -> None:
        former = self._members[site, name]
        if former.vanished and former.process.returncode is None:
            os.kill(former.process.pid, signal.SIGKILL)  # this frees the ports
        await former.ended.wait()
        self.progress.say(self.now, f"restart {site}.{name}")
        member = await self._spawn(site, name, former.incarnation + 1)
        self._fault("restart", member)
        await self._until(lambda: member.ready)
        for lost in self._lost.values():
            lost.pop((site, name), None)
        await self._cuts_changed()
        await self._tell(member, do="join")
        await self._tell(member, do="start", zero=self._zero)

    async def _cuts_changed(self) -> None:
        """Tell every member the ports that it cannot reach now."""
        for who, member in self._members.items():
            far = [*self._beyond(who), *self._lost.get(who, ())]
            if self._inject and not member.gone:
                ports = [port for other in far for port in self._ports(*other)]
                await self._tell(member, do="cut", ports=ports)

    def _beyond(self, who: tuple[str, str]) -> list[tuple[str, str]]:
        """Return the members that are cut off from it."""
        return [
            other
            for sides in self._cuts
            for side in sides
            if who in side
            for others in sides
            if others is not side
            for other in others
        ]

    async def _tell_relay(self, relay: Process, what: str, site: str) -> None:
        await self._tell(relay, do=what, site=site)

    # log records

    def merged(self) -> Iterator[DrillRecord]:
        """Yield all records by time, from the drill's zero."""
        sources: list[Iterator[DrillRecord]] = [
            self._shifted(read_log(member.log)) for member in self._everybody if member.log.exists()
        ]
        sources.append(self._shifted(iter(sorted(self._records, key=lambda r: r.t))))
        sources.append(self._shifted(iter(self._bridge_views())))
        return heapq.merge(*sources, key=lambda record: record.t)

    def _shifted(self, records: Iterator[DrillRecord]) -> Iterator[DrillRecord]:
        for record in records:
            record = self._named(record)
            yield record._replace(t=record.t - self._zero)

    def _named(self, record: DrillRecord) -> DrillRecord:
        """Replace addresses by names, and add incarnations to origins."""
        if record.event in ("view", "suspect") and record.detail is not None:
            if record.detail.get("bridge"):
                return record
            detail = dict(record.detail)
            detail["members"] = [self._origin(a) for a in detail["members"]]
            if "id" in detail:
                creator, _, number = detail["id"].rpartition("|")
                detail["id"] = f"{self._origin(creator)}|{number}"
            return record._replace(detail=detail)
        return record

    def _origin(self, address: str) -> str:
        member = self._address.get(address) or self._bridge_address.get(address)
        return address if member is None else member.origin

    def _bridge_views(self) -> Iterator[DrillRecord]:
        for t, member, number, addresses in sorted(self._bridge_records, key=lambda r: r[0]):
            known = [self._bridge_address[a] for a in addresses if a in self._bridge_address]
            names = [f"{peer.site}.{peer.origin}" for peer in known]
            sites = [peer.site for peer in known]
            yield DrillRecord.of_member(
                t, member, "view", id=number, members=names, bridge=True, sites=sites
            )


class AskedDrill(RealDrill):
    """A drill whose members log their content at the end, when asked, and then answer ``looked``."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._looked: dict[Process, None] = {}
        self.last_question: dict[str, Any] = {"do": "census"}

    def _heard(self, member: Process, told: dict[str, Any]) -> None:
        if told["what"] == "looked":
            self._looked[member] = None
        else:
            super()._heard(member, told)

    async def _last_look(self) -> None:
        there = [m for m in self._members.values() if not (m.gone or m.paused)]
        await self._look(there, dict.fromkeys(there, self.last_question))

    async def _look(self, there: list[Process], commands: dict[Process, dict[str, Any]]) -> None:
        self._looked.clear()
        for member, command in commands.items():
            await self._tell(member, **command)
        look_seconds = patient(LOOK_SECONDS)
        with trio.move_on_after(look_seconds):
            await self._until(lambda: all(m in self._looked or m.gone for m in there))
            return
        silent = ", ".join(str(m) for m in there if m not in self._looked)
        waited = f"no answer after {look_seconds:.0f} s{busy_text()}"
        raise DrillError(f"{self.plan.file}: {silent}: {waited}")


def _last(member: Process) -> str:
    """Return the end of the process' standard error."""
    lines = member.stderr.read_text(errors="replace").strip().splitlines()
    return " / ".join(lines[-STDERR_LINES:]) or "it said nothing"
