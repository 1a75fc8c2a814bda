"""``jgroups-py simulate``: random schedules of faults in virtual time, on all cores."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from jgroups_py.errors import ConfigError
from jgroups_py.testing.explorer.caches import schedule as cache_schedules
from jgroups_py.testing.explorer.many import (
    ALL_PROFILES,
    AnySchedule,
    Job,
    Result,
    cores,
    draw_any,
    play_any,
    result_of,
    run_seeds,
)
from jgroups_py.testing.explorer.stacks import schedule as schedules
from jgroups_py.testing.explorer.stacks.draw import Wanted
from jgroups_py.testing.explorer.stacks.play import try_stack
from jgroups_py.tools.options import JsonCommand, Time, examples, json_option
from jgroups_py.tools.outputs import write

SEEDS_MAX = 10_000_000
DIGITS_MAX = 18


class _Span(click.ParamType[tuple[int, int]]):
    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self.most = most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        match = re.fullmatch(rf"([0-9]{{1,{DIGITS_MAX}}})\.\.([0-9]{{1,{DIGITS_MAX}}})", str(value))
        if match is None or int(match[1]) > int(match[2]):
            self.fail(f"{value!r} is not {self.name} with the first no larger", param, ctx)
        low, high = int(match[1]), int(match[2])
        if high - low >= self.most:
            self.fail(f"more than {self.most}", param, ctx)
        return low, high


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py simulate --seeds 1..500",
        "jgroups-py simulate --profile all --seeds 1..100000 --for 10m --json build/simulate/all.json",
        "jgroups-py simulate --replay 4711",
    ),
)
@click.option("--seeds", type=_Span("A..B", SEEDS_MAX), help="A and B included. [default: 1..100]")
@click.option("--sites", type=click.IntRange(1, 9), help="Default: drawn from the seed.")
@click.option("--members", type=_Span("N..M", 1000), help="Per site. Default: drawn from the seed.")
@click.option(
    "--profile",
    type=click.Choice(ALL_PROFILES),
    default="all",
    show_default=True,
    help="What is tried above all; ``all`` is a mix of protocols', ``cache`` of caches' histories.",
)
@json_option
@click.option(
    "--replay", metavar="SEED|FILE", help="Play one seed, or a schedule that was written; tell it."
)
@click.option("--for", "stop_after", type=Time(), help="Begin no further seed after this time.")
@click.option("--first", is_flag=True, help="Begin no further seed after the first violation.")
def simulate(
    seeds: tuple[int, int] | None,
    sites: int | None,
    members: tuple[int, int] | None,
    profile: str,
    json_out: str | None,
    replay: str | None,
    stop_after: float | None,
    first: bool,
) -> int:
    """Explore: topologies, traffic, settings and faults drawn from seeds, judged after every step.

    Faults first, then a core is repaired and must come to rest. What fails is made smaller and
    written to build/simulate/SEED.json, which --replay takes.

    Exit 0: nothing was violated; 1: something was; 2: wrong usage.
    """
    job = Job(profile, Wanted(sites, members))
    begun = time.monotonic()
    if replay is not None:
        if seeds is not None or stop_after is not None or first:
            raise click.UsageError("--replay goes without --seeds, --for and --first")
        results = [_replay(job, replay)]
    else:
        low, high = seeds or (1, 100)
        draw_any(low, profile, job.wanted)  # wrong with every seed: said once
        results = _explore(job, range(low, high + 1), stop_after, first)
    summary = _summary(results, time.monotonic() - begun)
    if json_out != "-":
        _tell(summary)
    if json_out is not None:
        write(json_out, json.dumps(summary, indent=1) + "\n")
    return 1 if summary["violations"] else 0


def _explore(job: Job, seeds: range, stop_after: float | None, first: bool) -> list[Result]:
    results = []
    console = Console(stderr=True)
    with _progress(console) as progress:
        total = None if stop_after is not None else len(seeds)
        task = progress.add_task(job.profile, total=total, bad=0)
        for result in run_seeds(job, seeds, min(cores(), len(seeds)), stop_after):
            results.append(result)
            if result.violations:
                _complain(console, result)
            bad = sum(1 for r in results if r.violations)
            progress.update(task, advance=1, bad=bad)
            if bad and first:
                break
    return sorted(results, key=lambda result: result.seed)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} seeds, {task.fields[bad]} violated"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


def _complain(console: Console, result: Result) -> None:
    for violation in result.violations:
        text = f"seed {violation['seed']} {violation['check']}: {violation['detail']}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    if result.shrunk is not None:
        text = f"  jgroups-py simulate --replay {result.shrunk}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)


def _replay(job: Job, what: str) -> Result:
    """Plays one, and tells what happens in it."""
    if re.fullmatch(rf"[0-9]{{1,{DIGITS_MAX}}}", what):
        schedule = draw_any(int(what), job.profile, job.wanted)
        command = job.replay(int(what))
    else:
        _needs_no_drawing(job)
        schedule = _load(what)
        command = f"jgroups-py simulate --replay {what}"
    outcome = play_any(schedule)
    for line in outcome.story:
        print(line, file=sys.stderr)
    for problem in outcome.problems:
        print(problem, file=sys.stderr)
    return result_of(outcome, command)


def _load(file: str) -> AnySchedule:
    """Of either kind. ConfigError, OSError."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not a schedule: {error}", file=file) from None
    if cache_schedules.is_cache_schedule(text):
        return cache_schedules.from_json(text, file)
    schedule = schedules.from_json(text, file)
    try_stack(schedule, file)
    return schedule


def _needs_no_drawing(job: Job) -> None:
    given = click.get_current_context().get_parameter_source("profile")
    if job.wanted != Wanted() or given is not ParameterSource.DEFAULT:
        raise click.UsageError(
            "--replay FILE goes without --profile, --sites, --members: FILE has them"
        )


def _summary(results: list[Result], wall_s: float) -> dict[str, Any]:
    return {
        "runs": len(results),
        "violations": [v for result in results for v in result.violations],
        "events": sum(result.events for result in results),
        "virtual_s": round(sum(result.virtual_s for result in results), 3),
        "wall_s": round(wall_s, 3),
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
