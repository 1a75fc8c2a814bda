"""What fails is made smaller and still fails; planted faults are found by the check they are for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from jgroups_py.testing.check.checkers import Problem
from jgroups_py.testing.explorer.many import Job, run_seed
from jgroups_py.testing.explorer.stacks.draw import Wanted, draw
from jgroups_py.testing.explorer.stacks.play import Outcome, play
from jgroups_py.testing.explorer.stacks.schedule import Schedule, load
from jgroups_py.testing.explorer.stacks.shrink import shrink


def fails_with(*kinds: str, runs: list[int]) -> Any:
    """A player that fails while steps of all these kinds are there."""

    def player(schedule: Schedule) -> Outcome:
        runs.append(1)
        there = {step.do for step in schedule.steps}
        problems = [Problem("gap", "planted")] if there.issuperset(kinds) else []
        return Outcome(schedule.seed, problems)

    return player


def test_only_what_is_needed_stays() -> None:
    runs: list[int] = []
    player = fails_with("crash", "pause", runs=runs)
    seed = next(s for s in range(100) if player(draw(s, "membership")).problems)
    schedule = draw(seed, "membership")
    smaller = shrink(schedule, player(schedule), player=player)
    assert sorted(step.do for step in smaller.steps) == ["crash", "pause"]
    assert smaller.loads == ()
    assert smaller.attributes == {}
    assert sum(len(site.members) for site in smaller.sites) == len(smaller.sites)
    assert len(runs) < 200


def test_who_heals_keeps_the_settings_that_the_bounds_of_healing_were_drawn_for() -> None:
    schedule = draw(1, "membership")

    def player(candidate: Schedule) -> Outcome:
        return Outcome(1, [Problem("gap", "planted")] if candidate.heals else [])

    smaller = shrink(schedule, player(schedule), player=player)
    assert (smaller.steps, smaller.attributes) == ((), schedule.attributes)


def test_what_failed_in_the_first_phase_is_played_without_the_second() -> None:
    """So its file fails no more when that is mended."""
    schedule = msgspec.structs.replace(draw(1, "membership"), steps=(), heals=False)
    assert play(schedule).virtual_s < schedule.least_seconds
    assert play(msgspec.structs.replace(schedule, heals=True)).virtual_s >= schedule.least_seconds


def test_another_check_that_fails_is_another_problem() -> None:
    schedule = draw(1, "membership")

    def player(candidate: Schedule) -> Outcome:
        check = "gap" if len(candidate.steps) == len(schedule.steps) else "fifo"
        return Outcome(candidate.seed, [Problem(check, "planted")])

    smaller = shrink(schedule, player(schedule), player=player)
    assert smaller.steps == schedule.steps


def test_shrinking_has_a_limit() -> None:
    runs: list[int] = []
    player = fails_with(runs=runs)
    schedule = draw(1, "membership")
    shrink(schedule, Outcome(1, [Problem("gap", "planted")]), runs=7, player=player)
    assert len(runs) == 7


def test_a_failing_seed_is_written_and_its_file_fails_the_same_way(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jgroups_py.protocols.membership.gms.protocol import GMS

    monkeypatch.setattr(GMS, "check", lambda self: 1 / 0)
    job = Job("membership", Wanted(members=(3, 3)), shrink_runs=2, folder=tmp_path)
    seed = 2
    result = run_seed(job, seed)
    assert result.shrunk == str(tmp_path / "2.json")
    first = result.violations[0]
    assert first["seed"] == seed
    assert first["replay"] == "jgroups-py simulate --replay 2 --profile membership --members 3..3"
    again = play(load(tmp_path / "2.json"))
    assert again.problems[0].check == first["check"] == "exception"
