"""Exploring: a schedule drawn from a seed is played the same way each time, and judged."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.seal.protocol import SEAL
from jgroups_py.testing.explorer.lab import Size
from jgroups_py.testing.explorer.stacks.back_end import _plainer
from jgroups_py.testing.explorer.stacks.draw import PROFILES, draw
from jgroups_py.testing.explorer.stacks.heal import Healer
from jgroups_py.testing.explorer.stacks.play import play, try_stack
from jgroups_py.testing.explorer.stacks.scene import Scene
from jgroups_py.testing.explorer.stacks.schedule import Schedule, from_json

SMALL = Size(members=(2, 3))


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
        *[("relay", seed, Size(1)) for seed in (1, 36, 80, 86)],
        ("flow", 70001, Size(1, (1, 1))),
    ],
)
def test_a_run_of_few_members_has_its_length_and_holds(
    profile: str, seed: int, wanted: Size
) -> None:
    """Steps find no member to act on; a site that never meets another one keeps that site's messages."""
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


def test_every_stack_of_a_sealed_run_has_seal_and_members_form_their_groups() -> None:
    schedule = next(d for seed in range(30) if (d := draw(seed, "sealed", SMALL)).relays)
    scene = Scene(schedule, None)
    for site in schedule.sites:
        for name in site.members:
            scene.start(name)
    scene.world.run_for(20)
    members = list(scene.world.members.values())
    stacks = [stack for m in members for stack in (m.stack, *m.stack.children)]
    assert len(stacks) == len(members) + len(schedule.sites)
    for stack in stacks:
        seal = stack.find(SEAL)
        assert seal is not None
        counts = seal.statistics()
        assert counts["datagrams_opened"] + counts["connections_sealed"] > 0
    for site in schedule.sites:
        of_site = [m for m in members if m.site == site.name]
        assert scene.world.views_agree(of_site)
    scene.world.close()


def test_a_sealed_run_is_made_smaller_without_seal_where_it_fails_so() -> None:
    schedule = draw(1, "sealed")
    assert schedule.sealed and not draw(1, "all").sealed
    plainer = [case for case in _plainer(schedule) if not case.sealed]
    assert plainer == [msgspec.structs.replace(schedule, sealed=False)]


