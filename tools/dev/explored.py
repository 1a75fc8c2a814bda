"""The common part of the lab's commands: exploring many seeds, and playing one again."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console

from jgroups_py.testing.explorer.back_ends import load
from jgroups_py.testing.explorer.lab import RunOutcome
from jgroups_py.testing.explorer.many import Job, Result, run_seeds
from jgroups_py.testing.explorer.pool import cores
from jgroups_py.tools.outputs import spans, write
from jgroups_py.tools.progress import seeds_bar


@dataclass(frozen=True, slots=True)
class SeedSweep:
    """The results of many seeds, by seed. ``wanted``: the number of seeds to play. ``interrupted``: SIGINT or SIGTERM
    came first."""

    results: list[Result]
    wall_s: float
    wanted: int
    interrupted: bool = False

    @property
    def bad(self) -> list[Result]:
        return [result for result in self.results if result.violations]

    @property
    def seeds(self) -> str:
        """Return the played seeds as text: ``1..295, 297``."""
        return spans([result.seed for result in self.results])

    def part(self) -> dict[str, Any]:
        """Return the additional keys of a summary if not all seeds were played, else none."""
        if len(self.results) == self.wanted:
            return {}
        return {"seeds": self.seeds, "interrupted": self.interrupted}

    def exit_code(self) -> int:
        """Return 0 without a violation, else 1. Raise ``click.Abort`` (exit code 130 or 143) after an interrupt."""
        if self.interrupted:
            print(f"interrupted; seeds played: {self.seeds or 'none'}", file=sys.stderr)
            raise click.Abort
        return 1 if self.bad else 0


def explored(
    job: Job,
    seeds: Sequence[int],
    *,
    chunk: int = 1,
    stop_after: float | None = None,
    first: bool = False,
) -> SeedSweep:
    """Play all seeds and print violations on standard error. ``first``: begin no seed after the first violation.

    After an interrupt the results are those of the seeds that had been played.
    """
    begun = time.monotonic()
    results: list[Result] = []
    processes = max(1, min(cores(), len(seeds) // chunk))
    bad = 0
    total = None if stop_after is not None else len(seeds)
    interrupted = False
    try:
        with (
            seeds_bar(job.profile, total) as (console, one_more),
            closing(run_seeds(job, seeds, processes, stop_after, chunk)) as found,
        ):
            for result in found:
                results.append(result)
                if result.violations:
                    bad += 1
                    complain(console, job, result)
                one_more(bad)
                if bad and first:
                    break
    except KeyboardInterrupt:
        interrupted = True
    results.sort(key=lambda result: result.seed)
    return SeedSweep(results, time.monotonic() - begun, len(seeds), interrupted)


def explore_or_replay(
    job: Job,
    seeds: range | None,
    json_out: str | None,
    again: str | None,
    *,
    chunk: int,
    runs: str,
    events: str,
) -> int:
    """Carry out a command of the lab: explore ``seeds`` (None: 1..1000) and report the numbers of ``runs`` and
    ``events``, or replay one. Return 0 without a violation, else 1."""
    if again is not None:
        if seeds is not None:
            raise click.UsageError("--replay goes without --seeds")
        return told_again(job, again)
    found = explored(job, seeds or range(1, 1001), chunk=chunk)
    results, bad = found.results, found.bad
    summary = {
        "profile": job.profile,
        "runs": len(results),
        events: sum(result.events for result in results),
        "faults": sum(result.faults for result in results),
        "virtual_s": round(sum(result.virtual_s for result in results), 1),
        "wall_s": round(found.wall_s, 3),
        **found.part(),
        "violations": [
            {
                "seed": result.seed,
                "check": violation.check,
                "detail": violation.detail,
                "replay": violation.replay,
                "shrunk": result.shrunk,
            }
            for result in bad
            for violation in result.violations[:1]
        ],
    }
    if json_out != "-":
        print(
            f"{len(results)} {runs}, {summary[events]} {events}, {summary['faults']} faults, "
            f"{len(bad)} violations in {found.wall_s:.1f} s"
        )
    if json_out is not None:
        write(json_out, json.dumps(summary, indent=1) + "\n")
    return found.exit_code()


def told_again(job: Job, what: str) -> int:
    """Play a seed or a file and print its story. Return 0 without a violation, else 1."""
    outcome, _ = played_again(job, what)
    for line in outcome.story:
        print(line)
    first = outcome.first
    print("nothing was violated" if first is None else f"{first.check}: {first.detail}")
    return 0 if first is None else 1


def complain(console: Console, job: Job, result: Result) -> None:
    for violation in result.violations:
        text = f"seed {result.seed} {violation.check}: {violation.detail}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    if result.shrunk is not None:
        text = f"  jgroups-py {job.back_end.command} --replay {result.shrunk}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)


def is_seed(what: str) -> bool:
    """Return whether the text is a seed rather than a file."""
    return re.fullmatch(r"[0-9]{1,18}", what) is not None


def played_again(job: Job, what: str) -> tuple[RunOutcome, str]:
    """Play a seed, or a file of any kind. Return the outcome and the command that plays it again. Raise
    ``ConfigError``, ``OSError``."""
    if is_seed(what):
        seed, back_end = int(what), job.back_end
        profile = back_end.profile_of(job.profile, seed)
        return back_end.play(back_end.draw(seed, profile, job.size)), job.replay(seed)
    back_end, case = load(what)
    return back_end.play(case), f"jgroups-py {back_end.command} --replay {what}"


def tell_story(outcome: RunOutcome) -> None:
    """Print the events and violations on standard error."""
    for line in [*outcome.story, *map(str, outcome.problems)]:
        print(line, file=sys.stderr)
