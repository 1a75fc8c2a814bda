"""Random schedules of single steps, drawn from a seed, judged after every step, and made smaller.

A schedule is a setting and a list of steps. It is drawn while it runs, since only then it is known which
steps there are; played again, it needs no chance.
"""

from __future__ import annotations

from typing import Final

from jgroups_py.testing.check.violation import violations_in
from jgroups_py.testing.explorer.buddies.draw import (
    FAULTS,
    BuddySchedule,
    Scheduler,
    come_to_rest,
)
from jgroups_py.testing.explorer.buddies.sites import WorldSites
from jgroups_py.testing.explorer.buddies.sites_draw import (
    SITE_FAULTS,
    SiteScheduler,
    sites_come_to_rest,
)
from jgroups_py.testing.explorer.buddies.world import BuddyWorld, Step
from jgroups_py.testing.explorer.lab import RunOutcome

SITE_PROFILES: Final = ("sites", "active", "overflow", "three")
PROFILES: Final = (
    *("crashes", "async", "merges", "chaos", "sites", "active", "overflow", "passive", "skips"),
    *("three", "missed", "stopped"),
)
"""crashes: as many crashes as the buddies must survive, with leaves and joins. async: the same; owners and
backups are judged. merges: partitions without crashes; lost values are listed. chaos: crashes and partitions;
owners and backups are judged. sites: two sites, one of which is written to; both have crashes, the link is
cut, the first site is lost, and a bootstrap follows. active: both sites are written to, and one is promoted;
dropped values are listed. overflow: some removals cannot be kept for the other site; a reconciliation follows.
three: three sites, as sites (even seeds) or active (odd ones). passive: as crashes (even seeds) or merges
(odd ones), while values leave the memory of their owners and come back. skips: as crashes and async, while
members miss views. missed: as merges, while members miss views, also merge views. stopped: with
``partition=majority``. At most as many members as there are buddies are stopped. They notice nothing until
they are merged, and nothing may be lost."""


def explore(seed: int, profile: str) -> tuple[BuddySchedule, RunOutcome]:
    """Draw and play one schedule."""
    if profile in SITE_PROFILES:
        return SiteScheduler(seed, profile).run()
    return Scheduler(seed, profile).run()


def replay(schedule: BuddySchedule) -> RunOutcome:
    """Play a schedule that was drawn before. ``story``: the steps that could be taken."""
    several = schedule.setting.other is not None
    world: BuddyWorld | WorldSites = (
        WorldSites(schedule.setting) if several else BuddyWorld(schedule.setting)
    )
    world.attentive = True
    outcome = RunOutcome(0, [])

    def run() -> None:
        for step in schedule.steps:
            if world.step(step):
                outcome.faults += step[0] in FAULTS or step[0] in SITE_FAULTS
                outcome.story.append(_told(step))
        if isinstance(world, WorldSites):
            sites_come_to_rest(world, None)
        else:
            come_to_rest(world, None)

    outcome.problems += violations_in(run)
    outcome.events = world.steps
    return outcome


def _told(step: Step) -> str:
    return " ".join(x.decode() if isinstance(x, bytes) else str(x) for x in step)
