"""Buddy replication on whole simulated clusters: some schedules pass, and broken rules are found."""

from typing import Any

import pytest

from jgroups_py.buddy import decide
from jgroups_py.buddy.backups import Backups
from jgroups_py.buddy.ownership import Ownership
from jgroups_py.testing.explorer.buddies.clusters import explore_cluster


def problems(seeds: range) -> list[tuple[int, str, str]]:
    outcomes = [explore_cluster(seed) for seed in seeds]
    return [(o.seed, o.first.check, o.first.detail) for o in outcomes if o.first]


def test_no_node_is_lost_or_owned_twice() -> None:
    assert problems(range(2)) == []


@pytest.mark.parametrize("seed", [361, 643, 829, 1335])
def test_a_member_that_missed_the_view_of_a_merge_agrees_with_the_others_on_backups(
    seed: int,
) -> None:
    """The member's holders had dropped its nodes, but it still had them."""
    assert problems(range(seed, seed + 1)) == []


@pytest.mark.slow
def test_the_same_in_many_clusters() -> None:
    assert problems(range(2, 150)) == []


def test_a_seed_is_the_same_cluster_again() -> None:
    first, second = explore_cluster(1), explore_cluster(1)
    assert first == second and first.events > 500 and first.faults > 0


@pytest.mark.parametrize(
    ("where", "name", "instead", "seeds"),
    [
        (decide, "_guardians", lambda *args: {}, range(0, 20, 2)),
        (Ownership, "_settle_winners", lambda *args: None, range(1, 12, 2)),
        (Backups, "on_filled", lambda *args: None, range(1)),
        (Backups, "drop_stray", lambda *args: None, range(361, 362)),
    ],
    ids=["nobody-adopts", "nobody-wins", "never-filled", "kept-for-nothing"],
)
def test_broken_sources_are_found(
    where: Any, name: str, instead: Any, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, instead)
    assert any(explore_cluster(seed).problems for seed in seeds)
