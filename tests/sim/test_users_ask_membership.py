"""The commonest questions of users of such toolkits, as scenarios: starting, joining, merging (themes 3 to 9).

Numbers are those of design/trust.md's table of themes.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from jgroups_py.protocols.discovery.base import Discovery
from jgroups_py.protocols.membership.gms.protocol import GMS
from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.network import LinkSettings
from jgroups_py.testing.sim.world import World

STACKS = ("sim.xml", "udp.xml", "tcp.xml")
TOGETHER = {"sim.xml": 4.0, "udp.xml": 6.0, "tcp.xml": 8.0}
"""The most seconds until members that start at once are one group, with up to 5 % loss; 3,000 starts took less."""


def hosts(world: World, names: list[str]) -> dict[str, str]:
    found = ",".join(f"{world.host_address('local', name)}[7800]" for name in names)
    return {"jgroups.tcpping.initial_hosts": found}


def started(world: World, stack: str, names: list[str], known: list[str] | None = None) -> Member:
    """Start one more member; ``known``: TCPPING's list, else ``names``."""
    properties = hosts(world, known or names) if stack == "tcp.xml" else None
    return world.start(names[-1], stack, "test", properties=properties)


def group(world: World, stack: str, names: str) -> list[Member]:
    members: list[Member] = []
    for name in names:
        members.append(started(world, stack, [name], list(names)))
        assert world.run_until(lambda: world.views_agree(members), limit=30)
    world.run_for(2.0)
    return members


# --- 3: a group that silently does not form


def time_to_form(stack: str, seed: int) -> float:
    """Three to eight members start within half a second, over a network that is drawn, too."""
    draw = random.Random(f"{stack}/{seed}")
    loss = draw.choice([0.0, 0.0, 0.01, 0.05])
    world = World(seed, inside=LinkSettings(0.0005, jitter=0.002, loss=loss), check=False)
    names = [f"M{n}" for n in range(draw.randint(3, 8))]
    spread = draw.choice([0.0, 0.005, 0.05, 0.5])
    members: list[Member] = []
    for name in names:

        def start(name: str = name) -> None:
            members.append(started(world, stack, [name], names))

        world.at(draw.uniform(0.0, spread), start)
    assert world.run_until(lambda: len(members) == len(names), limit=1)
    world.run_until(lambda: world.views_agree(members), limit=120)
    return world.now


@pytest.mark.parametrize("stack", STACKS)
def test_3_members_that_start_at_once_are_one_group_in_time(stack: str) -> None:
    times = {seed: time_to_form(stack, seed) for seed in range(6)}
    assert {seed: t for seed, t in times.items() if t > TOGETHER[stack]} == {}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("stack", STACKS)
def test_3_also_in_thousands_of_starts(stack: str) -> None:
    times = {seed: time_to_form(stack, seed) for seed in range(3334)}
    assert {seed: t for seed, t in times.items() if t > TOGETHER[stack]} == {}


# --- 4: discovery is down while a member dies


def silence(members: list[Member]) -> None:
    """The discovery of these members reaches no other."""
    for member in members:
        discovery: Any = member.stack.find(Discovery)
        discovery.send_request = lambda batch: None


def listen(members: list[Member]) -> None:
    """Let the discovery of these members send requests again."""
    for member in members:
        discovery: Any = member.stack.find(Discovery)
        del discovery.send_request


def steps_with_an_outage(stack: str, who: int, end: str, begin: int) -> int:
    """The member ``who`` ends, and discovery is down ``begin`` steps later. Return the number of steps until the
    view."""
    world = World(4)
    members = group(world, stack, "ABCD")
    rest = [m for at, m in enumerate(members) if at != who]
    before = world.events
    getattr(members[who], end)()
    assert world.run_until(lambda: world.events - before >= begin, limit=2)
    silence(rest)
    assert world.run_until(lambda: world.views_agree(rest), limit=2), begin
    return world.events - before


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("who", [0, 2], ids=["coordinator", "member"])
@pytest.mark.parametrize("end", ["crash", "leave"])
def test_4_views_do_not_depend_on_discovery_at_any_step(stack: str, who: int, end: str) -> None:
    steps = steps_with_an_outage(stack, who, end, 0)
    assert steps > 10
    for begin in range(1, steps):
        steps_with_an_outage(stack, who, end, begin)


