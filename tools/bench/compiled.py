"""``python -m jgroups_py.tools.bench.compiled``: what compiling groups of modules brings (JGROUPS_PY_COMPILE, setup.py).

The sources of this checkout are copied and compiled once for each set of modules: none, each group below, and all of compiled.txt.
Then the sets take turns in each run. Two members in one process exchange multicasts and make calls (compiled_pair.py); a figure is
CPU time, and a ratio is the median of those of the runs, each to ``none`` of the same run. Needs a C compiler, and minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from jgroups_py.tools.bench.cells import cell
from jgroups_py.tools.bench.compiled_pair import PairPlan, calls_of, delivery
from jgroups_py.tools.bench.ended import end_with

ROOT: Final = Path(__file__).resolve().parents[2]
BUILD: Final = Path("build", "bench-compiled")
SOURCES: Final = ("jgroups_py", "protocols", "stacks", "tools")
LIST: Final = Path("jgroups_py", "compiled.txt")
PAIR: Final = "jgroups_py.tools.bench.compiled_pair"
CHILD_SECONDS: Final = 300
NONE: Final = "none"
ALL: Final = "all"
_STEPS: Final = ("stack.machine", "stack.lateness", "stack.protocol")
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    NONE: (),
    "codec": ("values.batch", "wire."),
    "windows": ("stack.windows",),
    "steps": _STEPS,
    "multicast": ("protocols.reliable.nakack2.", "protocols.reliable.stable"),
    "unicast": ("protocols.reliable.unicast3",),
    "flow control": ("protocols.flow.",),
    "fragments": ("protocols.frag2",),
    "transport": ("protocols.transport.",),
    "calls": ("rpc.",),
    "codec and windows": ("values.batch", "wire.", "stack.windows"),
    ALL: ("",),
}
"""Name of a set -> beginnings of the names of its modules, without the package's."""


@dataclass(frozen=True, slots=True)
class CompiledPlan:
    """The sets that take turns, and the measurements of each in a run."""

    sets: tuple[str, ...] = tuple(GROUPS)
    stack: str = "udp.xml"
    sizes: tuple[int, ...] = (100, 1000)
    callers: tuple[int, ...] = (1, 8)
    messages: int = 50_000
    calls: int = 2_000
    runs: int = 5
    level: str = "3"

    def in_turn(self, run: int) -> list[str]:
        """Return the sets in the order of this run: each run begins with another one."""
        first = run % len(self.sets)
        return [*self.sets[first:], *self.sets[:first]]

    def pair(self, cluster: str) -> PairPlan:
        return PairPlan(self.stack, self.sizes, self.callers, self.messages, self.calls, cluster)

    def figures(self) -> list[str]:
        return [*map(delivery, self.sizes), *map(calls_of, self.callers)]


def modules(name: str, listed: Sequence[str]) -> list[str]:
    """Return the modules of a set, in the order of the list."""
    beginnings = tuple(f"jgroups_py.{beginning}" for beginning in GROUPS[name])
    return [module for module in listed if module.startswith(beginnings)]


