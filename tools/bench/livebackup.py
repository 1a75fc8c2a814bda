"""What the parallel backup gains over one operation at a time, by the number of independent objects, and what the order costs.

    python -m jgroups_py.tools.bench.livebackup --operations 400 --objects 1,2,8,64

A live node and a backup in one process, on a network in memory, real time. Each operation makes one change, of an object in turn, and the
change waits for 1 ms as if for a disk (``--io``). 64 clients. Printed for each number of objects, operations a second:

    one at a time   the reference (P1)
    parallel        with the backup that confirms
    limit           the critical path: the changes of the busiest object one after the other, once more for the last one on the backup
    live alone      parallel, without a backup: what replication costs

At the end: what the order itself costs for one operation (``Applier``), without nodes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any, Final

import trio

from jgroups_py import MemoryNetwork
from jgroups_py.livebackup import LiveBackupSettings, Stateful, Work, open_livebackup
from jgroups_py.livebackup.applier import Applier
from jgroups_py.livebackup.tickets import Ticket

CLIENTS: Final = 64


class Disk(Stateful):
    """An object whose changes wait for I/O."""

    def __init__(self) -> None:
        self.changes = 0

    async def write(self, seconds: float) -> int:
        await trio.sleep(seconds)
        self.changes += 1
        return self.changes


async def write(work: Work, disk: str, seconds: float) -> int:
    number: int = await work.get(Disk, disk).write(seconds)
    return number


async def rate(mode: Any, operations: int, objects: int, seconds: float, *, backup: bool) -> float:
    """Operations a second."""
    settings = LiveBackupSettings(mode=mode, quorum=2 if backup else 0)
    network = MemoryNetwork()

    def node(name: str) -> Any:
        return open_livebackup(
            "sim.xml",
            cluster="bench",
            name=name,
            kinds=[Disk],
            operations=[write],
            settings=settings,
            transport=network,
        )

    async with node("A") as first:
        if not backup:
            await first.wait_role("live")
            return await _run(first, operations, objects, seconds)
        async with node("B") as second:
            for one in (first, second):
                await one.wait_role("live", "backup")
            live = first if first.role == "live" else second
            await live.wait_backups(1)
            return await _run(live, operations, objects, seconds)


async def _run(live: Any, operations: int, objects: int, seconds: float) -> float:
    numbers = iter(range(operations))

    async def client() -> None:
        for n in numbers:
            await live.run(write, f"d{n % objects}", seconds)

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(CLIENTS):
            nursery.start_soon(client)
    return operations / (time.perf_counter() - began)


def limit(operations: int, objects: int, seconds: float) -> float:
    """Operations a second when only the order of each object's changes counts."""
    path = max(-(-operations // objects), -(-operations // CLIENTS) * 2) + 1
    return operations / (path * seconds)


def order_cost(operations: int, objects: int) -> float:
    """Microseconds of the backup's order for one operation with two changes."""
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


def measure(operations: int, objects: list[int], seconds: float) -> dict[str, Any]:
    rows = []
    for number in objects:
        alone = trio.run(_kind, "parallel", operations, number, seconds, False)
        single = trio.run(_kind, "one_at_a_time", max(50, operations // 8), number, seconds, True)
        parallel = trio.run(_kind, "parallel", operations, number, seconds, True)
        most = limit(operations, number, max(seconds, 1e-6))
        rows.append(
            {
                "objects": number,
                "one_at_a_time": round(single),
                "parallel": round(parallel),
                "speed_up": round(parallel / single, 1),
                "limit": round(most),
                "share_of_limit": round(parallel / most, 2),
                "live_alone": round(alone),
                "cost_of_replication": round(1 - parallel / alone, 2),
            }
        )
    return {"rows": rows, "order_us": round(order_cost(20_000, 64), 1)}


async def _kind(mode: str, operations: int, objects: int, seconds: float, backup: bool) -> float:
    return await rate(mode, operations, objects, seconds, backup=backup)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n\n")[0], allow_abbrev=False
    )
    parser.add_argument("--operations", type=int, default=2_000)
    parser.add_argument("--objects", default="1,2,8,64", help="numbers of independent objects")
    parser.add_argument("--io", type=float, default=1.0, help="milliseconds of one change")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.operations, [int(n) for n in given.objects.split(",")], given.io / 1000)
    if given.json:
        print(json.dumps(found))
        return 0
    print("objects  one at a time  parallel  speed-up   limit  share  live alone  cost")
    for row in found["rows"]:
        print(
            f"{row['objects']:7}  {row['one_at_a_time']:13}  {row['parallel']:8}  {row['speed_up']:8}  {row['limit']:6}"
            f"  {row['share_of_limit']:5}  {row['live_alone']:10}  {row['cost_of_replication']:4}"
        )
    print(f"the order: {found['order_us']} us an operation")
    return 0


if __name__ == "__main__":
    sys.exit(main())