def test_4_a_member_that_comes_when_discovery_is_back_is_in_the_same_group() -> None:
    world = World(4)
    members = group(world, "sim.xml", "ABC")
    silence(members)
    members[0].crash()
    assert world.run_until(lambda: world.views_agree(members[1:]), limit=2)
    listen(members)
    members[0] = started(world, "sim.xml", ["D"])
    assert world.run_until(lambda: world.views_agree(members), limit=5)
    assert sorted(members[1].view_names) == ["B", "C", "D"]


# --- 5: stale entries


def test_5_dead_entries_of_the_list_do_not_hold_a_join_up() -> None:
    world = World(5)
    dead = [f"X{n}" for n in range(6)]
    first = started(world, "tcp.xml", ["A"], [*dead, "A", "B"])
    assert world.run_until(lambda: first.view is not None, limit=5)
    began = world.now
    second = started(world, "tcp.xml", ["B"], [*dead, "A", "B"])
    assert world.run_until(lambda: world.views_agree([first, second]), limit=5)
    assert world.now - began < 2.5, "join_timeout, and asking"


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("end", ["crash", "leave"])
def test_5_a_member_that_comes_back_under_its_name_is_in_again_soon(stack: str, end: str) -> None:
    world = World(5)
    members = group(world, stack, "ABC")
    for _ in range(3):
        getattr(members[2], end)()
        world.run_for(1.0)
        began = world.now
        members[2] = started(world, stack, ["C"], list("ABC"))
        assert world.run_until(lambda: world.views_agree(members), limit=10)
        assert world.now - began < 2.5
    assert members[0].view_names == ("A", "B", "C"), "once, and no former one"


# --- 6: alone


@pytest.mark.parametrize(("stack", "limit"), [("sim.xml", 0.6), ("udp.xml", 1.2), ("tcp.xml", 0.1)])
def test_6_a_member_that_is_alone_has_a_view_when_nobody_can_be_there(
    stack: str, limit: float
) -> None:
    """Multicasts prove nothing, so the member waits for join_timeout. A list whose other hosts all refuse proves
    that the member is alone."""
    world = World(6)
    member = started(world, stack, ["A"])
    assert world.run_until(lambda: member.view is not None, limit=limit)
    attempts = member.stack.statistics()["GMS"]
    world.run_for(60)
    assert member.stack.statistics()["GMS"]["views_installed"] == attempts["views_installed"] == 1


# --- 7: retries


def test_7_every_retry_of_a_join_looks_anew_for_the_coordinator() -> None:
    """A is asked first and dies with the request; B is coordinator by then."""
    world = World(7)
    members = group(world, "sim.xml", "ABC")
    joiner = started(world, "sim.xml", ["D"])
    gms = members[0].stack.find(GMS)
    assert gms is not None
    assert world.run_until(lambda: bool(gms.changes._joiners), limit=2)
    members[0].crash()
    assert world.run_until(lambda: world.views_agree([*members[1:], joiner]), limit=5)
    assert joiner.view_names == ("B", "C", "D")


# --- 8 and 9: merging


@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
def test_8_9_parts_are_one_group_within_a_bound_and_then_stay_quiet(stack: str) -> None:
    """MERGE3: 10 to 30 s between announcements, and a check as often. Three parts in one merge."""
    world = World(8)
    members = group(world, stack, "ABCDEF")
    token = world.partition(members[:2], members[2:4], members[4:])
    parts = (members[:2], members[2:4], members[4:])
    assert world.run_until(lambda: all(world.views_agree(p) for p in parts), limit=120)
    world.heal(token)
    assert world.run_until(lambda: world.views_agree(members), limit=62)
    view = members[0].view
    merges = [m.stack.statistics()["GMS"]["merges"] for m in members]
    world.run_for(600.0)
    assert [m.stack.statistics()["GMS"]["merges"] for m in members] == merges
    assert members[0].view == view
