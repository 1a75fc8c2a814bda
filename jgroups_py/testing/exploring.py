"""Exploring a cluster of one's own: faults drawn from seeds, played, judged, shrunk.

def cluster(seed):
    return SimCluster("ABCD", ["sim.xml", MINE], seed=seed, invariants=[SameOrder()])

explore(cluster, seeds=range(50), faults=["crash", "restart"])
"""

from __future__ import annotations

import random
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from jgroups_py.errors import ConfigError
from jgroups_py.testing.cluster import SimCluster
from jgroups_py.testing.explorer.lab import RunOutcome, shrunk
from jgroups_py.testing.explorer.many import write
from jgroups_py.testing.explorer.shrink import RUNS_MAX
from jgroups_py.testing.explorer.stacks.back_end import Stacks
from jgroups_py.testing.explorer.stacks.draw_faults import FaultDraw
from jgroups_py.testing.explorer.stacks.schedule import (
    STEPS_MAX,
    Healing,
    Load,
    Schedule,
    Step,
    load,
)
from jgroups_py.testing.violated import PropertyViolated

Factory = Callable[[int], SimCluster]
"""Makes a cluster, not yet used, for a seed. Called for every run."""

FAULTS: Final[dict[str, int]] = {
    "crash": 4,
    "vanish": 2,
    "leave": 2,
    "restart": 6,
    "pause": 3,
    "cut": 3,
    "link": 2,
    "clog": 2,
    "reset": 1,
    "drift": 1,
    "slow": 1,
    "burst": 1,
}
"""The faults that are drawn by default, with their weights. There are also ``state`` (a member
fetches the state); and ``fail_site``, ``wan`` (a site is cut off), and ``promote`` for stacks
with RELAY."""
_ALL: Final = (*FAULTS, "state", "fail_site", "wan", "promote")
FOLDER: Final = Path("build", "explore")
Faults = Iterable[str] | Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of an exploration that found nothing. ``faults``: those that hit a member;
    ``virtual_s``, ``wall_s``: seconds."""

    runs: int = 0
    sent: int = 0
    delivered: int = 0
    faults: int = 0
    events: int = 0
    virtual_s: float = 0.0
    wall_s: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.runs} runs held: {self.faults} faults, {self.sent} messages sent, "
            f"{self.delivered} delivered, {self.virtual_s:.0f} virtual seconds in {self.wall_s:.1f} s"
        )


def draw(
    cluster: SimCluster,
    seed: int,
    faults: Faults = FAULTS,
    *,
    count: int = 8,
    seconds: float = 20.0,
    messages: int = 200,
) -> Schedule:
    """Return a schedule for ``cluster`` (which is not used): ``count`` faults within ``seconds``, during which about ``messages``
    are sent, to all members and to single ones.

    ``faults``: kinds, or kinds with weights. A fault that finds no member when it is due becomes a pause of a second.
    Raises ``ConfigError``.
    """
    weights = weights_of(faults)
    if not 0 <= count <= STEPS_MAX or seconds <= 0 or messages < 0:
        raise ConfigError(f"needed are count 0 to {STEPS_MAX}, seconds > 0 and messages >= 0")
    rng = random.Random(f"{seed}/kit")
    base = cluster.schedule
    return msgspec.structs.replace(
        base,
        seed=seed,
        start_gap=rng.choice([0.0, 0.01, 0.3]),
        reopen=rng.choice([0.0, 1.0]),
        loads=_loads(rng, base, seconds, messages),
        steps=_steps(rng, base, weights, count, seconds),
        seconds=seconds,
        healing=Healing(
            keep=rng.choice([1.0, 1.0, 0.7]),
            turn=rng.randint(0, 3),
            rest=rng.choice(["crash", "cut"]),
        ),
    )


def weights_of(faults: Faults) -> dict[str, int]:
    """Return the faults with their weights. Raises ``ConfigError``."""
    if isinstance(faults, Mapping):
        weights = dict(faults)
    else:
        names = [faults] if isinstance(faults, str) else faults
        weights = {kind: FAULTS.get(kind, 1) for kind in names}
    for kind, weight in weights.items():
        if kind not in _ALL:
            raise ConfigError(f"no fault is called {kind!r} (there are {', '.join(_ALL)})")
        if weight < 0:
            raise ConfigError(f"faults: {kind}: a weight is at least 0, not {weight}")
    return {kind: weight for kind, weight in weights.items() if weight}


def _steps(
    rng: random.Random, base: Schedule, weights: Mapping[str, int], count: int, seconds: float
) -> tuple[Step, ...]:
    if not weights:
        return ()
    kinds = rng.choices(list(weights), list(weights.values()), k=count)
    steps = [draw_step(base, kind, rng, seconds) for kind in kinds]
    return tuple(sorted(steps, key=lambda step: step.at))


def draw_step(base: Schedule, kind: str, rng: random.Random, seconds: float) -> Step:
    """Draw a fault of that kind within ``seconds``."""
    return FaultDraw(rng, [site.name for site in base.sites], seconds).step(kind)


def _loads(rng: random.Random, base: Schedule, seconds: float, messages: int) -> tuple[Load, ...]:
    """Draw loads: all members send multicasts, some send unicasts as well."""
    names = [name for site in base.sites for name in site.members]
    found: list[Load] = []
    for name in names if messages else ():
        count = rng.randint(1, 3)
        every = round(seconds * count * len(names) / messages, 3)
        start, size = round(rng.uniform(0, 1), 3), rng.choice([0, 50, 1000])
        found.append(
            Load(
                member=name,
                start=start,
                stop=seconds,
                every=max(every, 0.001),
                count=count,
                size=size,
            )
        )
        if rng.random() < 0.4:
            every = round(rng.uniform(0.5, 3), 3)
            found.append(Load(member=name, start=start, stop=seconds, every=every, to="one"))
    return tuple(found)


def explore(
    cluster: Factory,
    *,
    seeds: Iterable[int] = range(1, 21),
    faults: Faults = FAULTS,
    count: int = 8,
    seconds: float = 20.0,
    messages: int = 200,
    stop_after: float | None = None,
    shrink_runs: int = RUNS_MAX,
    folder: Path = FOLDER,
) -> Report:
    """Play the schedule of each seed: faults, healing, checks after every step and at rest.

    The first that violates something is made smaller, as long as the same check fails (at most
    ``shrink_runs`` runs, and a minute), written to ``folder/SEED.json``, and raised as
    ``PropertyViolated``. ``stop_after``: real seconds after which no further seed is begun. The
    other arguments are those of ``draw``. Raises ``ConfigError``, ``OSError``.
    """
    begun = time.monotonic()
    outcomes: list[RunOutcome] = []
    for seed in seeds:
        if stop_after is not None and outcomes and time.monotonic() - begun >= stop_after:
            break
        made = cluster(seed)
        schedule = draw(
            made,
            seed,
            faults,
            count=count,
            seconds=seconds,
            messages=messages,
        )
        outcome = made.play(schedule)
        if outcome.problems:
            # A failure before the healing is shrunk without healing, which is faster.
            back_end = _Own(cluster, heal=made.scene.ended)
            if shrink_runs:
                schedule = shrunk(back_end, schedule, outcome, shrink_runs)
            file = write(back_end, schedule, folder, back_end.file_name(seed, schedule.profile))
            check_schedule(cluster, schedule, file)
            raise AssertionError(f"{file} does not fail again: is all chance from the seed?")
        outcomes.append(outcome)
    return Report(
        len(outcomes),
        sum(o.sent for o in outcomes),
        sum(o.delivered for o in outcomes),
        sum(o.faults for o in outcomes),
        sum(o.events for o in outcomes),
        sum(o.virtual_s for o in outcomes),
        time.monotonic() - begun,
    )


class _Own(Stacks):
    """The lab's back end for users' clusters."""

    def __init__(self, cluster: Factory, heal: bool) -> None:
        self.cluster = cluster
        self.heal = heal

    def play(self, case: Schedule) -> RunOutcome:
        return self.cluster(case.seed).play(case, heal=self.heal)


def check_schedule(cluster: Factory, schedule: Schedule, file: Path | None = None) -> RunOutcome:
    """Play one schedule. Raises ``PropertyViolated`` if a property is violated; ``file``: where the
    schedule stands, for the message."""
    outcome = cluster(schedule.seed).play(schedule)
    for problem in outcome.problems[:1]:
        raise PropertyViolated(
            problem.check,
            problem.detail,
            seed=schedule.seed,
            at=problem.at,
            story=outcome.story,
            schedule=schedule,
            file=file,
            replay=_replay(cluster, file),
        )
    return outcome


def replay(cluster: Factory, file: Path | str) -> RunOutcome:
    """Play a written schedule. The run is the same as long as the code was not changed.

    Raises ``PropertyViolated`` as before, ``ConfigError`` for a file that is no schedule or one for
    another stack, ``OSError``.
    """
    path = Path(file)
    schedule = load(path)
    stack = cluster(schedule.seed).schedule.stack
    if stack != schedule.stack:
        raise ConfigError(f"is for the stack {schedule.stack}, not {stack}", file=str(path))
    return check_schedule(cluster, schedule, path)


def _replay(cluster: Factory, file: Path | None) -> str:
    if file is None:
        return ""
    module, name = cluster.__module__, getattr(cluster, "__qualname__", "?")
    if module == "__main__" or not name.isidentifier():
        return f"jgroups_py.testing.replay({name.rpartition('.')[2]}, {str(file)!r})"
    return shlex.join(["python", "-m", "jgroups_py.testing", f"{module}:{name}", str(file)])
