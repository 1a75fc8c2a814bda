"""Random schedules: what the invariants say after every step, and at rest."""

from pathlib import Path

import pytest
from buddy_script import Script, address

from jgroups_py.buddy.handover import Handover
from jgroups_py.errors import ConfigError
from jgroups_py.testing.explorer.buddies.draw import Result
from jgroups_py.testing.explorer.buddies.explore import (
    PROFILES,
    SITE_PROFILES,
    explore,
    replay,
    shrink,
)
from jgroups_py.testing.explorer.buddies.files import dump, load

FEW, MANY = 40, 5000


def failures(seeds: range, profile: str) -> list[tuple[int, str, str]]:
    results = (explore(seed, profile) for seed in seeds)
    return [(r.seed, r.check, r.detail) for r in results if r.check]


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
    assert first == second and first.steps > 50
    assert replay(first.schedule).steps == first.steps


@pytest.mark.parametrize(
    ("profile", "seed"),
    [
        ("sites", 83574),  # a site is built anew while the other one has no relay
        ("three", 500776),  # written and removed while one of three sites heard nothing, then lost
    ],
)
def test_what_the_judge_took_for_a_loss_is_none(profile: str, seed: int) -> None:
    assert explore(seed, profile).check == ""


def test_an_event_of_a_site_that_is_built_anew_meanwhile_is_sent_back_to_it() -> None:
    """It waited while its members had no view; the bootstrap had listed what there was."""
    assert explore(12688, "active").check == ""


def failing() -> Result:
    for seed in range(200):
        result = explore(seed, "crashes")
        if result.check:
            return result
    raise AssertionError("nothing failed")


def test_what_fails_is_made_smaller_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handover, "say_taken_again", lambda self: None)
    result = failing()
    small = shrink(result)
    assert replay(small).check == result.check
    assert len(small.steps) < len(result.schedule.steps) / 3
    file = tmp_path / "small.json"
    file.write_text(dump(small))
    assert load(file) == small
    monkeypatch.undo()
    assert replay(small).check == ""


def test_who_leaves_below_what_it_knows_of_counts_as_a_crash() -> None:
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
def test_a_file_that_is_no_schedule_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match="not a schedule"):
        load(file)
