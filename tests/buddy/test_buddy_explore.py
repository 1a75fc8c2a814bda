"""Random schedules: the invariants hold after every step, and at the end."""

import pytest
from buddy_script import Script, address

from jgroups_py.buddy.handover import Handover
from jgroups_py.errors import ConfigError
from jgroups_py.testing.explorer.buddies.back_end import BuddySchedules
from jgroups_py.testing.explorer.buddies.explore import (
    PROFILES,
    SITE_PROFILES,
    explore,
    replay,
)
from jgroups_py.testing.explorer.buddies.files import dump, parse
from jgroups_py.testing.explorer.lab import shrunk

FEW, MANY = 24, 5000


def failures(seeds: range, profile: str) -> list[tuple[int, str, str]]:
    outcomes = (explore(seed, profile)[1] for seed in seeds)
    return [(o.seed, o.first.check, o.first.detail) for o in outcomes if o.first]


@pytest.mark.parametrize("profile", PROFILES)
def test_random_schedules_hold(profile: str) -> None:
    assert failures(range(FEW // 3 if profile in SITE_PROFILES else FEW), profile) == []


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_many_random_schedules_hold(profile: str) -> None:
    assert failures(range(FEW, MANY), profile) == []


@pytest.mark.parametrize("profile", PROFILES)
def test_a_seed_is_the_same_schedule_again_and_drawn_steps_play_as_they_were(profile: str) -> None:
    first, second = explore(7, profile), explore(7, profile)
    assert first == second and first[1].events > 50
    assert replay(first[0]).events == first[1].events


@pytest.mark.parametrize(
    ("profile", "seed"),
    [
        ("sites", 83574),  # a site is built anew while the other one has no relay
        (
            "three",
            500776,
        ),  # written and removed while one of three sites received nothing, then lost
    ],
)
def test_a_former_false_loss_of_the_judge_is_none(profile: str, seed: int) -> None:
    assert explore(seed, profile)[1].problems == []


def test_an_event_of_a_site_that_is_built_anew_meanwhile_is_sent_back_to_it() -> None:
    """The event waited while the members of its site had no view, and the bootstrap had listed its node already."""
    assert explore(12688, "active")[1].problems == []


def test_a_failing_case_is_made_smaller_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handover, "say_taken_again", lambda self: None)
    buddies = BuddySchedules()
    drawn = (buddies.explore(seed, "crashes") for seed in range(200))
    schedule, outcome = next(pair for pair in drawn if pair[1].problems)
    assert outcome.first is not None
    small = shrunk(buddies, schedule, outcome, 500)
    again = replay(small).first
    assert again is not None and again.check == outcome.first.check
    assert len(small.steps) < len(schedule.steps) / 3
    assert parse(dump(small), "small.json") == small
    monkeypatch.undo()
    assert replay(small).problems == []


def test_a_member_that_leaves_below_its_known_numbers_counts_as_crashed() -> None:
    s = Script(1)
    s.write("A", "x")
    s.leave("A")
    s.hold_views("A")
    s.join()
    s.join()
    s.run()
    assert address("A") in s.world.may_go and len(s.world.machines) == 3
    assert not s._take(("go", address("A")))  # one crash too many: B and C have nothing yet
    s.free_all()
    s.run()
    s.go("A")
    s.rest()


@pytest.mark.parametrize(
    "text", ["", "{}", '{"setting": {}, "steps": [["fly"]]}', '{"setting": {"members": "x"}}']
)
def test_a_file_that_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"bad\.json: not a schedule"):
        parse(text, "bad.json")
