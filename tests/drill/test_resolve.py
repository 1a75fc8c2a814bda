"""Roles become members when an event fires."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.run.resolve import DrillError, groups, resolve

LIVING = {"NYC": ["E", "D", "C", "B"]}
VIEWS = {"NYC": {"E": "EDCB", "D": "EDCB", "C": "EDCB", "B": "EDCB"}}


def event(line: str, seed: int = 1) -> Any:
    text = f"sites: {{NYC: {{members: [E, D, C, B]}}}}\ntimeline:\n- {{at: 1s, {line}}}\n"
    return plan.build(loader.loads(text, "d.yaml"), seed).events[0]


def names(
    line: str, living: Any = LIVING, views: Any = VIEWS, gone: Any = None, seed: int = 1
) -> str:
    return "".join(name for _, name in resolve(event(line, seed), living, views, gone or {}))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("crash: NYC.relay", "E"),
        ("crash: NYC.coordinator", "E"),
        ("crash: NYC.standby", "D"),
        ("crash: NYC.newest", "B"),
        ("crash: NYC.C", "C"),
        ("crash: [NYC.relay, NYC.standby]", "ED"),
    ],
)
def test_roles_follow_the_view(line: Any, expected: Any) -> None:
    assert names(line) == expected


def test_the_dead_are_skipped_although_they_are_still_in_the_view() -> None:
    living = {"NYC": ["D", "C", "B"]}
    assert names("crash: [NYC.relay, NYC.standby]", living) == "DC"


def test_the_view_most_members_hold_decides() -> None:
    views = {"NYC": {"E": "E", "D": "DCB", "C": "DCB", "B": "DCB"}}
    assert names("crash: NYC.relay", views=views) == "D"


def test_any_is_drawn_from_the_seed_and_never_takes_one_twice() -> None:
    drawn = [names("crash: NYC.any", seed=seed) for seed in range(40)]
    assert sorted(set(drawn)) == ["B", "C", "D", "E"]
    assert drawn == [names("crash: NYC.any", seed=seed) for seed in range(40)]
    for seed in range(20):
        assert len(set(names("crash: [NYC.any, NYC.any, NYC.any]", seed=seed))) == 3


def test_shuffled_order_is_drawn_from_the_seed() -> None:
    line = "crash: [NYC.relay, NYC.standby, NYC.B], order: shuffled"
    orders = {names(line, seed=seed) for seed in range(60)}
    assert len(orders) == 6
    assert all(sorted(order) == ["B", "D", "E"] for order in orders)


@pytest.mark.parametrize(
    ("line", "living", "gone"),
    [
        ("crash: NYC.E", {"NYC": ["D", "C"]}, {"NYC": ["E"]}),
        ("crash: NYC.standby", {"NYC": ["D"]}, {}),
        ("crash: [NYC.relay, NYC.E]", LIVING, {}),
    ],
)
def test_a_member_that_is_not_there_ends_the_drill_with_the_place(
    line: Any, living: Any, gone: Any
) -> None:
    with pytest.raises(DrillError, match=r"^d\.yaml:3: "):
        names(line, living, gone=gone)


def test_restart_needs_a_departed_member() -> None:
    text = "sites: {NYC: {members: [E, D, C, B]}}\ntimeline:\n"
    text += "- {at: 1s, crash: NYC.relay}\n- {at: 2s, restart: NYC.E}\n"
    restart = plan.build(loader.loads(text, "d.yaml")).events[1]
    assert resolve(restart, {"NYC": ["D"]}, {}, {"NYC": ["E"]}) == [("NYC", "E")]
    with pytest.raises(DrillError, match=r"d\.yaml:4: .*running"):
        resolve(restart, LIVING, VIEWS, {"NYC": ["D"]})


def test_sides_of_a_partition_are_resolved() -> None:
    line = "partition: [[NYC.relay, NYC.C], [NYC.B]]"
    members = {"NYC": ["E", "D", "C", "B"]}
    assert groups(event(line), LIVING, VIEWS, members) == [
        [("NYC", "E"), ("NYC", "C")],
        [("NYC", "B")],
    ]
    with pytest.raises(DrillError, match="two sides"):
        groups(event("partition: [[NYC.relay], [NYC.E]]"), LIVING, VIEWS, members)
