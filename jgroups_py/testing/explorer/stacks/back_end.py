"""The lab's back end for whole simulated clusters."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from jgroups_py.testing.explorer.lab import ANYTHING, BackEnd, RunOutcome, Size
from jgroups_py.testing.explorer.shrink import parts, proposed
from jgroups_py.testing.explorer.stacks.draw import PROFILES, draw
from jgroups_py.testing.explorer.stacks.play import play, try_stack
from jgroups_py.testing.explorer.stacks.schedule import Healing, Link, Schedule, Site, from_json


def _only_the_first_phase(schedule: Schedule) -> Iterator[Schedule]:
    yield msgspec.structs.replace(schedule, least_seconds=0.0, least_messages=0, least_faults=0)
    yield msgspec.structs.replace(schedule, heals=False)


def _without_a_member(schedule: Schedule) -> Iterator[Schedule]:
    for index, site in enumerate(schedule.sites):
        for name in site.members:
            if len(site.members) > 1:
                members = tuple(n for n in site.members if n != name)
                sites = list(schedule.sites)
                sites[index] = Site(name=site.name, members=members)
                loads = tuple(load for load in schedule.loads if load.member != name)
                yield msgspec.structs.replace(schedule, sites=tuple(sites), loads=loads)


def _without_a_setting(schedule: Schedule) -> Iterator[Schedule]:
    """Healing has bounds that settings are drawn for: with those of the file, more is remembered."""
    if schedule.heals:
        return
    for name in ("attributes", "bridge_attributes"):
        settings = getattr(schedule, name)
        for key in settings:
            fewer = {k: v for k, v in settings.items() if k != key}
            yield msgspec.structs.replace(schedule, **{name: fewer})


def _plainer(schedule: Schedule) -> Iterator[Schedule]:
    last = max((step.at for step in schedule.steps), default=0.0)
    for values in (
        {"inside": Link()},
        {"between": Link(latency=0.03)},
        {"with_state": False},
        {"shared": 0},
        {"sealed": False},
        {"reopen": 0.0},
        {"healing": Healing(within=schedule.healing.within)},
        {"seconds": min(schedule.seconds, last + 10.0)},
    ):
        yield msgspec.structs.replace(schedule, **values)


class Stacks(BackEnd[Schedule]):
    kind = "stacks"
    profiles = PROFILES
    command = "simulate"

    before = (proposed(_only_the_first_phase),)
    passes = (
        parts("steps"),
        parts("loads"),
        proposed(_without_a_member),
        proposed(_without_a_setting),
        proposed(_plainer),
    )

    def draw(self, seed: int, profile: str, size: Size = ANYTHING) -> Schedule:
        return draw(seed, profile, size)

    def play(self, case: Schedule) -> RunOutcome:
        return play(case)

    def write(self, case: Schedule) -> str:
        return case.to_json()

    def read(self, text: str, file: str) -> Schedule:
        schedule = from_json(text, file)
        try_stack(schedule, file)
        return schedule
