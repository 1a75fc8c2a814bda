"""``python -m jgroups_py.tools.bench.cache``: puts and gets a second beside Redis and PySyncObj.

Two or more members on this machine, a synchronous copy at one buddy; Redis with one replica; PySyncObj with three members
(cache_perf.py, cache_peers.py). Two members hold a value, as Redis and its replica do. All are measured in turn in each run;
figures are the medians of the runs. A peer that is not installed is named and left out. With --bare each run has two bare
processes, too, that compute and poll as long as the first put takes (cache_bare.py): they show how much of its p99 is the
machine's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from typing import Any

import trio

from jgroups_py.tools.bench import cache_bare, cache_peers, cache_perf
from jgroups_py.tools.bench.cache_perf import CachePerfPlan
from jgroups_py.tools.bench.ended import end_with

OURS = "jgroups_py"
PEER_SECONDS = 300.0


def median_of(runs: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the median of each figure over all runs, with the rate of each run."""
    found = []
    for same in zip(*runs, strict=True):
        first = same[0]
        found.append(
            {
                **{key: first[key] for key in ("kind", "size", "callers")},
                "per_s": round(statistics.median(run["per_s"] for run in same)),
                "p50_us": statistics.median(run["p50_us"] for run in same),
                "p99_us": statistics.median(run["p99_us"] for run in same),
                "cpu_us": statistics.median(run["cpu_us"] for run in same),
                "rates": [run["per_s"] for run in same],
            }
        )
    return found


def text(result: dict[str, Any]) -> str:
    """Return the result for people: one figure in each line, with ratios to each peer."""
    medians = result["figures"]
    peers = [name for name in medians if name != OURS]
    rows = [
        f"{'':4} {'bytes':>6} {'callers':>7} {OURS + '/s':>14} {'p50 us':>8} {'p99 us':>8}"
        + "".join(f" {name + '/s':>14} {'p50 us':>8} {'p99 us':>8} {'ratio':>6}" for name in peers)
    ]
    for n, ours in enumerate(medians[OURS]):
        row = f"{ours['kind']:4} {ours['size']:6} {ours['callers']:7} {ours['per_s']:14,}"
        row += f" {ours['p50_us']:8.0f} {ours['p99_us']:8.0f}"
        for name in peers:
            other = medians[name][n]
            ratio = ours["per_s"] / max(1, other["per_s"])
            row += (
                f" {other['per_s']:14,} {other['p50_us']:8.0f} {other['p99_us']:8.0f} {ratio:6.2f}"
            )
        rows.append(row)
    if (bare := result.get("bare")) is not None:
        rows.append(
            f"two bare processes that take as long as the first put: p50 {bare['p50_us']:.0f} us, p99 {bare['p99_us']:.0f} us"
        )
    rows += [f"{peer} left out: {why}" for peer, why in result["left_out"].items()]
    return "\n".join(rows)


def _peer(name: str, plan: CachePerfPlan) -> list[dict[str, Any]]:
    done = subprocess.run(
        cache_peers.command(name, plan), capture_output=True, timeout=PEER_SECONDS
    )
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise SystemExit(f"bench_cache: {name}: {lines[-1] if lines else done.returncode}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def _numbers(given: str) -> tuple[int, ...]:
    found = tuple(int(part) for part in given.split(","))
    if min(found) < 1:
        raise argparse.ArgumentTypeError("numbers from 1 on")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench_cache", description=__doc__)
    parser.add_argument("--sizes", type=_numbers, default=(100, 1000), help="bytes of a value")
    parser.add_argument("--callers", type=_numbers, default=(1, 8))
    parser.add_argument("--seconds", type=float, default=1.5, help="for each figure")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--stack", default="udp.xml", help="of ours; the default is that of caches")
    parser.add_argument("--members", type=int, default=2, help="of ours, 2 or more")
    parser.add_argument("--no-peers", action="store_true", help="ours only")
    parser.add_argument("--bare", action="store_true", help="two bare processes, too")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.seconds <= 0 or arguments.runs < 1:
        parser.error("--seconds and --runs are more than 0")
    if arguments.members < 2:
        parser.error("--members is 2 or more: a put waits for a buddy")
    plan = CachePerfPlan(
        arguments.sizes, arguments.callers, arguments.seconds, arguments.stack, arguments.members
    )
    peers = [] if arguments.no_peers else list(cache_peers.PEERS)
    left_out = {peer: why for peer in peers if (why := cache_peers.missing(peer)) is not None}
    runs: dict[str, list[list[dict[str, Any]]]] = {
        name: [] for name in (OURS, *(peer for peer in peers if peer not in left_out))
    }
    bare: list[dict[str, Any]] = []
    for number in range(arguments.runs):
        for name, found in runs.items():
            print(f"run {number + 1}: {name}", file=sys.stderr, flush=True)
            found.append(trio.run(cache_perf.measured, plan) if name == OURS else _peer(name, plan))
            if arguments.bare and name == OURS:
                bare.append(cache_bare.measured(found[-1][0]["p50_us"], plan.seconds))
    result = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "stack": arguments.stack,
        "members": arguments.members,
        "seconds": arguments.seconds,
        "runs": arguments.runs,
        "figures": {name: median_of(found) for name, found in runs.items()},
        "left_out": left_out,
    }
    if bare:
        result["bare"] = {
            key: statistics.median(one[key] for one in bare) for key in ("p50_us", "p99_us")
        }
    print(json.dumps(result) if arguments.json else text(result))
    return 0


if __name__ == "__main__":
    end_with(main)