def listed_modules() -> list[str]:
    """Return the modules of compiled.txt."""
    lines = resources.files("jgroups_py").joinpath(LIST.name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def build(name: str, level: str) -> Path:
    """Return a copy of the sources in which the modules of this set are compiled.

    Raises:
        RuntimeError: the compiler refuses them; with its words.
    """
    folder = (BUILD / name.replace(" ", "-")).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for source in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / source, folder / source, symlinks=True, ignore=ignored)
    # Without pyproject.toml, which older releases of setuptools cannot read: names and versions do not matter here.
    for file in ("setup.py", "setup.cfg"):
        shutil.copy(ROOT / file, folder)
    chosen = modules(name, listed_modules())
    (folder / LIST).write_text("\n".join(chosen) + "\n")
    if chosen:
        done = subprocess.run(
            [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
            cwd=folder,
            env={**os.environ, "JGROUPS_PY_COMPILE": "1", "JGROUPS_PY_OPTIMIZE": level},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{name}: {(done.stderr + done.stdout).strip()[-2000:]}")
    return folder


def one(name: str, folder: Path, plan: PairPlan) -> dict[str, float]:
    """Return the figures of the set that is compiled in ``folder``.

    Raises:
        RuntimeError: the process failed, or other modules ran compiled.
    """
    done = subprocess.run(
        [sys.executable, "-m", PAIR, json.dumps(asdict(plan))],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=CHILD_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr.strip()[-2000:]}")
    told = json.loads(done.stdout)
    wanted = modules(name, listed_modules())
    if told["compiled"] != wanted:
        raise RuntimeError(f"{name}: compiled are {told['compiled']}, not {wanted}")
    figures: dict[str, float] = told["figures"]
    return figures


def summary(
    runs: Sequence[Mapping[str, Mapping[str, float]]], figures: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a row for each set: of each figure the least, the median and the most, and its ratio to ``none``."""
    rows: list[dict[str, Any]] = []
    for name in runs[0]:
        row: dict[str, Any] = {"set": name, "modules": len(modules(name, listed_modules()))}
        for figure in figures:
            values = [run[name][figure] for run in runs]
            ratios = [run[name][figure] / run[NONE][figure] for run in runs if NONE in run]
            row[figure] = {
                "min": min(values),
                "median": statistics.median(values),
                "max": max(values),
            }
            if ratios:
                row[figure]["ratio"] = round(statistics.median(ratios), 3)
        rows.append(row)
    return rows


def markdown(result: Mapping[str, Any]) -> str:
    """Return the result as a table of Markdown."""
    figures = result["figures"]
    lines = [
        f"{result['machine']}, load {result['load_average']}; {result['stack']}, -O{result['level']}, {result['runs']} runs by turns; "
        "us of CPU time of both members, median (least-most), x none",
        "",
        "| set | modules | " + " | ".join(figures) + " |",
        "|---|---|" + "---|" * len(figures),
    ]
    for row in result["rows"]:
        cells = [cell(row[figure], "ratio", "x") for figure in figures]
        lines.append(f"| {row['set']} | {row['modules']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def measure(plan: CompiledPlan, progress: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""
    folders = {}
    for name in plan.sets:
        progress(f"compiling: {name}")
        folders[name] = build(name, plan.level)
    runs = []
    for number in range(plan.runs):
        found: dict[str, dict[str, float]] = {}
        for name in plan.in_turn(number):
            progress(f"run {number + 1} of {plan.runs}: {name}")
            pair = plan.pair(f"compiled-{os.getpid()}-{number}")
            found[name] = one(name, folders[name], pair)
        runs.append({name: found[name] for name in plan.sets})
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load_average": round(os.getloadavg()[0], 2),
        "stack": plan.stack,
        "level": plan.level,
        "runs": plan.runs,
        "figures": plan.figures(),
        "rows": summary(runs, plan.figures()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench_compiled", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--set", action="append", choices=list(GROUPS), help="default: all sets")
    parser.add_argument("--stack", choices=("udp.xml", "tcp.xml"), default="udp.xml")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--level", choices=("0", "1", "2", "3"), default="3", help="-O of gcc")
    parser.add_argument("--json", metavar="FILE", help="write the result there, too")
    given = parser.parse_args()
    if given.runs < 1:
        parser.error("--runs is 1 or more")
    if not (ROOT / "setup.py").is_file():
        parser.error("the sources of a checkout are needed")
    sets = tuple(dict.fromkeys([NONE, *(given.set or GROUPS)]))
    plan = CompiledPlan(sets, given.stack, runs=given.runs, level=given.level)
    result = measure(plan, lambda text: print(text, file=sys.stderr, flush=True))
    if given.json:
        Path(given.json).write_text(json.dumps(result, indent=1))
    print(markdown(result))
    return 0


if __name__ == "__main__":
    end_with(main)
