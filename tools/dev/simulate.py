"""``jgroups-py dev simulate``: random schedules of faults in virtual time, on all cores."""

from __future__ import annotations

import json
from typing import Any

import click
from click.core import ParameterSource

from jgroups_py.testing.explorer.caches.back_end import Caches
from jgroups_py.testing.explorer.lab import Size
from jgroups_py.testing.explorer.many import Job, result_of
from jgroups_py.testing.explorer.stacks.back_end import Stacks
from jgroups_py.tools.dev.explored import SeedSweep, explored, is_seed, played_again, tell_story
from jgroups_py.tools.options import JsonCommand, Span, Time, examples, json_option, seeds_option
from jgroups_py.tools.outputs import write

SEEDS_MAX = 10_000_000


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py dev simulate --seeds 1..500",
        "jgroups-py dev simulate --profile all --seeds 1..100000 --for 10m --json build/simulate/all.json",
        "jgroups-py dev simulate --replay 4711",
    ),
)
@seeds_option(SEEDS_MAX, "A and B included. [default: 1..100]")
@click.option("--sites", type=click.IntRange(1, 9), help="Default: drawn from the seed.")
@click.option("--members", type=Span(1000, "N..M"), help="Per site. Default: drawn from the seed.")
@click.option(
    "--profile",
    type=click.Choice((*Stacks.profiles, *Caches.profiles)),
    default="all",
    show_default=True,
    help="The kind of schedules; ``all`` is a mix of protocols', ``cache`` of caches' histories.",
)
@json_option
@click.option(
    "--replay",
    metavar="SEED|FILE",
    help="Play one seed or a written schedule, and print its steps.",
)
@click.option("--for", "stop_after", type=Time(), help="Begin no further seed after this time.")
@click.option("--first", is_flag=True, help="Begin no further seed after the first violation.")
def simulate(
    seeds: range | None,
    sites: int | None,
    members: range | None,
    profile: str,
    json_out: str | None,
    replay: str | None,
    stop_after: float | None,
    first: bool,
) -> int:
    """Explore: topologies, traffic, settings and faults drawn from seeds, judged after every step.

    Faults come first, then a core is repaired and must come to rest. A failing schedule is made smaller and written to
    build/simulate/SEED.json; --replay plays it.

    After an interrupt it prints the played seeds.

    Exit 0: no violation; 1: a violation; 2: wrong usage; 130 (SIGINT), 143 (SIGTERM): interrupted.
    """
    job = Job(profile, Size(sites, None if members is None else (members[0], members[-1])))
    if replay is not None:
        if seeds is not None or stop_after is not None or first:
            raise click.UsageError("--replay goes without --seeds, --for and --first")
        if not is_seed(replay):
            _needs_no_drawing(job)
        outcome, command = played_again(job, replay)
        tell_story(outcome)
        found = SeedSweep([result_of(outcome, command)], 0.0, 1)
    else:
        seeds = seeds or range(1, 101)
        job.back_end.draw(
            seeds[0], profile, job.size
        )  # a mistake that is the same for every seed: report it once
        found = explored(job, seeds, stop_after=stop_after, first=first)
    summary = _summary(found)
    if json_out != "-":
        _tell(summary)
    if json_out is not None:
        write(json_out, json.dumps(summary, indent=1) + "\n")
    return found.exit_code()


def _needs_no_drawing(job: Job) -> None:
    given = click.get_current_context().get_parameter_source("profile")
    if job.size != Size() or given is not ParameterSource.DEFAULT:
        raise click.UsageError(
            "--replay FILE goes without --profile, --sites, --members: FILE has them"
        )


def _summary(found: SeedSweep) -> dict[str, Any]:
    results = found.results
    return {
        "runs": len(results),
        "violations": [
            {
                "seed": result.seed,
                "check": violation.check,
                "detail": f"{violation.at:.3f} s: {violation.detail}",
                "replay": violation.replay,
            }
            for result in results
            for violation in result.violations
        ],
        "events": sum(result.events for result in results),
        "virtual_s": round(sum(result.virtual_s for result in results), 3),
        "wall_s": round(found.wall_s, 3),
        **found.part(),
    }


def _tell(summary: dict[str, Any]) -> None:
    print(
        f"{summary['runs']} runs, {len(summary['violations'])} violations, "
        f"{summary['events']} events, {summary['virtual_s']:.0f} s of virtual time "
        f"in {summary['wall_s']:.1f} s"
    )
    for violation in summary["violations"]:
        print(f"seed {violation['seed']} {violation['check']}: {violation['detail']}")
        print(f"  {violation['replay']}")
