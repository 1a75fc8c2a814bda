"""The gain of the parallel backup over one operation at a time, by the number of independent objects, and the CPU time
of the order.

    python -m jgroups_py.tools.bench.livebackup --operations 400 --objects 1,2,8,64
    python -m jgroups_py.tools.bench.livebackup --operations 100 --cpu 5

A live node and a backup, each in a process of its own, TCP on the loopback interface; with ``--together`` both in one process on a network in memory.
Each operation makes one change, of an object in turn, and the change waits for 1 ms as if for a disk (``--io``). With ``--cpu`` it computes for so long instead,
in the processes of its node, two for each. 64 clients. ``--realtime`` gives figures that hardly depend on other work of the machine, and takes the
processors from it. It prints operations a second for each number of objects:

    one at a time   the reference (P1)
    parallel        with the backup that confirms
    limit           the critical path: the changes of the busiest object one after the other, once more for the last one
                    on the backup; with --cpu also the rate that the processors allow, as both sides compute
    share           of the limit, and of the limit with real waits: just before, as many plain tasks as objects waited
                    in the same process, and their mean wait (ms) counts
    live alone      parallel, without a backup; cost: the share of its rate that replication takes
    lag             milliseconds that the backup was behind while the live node was saturated, at p50 and p99
    cpu             microseconds of processor time that an operation takes in the live node, alone and with a backup.
                    Other work of the machine hardly changes this
    busy            the share of the time for which the live node's one interpreter works, with a backup (operations a
                    second times cpu). Near 1 the interpreter is the limit, and not the critical path
    of both         the share of the lower one of two limits: the critical path, and the rate of one interpreter
                    (1 second / cpu)
    bare            the same load with bare tasks and locks (``livebackup_bare.py``), alone and with a backup: the limit of the
                    interpreter. Operations a second, their processor time, and the share of them that ours reach.
                    Waits only

At the end: the cost of the order itself for one operation (``Applier``), without nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

import trio

from jgroups_py import MemoryNetwork
from jgroups_py.config.settings import load_stack
from jgroups_py.livebackup import (
    LiveBackupNode,
    LiveBackupSettings,
    Stateful,
    Work,
    open_livebackup,
)
from jgroups_py.livebackup.applier import Applier
from jgroups_py.livebackup.tickets import Ticket
from jgroups_py.tools.bench.ended import end_with
from jgroups_py.tools.bench.livebackup_bare import BareLoad, run_bare_together
from jgroups_py.tools.bench.waits import Waits, bare
from jgroups_py.tools.commands.mperf_ports import free_block, private_attributes

CLIENTS: Final = 64
PROCESSES: Final = 2
"""The number of processes of each node."""
STACK: Final = "tcp.xml"
BARE: Final = "bare"
"""The mode with bare tasks."""
PROCESS_SECONDS: Final = 300.0
LOOK_EVERY: Final = 0.005
"""Seconds between two looks at the lag."""
_waits: Final = Waits()


class Disk(Stateful):
    """An object whose changes wait for I/O."""

    def __init__(self) -> None:
        self.changes = 0

    async def write(self, seconds: float) -> int:
        await _waits.wait(seconds)
        self.changes += 1
        return self.changes


async def write(work: Work, disk: str, seconds: float) -> int:
    number: int = await work.get(Disk, disk).write(seconds)
    return number


class Engine(Stateful):
    """An object whose changes compute."""

    runs_in = "process"

    def __init__(self) -> None:
        self.changes = 0

    def turn(self, seconds: float) -> int:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass
        self.changes += 1
        return self.changes


async def turn(work: Work, engine: str, seconds: float) -> int:
    number: int = await work.get(Engine, engine).turn(seconds)
    return number


@dataclass(frozen=True)
class Load:
    """The load that is run. ``cpu``: the changes compute, otherwise they wait."""

    operations: int
    objects: int
    seconds: float
    cpu: bool = False

    @property
    def bare(self) -> BareLoad:
        """Return the same load for bare tasks."""
        return BareLoad(self.operations, self.objects, CLIENTS, self.seconds)


class Rate(NamedTuple):
    """Operations a second; seconds that the backup was behind; seconds of processor time of an operation in the live
    node's process; seconds that a change's wait takes there without other work."""

    rate: float
    cpu: float
    lag_p50: float = 0.0
    lag_p99: float = 0.0
    wait: float = 0.0


async def rate(mode: Any, load: Load, *, backup: bool) -> Rate:
    """Measure the rate of one mode, with or without a backup. ``bare`` is a mode here."""
    if mode == BARE:
        return Rate(*await run_bare_together(load.bare, backup=backup))
    settings = LiveBackupSettings(mode=mode, quorum=2 if backup else 0, processes=PROCESSES)
    network = MemoryNetwork()

    def node(name: str) -> Any:
        return open_livebackup(
            "sim.xml",
            cluster="bench",
            name=name,
            kinds=[Engine if load.cpu else Disk],
            operations=[turn if load.cpu else write],
            settings=settings,
            transport=network,
        )

    async with node("A") as first:
        if not backup:
            await first.wait_role("live")
            return await run_load(first, load)
        async with node("B") as second:
            for one in (first, second):
                await one.wait_role("live", "backup")
            live = first if first.role == "live" else second
            await live.wait_backups(1)
            return await run_load(live, load)


async def run_load(live: LiveBackupNode, load: Load) -> Rate:
    """Run the load on the live node."""
    numbers = iter(range(load.operations))
    operation = turn if load.cpu else write
    lags: list[float] = []

    async def client() -> None:
        for n in numbers:
            await live.run(operation, f"d{n % load.objects}", load.seconds)

    async def watch() -> None:
        while True:
            await trio.sleep(LOOK_EVERY)
            lags.append(live.statistics()["lag_seconds"])

    wait = (
        load.seconds
        if load.cpu or not load.seconds
        else await bare(min(load.objects, CLIENTS), load.seconds)
    )
    began, cpu = time.perf_counter(), time.process_time()
    async with trio.open_nursery() as watching:
        watching.start_soon(watch)
        async with trio.open_nursery() as nursery:
            for _ in range(CLIENTS):
                nursery.start_soon(client)
        watching.cancel_scope.cancel()
    seconds = time.perf_counter() - began
    lags.sort()
    p50, p99 = (lags[int(len(lags) * share)] if lags else 0.0 for share in (0.5, 0.99))
    used = (time.process_time() - cpu) / load.operations
    return Rate(load.operations / seconds, used, p50, p99, wait)


async def rate_of_processes(mode: Any, load: Load, *, backup: bool, realtime: bool = False) -> Rate:
    """Measure as ``rate`` does, with a process for each node."""
    given = {
        "mode": mode,
        "attributes": {} if mode == BARE else private_attributes(load_stack(STACK), 2),
        "port": free_block(1) if mode == BARE else 0,
        "load": asdict(load),
        "backups": int(backup),
        "realtime": realtime,
    }
    async with AsyncExitStack() as opened:
        live = await opened.enter_async_context(_process({**given, "is_backup": False}))
        said = b""
        with trio.fail_after(PROCESS_SECONDS):
            while not said.endswith(b"live\n"):
                said += await _read(live)
            if backup:
                await opened.enter_async_context(_process({**given, "is_backup": True}))
            while said.count(b"\n") < 2:
                said += await _read(live)
        return Rate(*json.loads(said.splitlines()[1]))


async def _read(process: trio.Process) -> bytes:
    assert process.stdout is not None
    data = await process.stdout.receive_some(4096)
    if not data:
        raise SystemExit("the live node has ended; its error is above")
    return bytes(data)


@asynccontextmanager
async def _process(given: dict[str, Any]) -> AsyncIterator[trio.Process]:
    """Run a node until the end of the block or of its load."""
    command = [sys.executable, "-m", "jgroups_py.tools.bench.livebackup_node", json.dumps(given)]
    process = await trio.lowlevel.open_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def limit(load: Load, processors: int) -> float:
    """Return the operations a second if only the order of each object's changes limits them, and the processors if
    changes compute."""
    path = max(-(-load.operations // load.objects), -(-load.operations // CLIENTS) * 2) + 1
    seconds = max(load.seconds, 1e-6)
    found = load.operations / (path * seconds)
    return min(found, processors / (2 * seconds)) if load.cpu else found


def order_cost(operations: int, objects: int) -> float:
    """Return the microseconds of the backup's order for one operation with two changes."""
    numbers = dict.fromkeys((f"o{n}" for n in range(objects)), 0)
    records = []
    for n in range(operations):
        record = []
        for name in dict.fromkeys((f"o{n % objects}", f"o{(n * 7 + 3) % objects}")):
            numbers[name] += 1
            record.append(Ticket(name, numbers[name]))
        records.append(record)
    applier = Applier()
    began = time.perf_counter()
    for number, record in enumerate(records, start=1):
        ready = applier.add(number, record)
        while ready:
            ready = applier.done(ready[0])
        applier.ended(number)
    return (time.perf_counter() - began) / operations * 1e6


