"""``python -m jgroups_py.tools.bench.cache_cost``: the cost of buddy replication, by size of cluster.

Simulated clusters with the real protocols (cache_cost.py). For each number of members and of buddies:
messages, packets and bytes of a write, a creation, a gravitation; memory as a part of (b + 1) X, where X is
the mean size of a member's own nodes; and for the first size the cost of low stickiness. Only the order of
tasks is not deterministic: figures of two runs differ by heartbeats only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from jgroups_py.drill.report.charts import Chart, standalone
from jgroups_py.drill.run.requests import Load
from jgroups_py.tools.bench import cache_cost_counts as cache_cost
from jgroups_py.tools.bench.ended import end_with


async def one(members: int, buddies: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one cluster and return its figures."""
    async with cache_cost.cluster(members, buddies) as cluster:
        memory = await cache_cost.memory(cluster, arguments.keys)
        costs = await cache_cost.operations(cluster, arguments.count, arguments.size)
    least, mean, most = memory.ratio(buddies)
    return {
        "members": members,
        "buddies": buddies,
        "operations": {
            name: {
                "messages": cost.total,
                "by_kind": cost.messages,
                "packets": round(cost.packets, 2),
                "bytes": round(cost.bytes),
            }
            for name, cost in costs.items()
        },
        "memory": {
            "own_bytes": round(memory.own),
            "of_expected_least": round(least, 3),
            "of_expected_mean": round(mean, 3),
            "of_expected_most": round(most, 3),
        },
    }


async def sticky(members: int, stickiness: float, arguments: argparse.Namespace) -> dict[str, Any]:
    async with cache_cost.cluster(members, 1) as cluster:
        load = Load(100, 0.8, stickiness, arguments.size)
        found = await cache_cost.stickiness(cluster, load, arguments.count)
    return {
        "members": members,
        "stickiness": stickiness,
        "astray": round(found.astray, 3),
        "gravitations": round(found.gravitations, 3),
        "messages": round(found.messages, 2),
        "packets": round(found.packets, 2),
        "bytes": round(found.bytes),
    }


def plot(clusters: Sequence[dict[str, Any]], stickiness: Sequence[dict[str, Any]]) -> str:
    """Return three charts: messages of an operation, memory of a member, cost of requests at a wrong member."""
    buddies = sorted({run["buddies"] for run in clusters})

    def line(b: int, value: Any) -> list[tuple[float, float]]:
        return [(run["members"], value(run)) for run in clusters if run["buddies"] == b]

    def messages(name: str) -> Any:
        return lambda run: run["operations"][name]["messages"]

    lines = {f"write, b = {b}": line(b, messages("write")) for b in buddies}
    lines["create, b = 1"] = line(buddies[0], messages("create"))
    lines["gravitate, b = 1"] = line(buddies[0], messages("gravitate"))
    memory = {
        f"b = {b}": line(b, lambda run: run["memory"]["of_expected_most"] * (run["buddies"] + 1))
        for b in buddies
    }
    charts = [
        Chart("Messages of one operation", "members", lines),
        Chart("Most memory of a member, in X", "members", memory),
    ]
    if stickiness:
        charts.append(
            Chart(
                "Messages of one request",
                "requests that went astray (part)",
                {
                    f"{stickiness[0]['members']} members": [
                        (s["astray"], s["messages"]) for s in stickiness
                    ]
                },
            )
        )
    return standalone(charts)


def text(result: dict[str, Any]) -> str:
    """Return the result for people."""
    rows = ["members  b  operation          messages   packets     bytes"]
    for run in result["clusters"]:
        for name, cost in run["operations"].items():
            rows.append(
                f"{run['members']:7} {run['buddies']:2}  {name:17} {cost['messages']:9.2f} "
                f"{cost['packets']:9.2f} {cost['bytes']:9}"
            )
        memory = run["memory"]
        rows.append(
            f"{run['members']:7} {run['buddies']:2}  memory / (b + 1) X: {memory['of_expected_mean']}"
            f" ({memory['of_expected_least']} to {memory['of_expected_most']})"
        )
    rows += ["", "members  stickiness  astray  gravitations  messages   packets     bytes"]
    for s in result["stickiness"]:
        rows.append(
            f"{s['members']:7} {s['stickiness']:11} {s['astray']:7} {s['gravitations']:13} "
            f"{s['messages']:9} {s['packets']:9} {s['bytes']:9}"
        )
    return "\n".join(rows)


def _parts(given: str) -> list[float]:
    found = [float(part) for part in given.split(",")]
    if not all(0 <= part <= 1 for part in found):
        raise argparse.ArgumentTypeError("a part is 0 to 1")
    return found


def _numbers(given: str) -> list[int]:
    return [int(part) for part in given.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench_cache_cost", description=__doc__)
    parser.add_argument("--members", type=_numbers, default=[5, 10, 20, 35, 50])
    parser.add_argument("--buddies", type=_numbers, default=[1, 2, 3])
    parser.add_argument("--count", type=int, default=200, help="operations of a kind, 1 to 600")
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--keys", type=int, default=100, help="nodes of a member, for the memory")
    parser.add_argument("--stickiness", type=_parts, default=[1.0, 0.99, 0.95, 0.8, 0.5, 0.0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", metavar="OUT.svg")
    arguments = parser.parse_args()
    if not 1 <= arguments.count <= 600:
        parser.error("--count is 1 to 600")
    if min(arguments.members) < 3 or not 0 < max(arguments.buddies) < min(arguments.members):
        parser.error("--members are 3 or more, and more than --buddies")
    clusters, stickiness = [], []
    for buddies in arguments.buddies:
        for members in arguments.members:
            print(f"{members} members, {buddies} buddies", file=sys.stderr, flush=True)
            clusters.append(_run(one, members, buddies, arguments))
    for part in arguments.stickiness:
        print(f"stickiness {part}", file=sys.stderr, flush=True)
        stickiness.append(_run(sticky, min(arguments.members), part, arguments))
    result = {"clusters": clusters, "stickiness": stickiness}
    if arguments.plot:
        Path(arguments.plot).write_text(plot(clusters, stickiness))
    print(json.dumps(result) if arguments.json else text(result))
    return 0


def _run(measure: Any, *given: Any) -> dict[str, Any]:
    found: dict[str, Any] = trio.run(measure, *given, clock=MockClock(autojump_threshold=0))
    return found


if __name__ == "__main__":
    end_with(main)
