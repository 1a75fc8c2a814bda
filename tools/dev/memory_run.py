"""Measures the most memory that a member needs, with real processes and sockets.

    reader    three members; two send as fast as they may, multicasts and unicasts of 1 KB and 100 B,
              to a third whose reader never reads
    relay     one site of three members; the other site is named but never starts; traffic at a
              fixed rate

The parent starts the members and samples their resident size. Idle is a member that has joined and has
handled some traffic. It may grow by twice the sum of its limits (jgroups_py.channel.limits), which each member computes
from its own running stack.
"""

from __future__ import annotations

import gc
import json
import math
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import psutil
import trio

from jgroups_py import Channel, ChannelLimits, View, open_channel
from jgroups_py.channel.limits import memory_limits
from jgroups_py.channel.open import configure
from jgroups_py.config.settings import build
from jgroups_py.tools.child_side import heard_lines, run_child, say
from jgroups_py.tools.children import Child, ChildError, end_all, start_process
from jgroups_py.tools.commands.mperf_ports import free_block, private_attributes

MEMBERS: Final = 3
SIZES: Final = (1000, 100)
WARM_UP: Final = 200
"""Messages that each sender sends, and everybody reads, before a member counts as idle."""
SETTLE: Final = 2.0
"""Seconds of rest before idle is measured."""
SAMPLE: Final = 0.5
FILL_IN: Final = 0.4
"""Part of the run in which traffic of scenario ``relay`` fills the buffer."""
FACTOR: Final = 2
JOIN: Final = 60.0
SITES: Final = ("NYC", "SFO")

READER, RELAY = "reader", "relay"


@dataclass(frozen=True)
class MemoryPlan:
    """One scenario. ``rate``: messages per second of one sender; 0: as fast as it may."""

    scenario: str
    stack: str
    seconds: float
    cluster: str
    rate: float = 0.0
    attributes: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def senders(self) -> tuple[int, ...]:
        return (0, 1) if self.scenario == READER else (0, 1, 2)


def plan_for(
    scenario: str,
    seconds: float,
    settings: dict[str, str],
    properties: dict[str, str],
    stack: str | None = None,
) -> MemoryPlan:
    """Ports and multicast group of its own; ``settings`` override the stack's attributes.

    Raises:
        ConfigError: a setting that does not fit.
    """
    stack = stack or ("udp.xml" if scenario == READER else "relay-udp.xml")
    cluster = f"memory-{scenario}-{os.getpid()}"
    rate = 0.0
    if scenario == RELAY:
        port = free_block(2 * MEMBERS)
        hosts = ",".join(f"127.0.0.1[{port + n}]" for n in range(2 * MEMBERS))
        properties = {
            "relay.site": SITES[0],
            "relay.bridge.port": str(port),
            "relay.bridge.hosts": hosts,
            "relay.bridge.port_range": "0",
            **properties,
        }
        settings = {"RELAY.sites": ",".join(SITES), "RELAY.primary": SITES[0], **settings}
    config, host = configure(stack, None, settings, properties)
    settings = {**private_attributes(config, MEMBERS, host), **settings}
    if scenario == RELAY:
        room = next(c.max_bytes for cls, c in build(config) if cls.__name__ == "RELAY")
        mean = sum(SIZES) / len(SIZES)
        rate = max(100.0, room / mean / len(range(MEMBERS)) / (seconds * FILL_IN))
    return MemoryPlan(scenario, stack, seconds, cluster, rate, settings, properties)


# --- a member


