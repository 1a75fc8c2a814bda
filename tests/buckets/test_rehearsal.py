"""Rehearsals: a deployment that keeps its promises passes; one that breaks them is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jgroups_py.buckets.deployment import parse_deployment
from jgroups_py.buckets.index import IndexCopy
from jgroups_py.buckets.manager import BucketManager
from jgroups_py.testing.explorer.buckets.rehearsal import RehearsedEvent, rehearse

THREE = """\
name: seats
buckets: 9
nodes:
  n1: {buckets: 6, masters: 5}
  n2: {buckets: 6, masters: 5}
  n3: {buckets: 6, masters: 5}
"""
RACKS = """\
name: seats
buckets: 6
nodes:
  n1: {fails_with: rack-a}
  n2: {fails_with: rack-a}
  n3: {fails_with: rack-b, components: {managers: 2, indices: 1, routers: 1, proxies: 1}}
  n4: {fails_with: rack-c, components: {indices: 1, routers: 1}}
  n5: {components: {indices: 1, routers: 2, proxies: 1}}
"""


def scenes(text: str, **options: Any) -> dict[str, RehearsedEvent]:
    return {scene.name: scene for scene in rehearse(parse_deployment(text), **options)}


@pytest.mark.seed("A19", "A20", "A21", "A37", "A38", "A39", "A48")
def test_the_seeds_example_holds_its_promises() -> None:
    found = scenes(THREE)
    assert list(found) == [
        *(f"{what} of node n{n}" for n in (1, 2, 3) for what in ("loss", "return")),
        "upgrade of all nodes",
    ]
    for name, scene in found.items():
        assert scene.lost == 0 and scene.problems == () and scene.requests > 500, name
        if name.startswith("loss"):
            assert 5.0 < scene.interruption < 30.0 and scene.without_backup == 6
        else:
            assert scene.interruption < 1.0, "moves and upgrades do not interrupt"
    assert found["loss of node n1"] == scenes(THREE)["loss of node n1"], "the same again"


@pytest.mark.seed("A32")
def test_the_loss_of_a_rack_loses_nothing() -> None:
    found = scenes(RACKS, detection=2.0)
    assert {name for name in found if "rack" in name} == {"loss of rack-a", "return of rack-a"}
    assert all(scene.lost == 0 and not scene.problems for scene in found.values()), found
    assert 1.0 < found["loss of rack-a"].interruption < 6.0


def test_copies_that_fail_together_are_seen() -> None:
    text = RACKS.replace("name: seats", "name: seats\nseparate: nodes").replace("rack-b", "rack-a")
    found: dict[str, RehearsedEvent] = {}
    for scene in rehearse(parse_deployment(text), detection=2.0):
        found[scene.name] = scene
        if scene.name == "loss of rack-a":
            break
    assert "keys have no answer after 120 s" in found["loss of rack-a"].problems[0]
    assert found["loss of rack-a"].interruption > 100 and not found["loss of node n1"].problems


def _forgets(self: Any, copy: Any, change: Any, kept: Any) -> None:
    """Changes do not reach the slave."""
    copy.bucket.remember(kept)


def _stays(self: Any, merged: bool = False) -> None:
    """Lost managers are not replaced."""


@pytest.mark.parametrize(
    ("broken", "name", "fault"),
    [
        (BucketManager, "_changed", _forgets),
        (IndexCopy, "on_view", _stays),
    ],
)
def test_a_store_that_breaks_its_promise_is_seen(
    monkeypatch: pytest.MonkeyPatch, broken: type, name: str, fault: Callable[..., None]
) -> None:
    monkeypatch.setattr(broken, name, fault)
    first = next(iter(rehearse(parse_deployment(THREE), detection=2.0)))
    assert first.lost or first.problems
