"""Shrinking: parts of a schedule are taken away as long as the same check fails.

Delta debugging: first large parts of a list, then smaller ones, down to single items; then settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from jgroups_py.testing.explorer.stacks.play import Outcome, play
from jgroups_py.testing.explorer.stacks.schedule import Healing, Link, Schedule, Site

RUNS_MAX: Final = 150
"""Runs that shrinking one schedule may take."""
SECONDS_MAX: Final = 60.0
"""Real time after which no further run is begun."""

T = TypeVar("T")
Player = Callable[[Schedule], Outcome]


def shrink(
    schedule: Schedule, outcome: Outcome, *, runs: int = RUNS_MAX, player: Player = play
) -> Schedule:
    """A schedule that is no larger and shows the check that failed first in ``outcome``."""
    return _Shrinker(schedule, outcome.problems[0].check, runs, player).run()


class _Shrinker:
    def __init__(self, schedule: Schedule, check: str, runs: int, player: Player) -> None:
        self.best = schedule
        self.check = check
        self.left = runs
        self.player = player
        self.until = time.monotonic() + SECONDS_MAX

    def run(self) -> Schedule:
        self._try(least_seconds=0.0, least_messages=0, least_faults=0)
        self._try(heals=False)
        before = None
        while before != self.best:
            before = self.best
            self._list("steps")
            self._list("loads")
            for candidate in _without_a_member(self.best):
                self._take(candidate)
            if not self.best.heals:
                # Healing has bounds that settings are drawn for: as shipped, more is remembered.
                self._settings("attributes")
                self._settings("bridge_attributes")
            for values in _plainer(self.best):
                self._try(**values)
        return self.best

    def _take(self, candidate: Schedule) -> bool:
        """Keeps ``candidate`` if it fails the same way."""
        if self.left <= 0 or time.monotonic() > self.until or candidate == self.best:
            return False
        self.left -= 1
        if any(problem.check == self.check for problem in self.player(candidate).problems[:1]):
            self.best = candidate
            return True
        return False

    def _try(self, **values: Any) -> bool:
        return self._take(msgspec.structs.replace(self.best, **values))

    def _list(self, name: str) -> None:
        size = len(getattr(self.best, name))
        while size >= 1:
            at = 0
            while at < len(items := getattr(self.best, name)):
                if not self._try(**{name: without(items, at, size)}):
                    at += size
            size //= 2

    def _settings(self, name: str) -> None:
        for key in list(getattr(self.best, name)):
            left = {k: v for k, v in getattr(self.best, name).items() if k != key}
            self._try(**{name: left})


def without(items: Sequence[T], at: int, size: int) -> tuple[T, ...]:
    """All but ``size`` of them from ``at`` on."""
    return (*items[:at], *items[at + size :])


def _without_a_member(schedule: Schedule) -> Iterator[Schedule]:
    for index, site in enumerate(schedule.sites):
        for name in site.members:
            if len(site.members) > 1:
                members = tuple(n for n in site.members if n != name)
                sites = list(schedule.sites)
                sites[index] = Site(name=site.name, members=members)
                loads = tuple(load for load in schedule.loads if load.member != name)
                yield msgspec.structs.replace(schedule, sites=tuple(sites), loads=loads)


def _plainer(schedule: Schedule) -> Iterator[dict[str, Any]]:
    yield {"inside": Link()}
    yield {"between": Link(latency=0.03)}
    yield {"with_state": False}
    yield {"shared": 0}
    yield {"reopen": 0.0}
    yield {"healing": Healing(within=schedule.healing.within)}
    last = max((step.at for step in schedule.steps), default=0.0)
    yield {"seconds": min(schedule.seconds, last + 10.0)}
