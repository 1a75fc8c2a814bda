"""Puts and gets a second of a cache with one buddy: two or more members, each a process of its own.

One or several tasks ask the second member; the others keep its copies, and their own share of the ring. A put
returns when the buddy has it. Lines of JSON go both ways, as in rpcperf.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import trio

from jgroups_py.cache import BuddyReplicationConfig, CacheSettings, TreeCache, open_tree_cache
from jgroups_py.config.settings import load_stack, with_attributes
from jgroups_py.config.write import to_xml
from jgroups_py.tools.child_side import run_child, say, set_at_first_line
from jgroups_py.tools.children import ready_children, start_process
from jgroups_py.tools.commands.mperf_ports import private_attributes

KEYS = 1000
START_SECONDS = 30.0


@dataclass(frozen=True)
class CachePerfPlan:
    """The measurements: puts and gets of each size with each number of callers, ``seconds`` each."""

    sizes: tuple[int, ...] = (100, 1000)
    callers: tuple[int, ...] = (1, 8)
    seconds: float = 1.5
    stack: str = "tcp.xml"
    """A shipped stack; for members a file with the ports of this run."""
    members: int = 3

    @property
    def names(self) -> list[str]:
        return [f"M{number + 1}" for number in range(self.members)]

    @property
    def warm_up(self) -> float:
        return min(0.5, self.seconds / 3)


def figures(
    kind: str, size: int, callers: int, took: list[float], elapsed: float
) -> dict[str, Any]:
    """Return one figure. ``took``: seconds of each call."""
    took.sort()
    return {
        "kind": kind,
        "size": size,
        "callers": callers,
        "per_s": round(len(took) / elapsed),
        "p50_us": round(took[len(took) // 2] * 1e6, 1) if took else None,
        "p99_us": round(took[int(len(took) * 0.99)] * 1e6, 1) if took else None,
    }


# --- a member


async def _member(plan: CachePerfPlan, number: int) -> None:
    settings = CacheSettings(
        cache_mode="REPL_SYNC",
        stack=plan.stack,
        cluster_name="perf",
        buddy_replication_config=BuddyReplicationConfig(
            buddy_replication_enabled=True,
            buddy_locator_properties={"numBuddies": "1", "ignoreColocatedBuddies": "false"},
            auto_data_gravitation=True,
        ),
    )
    async with (
        trio.open_nursery() as nursery,
        open_tree_cache(settings, name=plan.names[number]) as cache,
    ):
        begin = trio.Event()
        nursery.start_soon(set_at_first_line, begin, nursery.cancel_scope)
        await cache.wait_protected(plan.members)
        say(event="ready")
        await begin.wait()
        if number == 1:
            await _measure(cache, plan)
        await trio.sleep_forever()


async def _measure(cache: TreeCache, plan: CachePerfPlan) -> None:
    for size in plan.sizes:
        value = os.urandom(size)
        paths = [f"/{size}/{n}" for n in range(KEYS)]
        for path in paths:
            await cache.put(path, "v", bytes(size), new=True)

        async def put(path: str, value: bytes = value) -> None:
            await cache.put(path, "v", value)

        async def get(path: str, value: bytes = value) -> None:
            if await cache.get(path, "v") != value:
                raise ValueError(f"{path}: another value than was put")

        gc.collect()
        gc.freeze()
        for kind, call in (("put", put), ("get", get)):
            if kind == "get":
                for path in paths:
                    await put(path)
            for callers in plan.callers:
                say(event="measured", **await _window(kind, size, callers, plan, paths, call))
    say(event="done")


async def _window(
    kind: str,
    size: int,
    callers: int,
    plan: CachePerfPlan,
    paths: list[str],
    call: Callable[[str], Awaitable[None]],
) -> dict[str, Any]:
    clock = time.perf_counter
    took: list[float] = []

    async def ask(first: int) -> None:
        at = first
        while True:
            at = (at + callers) % KEYS
            began = clock()
            await call(paths[at])
            took.append(clock() - began)

    async with trio.open_nursery() as nursery:
        for number in range(callers):
            nursery.start_soon(ask, number)
        await trio.sleep(plan.warm_up)
        took.clear()
        cpu, began = time.process_time(), clock()
        await trio.sleep(plan.seconds)
        done, elapsed, cpu = list(took), clock() - began, time.process_time() - cpu
        nursery.cancel_scope.cancel()
    return {
        **figures(kind, size, callers, done, elapsed),
        "cpu_us": round(cpu / max(1, len(done)) * 1e6, 1),
    }


def member_main(text: str) -> None:
    """Entry point of a member's process; ``text`` is JSON."""
    arguments = json.loads(text)
    run_child(_member, CachePerfPlan(**arguments["plan"]), arguments["number"])


# --- the parent


async def measured(plan: CachePerfPlan) -> list[dict[str, Any]]:
    """Return the figures of one run. Raise ``ChildError`` when a member did not start or died."""
    with TemporaryDirectory(prefix="bench-cache-") as folder:
        return await _with_children(_private(plan, folder))


def _private(plan: CachePerfPlan, folder: str) -> CachePerfPlan:
    """Return the plan with a stack file that keeps this run apart from others."""
    stack = load_stack(plan.stack)
    file = Path(folder, "stack.xml")
    file.write_text(to_xml(with_attributes(stack, private_attributes(stack, plan.members))))
    return replace(plan, stack=str(file))


async def _with_children(plan: CachePerfPlan) -> list[dict[str, Any]]:
    def start(number: int) -> Awaitable[trio.Process]:
        return start_process(
            "jgroups_py.tools.bench.cache_perf", {"plan": asdict(plan), "number": number}
        )

    measured: list[dict[str, Any]] = []
    async with ready_children(
        plan.names, start, START_SECONDS, missing="no caches with their buddies", patience=3
    ) as children:
        await children[1].tell(begin=True)
        for _ in range(2 * len(plan.sizes) * len(plan.callers)):
            told = await children[1].hear("measured")
            measured.append({k: v for k, v in told.items() if k != "event"})
    return measured


if __name__ == "__main__":
    member_main(sys.argv[1])
