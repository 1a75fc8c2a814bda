"""Members that start together on one machine find each other, and a single member there does not wait."""

from __future__ import annotations

import pytest

from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.explorer.starts import StartsRun, draw
from jgroups_py.testing.sim.world import World


def play(seed: int) -> list[Violation]:
    return StartsRun(draw(seed)).play().problems


@pytest.mark.parametrize("first", range(1, 21, 10))
def test_members_that_start_at_once_are_one_group(first: int) -> None:
    for seed in range(first, first + 10):
        assert play(seed) == [], f"jgroups-py dev starts-explore --replay {seed}"


def test_seeds_differ_in_kind_and_are_the_same_each_time() -> None:
    plans = [draw(seed) for seed in range(1, 60)]
    starts = [one for plan in plans for one in plan.starts]
    assert any(plan.crash_at is not None for plan in plans)
    assert any(one.pause for one in starts) and any(one.turn for one in starts)
    assert {one.cluster for one in starts} == {"test", "other"}
    runs = [StartsRun(plan) for plan in plans[:10]]
    assert not any(run.play().problems for run in runs)
    assert sum(run.alone for run in runs) > 1
    assert draw(7) == plans[6]


def test_on_a_network_nobody_is_sure_to_be_alone() -> None:
    world = World(check=False)
    member = world.start("A", "udp.xml", "test")
    world.run_for(0.99)
    assert member.view is None
    world.run_for(0.1)
    assert member.view is not None
    world.close()


@pytest.mark.parametrize("seed", [357, 784])
def test_a_short_look_that_nobody_answers_is_no_proof(seed: int) -> None:
    """Members with slow loops had answered before, and made a group meanwhile."""
    assert play(seed) == []


@pytest.mark.slow
def test_ten_thousand_starts_are_one_group() -> None:
    failed = {seed: found for seed in range(1, 10_001) if (found := play(seed))}
    assert failed == {}
