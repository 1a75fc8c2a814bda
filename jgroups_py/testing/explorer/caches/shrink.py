"""Shrinking a schedule of caches: parts are taken away as long as the same check fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from jgroups_py.testing.explorer.caches.play import play_caches
from jgroups_py.testing.explorer.caches.schedule import CacheSchedule
from jgroups_py.testing.explorer.stacks.play import Outcome
from jgroups_py.testing.explorer.stacks.schedule import Link
from jgroups_py.testing.explorer.stacks.shrink import RUNS_MAX, SECONDS_MAX, without

Player = Callable[[CacheSchedule], Outcome]


def shrink_caches(
    schedule: CacheSchedule,
    outcome: Outcome,
    *,
    runs: int = RUNS_MAX,
    player: Player = play_caches,
) -> CacheSchedule:
    """A schedule that is no larger and shows the check that failed first in ``outcome``."""
    return _Shrinker(schedule, outcome.problems[0].check, runs, player).run()


class _Shrinker:
    def __init__(self, schedule: CacheSchedule, check: str, runs: int, player: Player) -> None:
        self.best = schedule
        self.check = check
        self.left = runs
        self.player = player
        self.until = time.monotonic() + SECONDS_MAX

    def run(self) -> CacheSchedule:
        self._list("faults")
        self._list("callers")
        before = None
        while before != self.best:
            before = self.best
            self._list("faults")
            self._list("callers")
            for index in range(len(self.best.callers)):
                self._steps(index)
            for candidate in _without_a_member(self.best):
                self._take(candidate)
            for values in ({"link": Link()}, {"late": ()}, {"buddies": 1}, {"majority": False}):
                self._try(**values)
        return self.best

    def _take(self, candidate: CacheSchedule) -> bool:
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

    def _steps(self, index: int) -> None:
        size = len(self.best.callers[index].steps) // 2
        while size >= 1:
            at = 0
            while at < len(self.best.callers[index].steps):
                caller = self.best.callers[index]
                callers = list(self.best.callers)
                callers[index] = msgspec.structs.replace(
                    caller, steps=without(caller.steps, at, size)
                )
                if not self._try(callers=tuple(callers)):
                    at += size
            size //= 2


def _without_a_member(schedule: CacheSchedule) -> Iterator[CacheSchedule]:
    """Who has no callers is left out."""
    busy = {caller.member for caller in schedule.callers}
    for name in schedule.members:
        if name not in busy and len(schedule.members) > 1:
            faults = tuple(f for f in schedule.faults if name not in f.who)
            yield msgspec.structs.replace(
                schedule,
                members=tuple(m for m in schedule.members if m != name),
                late=tuple(m for m in schedule.late if m != name),
                faults=faults,
            )
