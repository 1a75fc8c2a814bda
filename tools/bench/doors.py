"""``python -m jgroups_py.tools.bench.doors``: the cost of each door beside none.

Two members in processes of their own on this machine. For each stack, size and door:

    messages   both send multicasts as fast as they can (mperf): a rate, and the CPU time that both processes
               spend on a message
    calls      one calls the other, one call after the other (rpcperf): latency at the median and at p99,
               and the caller's CPU time

The doors take turns in each run, so that other work of the machine slows all of them. A ratio is the median of the
ratios of the runs, each to ``none`` in the same run. CPU time is steadier than a rate on a machine with other work.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from jgroups_py.channel.open import configure
from jgroups_py.tools.bench.cells import cell
from jgroups_py.tools.bench.door_stacks import DOORS, STACKS, DoorStacks, doors_of
from jgroups_py.tools.bench.ended import end_with
from jgroups_py.tools.commands import mperf_run, rpcperf_run
from jgroups_py.tools.commands.mperf_load import SIZE_MIN
from jgroups_py.tools.commands.mperf_ports import private_attributes

NONE: Final = DOORS[0]
SIZES: Final = (100, 1000, 10_000)
"""Bytes of a payload, of an argument and of the value that it returns."""
FIGURES: Final = {
    "messages_per_s": "messages/s",
    "cpu_us": "CPU us/message",
    "p50_us": "call p50 us",
    "p99_us": "call p99 us",
    "call_cpu_us": "CPU us/call",
}
"""Key of a figure -> its heading."""


@dataclass(frozen=True, slots=True)
class DoorsPlan:
    """The plan of the measurements. ``seconds`` for each of the two figures of a door in a run."""

    stacks: tuple[str, ...] = STACKS
    sizes: tuple[int, ...] = SIZES
    seconds: float = 2.0
    runs: int = 3
    doors: tuple[str, ...] = DOORS

    def cases(self) -> Iterator[tuple[str, int, str]]:
        """Yield stack, size and door of one run."""
        for stack in self.stacks:
            for size in self.sizes:
                for door in doors_of(stack):
                    if door in self.doors:
                        yield stack, size, door


async def one_case(file: str, size: int, seconds: float, name: str) -> dict[str, float]:
    """Return the figures of one door.

    Raises:
        RuntimeError: a message was lost, came twice or in the wrong order, or a call returned something else.
    """
    config, host = configure(file, None, {}, {})
    attributes = private_attributes(config, 2, host)
    plan = mperf_run.MperfPlan(file, 2, 2, size, seconds, name, attributes)
    sent = await mperf_run.measure(plan, lambda _: None)
    if mperf_run.has_fault(sent):
        raise RuntimeError(
            f"{file}: messages were lost, or came twice or in the wrong order: {sent}"
        )
    calls = rpcperf_run.RpcperfPlan(
        file, (1,), size, seconds, False, f"{name}-calls", private_attributes(config, 2, host)
    )
    called = await rpcperf_run.measure(calls, lambda _: None)
    if called["wrong"]:
        raise RuntimeError(f"{file}: {called['wrong']} calls returned something else")
    (call,) = called["runs"]
    return {
        "messages_per_s": sent["delivered_per_s_per_member"],
        "cpu_us": sent["cpu_us_per_message"],
        "p50_us": call["p50_us"],
        "p99_us": call["p99_us"],
        "call_cpu_us": call["caller_cpu_us"],
    }


def summary(runs: Sequence[dict[tuple[str, int, str], dict[str, float]]]) -> list[dict[str, Any]]:
    """Return a row for each case: of each figure the least, the median and the most, and its ratio to no door."""
    rows: list[dict[str, Any]] = []
    for case in runs[0]:
        stack, size, door = case
        row: dict[str, Any] = {"stack": stack, "size": size, "door": door}
        for figure in FIGURES:
            values = [run[case][figure] for run in runs]
            row[figure] = {
                "min": min(values),
                "median": statistics.median(values),
                "max": max(values),
            }
            bases = [run.get((stack, size, NONE), {}).get(figure) for run in runs]
            if all(bases):
                ratios = [value / base for value, base in zip(values, bases, strict=True) if base]
                row[figure]["ratio"] = round(statistics.median(ratios), 3)
        rows.append(row)
    return rows


def markdown(result: dict[str, Any]) -> str:
    """Return the result as a table of Markdown: medians with least and most, and ratios."""
    rows = [
        f"{result['machine']}; {result['runs']} runs, {result['seconds']:g} s each figure; median (least-most), ratio to none",
        "",
        "| stack | bytes | door | " + " | ".join(FIGURES.values()) + " |",
        "|---|---|---|" + "---|" * len(FIGURES),
    ]
    for row in result["rows"]:
        cells = [cell(row[figure], "ratio") for figure in FIGURES]
        rows.append(
            f"| {row['stack']} | {row['size']} | {row['door']} | " + " | ".join(cells) + " |"
        )
    return "\n".join(rows)


def measure(plan: DoorsPlan, progress: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""
    runs = []
    with tempfile.TemporaryDirectory(prefix="jgroups-doors-") as folder:
        stacks = DoorStacks(Path(folder))
        for number in range(plan.runs):
            found = {}
            for stack, size, door in plan.cases():
                progress(f"run {number + 1} of {plan.runs}: {stack}, {size} bytes, {door}")
                name = f"doors-{os.getpid()}-{number}"
                file = stacks.file(stack, door)
                found[stack, size, door] = trio.run(one_case, file, size, plan.seconds, name)
            runs.append(found)
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load_average": round(os.getloadavg()[0], 2),
        "runs": plan.runs,
        "seconds": plan.seconds,
        "rows": summary(runs),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench_doors", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--stack", action="append", choices=STACKS, help="default: both")
    parser.add_argument("--size", action="append", type=int, help="default: 100, 1000, 10000")
    parser.add_argument("--door", action="append", choices=DOORS, help="default: all")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write the result there, too")
    arguments = parser.parse_args()
    sizes = tuple(arguments.size or SIZES)
    if arguments.seconds <= 0 or arguments.runs < 1 or min(sizes) < SIZE_MIN:
        parser.error(f"--seconds and --runs are more than 0, --size is {SIZE_MIN} or more")
    plan = DoorsPlan(
        tuple(arguments.stack or STACKS),
        sizes,
        arguments.seconds,
        arguments.runs,
        tuple(arguments.door or DOORS),
    )
    result = measure(plan, lambda text: print(text, file=sys.stderr, flush=True))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1))
    print(markdown(result))
    return 0


if __name__ == "__main__":
    end_with(main)
