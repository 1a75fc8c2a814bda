"""The lab's back end for caches with concurrent callers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from jgroups_py.testing.explorer.caches.draw import CACHE_PROFILES, draw_caches
from jgroups_py.testing.explorer.caches.play import play_caches
from jgroups_py.testing.explorer.caches.schedule import CacheSchedule, Do, from_json
from jgroups_py.testing.explorer.lab import ANYTHING, BackEnd, RunOutcome, Size
from jgroups_py.testing.explorer.shrink import Shrinker, parts, proposed
from jgroups_py.testing.explorer.stacks.schedule import Link


def _steps_of_each_caller(shrinker: Shrinker[CacheSchedule]) -> None:
    for index in range(len(shrinker.best.callers)):

        def steps(case: CacheSchedule, index: int = index) -> Sequence[Do]:
            return case.callers[index].steps

        def put(case: CacheSchedule, steps: Sequence[Do], index: int = index) -> CacheSchedule:
            callers = list(case.callers)
            callers[index] = msgspec.structs.replace(callers[index], steps=tuple(steps))
            return msgspec.structs.replace(case, callers=tuple(callers))

        shrinker.cut(steps, put, whole=False)


def _without_a_member(schedule: CacheSchedule) -> Iterator[CacheSchedule]:
    """Propose the schedule without each member that has no callers."""
    busy = {caller.member for caller in schedule.callers}
    for name in schedule.members:
        if name not in busy and len(schedule.members) > 1:
            yield msgspec.structs.replace(
                schedule,
                members=tuple(m for m in schedule.members if m != name),
                late=tuple(m for m in schedule.late if m != name),
                faults=tuple(f for f in schedule.faults if name not in f.who),
            )


def _plainer(schedule: CacheSchedule) -> Iterator[CacheSchedule]:
    for values in ({"link": Link()}, {"late": ()}, {"buddies": 1}, {"majority": False}):
        yield msgspec.structs.replace(schedule, **values)


class Caches(BackEnd[CacheSchedule]):
    kind = "caches"
    profiles = CACHE_PROFILES
    command = "simulate"
    before = (parts("faults"), parts("callers"))
    passes = (
        *before,
        _steps_of_each_caller,
        proposed(_without_a_member),
        proposed(_plainer),
    )

    def draw(self, seed: int, profile: str, size: Size = ANYTHING) -> CacheSchedule:
        return draw_caches(seed, profile, size)

    def play(self, case: CacheSchedule) -> RunOutcome:
        return play_caches(case)

    def write(self, case: CacheSchedule) -> str:
        return case.to_json()

    def read(self, text: str, file: str) -> CacheSchedule:
        return from_json(text, file)
