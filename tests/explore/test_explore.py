"""Exploring: a schedule drawn from a seed is played the same way each time, and judged."""

from __future__ import annotations

import msgspec
import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.explore.draw import PROFILES, Wanted, draw
from jgroups_py.explore.play import play
from jgroups_py.explore.schedule import Schedule, from_json

SMALL = Wanted(members=(2, 3))


@pytest.mark.parametrize("profile", PROFILES)
def test_the_same_seed_is_the_same_schedule(profile: str) -> None:
    schedule = draw(3, profile)
    assert schedule == draw(3, profile)
    assert schedule != draw(4, profile)


@pytest.mark.parametrize("profile", ["state", "relay"])
def test_the_same_schedule_is_the_same_run(profile: str) -> None:
    schedule = msgspec.structs.replace(
        draw(7, profile, SMALL), seconds=8.0, least_seconds=0.0, least_messages=0
    )
    first, second = play(schedule), play(from_json(schedule.to_json(), "again"))
    assert first == second
    assert first.events > 300


@pytest.mark.parametrize("profile", PROFILES)
def test_a_run_has_its_size_and_holds(profile: str) -> None:
    outcome = play(draw(2, profile, SMALL))
    assert outcome.problems == []
    assert outcome.virtual_s >= 60
    assert outcome.sent >= 500
    assert outcome.faults >= 5


@pytest.mark.parametrize(
    ("profile", "seed", "wanted"),
    [
        *[("relay", seed, Wanted(1)) for seed in (1, 36, 80, 86)],
        ("flow", 70001, Wanted(1, (1, 1))),
    ],
)
def test_so_has_a_run_of_few_members(profile: str, seed: int, wanted: Wanted) -> None:
    """Steps find nobody there; a site that never meets another one keeps what is for it."""
    outcome = play(draw(seed, profile, wanted))
    assert outcome.problems == []
    assert (outcome.virtual_s >= 60, outcome.sent >= 500, outcome.faults >= 5) == (True,) * 3


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", range(1, 40))
def test_many_runs_hold(profile: str, seed: int) -> None:
    outcome = play(draw(seed, profile))
    assert outcome.problems == []
    assert (outcome.virtual_s >= 60, outcome.sent >= 500, outcome.faults >= 5) == (True,) * 3


def test_relays_are_joined_and_single_sites_are_not() -> None:
    assert all(draw(seed, "relay").relays for seed in range(5))
    assert not any(draw(seed, "flow").relays for seed in range(5))
    kinds = {len(draw(seed, "all").sites) > 1 for seed in range(30)}
    assert kinds == {True, False}


def test_sites_and_members_can_be_fixed() -> None:
    for seed in range(5):
        schedule = draw(seed, "membership", Wanted(1, (4, 5)))
        assert len(schedule.sites) == 1
        assert all(4 <= len(site.members) <= 5 for site in schedule.sites)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not a schedule"),
        ('{"seed": 1}', "not a schedule"),
        ("[]" * 600_000, "too long"),
    ],
)
def test_what_is_no_schedule_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"x.json: {problem}"):
        from_json(text, "x.json")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"sites": ()}, "every site needs members"),
        ({"seconds": -1.0}, "times are"),
        ({"loads": [{"member": "nobody", "start": 0, "stop": 1, "every": 1}]}, "nobody"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(change: dict[str, object], problem: str) -> None:
    values = msgspec.json.decode(draw(1, "membership").to_json()) | change
    with pytest.raises(ConfigError, match=problem):
        from_json(msgspec.json.encode(values).decode(), "x.json")


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match="profile: one of"):
        draw(1, "chaos")


def test_a_schedule_survives_its_file() -> None:
    for seed in range(10):
        schedule = draw(seed, "all")
        assert from_json(schedule.to_json(), "x.json") == schedule
        assert isinstance(schedule, Schedule)
