"""Many seeds, on all cores: each is played in one of several processes; what fails is shrunk there.

Results come as they are ready. A failing schedule is written to ``FOLDER/SEED.json``, smaller than it
was drawn.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from jgroups_py.testing.explorer.caches.draw import ANYTHING, CACHE_PROFILES, draw_caches
from jgroups_py.testing.explorer.caches.play import play_caches
from jgroups_py.testing.explorer.caches.schedule import CacheSchedule
from jgroups_py.testing.explorer.caches.shrink import shrink_caches
from jgroups_py.testing.explorer.stacks.draw import PROFILES, Wanted, draw
from jgroups_py.testing.explorer.stacks.play import Outcome, play
from jgroups_py.testing.explorer.stacks.schedule import Schedule
from jgroups_py.testing.explorer.stacks.shrink import RUNS_MAX, shrink

FOLDER: Final = Path("build", "simulate")
SHOWN_MAX: Final = 5
"""Violations reported of one run: one of each check."""
ALL_PROFILES: Final = (*PROFILES, *CACHE_PROFILES)
AHEAD: Final = 2
"""Seeds handed out per process before their results are asked for."""
GARBAGE_MAX: Final = 50_000
"""Objects made before a process looks for garbage among them."""


AnySchedule = Schedule | CacheSchedule
"""Of protocols, or of caches."""


@dataclass(frozen=True, slots=True)
class Job:
    """What each seed is played with. ``shrink_runs`` 0: failing schedules stay as they are."""

    profile: str
    wanted: Wanted = field(default_factory=Wanted)
    shrink_runs: int = RUNS_MAX
    folder: Path = FOLDER

    def replay(self, seed: int) -> str:
        """The command that plays this very seed again."""
        words = ["jgroups-py", "simulate", "--replay", str(seed), "--profile", self.profile]
        if self.wanted.sites is not None:
            words += ["--sites", str(self.wanted.sites)]
        if self.wanted.members is not None:
            words += ["--members", "{}..{}".format(*self.wanted.members)]
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class Result:
    """Of one seed. ``shrunk``: the file of its schedule, made smaller."""

    seed: int
    violations: tuple[dict[str, Any], ...]
    events: int
    virtual_s: float
    delivered: int
    shrunk: str | None = None


def result_of(outcome: Outcome, replay: str, shrunk: Path | None = None) -> Result:
    first: dict[str, dict[str, Any]] = {}
    for problem in outcome.problems:
        first.setdefault(
            problem.check,
            {
                "seed": outcome.seed,
                "check": problem.check,
                "detail": f"{problem.at:.3f} s: {problem.detail}",
                "replay": replay,
            },
        )
    return Result(
        outcome.seed,
        tuple(list(first.values())[:SHOWN_MAX]),
        outcome.events,
        outcome.virtual_s,
        outcome.delivered,
        None if shrunk is None else str(shrunk),
    )


def run_seed(job: Job, seed: int) -> Result:
    """Draws, plays, and if need be shrinks one seed."""
    schedule = draw_any(seed, job.profile, job.wanted)
    outcome = play_any(schedule)
    file = None
    if outcome.problems:
        smaller = _smaller(schedule, outcome, job.shrink_runs) if job.shrink_runs else schedule
        file = write(smaller, job.folder)
    return result_of(outcome, job.replay(seed), file)


def draw_any(seed: int, profile: str, wanted: Wanted = ANYTHING) -> AnySchedule:
    """The schedule of a seed. Raises ``ConfigError`` for an unknown profile."""
    drawing = draw_caches if profile in CACHE_PROFILES else draw
    return drawing(seed, profile, wanted)


def play_any(schedule: AnySchedule) -> Outcome:
    """One run of either kind."""
    return play_caches(schedule) if isinstance(schedule, CacheSchedule) else play(schedule)


def _smaller(schedule: AnySchedule, outcome: Outcome, runs: int) -> AnySchedule:
    if isinstance(schedule, CacheSchedule):
        return shrink_caches(schedule, outcome, runs=runs)
    return shrink(schedule, outcome, runs=runs)


def write(schedule: AnySchedule, folder: Path) -> Path:
    """Writes ``SEED.json``. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{schedule.seed}.json"
    file.write_text(schedule.to_json(), encoding="utf-8")
    return file


def run_seeds(
    job: Job, seeds: Iterable[int], cores: int, stop_after: float | None = None
) -> Iterator[Result]:
    """Results as they are ready. ``stop_after``: seconds of real time after which no further seed
    is begun."""
    begun = time.monotonic()

    def more() -> bool:
        return stop_after is None or time.monotonic() - begun < stop_after

    if cores == 1:
        for seed in seeds:
            if not more():
                return
            yield run_seed(job, seed)
        return
    yield from _on_cores(job, iter(seeds), cores, more)


def _on_cores(
    job: Job, seeds: Iterator[int], cores: int, more: Callable[[], bool]
) -> Iterator[Result]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, context, initializer=_begin_worker) as pool:
        waiting: dict[Future[Result], None] = {}
        try:
            while True:
                while len(waiting) < AHEAD * cores and more():
                    seed = next(seeds, None)
                    if seed is None:
                        break
                    waiting[pool.submit(run_seed, job, seed)] = None
                if not waiting:
                    return
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in [f for f in waiting if f in done]:
                    del waiting[future]
                    yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin_worker() -> None:
    """An interrupt from the terminal is for the command, which ends its processes. Modules are not
    garbage: looking through them again and again costs a tenth of a run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    gc.set_threshold(GARBAGE_MAX)


def cores() -> int:
    """Those this process may use, where the platform tells (not on macOS)."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