def _bare_cells(find: Any, load: Load, alone: Rate, parallel: Rate) -> dict[str, Any]:
    """Measure the load with bare tasks, and compare ours with them."""
    bare = trio.run(partial(find, BARE, load, backup=False))
    pair = trio.run(partial(find, BARE, load, backup=True))
    return {
        "bare_alone": round(bare.rate),
        "bare": round(pair.rate),
        "bare_cpu_alone_us": round(bare.cpu * 1e6),
        "bare_cpu_us": round(pair.cpu * 1e6),
        "bare_cost": round(1 - pair.rate / bare.rate, 2),
        "bare_share_of_limit": round(pair.rate / limit(load, 1), 2),
        "share_of_bare_alone": round(alone.rate / bare.rate, 2),
        "share_of_bare": round(parallel.rate / pair.rate, 2),
    }


def measure(
    operations: int,
    objects: list[int],
    seconds: float,
    cpu: bool = False,
    *,
    together: bool = False,
    realtime: bool = False,
) -> dict[str, Any]:
    rows = []
    find = rate if together else partial(rate_of_processes, realtime=realtime)
    for number in objects:
        load = Load(operations, number, seconds, cpu)
        fewer = replace(load, operations=max(50, operations // 8))
        alone = trio.run(partial(find, "parallel", load, backup=False))
        single = trio.run(partial(find, "one_at_a_time", fewer, backup=True))
        parallel = trio.run(partial(find, "parallel", load, backup=True))
        most = limit(load, os.cpu_count() or 1)
        real = limit(replace(load, seconds=parallel.wait), os.cpu_count() or 1)
        bare = {} if cpu else _bare_cells(find, load, alone, parallel)
        rows.append(
            bare
            | {
                "objects": number,
                "one_at_a_time": round(single.rate),
                "parallel": round(parallel.rate),
                "speed_up": round(parallel.rate / single.rate, 1),
                "limit": round(most),
                "share_of_limit": round(parallel.rate / most, 2),
                "wait_ms": round(parallel.wait * 1000, 2),
                "share_of_waits": round(parallel.rate / real, 2),
                "live_alone": round(alone.rate),
                "cost_of_replication": round(1 - parallel.rate / alone.rate, 2),
                "lag_p50_ms": round(parallel.lag_p50 * 1000, 1),
                "lag_p99_ms": round(parallel.lag_p99 * 1000, 1),
                "cpu_alone_us": round(alone.cpu * 1e6),
                "cpu_us": round(parallel.cpu * 1e6),
                "busy": round(parallel.rate * parallel.cpu, 2),
                "share_of_both": round(parallel.rate / min(most, 1 / parallel.cpu), 2),
            }
        )
    return {"rows": rows, "order_us": round(order_cost(20_000, 64), 1)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument("--operations", type=int, default=2_000)
    parser.add_argument("--objects", default="1,2,8,64", help="numbers of independent objects")
    parser.add_argument("--io", type=float, default=1.0, help="milliseconds that one change waits")
    parser.add_argument("--cpu", type=float, help="milliseconds that one change computes instead")
    parser.add_argument("--together", action="store_true", help="both nodes in one process")
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="both nodes before all other processes while they are measured (Linux, as root)",
    )
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.realtime and (given.cpu is not None or given.together):
        parser.error("--realtime is for waits in two processes, so not with --cpu or --together")
    objects = [int(n) for n in given.objects.split(",")]
    milliseconds = given.io if given.cpu is None else given.cpu
    seconds, cpu = milliseconds / 1000, given.cpu is not None
    found = measure(
        given.operations,
        objects,
        seconds,
        cpu,
        together=given.together,
        realtime=given.realtime,
    )
    if given.json:
        print(json.dumps(found))
        return 0
    print(
        "objects  one at a time  parallel  speed-up   limit  share  wait ms  of that  live alone  cost  lag ms p50, p99  cpu us alone, with  busy  of both"
    )
    for row in found["rows"]:
        print(
            f"{row['objects']:7}  {row['one_at_a_time']:13}  {row['parallel']:8}  {row['speed_up']:8}  {row['limit']:6}"
            f"  {row['share_of_limit']:5}  {row['wait_ms']:7}  {row['share_of_waits']:7}  {row['live_alone']:10}  {row['cost_of_replication']:4}  {row['lag_p50_ms']:8}"
            f" {row['lag_p99_ms']:6}  {row['cpu_alone_us']:12}  {row['cpu_us']:4}  {row['busy']:4}  {row['share_of_both']:7}"
        )
    if not cpu:
        print(
            "bare:    alone  with a backup  share of the limit  cost  cpu us alone, with  ours of it, alone, with"
        )
        for row in found["rows"]:
            print(
                f"{row['objects']:7}  {row['bare_alone']:5}  {row['bare']:13}  {row['bare_share_of_limit']:18}  {row['bare_cost']:4}"
                f"  {row['bare_cpu_alone_us']:12} {row['bare_cpu_us']:5}  {row['share_of_bare_alone']:17} {row['share_of_bare']:6}"
            )
    print(f"the order: {found['order_us']} us an operation")
    return 0


if __name__ == "__main__":
    end_with(main)
