"""Random schedules of single steps, drawn from a seed, judged after every step, and made smaller.

A schedule is a setting and a list of steps. It is drawn while it runs, since only then it is known which
steps there are; played again, it needs no chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jgroups_py.testing.explorer.buddies.draw import (
    FAULTS,
    Result,
    Schedule,
    Scheduler,
    come_to_rest,
)
from jgroups_py.testing.explorer.buddies.oracle import Violation
from jgroups_py.testing.explorer.buddies.sites import Sites
from jgroups_py.testing.explorer.buddies.sites_draw import (
    SITE_FAULTS,
    SiteScheduler,
    sites_come_to_rest,
)
from jgroups_py.testing.explorer.buddies.world import Step, World

SITE_PROFILES: Final = ("sites", "active", "overflow", "three")
PROFILES: Final = (
    *("crashes", "async", "merges", "chaos", "sites", "active", "overflow", "passive", "skips"),
    *("three", "missed"),
)
"""crashes: within what must not lose anything, with leaves and joins. async: the same, owners and
backups judged. merges: partitions, no crashes: what is lost is listed. chaos: both at once, owners and
backups judged. sites: two of them, one written to; crashes in both, the link cut, the first one lost,
bootstrap. active: both are written to, one is promoted; what is dropped is listed. overflow: removals
that could not be kept for the other site; reconciliation. three: as sites (even seeds) or active, three of
them. passive: as crashes (even seeds) or merges (odd
ones), while values leave the memory of their owners and come back. skips: as crashes and async, while members
miss views. missed: as merges, while members miss views, those of merges, too."""


def explore(seed: int, profile: str) -> Result:
    """Draws and plays one schedule."""
    if profile in SITE_PROFILES:
        return SiteScheduler(seed, profile).run()
    return Scheduler(seed, profile).run()


def replay(schedule: Schedule, tell: Callable[[World | Sites, Step], None] | None = None) -> Result:
    """Plays a schedule that was drawn before."""
    several = schedule.setting.other is not None
    world: World | Sites = Sites(schedule.setting) if several else World(schedule.setting)
    world.attentive = True
    faults = 0
    try:
        for step in schedule.steps:
            done = world.step(step)
            faults += done and (step[0] in FAULTS or step[0] in SITE_FAULTS)
            if done and tell is not None:
                tell(world, step)
        if isinstance(world, Sites):
            sites_come_to_rest(world, None)
        else:
            come_to_rest(world, None)
    except Violation as violation:
        return Result(0, schedule, world.steps, faults, violation.check, violation.detail)
    except Exception as error:
        return Result(
            0, schedule, world.steps, faults, "exception", f"{type(error).__name__}: {error}"
        )
    return Result(0, schedule, world.steps, faults)


def shrink(result: Result, runs: int = 500) -> Schedule:
    """A shorter schedule that violates the same check."""
    best = result.schedule
    size = max(1, len(best.steps) // 2)
    while size >= 1 and runs > 0:
        at, gone = 0, False
        while at < len(best.steps) and runs > 0:
            steps = (*best.steps[:at], *best.steps[at + size :])
            runs -= 1
            smaller = Schedule(best.setting, steps)
            if replay(smaller).check == result.check:
                best, gone = smaller, True
            else:
                at += size
        if size == 1 and not gone:
            break
        size = max(1, size // 2)
    return best
