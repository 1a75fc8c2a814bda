"""``python -m jgroups_py.tools.bench.sweep``: compares the stacks' settings for small messages with others.

Two members in processes of their own send multicasts of 100 B as fast as they can (mperf): with the settings of the stack, and
with others, one after the other in each run, so that other work of the machine slows all of them. The result shows the
rate, the CPU time of a delivery, and both in relation to the best settings. CPU time is steadier than a rate on a
machine with other work. The best settings are chosen by their median, sometimes by chance: so compare few settings in
many runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from jgroups_py.channel.open import configure
from jgroups_py.tools.bench.cells import cell
from jgroups_py.tools.bench.ended import end_with
from jgroups_py.tools.bench.peers.summary import Found, summary
from jgroups_py.tools.commands import mperf_run
from jgroups_py.tools.commands.mperf_load import SIZE_MIN
from jgroups_py.tools.commands.mperf_ports import private_attributes

DEFAULTS: Final = "as they are"
RATE: Final = "delivered_per_s"
CPU: Final = "cpu_us"
_FLOW: Final = {
    "credits 1 MB": {"MFC.max_credits": "1M"},
    "credits 8 MB": {"MFC.max_credits": "8M"},
    "credits 16 MB": {"MFC.max_credits": "16M"},
    "new credits at 0.2": {"MFC.min_threshold": "0.2"},
    "new credits at 0.7": {"MFC.min_threshold": "0.7"},
    "stable each 1 MB": {"STABLE.max_bytes": "1M"},
    "stable each 16 MB": {"STABLE.max_bytes": "16M"},
    "credits 16 MB, stable each 16 MB": {"MFC.max_credits": "16M", "STABLE.max_bytes": "16M"},
}
_UDP: Final = {
    "bundles of 8 KB": {"UDP.bundler.max_size": "8K"},
    "bundles of 32 KB": {"UDP.bundler.max_size": "32K"},
    "buffers of 16 MB": {
        "UDP.mcast_recv_buf_size": "16M",
        "UDP.ucast_recv_buf_size": "16M",
    },
}
_TCP: Final = {
    "bundles of 8 KB": {"TCP.bundler.max_size": "8K"},
    "bundles of 32 KB": {"TCP.bundler.max_size": "32K"},
    "bundles of 128 KB": {"TCP.bundler.max_size": "128K"},
    "buffers of 4 MB": {"TCP.recv_buf_size": "4M", "TCP.send_buf_size": "4M"},
}
SETTINGS: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "udp.xml": {DEFAULTS: {}, **_UDP, **_FLOW},
    "tcp.xml": {DEFAULTS: {}, **_TCP, **_FLOW},
}
"""Stack -> name of settings -> attributes."""


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The measurements: each of the settings for ``seconds``, in each of ``runs``."""

    stacks: tuple[str, ...] = tuple(SETTINGS)
    size: int = 100
    members: int = 2
    seconds: float = 2.0
    runs: int = 5

    def in_turn(self, stack: str, run: int) -> list[str]:
        """Return the names of the settings in the order of this run: each run begins with another one."""
        names = list(SETTINGS[stack])
        first = run % len(names)
        return names[first:] + names[:first]


async def one_setting(
    plan: SweepPlan, stack: str, attributes: Mapping[str, str], cluster: str
) -> dict[str, float]:
    """Return the figures of one run with these attributes.

    Raises:
        RuntimeError: a message was lost, came twice or in the wrong order.
    """
    config, host = configure(stack, None, dict(attributes), {})
    private = private_attributes(config, plan.members, host)
    measured = mperf_run.MperfPlan(
        stack,
        plan.members,
        plan.members,
        plan.size,
        plan.seconds,
        cluster,
        {**private, **attributes},
        bind_addr=host,
    )
    found = await mperf_run.measure(measured, lambda _: None)
    if mperf_run.has_fault(found):
        raise RuntimeError(f"{stack}, {attributes}: lost {found['lost']}, or twice, or unordered")
    return {
        RATE: found["delivered_per_s_per_member"],
        CPU: round(found["cpu_us_per_message"] / plan.members, 4),
    }


def nearness(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return for each stack the best settings, and its own rate and CPU time in relation to them.

    Figures are compared within a run. 1: the stack's own settings are the best.
    """
    found: dict[str, dict[str, Any]] = {}
    for stack in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == stack]
        rate = min(mine, key=lambda row: row["figures"][RATE]["ours_by_this"])
        cpu = max(mine, key=lambda row: row["figures"][CPU]["ours_by_this"])
        found[stack] = {
            "of_best_rate": rate["figures"][RATE]["ours_by_this"],
            "best_rate": rate["peer"],
            "of_best_cpu": round(1 / cpu["figures"][CPU]["ours_by_this"], 3),
            "best_cpu": cpu["peer"],
        }
    return found


def markdown(result: Mapping[str, Any]) -> str:
    """Return the result as a table of Markdown: medians with least and most, and the ratio of the stack's own
    settings."""
    lines = [
        f"{result['machine']}, load {result['load_average']}; {result['size']} B, {result['members']} members, "
        f"{result['runs']} runs of {result['seconds']:g} s; median (least-most), x those of the stack by this",
        "",
        "| stack | settings | delivered/s, member | CPU us/delivery |",
        "|---|---|---|---|",
    ]
    for row in result["rows"]:
        cells = [cell(row["figures"][figure], "ours_by_this", "x") for figure in (RATE, CPU)]
        lines.append(f"| {row['case']} | {row['peer']} | " + " | ".join(cells) + " |")
    lines.append("")
    for stack, found in result["nearness"].items():
        lines.append(
            f"{stack}: {found['of_best_rate']:.2f} of the best rate ({found['best_rate']}), "
            f"{found['of_best_cpu']:.2f} by CPU time ({found['best_cpu']})."
        )
    return "\n".join(lines)


def measure(plan: SweepPlan, progress: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""
    runs: list[Found] = []
    for number in range(plan.runs):
        found: dict[tuple[str, str], dict[str, float]] = {}
        for stack in plan.stacks:
            for name in plan.in_turn(stack, number):
                progress(f"run {number + 1} of {plan.runs}: {stack}, {name}")
                cluster = f"sweep-{os.getpid()}-{number}"
                found[stack, name] = trio.run(
                    one_setting, plan, stack, SETTINGS[stack][name], cluster
                )
        runs.append(found)
    rows = summary(runs, {stack: list(SETTINGS[stack]) for stack in plan.stacks}, DEFAULTS)
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load_average": round(os.getloadavg()[0], 2),
        "size": plan.size,
        "members": plan.members,
        "seconds": plan.seconds,
        "runs": plan.runs,
        "rows": rows,
        "nearness": nearness(rows),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench_sweep", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--stack", action="append", choices=list(SETTINGS), help="default: both")
    parser.add_argument("--size", type=int, default=100, help="bytes")
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the result there, too")
    given = parser.parse_args()
    if given.seconds <= 0 or given.runs < 1 or given.members < 2 or given.size < SIZE_MIN:
        parser.error(
            f"--seconds and --runs are more than 0, --members 2 or more, --size {SIZE_MIN} or more"
        )
    stacks = tuple(given.stack or SETTINGS)
    plan = SweepPlan(stacks, given.size, given.members, given.seconds, given.runs)
    result = measure(plan, lambda text: print(text, file=sys.stderr, flush=True))
    if given.json:
        file = Path(given.json)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(result, indent=1))
    print(markdown(result))
    return 0


if __name__ == "__main__":
    end_with(main)
