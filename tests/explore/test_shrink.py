"""Schedules that fail are made smaller and still fail; each planted fault is found by the check
that is meant for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.explorer.lab import RunOutcome, Size, shrunk
from jgroups_py.testing.explorer.many import Job, run_seed
from jgroups_py.testing.explorer.stacks.back_end import Stacks
from jgroups_py.testing.explorer.stacks.draw import draw
from jgroups_py.testing.explorer.stacks.play import play
from jgroups_py.testing.explorer.stacks.schedule import Schedule, load

Player = Callable[[Schedule], RunOutcome]


class Planted(Stacks):
    """A player with the given outcome."""

    def __init__(self, player: Player) -> None:
        self.play = player  # type: ignore[method-assign, assignment]


def shrink(schedule: Schedule, outcome: RunOutcome, player: Player, runs: int = 200) -> Schedule:
    return shrunk(Planted(player), schedule, outcome, runs)


def fails_with(*kinds: str, runs: list[int]) -> Player:
    """Return a player that fails as long as the schedule has steps of all these kinds."""

    def player(schedule: Schedule) -> RunOutcome:
        runs.append(1)
        there = {step.do for step in schedule.steps}
        problems = [Violation("gap", "planted")] if there.issuperset(kinds) else []
        return RunOutcome(schedule.seed, problems)

    return player


def test_only_needed_parts_stay() -> None:
    runs: list[int] = []
    player = fails_with("crash", "pause", runs=runs)
    seed = next(s for s in range(100) if player(draw(s, "membership")).problems)
    schedule = draw(seed, "membership")
    smaller = shrink(schedule, player(schedule), player)
    assert sorted(step.do for step in smaller.steps) == ["crash", "pause"]
    assert smaller.loads == ()
    assert smaller.attributes == {}
    assert sum(len(site.members) for site in smaller.sites) == len(smaller.sites)
    assert len(runs) < 200


def test_a_member_that_heals_keeps_the_settings_that_the_bounds_of_healing_were_drawn_for() -> None:
    schedule = draw(1, "membership")

    def player(candidate: Schedule) -> RunOutcome:
        return RunOutcome(1, [Violation("gap", "planted")] if candidate.heals else [])

    smaller = shrink(schedule, player(schedule), player)
    assert (smaller.steps, smaller.attributes) == ((), schedule.attributes)


def test_a_failure_of_the_first_phase_is_played_without_the_second() -> None:
    """The file of the failure then passes when the fault of the first phase is mended."""
    schedule = msgspec.structs.replace(draw(1, "membership"), steps=(), heals=False)
    assert play(schedule).virtual_s < schedule.least_seconds
    assert play(msgspec.structs.replace(schedule, heals=True)).virtual_s >= schedule.least_seconds


def test_another_check_that_fails_is_another_problem() -> None:
    schedule = draw(1, "membership")

    def player(candidate: Schedule) -> RunOutcome:
        check = "gap" if len(candidate.steps) == len(schedule.steps) else "fifo"
        return RunOutcome(candidate.seed, [Violation(check, "planted")])

    smaller = shrink(schedule, player(schedule), player)
    assert smaller.steps == schedule.steps


def test_shrinking_has_a_limit() -> None:
    runs: list[int] = []
    player = fails_with(runs=runs)
    schedule = draw(1, "membership")
    shrink(schedule, RunOutcome(1, [Violation("gap", "planted")]), player, runs=7)
    assert len(runs) == 7


def test_a_failing_seed_is_written_and_its_file_fails_the_same_way(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jgroups_py.protocols.membership.gms.protocol import GMS

    monkeypatch.setattr(GMS, "check", lambda self: 1 / 0)
    job = Job("membership", Size(members=(3, 3)), shrink_runs=2, folder=tmp_path)
    seed = 2
    result = run_seed(job, seed)
    assert result.shrunk == str(tmp_path / "2.json")
    first = result.violations[0]
    assert result.seed == seed
    assert first.replay == "jgroups-py simulate --replay 2 --profile membership --members 3..3"
    again = play(load(tmp_path / "2.json"))
    assert again.problems[0].check == first.check == "exception"