class MemoryMember:
    """One process."""

    def __init__(self, plan: MemoryPlan, number: int) -> None:
        self.plan = plan
        self.number = number
        self.name = f"M{number + 1}"
        self.limits = ChannelLimits(hold_senders_max=math.inf)  # its reader never reads
        self.is_in = False
        self.joined = trio.Event()
        self.warm = trio.Event()
        self.received = 0
        self.sent = 0

    @property
    def is_mute(self) -> bool:
        """True for the member whose reader never reads."""
        return self.plan.scenario == READER and self.number == MEMBERS - 1

    async def run(self) -> None:
        plan = self.plan
        async with (
            heard_lines() as lines,
            open_channel(
                plan.stack,
                cluster=plan.cluster,
                name=self.name,
                attributes=plan.attributes,
                properties=plan.properties,
                limits=self.limits,
                join_timeout=JOIN,
            ) as channel,
            trio.open_nursery() as nursery,
        ):
            reading = trio.CancelScope()
            nursery.start_soon(self._read, channel, reading)
            await self.joined.wait()
            say(event="joined")
            await _next(lines)
            await self._warm_up(channel)
            if self.is_mute:
                reading.cancel()
            gc.collect()
            limits = memory_limits(channel.stack, self.limits)
            say(event="idle", limits=[asdict(limit) for limit in limits])
            await _next(lines)
            await self._go(channel, nursery)
            await _next(lines)
            say(event="done", **self._report(channel))
            await _next(lines)
            nursery.cancel_scope.cancel()

    async def _read(self, channel: Channel, scope: trio.CancelScope) -> None:
        with scope:
            async for item in channel.batches():
                if isinstance(item, View):
                    if not self.is_in:
                        self.is_in = True
                        say(event="in")
                    if len(item) == MEMBERS:
                        self.joined.set()
                else:
                    self.received += len(getattr(item, "payloads", ()))
                    if self.received >= WARM_UP * len(self.plan.senders):
                        self.warm.set()

    async def _warm_up(self, channel: Channel) -> None:
        if self.number in self.plan.senders:
            for index in range(WARM_UP):
                await channel.send(bytes(SIZES[index % 2]))
        with trio.fail_after(JOIN):
            await self.warm.wait()
        await trio.sleep(SETTLE / 2)

    async def _go(self, channel: Channel, nursery: trio.Nursery) -> None:
        plan = self.plan
        if self.number not in plan.senders:
            return
        if plan.scenario == RELAY:
            nursery.start_soon(self._send_at_rate, channel)
            return
        silent = next(m for m in channel.view if channel.name_of(m) == f"M{MEMBERS}")
        size = SIZES[self.number]
        nursery.start_soon(self._send_all, channel, size, None)
        nursery.start_soon(self._send_all, channel, size, silent)

    async def _send_all(self, channel: Channel, size: int, to: Any) -> None:
        while True:
            await channel.send(os.urandom(size), to)
            self.sent += 1

    async def _send_at_rate(self, channel: Channel) -> None:
        begin = trio.current_time()
        while True:
            due = (trio.current_time() - begin) * self.plan.rate
            while self.sent < due:
                await channel.send(os.urandom(SIZES[self.sent % 2]))
                self.sent += 1
            await trio.sleep(0.02)

    def _report(self, channel: Channel) -> dict[str, Any]:
        now = channel.statistics()
        report: dict[str, Any] = {
            "sent": self.sent,
            "received": now.received,
            "waiting": now.waiting,
            "send_waits": now.send_waits,
        }
        relay = channel.relay
        if relay is not None:
            status = relay.status()
            report["buffered_bytes"] = status.buffered_bytes
            report["buffered_messages"] = status.buffered_messages
            report["dropped"] = now.protocols["RELAY"]["overflowed"]
        return report


async def _next(lines: AsyncIterator[bytes]) -> None:
    """Return the parent's next order. The end of its lines is the order to leave."""
    async for _ in lines:
        return
    raise SystemExit(0)


def member_main(text: str) -> None:
    """Entry point of a member's process; ``text`` is JSON."""
    arguments = json.loads(text)
    run_child(MemoryMember(MemoryPlan(**arguments["plan"]), arguments["number"]).run)


# --- the parent


