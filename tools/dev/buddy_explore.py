"""``jgroups-py dev buddy-explore``: random schedules of buddy replication, judged step by step."""

from __future__ import annotations

import json
import multiprocessing
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from jgroups_py.testing.explorer.buddies.clusters import explore_cluster
from jgroups_py.testing.explorer.buddies.draw import Result, Schedule
from jgroups_py.testing.explorer.buddies.explore import PROFILES, explore, replay, shrink
from jgroups_py.testing.explorer.buddies.files import dump, load
from jgroups_py.testing.explorer.buddies.sites import Sites
from jgroups_py.testing.explorer.buddies.world import Step, World
from jgroups_py.testing.explorer.many import cores
from jgroups_py.tools.options import JsonCommand, examples, json_option
from jgroups_py.tools.outputs import write

FOLDER: Final = Path("build", "buddy-explore")
SEEDS_MAX: Final = 100_000_000
CHUNK: Final = 250
"""Seeds handed to a process at once."""
CLUSTER: Final = "cluster"
CLUSTER_CHUNK: Final = 10
SHRUNK_MAX: Final = 2
"""Violations of one command that are made smaller and written."""


class _Seeds(click.ParamType[range]):
    name = "A..B"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> range:
        match = re.fullmatch(r"([0-9]{1,18})\.\.([0-9]{1,18})", str(value))
        if match is None or int(match[1]) > int(match[2]):
            self.fail(f"{value!r} is not A..B with the first no larger", param, ctx)
        seeds = range(int(match[1]), int(match[2]) + 1)
        if len(seeds) > SEEDS_MAX:
            self.fail(f"more than {SEEDS_MAX}", param, ctx)
        return seeds


@click.command(
    "buddy-explore",
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py dev buddy-explore --seeds 1..10000",
        "jgroups-py dev buddy-explore --profile cluster --seeds 1..20 --json",
        "jgroups-py dev buddy-explore --replay build/buddy-explore/merge-17.json",
    ),
)
@click.option("--seeds", type=_Seeds(), help="A and B included. [default: 1..1000]")
@click.option(
    "--profile",
    type=click.Choice((*PROFILES, "all", CLUSTER)),
    default="all",
    show_default=True,
    help="What is tried; ``all`` takes the profiles in turn. ``cluster``: whole simulated stacks.",
)
@json_option
@click.option("--replay", "again", metavar="SEED|FILE", help="Play one again, and tell it.")
def buddy_explore(
    seeds: range | None, profile: str, json_out: str | None, again: str | None
) -> int:
    """Explore the logic of buddy replication without a stack: every message, view, push, call and
    fault is one step. Or, profile ``cluster``, on whole simulated clusters in virtual time.

    What fails is made smaller and written to build/buddy-explore/PROFILE-SEED.json, which --replay
    takes.

    Exit 0: nothing was violated; 1: something was; 2: wrong usage.
    """
    if again is not None:
        if seeds is not None:
            raise click.UsageError("--replay goes without --seeds")
        return _replay(again, profile)
    seeds = seeds or range(1, 1001)
    begun = time.monotonic()
    runs = steps = faults = 0
    bad: list[tuple[str, Result]] = []
    for name, results in _explore(seeds, profile):
        runs += len(results)
        steps += sum(result.steps for result in results)
        faults += sum(result.faults for result in results)
        for result in results:
            if result.check:
                bad.append((name, result))
                print(f"{name} {result.seed} {result.check}: {result.detail}", file=sys.stderr)
    summary = {
        "runs": runs,
        "steps": steps,
        "faults": faults,
        "wall_s": round(time.monotonic() - begun, 3),
        "violations": [_violation(name, result, at) for at, (name, result) in enumerate(bad)],
    }
    if json_out != "-":
        print(
            f"{runs} schedules, {steps} steps, {faults} faults, {len(bad)} violations "
            f"in {summary['wall_s']:.1f} s"
        )
    if json_out is not None:
        write(json_out, json.dumps(summary, indent=1) + "\n")
    return 1 if bad else 0


def _explore(seeds: range, profile: str) -> Iterator[tuple[str, list[Result]]]:
    """Results in the order of the seeds."""
    names = PROFILES if profile == "all" else (profile,)
    jobs = [(names[s % len(names)], s) for s in seeds]
    chunk = CLUSTER_CHUNK if profile == CLUSTER else CHUNK
    parts = [jobs[at : at + chunk] for at in range(0, len(jobs), chunk)]
    if cores() == 1 or len(parts) == 1:
        done: Any = map(_part, parts)
        yield from _flat(done)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(cores(), len(parts)), context) as pool:
        yield from _flat(pool.map(_part, parts))


def _flat(parts: Any) -> Iterator[tuple[str, list[Result]]]:
    for part in parts:
        yield from part


def _part(jobs: list[tuple[str, int]]) -> list[tuple[str, list[Result]]]:
    """What was fine goes back without its schedule."""
    found: dict[str, list[Result]] = {}
    for profile, seed in jobs:
        result = explore_cluster(seed) if profile == CLUSTER else explore(seed, profile)
        if not result.check:
            empty = Schedule(result.schedule.setting, ())
            result = msgspec.structs.replace(result, schedule=empty)
        found.setdefault(profile, []).append(result)
    return list(found.items())


def _violation(profile: str, result: Result, at: int) -> dict[str, Any]:
    command = f"jgroups-py buddy-explore --profile {profile} --replay {result.seed}"
    told = {
        "profile": profile,
        "seed": result.seed,
        "check": result.check,
        "detail": result.detail,
        "replay": command,
    }
    if at < SHRUNK_MAX and profile != CLUSTER:
        file = FOLDER / f"{profile}-{result.seed}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dump(shrink(result)), encoding="utf-8")
        told["shrunk"] = str(file)
        print(f"  jgroups-py buddy-explore --replay {file}", file=sys.stderr)
    return told


def _replay(what: str, profile: str) -> int:
    if re.fullmatch(r"[0-9]{1,18}", what):
        if profile == "all":
            profile = PROFILES[int(what) % len(PROFILES)]
        if profile == CLUSTER:
            return _said(explore_cluster(int(what)))
        schedule = explore(int(what), profile).schedule
    else:
        schedule = load(Path(what))
    result = replay(schedule, _tell)
    return _said(result)


def _said(result: Result) -> int:
    print(f"{result.check}: {result.detail}" if result.check else "nothing was violated")
    return 1 if result.check else 0


def _tell(world: World | Sites, step: Step) -> None:
    words = [x.decode() if isinstance(x, bytes) else str(x) for x in step]
    print(" ".join(words))
