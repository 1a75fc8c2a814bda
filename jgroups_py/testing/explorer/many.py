"""Many seeds, on all cores: each is played in one of several processes; a failure is shrunk there.

Results come as they are ready. A failing case is written to ``FOLDER``, smaller than it was drawn.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.explorer.back_ends import BACK_ENDS, back_end_of
from jgroups_py.testing.explorer.lab import ANYTHING, BackEnd, RunOutcome, Size, shrunk
from jgroups_py.testing.explorer.pool import each
from jgroups_py.testing.explorer.shrink import RUNS_MAX

FOLDER: Final = Path("build", "simulate")
SHOWN_MAX: Final = 5
"""The most violations reported of one run: one of each check."""


@dataclass(frozen=True, slots=True)
class Job:
    """The settings for all seeds. ``shrink_runs`` 0: failing cases are not shrunk. ``kind``: the back end, by default
    the first with the profile. ``folder`` None: no file is written."""

    profile: str
    size: Size = ANYTHING
    shrink_runs: int = RUNS_MAX
    folder: Path | None = FOLDER
    kind: str = ""

    @property
    def back_end(self) -> BackEnd[Any]:
        return next((b for b in BACK_ENDS if b.kind == self.kind), None) or back_end_of(
            self.profile
        )

    def replay(self, seed: int) -> str:
        """Return the command that plays this seed again."""
        back_end = self.back_end
        words = ["jgroups-py", back_end.command, "--replay", str(seed)]
        words += ["--profile", back_end.profile_of(self.profile, seed)]
        if self.size.sites is not None:
            words += ["--sites", str(self.size.sites)]
        if self.size.members is not None:
            words += ["--members", "{}..{}".format(*self.size.members)]
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one seed. ``violations``: the first of each check. ``shrunk``: the file of its smaller case."""

    seed: int
    violations: tuple[Violation, ...]
    events: int
    virtual_s: float
    delivered: int
    faults: int = 0
    shrunk: str | None = None


def result_of(outcome: RunOutcome, replay: str, shrunk: Path | None = None) -> Result:
    first: dict[str, Violation] = {}
    for problem in outcome.problems:
        first.setdefault(problem.check, replace(problem, replay=replay))
    return Result(
        outcome.seed,
        tuple(list(first.values())[:SHOWN_MAX]),
        outcome.events,
        outcome.virtual_s,
        outcome.delivered,
        outcome.faults,
        None if shrunk is None else str(shrunk),
    )


def run_seed(job: Job, seed: int) -> Result:
    """Draw, play, and shrink if it fails, one seed."""
    back_end = job.back_end
    profile = back_end.profile_of(job.profile, seed)
    case, outcome = back_end.explore(seed, profile, job.size)
    file = None
    if outcome.problems and job.folder is not None:
        if job.shrink_runs:
            case = shrunk(back_end, case, outcome, job.shrink_runs)
        file = write(back_end, case, job.folder, back_end.file_name(seed, profile))
    return result_of(outcome, job.replay(seed), file)


def write(back_end: BackEnd[Any], case: Any, folder: Path, name: str) -> Path:
    """Write a case. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(back_end.write(case), encoding="utf-8")
    return file


def run_seeds(
    job: Job,
    seeds: Iterable[int],
    processes: int,
    stop_after: float | None = None,
    chunk: int = 1,
) -> Generator[Result, None, None]:
    """Yield results as they are ready. ``stop_after``: seconds of real time after which no further seed begins."""
    return each(partial(run_seed, job), seeds, processes, chunk=chunk, stop_after=stop_after)