class _Member(Child):
    """A member's process and its size. Sizes are bytes."""

    def __init__(self, process: trio.Process, name: str) -> None:
        super().__init__(process, name)
        self.watched = psutil.Process(process.pid)
        self.idle = 0
        self.peak = 0
        self.limits: list[dict[str, Any]] = []
        self.report: dict[str, Any] = {}

    @property
    def size(self) -> int:
        try:
            return int(self.watched.memory_info().rss)
        except psutil.NoSuchProcess:
            raise self.ended() from None

    def row(self) -> dict[str, Any]:
        """Return the part of ``memory --json`` about a member."""
        total = sum(limit["bytes"] for limit in self.limits)
        allowed = self.idle + FACTOR * total
        return {
            "name": self.name,
            "idle": self.idle,
            "peak": self.peak,
            "limits": total,
            "allowed": allowed,
            "holds": self.peak <= allowed,
            "limit": self.limits,
            **self.report,
        }


async def measure(plan: MemoryPlan, progress: Callable[[str], None]) -> dict[str, Any]:
    """Run one scenario; the result is an object of ``memory --json``.

    Raises:
        ChildError: a member did not join or died.
    """
    members: list[_Member] = []
    async with trio.open_nursery() as nursery:
        try:
            with trio.move_on_after(JOIN) as scope:
                for number in range(MEMBERS):
                    members.append(await _start(plan, number))
                    nursery.start_soon(members[-1].collect_problem)
                    await members[-1].hear(
                        "in"
                    )  # so that the first member is coordinator and relay
                for count, member in enumerate(members, 1):
                    await member.hear("joined")
                    progress(f"{plan.scenario}: joined {count} of {MEMBERS}")
            if scope.cancelled_caught:
                raise ChildError(f"no view of {MEMBERS} within {JOIN:g} s")
            await _conduct(plan, members, progress)
        finally:
            with trio.CancelScope(shield=True):
                await end_all(members, 15)
            nursery.cancel_scope.cancel()
    rows = [member.row() for member in members]
    return {
        "scenario": plan.scenario,
        "stack": plan.stack,
        "seconds": plan.seconds,
        "rate": plan.rate,
        "sizes": list(SIZES),
        "members": rows,
        "holds": all(row["holds"] for row in rows),
    }


async def _conduct(
    plan: MemoryPlan, members: list[_Member], progress: Callable[[str], None]
) -> None:
    for member in members:
        await member.tell(go="warm up")
    for member in members:
        member.limits = (await member.hear("idle"))["limits"]
    sizes: dict[str, list[int]] = {member.name: [] for member in members}
    for _ in range(4):
        await trio.sleep(SETTLE / 4)
        for member in members:
            sizes[member.name].append(member.size)
    for member in members:
        member.idle = member.peak = int(statistics.median(sizes[member.name]))
    progress(f"{plan.scenario}: idle {_mb(members, 'idle')}; traffic for {plan.seconds:g} s")
    for member in members:
        await member.tell(go="traffic")
    await _watch(plan, members, progress)
    for member in members:
        await member.tell(go="report")
    for member in members:
        member.report = {k: v for k, v in (await member.hear("done")).items() if k != "event"}
        await member.tell(go="leave")


async def _watch(plan: MemoryPlan, members: list[_Member], progress: Callable[[str], None]) -> None:
    begin = time.monotonic()
    said = begin
    while (now := time.monotonic()) < begin + plan.seconds:
        await trio.sleep(SAMPLE)
        for member in members:
            member.peak = max(member.peak, member.size)
        if now - said >= 10:
            said = now
            progress(f"{plan.scenario}: {now - begin:.0f} s, peak {_mb(members, 'peak')}")


def _mb(members: list[_Member], what: str) -> str:
    return ", ".join(f"{getattr(m, what) / 1e6:.1f}" for m in members) + " MB"


async def _start(plan: MemoryPlan, number: int) -> _Member:
    argument = {"plan": asdict(plan), "number": number}
    return _Member(
        await start_process("jgroups_py.tools.dev.memory_run", argument), f"M{number + 1}"
    )


if __name__ == "__main__":
    member_main(sys.argv[1])
