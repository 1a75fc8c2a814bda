"""Measures calls. Two processes are members, and one calls the other, with 1 and with more tasks.

Each call sends ``size`` bytes and gets them back, and the value is compared. For each number of callers there are a warm-up
and three windows. A rate is their median; latencies are those of all calls in them. Lines of JSON go both ways, as in mperf.
A member leaves when its standard input ends.
"""

from __future__ import annotations

import gc
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import trio

from jgroups_py import Address, Rpc, open_channel, open_rpc
from jgroups_py.tools.child_side import run_child, say, set_at_first_line
from jgroups_py.tools.children import ready_children, start_process

WINDOWS = 3
NAMES = ("caller", "called")
LEAD = 0.2  # seconds between the first member and the second


@dataclass(frozen=True)
class RpcperfPlan:
    """The plan of a measurement: ``seconds`` for each number of callers, ``size`` bytes of argument and value."""

    stack: str
    callers: tuple[int, ...]
    size: int
    seconds: float
    slow: bool
    cluster: str
    attributes: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    bind_addr: str | None = None
    join_timeout: float = 30.0
    warm_up_seconds: float | None = None
    """Time before the first window; None: a quarter of ``seconds``, within 0.2 and 1."""

    @property
    def warm_up(self) -> float:
        if self.warm_up_seconds is not None:
            return self.warm_up_seconds
        return min(1.0, max(0.2, self.seconds / 4))


class Echo:
    """The methods that are called: a plain one, and an async one that lets others run."""

    def echo(self, data: bytes) -> bytes:
        return data

    async def echo_async(self, data: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        return data


# --- a member


async def _member(plan: RpcperfPlan, number: int) -> None:
    async with (
        trio.open_nursery() as listening,
        open_channel(
            plan.stack,
            cluster=plan.cluster,
            name=NAMES[number],
            bind_addr=plan.bind_addr,
            attributes=plan.attributes,
            properties=plan.properties,
            join_timeout=plan.join_timeout,
        ) as channel,
        open_rpc(channel, Echo()) as rpc,
    ):
        begin = trio.Event()
        listening.start_soon(set_at_first_line, begin, listening.cancel_scope)
        async for _ in rpc:
            if len(channel.view) == len(NAMES):
                break
        say(event="ready")
        await begin.wait()
        if number:
            await trio.sleep_forever()
        (dest,) = [member for member in channel.view if member != channel.address]
        gc.freeze()
        for callers in plan.callers:
            say(event="measured", **await _measure(rpc, dest, plan, callers))
        await trio.sleep_forever()


async def _measure(rpc: Rpc, dest: Address, plan: RpcperfPlan, callers: int) -> dict[str, Any]:
    """Return the figures for one number of callers."""
    clock = time.perf_counter
    method = "echo_async" if plan.slow else "echo"
    data = os.urandom(plan.size)
    took: list[float] = []
    wrong = 0

    async def call() -> None:
        nonlocal wrong
        while True:
            began = clock()
            value = await rpc.call(dest, method, data)
            took.append(clock() - began)
            wrong += value != data

    rates, all_took = [], []
    async with trio.open_nursery() as nursery:
        for _ in range(callers):
            nursery.start_soon(call)
        await trio.sleep(plan.warm_up)
        for _ in range(WINDOWS):
            took.clear()
            cpu, began = time.process_time(), clock()
            await trio.sleep(plan.seconds / WINDOWS)
            rates.append((len(took) / (clock() - began), time.process_time() - cpu, len(took)))
            all_took += took
        nursery.cancel_scope.cancel()
    all_took.sort()
    rate, cpu, count = sorted(rates)[WINDOWS // 2]
    return {
        "callers": callers,
        "calls_per_s": round(rate),
        "caller_cpu_us": round(cpu / max(1, count) * 1e6, 1),
        "p50_us": round(_part(all_took, 0.5) * 1e6),
        "p99_us": round(_part(all_took, 0.99) * 1e6),
        "p999_us": round(_part(all_took, 0.999) * 1e6),
        "wrong": wrong,
    }


def _part(sorted_values: list[float], part: float) -> float:
    if not sorted_values:
        return math.nan
    return sorted_values[min(len(sorted_values) - 1, int(part * len(sorted_values)))]


def member_main(text: str) -> None:
    """Entry point of a member's process; ``text`` is JSON."""
    arguments = json.loads(text)
    arguments["plan"]["callers"] = tuple(arguments["plan"]["callers"])
    run_child(_member, RpcperfPlan(**arguments["plan"]), arguments["number"])


# --- the parent


async def start_member(plan: RpcperfPlan, number: int) -> trio.Process:
    """Start the process of a member."""
    argument = {"plan": asdict(plan), "number": number}
    return await start_process("jgroups_py.tools.commands.rpcperf_run", argument)


async def measure(
    plan: RpcperfPlan,
    progress: Callable[[str], None],
    start: Callable[[RpcperfPlan, int], Awaitable[trio.Process]] = start_member,
) -> dict[str, Any]:
    """Run the measurement. Return the object that ``rpcperf --json`` prints.

    Args:
        start: starts the process of a member, which hears and says the lines of this module.

    Raises:
        ChildError: a member did not join or died.
    """
    measured: list[dict[str, Any]] = []
    async with ready_children(
        NAMES,
        lambda number: start(plan, number),
        plan.join_timeout,
        missing=f"no view of {len(NAMES)}",
        lead=LEAD,
    ) as children:
        for child in children:
            await child.tell(begin=True)
        for callers in plan.callers:
            progress(f"{callers} caller{'s' * (callers > 1)}")
            told = await children[0].hear("measured")
            measured.append({k: v for k, v in told.items() if k != "event"})
    return {
        "stack": plan.stack,
        "size": plan.size,
        "seconds": plan.seconds,
        "method": "async" if plan.slow else "plain",
        "runs": measured,
        "gain": round(measured[-1]["calls_per_s"] / max(1, measured[0]["calls_per_s"]), 2),
        "wrong": sum(run["wrong"] for run in measured),
    }


def median_of(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one result of several runs: medians, and the rates of every run."""
    merged = dict(results[0])
    merged["runs"] = []
    for group in zip(*[result["runs"] for result in results], strict=True):
        median = {key: statistics.median(run[key] for run in group) for key in group[0]}
        rates = [run["calls_per_s"] for run in group]
        merged["runs"].append({**median, "callers": group[0]["callers"], "rates": rates})
    merged["gain"] = statistics.median(result["gain"] for result in results)
    merged["wrong"] = sum(result["wrong"] for result in results)
    return merged


if __name__ == "__main__":
    member_main(sys.argv[1])
