"""Measures the time until a group of processes notices that one of them was killed.

The parent starts one process for each member, kills one with SIGKILL, and waits until all others have a view without it.
Then it starts another process in its place. The coordinator is killed first, then the members in turn. All processes share
the host's monotonic clock. A time begins just before the kill and ends when the last of the others has its view.

A child prints ``view`` for each view, with the numbers of its members, and ``statistics`` when it is asked for them. It
leaves the group when its standard input ends.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import trio

from jgroups_py import View, open_channel
from jgroups_py.drill.run.patience import busy_text, patient
from jgroups_py.tools.child_side import heard_lines, say
from jgroups_py.tools.children import Child, ChildError, end_all, start_process

SETTLE = 0.5  # seconds between the complete view and the kill: neighbours connect meanwhile


@dataclass(frozen=True)
class DetectPlan:
    """The plan of a measurement. Times are seconds. A time above ``limit`` ends the measurement; on a busy machine it may be longer."""

    stack: str
    members: int
    kills: int
    cluster: str
    attributes: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    bind_addr: str | None = None
    join_timeout: float = 30.0
    limit: float = 60.0


# --- a member


async def _member(plan: DetectPlan, name: str) -> None:
    async with (
        open_channel(
            plan.stack,
            cluster=plan.cluster,
            name=name,
            bind_addr=plan.bind_addr,
            attributes=plan.attributes,
            properties=plan.properties,
            join_timeout=plan.join_timeout,
        ) as channel,
        trio.open_nursery() as nursery,
    ):

        async def obey() -> None:
            async with heard_lines() as lines:
                async for line in lines:
                    if "block" in (told := json.loads(line)):
                        time.sleep(told["block"])  # noqa: ASYNC251 (a loop that stands still is meant)
                    now = channel.statistics()
                    counters = {"driver": now.driver, **now.protocols}
                    say(event="statistics", **{key: dict(value) for key, value in counters.items()})
            nursery.cancel_scope.cancel()

        nursery.start_soon(obey)
        async for item in channel:
            if isinstance(item, View):
                names = [channel.name_of(m) for m in item.members]
                say(event="view", id=item.id, members=names, at=time.monotonic())


# --- the parent


class DetectedGroup:
    """Members as processes, and the newest view of each."""

    def __init__(self, plan: DetectPlan, nursery: trio.Nursery) -> None:
        self.plan = plan
        self.children: dict[str, Child] = {}
        self.views: dict[str, dict[str, Any]] = {}
        self.told: dict[str, dict[str, Any]] = {}
        """The last statistics of each member."""
        self.history: list[tuple[str, tuple[str, ...]]] = []
        """(member, its view's members) of every view, in the order in which they came."""
        self._nursery = nursery
        self._news = trio.Event()
        self._next = 1

    async def start_one(self) -> str:
        """Start one more member and return its name."""
        name = f"M{self._next}"
        self._next += 1
        process = await start_process(
            "jgroups_py.tools.commands.detect_run", [asdict(self.plan), name]
        )
        child = self.children[name] = Child(process, name)
        self._nursery.start_soon(child.collect_problem)
        self._nursery.start_soon(self._listen, child)
        return name

    async def _listen(self, child: Child) -> None:
        async for line in child.lines:
            told = json.loads(line)
            if told["event"] == "view":
                self.views[child.name] = told
                self.history.append((child.name, tuple(told["members"])))
            else:
                self.told[child.name] = told
            self._news.set()
            self._news = trio.Event()
        if child.name in self.children:
            await child.process.wait()
            raise child.ended()

    async def statistics(self, name: str) -> dict[str, Any]:
        """Return a member's counters."""
        return await self._ask(name)

    async def block(self, name: str, seconds: float) -> dict[str, Any]:
        """Keep a member's event loop busy for some time. Return its counters afterwards."""
        return await self._ask(name, block=seconds)

    async def _ask(self, name: str, **what: float) -> dict[str, Any]:
        self.told.pop(name, None)
        await self.children[name].tell(**what)
        while name not in self.told:
            await self._news.wait()
        return self.told[name]

    async def agree(self) -> float:
        """Wait until all have a view of exactly the living members. Return when the last one had it."""
        wanted = sorted(self.children)
        limit = patient(self.plan.limit)
        with trio.move_on_after(limit):
            while any(
                name not in self.views or sorted(self.views[name]["members"]) != wanted
                for name in wanted
            ):
                await self._news.wait()
            return max(float(self.views[name]["at"]) for name in wanted)
        names = ", ".join(wanted)
        raise ChildError(f"no common view of {names} within {limit:.0f} s{busy_text()}")

    async def kill(self, name: str) -> float:
        """Kill a member. Return the seconds until all others have a view without it."""
        child = self.children.pop(name)
        self.views.pop(name)
        began = time.monotonic()
        child.process.kill()
        took = await self.agree() - began
        await child.process.wait()
        return took

    def coordinator(self) -> str:
        return str(next(iter(self.views.values()))["members"][0])

    async def end(self) -> None:
        children, self.children = list(self.children.values()), {}
        await end_all(children, 8.0)


async def measure(plan: DetectPlan, progress: Callable[[str], None]) -> dict[str, Any]:
    """Kill members. Return ``{"times": [...], ...}`` in seconds, with the killed members."""
    times: list[float] = []
    coordinators = 0
    async with trio.open_nursery() as nursery:
        group = DetectedGroup(plan, nursery)
        try:
            for _ in range(plan.members):
                await group.start_one()
                await group.agree()
            for number in range(plan.kills):
                await trio.sleep(SETTLE)
                coordinator = group.coordinator()
                members = group.views[coordinator]["members"]
                victim = members[number % len(members)]
                coordinators += victim == coordinator
                times.append(await group.kill(victim))
                progress(f"kill {number + 1} of {plan.kills}: {times[-1] * 1000:.0f} ms")
                await group.start_one()
                await group.agree()
        finally:
            with trio.CancelScope(shield=True):
                await group.end()
        nursery.cancel_scope.cancel()
    return summary(plan, times, coordinators)


def summary(plan: DetectPlan, times: list[float], coordinators: int) -> dict[str, Any]:
    """Return the figures of a measurement, in seconds."""
    ordered = sorted(times)
    return {
        "stack": plan.stack,
        "members": plan.members,
        "kills": len(times),
        "coordinators": coordinators,
        "min_s": round(ordered[0], 4),
        "median_s": round(statistics.median(ordered), 4),
        "p90_s": round(ordered[(9 * len(ordered) - 1) // 10], 4),
        "max_s": round(ordered[-1], 4),
        "times_s": [round(t, 4) for t in times],
    }


if __name__ == "__main__":
    given, own_name = json.loads(sys.argv[1])
    trio.run(_member, DetectPlan(**given), own_name)
