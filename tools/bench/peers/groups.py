"""Groups: the times in which members join and notice a kill, and the cost of an idle member.

A member says ``loaded`` when its process is ready to join, joins when it is told to, and says each view with the time. Clocks
are comparable: all read the machine's monotonic clock. The time of a join begins with the order to join. It includes
the modules that a member loads then, but not the start of a process.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

import psutil
import trio

from jgroups_py.tools.bench.peers.group_member import GroupPlan
from jgroups_py.tools.children import Child, ChildError, end_all, start_process

MODULE: Final = "jgroups_py.tools.bench.peers.group_member"
LOAD_SECONDS: Final = 120.0
"""The most seconds in which all processes of a group start."""
VIEW_SECONDS: Final = 60.0
"""The longest time in which a group has a view."""
SETTLE_SECONDS: Final = 2.0
"""The time between the last view and the look at idle members."""


Start = Callable[[GroupPlan, int], Awaitable[trio.Process]]


async def start_member(plan: GroupPlan, number: int) -> trio.Process:
    """Start the process of a member of ours."""
    return await start_process(MODULE, {"plan": asdict(plan), "number": number})


async def measure(plan: GroupPlan, start: Start = start_member) -> dict[str, float]:
    """Return ``join_ms``, until all members have the full view, and the plan's figures of idle members and of the kill.

    Raises:
        ChildError: a member died, or the view did not come.
    """
    children: list[Child] = []
    async with trio.open_nursery() as nursery:
        try:
            for number in range(plan.members):
                child = Child(await start(plan, number), f"M{number + 1}")
                children.append(child)
                nursery.start_soon(child.collect_problem)
            with _within(LOAD_SECONDS, "members are not loaded"):
                for child in children:
                    await child.hear("loaded")
            return await measured(plan, children)
        finally:
            with trio.CancelScope(shield=True):
                await end_all(children, 8)
            nursery.cancel_scope.cancel()


async def measured(plan: GroupPlan, children: Sequence[Child]) -> dict[str, float]:
    """Measure as ``measure`` does, with loaded processes."""
    first, joiners = children[0], children[1:]
    await first.tell(open=True)
    await _views([first], 1)
    begin = time.monotonic()
    for child in joiners:
        await child.tell(open=True)
    joined = {"join_ms": _ms(await _views(children, plan.members) - begin)}
    if not plan.idle_seconds:
        return joined
    found = await _idle(plan, children)
    begin = time.monotonic()
    children[-1].process.kill()
    return found | {"kill_ms": _ms(await _views(children[:-1], plan.joiners) - begin)} | joined


async def _views(children: Sequence[Child], members: int) -> float:
    """Wait until all children have a view of so many members; return when the last one got it."""
    times = []
    with _within(VIEW_SECONDS, f"no view of {members}"):
        for child in children:
            told = await child.hear("view")
            while told["members"] != members:
                told = await child.hear("view")
            times.append(told["at"])
    return float(max(times))


async def _idle(plan: GroupPlan, children: Sequence[Child]) -> dict[str, float]:
    """Return the share of a core and the memory of a member, as a mean."""
    await trio.sleep(SETTLE_SECONDS)
    processes = [psutil.Process(child.process.pid) for child in children]
    before = sum(map(_cpu_seconds, processes))
    await trio.sleep(plan.idle_seconds)
    used = sum(map(_cpu_seconds, processes)) - before
    memory = sum(process.memory_info().rss for process in processes)
    return {
        "idle_percent": round(100 * used / plan.idle_seconds / len(processes), 3),
        "rss_mb": round(memory / len(processes) / 1e6, 1),
    }


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


class _within:
    """A block that raises ``ChildError`` with ``problem`` when it takes longer than so many seconds."""

    def __init__(self, seconds: float, problem: str) -> None:
        self._seconds, self._problem = seconds, problem
        self._scope = trio.CancelScope()

    def __enter__(self) -> None:
        self._scope.deadline = trio.current_time() + self._seconds
        self._scope.__enter__()

    def __exit__(self, *error: Any) -> bool:
        passed = self._scope.__exit__(*error)
        if self._scope.cancelled_caught:
            raise ChildError(f"{self._problem} within {self._seconds:g} s")
        return bool(passed)
