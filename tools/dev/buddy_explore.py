"""``jgroups-py dev buddy-explore``: random schedules of buddy replication, judged step by step."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from jgroups_py.testing.explorer.buddies.back_end import BuddySchedules, Clusters
from jgroups_py.testing.explorer.buddies.explore import PROFILES
from jgroups_py.testing.explorer.many import Job, Result, run_seed
from jgroups_py.tools.dev.explored import explored, told_again
from jgroups_py.tools.options import JsonCommand, examples, json_option, seeds_option
from jgroups_py.tools.outputs import write

FOLDER: Final = Path("build", "buddy-explore")
SEEDS_MAX: Final = 100_000_000
CHUNK: Final = 250
"""Seeds handed to a process at once."""
CLUSTER: Final = "cluster"
CLUSTER_CHUNK: Final = 10
SHRINK_RUNS: Final = 500
SHRUNK_MAX: Final = 2
"""Violations of one command that are made smaller and written."""


@click.command(
    "buddy-explore",
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py dev buddy-explore --seeds 1..10000",
        "jgroups-py dev buddy-explore --profile cluster --seeds 1..20 --json",
        "jgroups-py dev buddy-explore --replay build/buddy-explore/merge-17.json",
    ),
)
@seeds_option(SEEDS_MAX, "A and B included. [default: 1..1000]")
@click.option(
    "--profile",
    type=click.Choice((*PROFILES, "all", CLUSTER)),
    default="all",
    show_default=True,
    help="What is tried; ``all`` takes the profiles in turn. ``cluster``: whole simulated stacks.",
)
@json_option
@click.option(
    "--replay", "again", metavar="SEED|FILE", help="Play one run again, and print its steps."
)
def buddy_explore(
    seeds: range | None, profile: str, json_out: str | None, again: str | None
) -> int:
    """Explore the logic of buddy replication without a stack: every message, view, push, call and
    fault is one step. Or, profile ``cluster``, on whole simulated clusters in virtual time.

    A failing schedule is made smaller and written to build/buddy-explore/PROFILE-SEED.json; --replay plays it.

    Exit 0: no violation; 1: a violation; 2: wrong usage.
    """
    kind = Clusters.kind if profile == CLUSTER else BuddySchedules.kind
    job = Job(profile, shrink_runs=SHRINK_RUNS, folder=None, kind=kind)
    if again is not None:
        if seeds is not None:
            raise click.UsageError("--replay goes without --seeds")
        return told_again(job, again)
    chunk = CLUSTER_CHUNK if profile == CLUSTER else CHUNK
    found = explored(job, seeds or range(1, 1001), chunk=chunk)
    results, bad = found.results, found.bad
    summary = {
        "runs": len(results),
        "steps": sum(result.events for result in results),
        "faults": sum(result.faults for result in results),
        "wall_s": round(found.wall_s, 3),
        **found.part(),
        "violations": [_violation(job, result, at) for at, result in enumerate(bad)],
    }
    if json_out != "-":
        print(
            f"{summary['runs']} schedules, {summary['steps']} steps, {summary['faults']} faults, "
            f"{len(bad)} violations in {found.wall_s:.1f} s"
        )
    if json_out is not None:
        write(json_out, json.dumps(summary, indent=1) + "\n")
    return found.exit_code()


def _violation(job: Job, result: Result, at: int) -> dict[str, Any]:
    violation = result.violations[0]
    told = {
        "profile": job.back_end.profile_of(job.profile, result.seed),
        "seed": result.seed,
        "check": violation.check,
        "detail": violation.detail,
        "replay": violation.replay,
    }
    if at < SHRUNK_MAX and job.profile != CLUSTER:
        file = run_seed(replace(job, folder=FOLDER), result.seed).shrunk
        told["shrunk"] = file
        print(f"  jgroups-py buddy-explore --replay {file}", file=sys.stderr)
    return told