def test_sites_and_members_can_be_fixed() -> None:
    for seed in range(5):
        schedule = draw(seed, "membership", Size(1, (4, 5)))
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
def test_a_text_that_is_no_schedule_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"x.json: {problem}"):
        from_json(text, "x.json")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"sites": ()}, "every site needs members"),
        ({"seconds": -1.0}, "`float` >= 0.0 - at `$.seconds`; there is '-1.0'"),
        ({"loads": [{"member": "nobody", "start": 0, "stop": 1, "every": 1}]}, "nobody"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(change: dict[str, object], problem: str) -> None:
    values = msgspec.json.decode(draw(1, "membership").to_json()) | change
    with pytest.raises(ConfigError, match=re.escape(problem)):
        from_json(msgspec.json.encode(values).decode(), "x.json")


WRONG = {
    "inside.loss": (5, "<= 1.0"),
    "inside.latency": (-5, ">= 0.0"),
    "between.latency": (1e300, "<= 60.0"),
    "inside.duplicate": (-1, ">= 0.0"),
    "start_gap": (1e9, "<= 60.0"),
    "reopen": (-1, ">= 0.0"),
    "seconds": (1e300, "<= 100000.0"),
    "least_messages": (-1, ">= 0"),
    "seed": (-5, ">= 0"),
    "sites.0.name": ("", "of length >= 1"),
    "sites.0.members.0": ("A/B", "matching regex"),
    "loads.0.every": (1e308, "<= 100000.0"),
    "loads.0.stop": (-1, ">= 0.0"),
    "loads.0.count": (10**11, "<= 1000000"),
    "loads.0.size": (10**11, "<= 100000000"),
    "steps.0.at": (-1, ">= 0.0"),
    "steps.0.gap": (-3, ">= 0.0"),
    "steps.0.amount": (1e12, "<= 1000000.0"),
    "steps.0.after.nth": (0, ">= 1"),
    "steps.0.after.delay": (-3, ">= 0.0"),
    "healing.keep": (50, "<= 1.0"),
    "healing.turn": (-3, ">= 0"),
}


def changed(values: Any, place: str, value: object) -> str:
    """Return the text of a schedule with another value at a place such as ``steps.0.at``."""
    *way, last = [int(key) if key.isdigit() else key for key in place.split(".")]
    part = values
    for key in way:
        part = part[key]
    part[last] = value
    return msgspec.json.encode(values).decode()


def as_values() -> Any:
    values = msgspec.json.decode(draw(1, "relay").to_json())
    values["steps"][0]["after"] = {"protocol": "GMS", "what": "view"}
    return values


@pytest.mark.parametrize("place", WRONG)
def test_a_value_out_of_range_is_named_with_its_place(place: str) -> None:
    value, limit = WRONG[place]
    with pytest.raises(ConfigError) as caught:
        from_json(changed(as_values(), place, value), "x.json")
    key = re.sub(r"\.(\d+)", r"[\1]", place)
    said = str(caught.value)
    assert said.startswith("x.json: ")
    assert f"{limit}" in said and f"$.{key}`; there is {str(value)!r}" in said


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        ("sites.1.name", "NYC", "sites: two sites have the same name 'NYC'"),
        ("loads.0.every", 1e-12, "messages in all; at most 1000000"),
        ("loads.0.size", 10**8, "bytes at once; at most 100000000 bytes"),
        ("steps.0.who", ["XXX.relay"], "steps[0].who: 'XXX.relay' begins with no site; there are"),
        ("steps.0.after.site", "XXX", "steps[0].after.site: no site 'XXX'"),
        (
            "steps.0",
            {"at": 1, "do": "drift", "amount": 0},
            "steps[0].amount: a clock's rate is 0.01 to 100.0, not 0.0",
        ),
    ],
)
def test_values_that_do_not_go_together_are_named(place: str, value: object, problem: str) -> None:
    values = as_values()
    values["loads"][0]["count"] = 2
    with pytest.raises(ConfigError, match=re.escape(problem)):
        from_json(changed(values, place, value), "x.json")


@pytest.mark.parametrize("profile", PROFILES)
def test_any_drawn_schedule_may_be_read(profile: str) -> None:
    for seed in range(100):
        schedule = draw(seed, profile, Size(members=(1, 8) if seed % 2 else None))
        assert from_json(schedule.to_json(), "x.json") == schedule


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"stack": "nope.xml"}, "no stack file"),
        ({"stack": "."}, "no stack file"),
        ({"attributes": {"FOO.bar": "1"}}, "FOO.bar"),
        ({"attributes": {"foo": "1"}}, "foo"),
        ({"bridge_attributes": {"ZZZ.x": "1"}}, "ZZZ.x"),
    ],
)
def test_a_stack_that_cannot_be_made_is_no_violation(
    change: dict[str, object], problem: str
) -> None:
    schedule = msgspec.structs.replace(draw(1, "relay"), **change)
    with pytest.raises(ConfigError, match=f"x.json: stack .*{problem}"):
        try_stack(schedule, "x.json")


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match="profile: one of"):
        draw(1, "chaos")


def test_a_schedule_survives_its_file() -> None:
    for seed in range(10):
        schedule = draw(seed, "all")
        assert from_json(schedule.to_json(), "x.json") == schedule
        assert isinstance(schedule, Schedule)


@pytest.mark.parametrize("leaving", ["A", "AB"])
def test_a_site_whose_last_members_were_leaving_is_started_again(leaving: str) -> None:
    """A member that is still leaving cannot be started (all 17103)."""
    drawn = draw(1, "relay", Size(2, (2, 2)))
    scene = Scene(msgspec.structs.replace(drawn, steps=[]))
    for name in scene.site_of:
        scene.start(name)
    scene.world.run_for(10)
    first = drawn.sites[0].name
    for member in scene.cast.living(first):
        if member.name in leaving:
            member.pause()
            member.leave()
        else:
            member.crash()
    healer = Healer(scene)
    healer._repair()
    scene.world.run_for(30)
    assert healer._views() is None and healer.core(first) != []
