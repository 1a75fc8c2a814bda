"""The lab's back ends for buddy replication: its machine alone, and on whole simulated clusters."""

from __future__ import annotations

from collections.abc import Sequence

from jgroups_py.testing.explorer.buddies.clusters import explore_cluster
from jgroups_py.testing.explorer.buddies.draw import BuddySchedule
from jgroups_py.testing.explorer.buddies.explore import PROFILES, explore, replay
from jgroups_py.testing.explorer.buddies.files import dump, parse
from jgroups_py.testing.explorer.buddies.world import Step
from jgroups_py.testing.explorer.lab import ANYTHING, BackEnd, RunOutcome, Size
from jgroups_py.testing.explorer.seed_cases import SeedBackEnd
from jgroups_py.testing.explorer.shrink import Shrinker


def _steps(shrinker: Shrinker[BuddySchedule]) -> None:
    def put(case: BuddySchedule, steps: Sequence[Step]) -> BuddySchedule:
        return BuddySchedule(case.setting, tuple(steps))

    shrinker.cut(lambda case: case.steps, put, whole=False)


class BuddySchedules(BackEnd[BuddySchedule]):
    """Every message, view, push, call and fault is a step; a schedule is drawn while it runs."""

    kind = "buddies"
    profiles = (*PROFILES, "all")
    command = "buddy-explore"
    passes = (_steps,)

    def draw(self, seed: int, profile: str, size: Size = ANYTHING) -> BuddySchedule:
        return explore(seed, profile)[0]

    def explore(
        self, seed: int, profile: str, size: Size = ANYTHING
    ) -> tuple[BuddySchedule, RunOutcome]:
        return explore(seed, profile)

    def play(self, case: BuddySchedule) -> RunOutcome:
        return replay(case)

    def write(self, case: BuddySchedule) -> str:
        return dump(case)

    def read(self, text: str, file: str) -> BuddySchedule:
        return parse(text, file)

    def profile_of(self, profile: str, seed: int) -> str:
        return PROFILES[seed % len(PROFILES)] if profile == "all" else profile

    def file_name(self, seed: int, profile: str) -> str:
        return f"{profile}-{seed}.json"


class Clusters(SeedBackEnd):
    """Buddy replication on whole simulated clusters."""

    kind = "clusters"
    profiles = ("cluster",)
    command = "buddy-explore"

    def play(self, case: int) -> RunOutcome:
        return explore_cluster(case)
