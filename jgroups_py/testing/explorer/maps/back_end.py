"""The lab's back ends for maps: replicas alone, and on whole simulated clusters."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jgroups_py.testing.explorer.lab import ANYTHING, BackEnd, RunOutcome, Size
from jgroups_py.testing.explorer.maps.clusters import explore_cluster
from jgroups_py.testing.explorer.maps.schedule import (
    KIND,
    PROFILES,
    MapSchedule,
    draw,
    dump,
    parse,
    play,
)
from jgroups_py.testing.explorer.seed_cases import SeedBackEnd
from jgroups_py.testing.explorer.shrink import Shrinker

COMMAND = "map-explore"


def _steps(shrinker: Shrinker[MapSchedule]) -> None:
    def put(case: MapSchedule, steps: Sequence[tuple[str, int, int, int]]) -> MapSchedule:
        return msgspec.structs.replace(case, steps=tuple(steps))

    shrinker.cut(lambda case: case.steps, put, whole=False)


class Maps(BackEnd[MapSchedule]):
    """Writes, cuts, crashes and clocks are steps."""

    kind = KIND
    profiles = tuple(f"map-{profile}" for profile in PROFILES)
    command = COMMAND
    passes = (_steps,)

    def draw(self, seed: int, profile: str, size: Size = ANYTHING) -> MapSchedule:
        return draw(seed, profile.removeprefix("map-"))

    def play(self, case: MapSchedule) -> RunOutcome:
        return play(case)

    def write(self, case: MapSchedule) -> str:
        return dump(case)

    def read(self, text: str, file: str) -> MapSchedule:
        return parse(text, file)

    def file_name(self, seed: int, profile: str) -> str:
        return f"{profile}-{seed}.json"


class MapClusters(SeedBackEnd):
    """Maps on whole simulated clusters."""

    kind = "map-clusters"
    profiles = ("map-cluster",)
    command = COMMAND

    def play(self, case: int) -> RunOutcome:
        return explore_cluster(case)
