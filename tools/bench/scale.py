"""The cost of one more member: packets, bytes and processor time by the size of the group, in virtual time.

``python -m jgroups_py.tools.bench.scale --members 10,100,500`` forms a group of each size on udp.xml, with the real
protocols and real bytes, and lets one thing happen at a time: a join, a leave, a crash, a quiet interval of
heartbeats, a round of STABLE. The figures are sums over all members; ``growth`` is the exponent with which they grow
between two sizes (1: every member costs the same; 2: the cost of a member grows with the size).
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import math
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from jgroups_py.protocols.transport.base import TP
from jgroups_py.testing.sim import Member, World
from jgroups_py.tools.bench.ended import end_with

STACK = "udp.xml"
HEARTBEATS = 8.0
"""``FD_ALL3.interval`` of the stack, in seconds."""
STABILITY = 60.0
"""Seconds of a quiet interval: longer than ``STABLE.desired_avg_gossip`` of the stack, so that a round falls into
it."""
LIMIT = 300.0
"""A group that has not formed after so many virtual seconds is reported as not formed."""

Row = dict[str, Any]


class SimulatedGroup:
    """A simulated group and the sums of its costs so far."""

    def __init__(self, size: int, seed: int = 1, stack: str = STACK) -> None:
        self.stack = stack
        self.world = World(seed, check=False, grid=0.001)
        self.members = [self.start(f"m{n}") for n in range(size)]

    def start(self, name: str) -> Member:
        member = self.world.start(name, self.stack, "scale")
        member.keep_batches = False
        return member

    def settled(self) -> bool:
        return self.world.views_agree([m for m in self.members if m.alive])

    def settle(self) -> bool:
        return self.world.run_until(self.settled, limit=LIMIT)

    def bytes_received(self) -> int:
        transports = (m.stack.find(TP) for m in self.world.everybody)
        return sum(t.bytes_received for t in transports if t is not None)

    def cost(self, what: str, act: Callable[[], Any]) -> Row:
        """Run ``act``; return its cost for all members together."""
        packets, size, began = self.world.packets, self.bytes_received(), self.world.now
        cpu = time.process_time()
        act()
        return {
            "members": sum(m.alive for m in self.members),
            "what": what,
            "packets": self.world.packets - packets,
            "bytes": self.bytes_received() - size,
            "cpu_ms": round((time.process_time() - cpu) * 1000, 1),
            "virtual_s": round(self.world.now - began, 3),
            "one_view": self.settled(),
        }

    # --- the events

    def join(self) -> None:
        self.members.append(self.start("joiner"))
        self.settle()

    def leave(self) -> None:
        self.members[-1].leave()
        self.world.run_until(lambda: not self.members[-1].alive and self.settled(), limit=LIMIT)

    def crash(self) -> None:
        self.members[-2].crash()
        self.settle()

    def stable(self) -> None:
        self.members[0].send(b"x" * 1000)
        self.world.run_for(STABILITY)


def measure(size: int, stack: str = STACK) -> list[Row]:
    """Return the rows of one size of the group."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    group = SimulatedGroup(size, stack=stack)
    formed = group.settle()
    rows = [
        {
            "members": size,
            "what": "form, all at once",
            "packets": group.world.packets,
            "bytes": group.bytes_received(),
            "cpu_ms": round((time.process_time() - began) * 1000, 1),
            "virtual_s": round(group.world.now, 3),
            "one_view": formed,
        }
    ]
    if not formed:
        return rows
    group.world.run_for(2.0)  # the traffic of the last join ends
    for what, act in (
        ("join", group.join),
        ("leave", group.leave),
        ("crash", group.crash),
        (f"{HEARTBEATS:g} s of heartbeats", lambda: group.world.run_for(HEARTBEATS)),
        (f"one multicast and {STABILITY:g} s with a round of STABLE", group.stable),
    ):
        rows.append(group.cost(what, act))
        print(f"  {size} members: {what}", file=sys.stderr)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    rows.append({"members": size, "what": "memory, KB for each member", "kb": round(grown / size)})
    return rows


def growth(rows: list[Row], column: str) -> list[Row]:
    """Return the exponent of ``column`` between neighbouring sizes, for each thing that happens."""
    found = []
    for what in dict.fromkeys(row["what"] for row in rows):
        same = [row for row in rows if row["what"] == what and row.get(column)]
        for less, more in itertools.pairwise(same):
            exponent = math.log(more[column] / less[column]) / math.log(
                more["members"] / less["members"]
            )
            found.append(
                {
                    "what": what,
                    "from": less["members"],
                    "to": more["members"],
                    column: round(exponent, 2),
                }
            )
    return found


def markdown(rows: list[Row]) -> str:
    """The rows as a table, costs divided by the members."""
    lines = [
        "| members | what | packets a member | bytes a member | CPU ms a member | virtual s |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "packets" in row:
            size = row["members"]
            lines.append(
                f"| {size} | {row['what']} | {row['packets'] / size:.1f} | {row['bytes'] / size:.0f} "
                f"| {row['cpu_ms'] / size:.2f} | {row['virtual_s']} |"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-scale", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--members", default="10,100,500", help="sizes of the group")
    parser.add_argument("--stack", default=STACK)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes = [int(size) for size in options.members.split(",")]
    # A process for each size, so that its memory is that of one group.
    with concurrent.futures.ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        rows = [
            row for found in pool.map(measure, sizes, [options.stack] * len(sizes)) for row in found
        ]
    result = {"rows": rows, "growth": growth(rows, "packets") + growth(rows, "cpu_ms")}
    if options.json:
        print(json.dumps(result))
    else:
        print(markdown(rows))
        for row in rows:
            if "kb" in row:
                print(f"{row['members']} members: {row['kb']} KB of memory for each")
    return 0 if all(row.get("one_view", True) for row in rows) else 1


if __name__ == "__main__":
    end_with(main)
