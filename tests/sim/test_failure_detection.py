"""A group soon notices that a member has ended, and never takes a silent member for a dead one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from jgroups_py.protocols.failure.fd_sock2 import FD_SOCK2, STRANGER_SECONDS
from jgroups_py.protocols.failure.verify_suspect2 import VERIFY_SUSPECT2
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.network import LinkSettings
from jgroups_py.testing.sim.world import World

SOON = 0.2
"""The longest time, in seconds, from a crash until all members have the view without the crashed one."""


def group(world: World, names: str, stack: str = "sim.xml", **attributes: str) -> list[Member]:
    """Members in this order, all watching their neighbours."""
    options: dict[str, Any] = {
        "attributes": {key.replace("__", "."): value for key, value in attributes.items()}
    }
    if stack == "tcp.xml":
        hosts = ",".join(f"{world.host_address('local', name)}[7800]" for name in names)
        options["properties"] = {"jgroups.tcpping.initial_hosts": hosts}
    members: list[Member] = []
    for name in names:
        members.append(world.start(name, stack, "test", **options))
        assert world.run_until(lambda: world.views_agree(members), limit=30)
    world.run_for(2.0)
    return members


def time_to_agree(world: World, members: list[Member], limit: float = 60.0) -> float:
    began = world.now
    assert world.run_until(lambda: world.views_agree(members), limit=limit)
    return world.now - began


def without(members: list[Member], *gone: Member) -> list[Member]:
    return [m for m in members if m not in gone]


def found(member: Member, counter: str, protocol: type[Protocol] = VERIFY_SUSPECT2) -> float:
    return member.stack.statistics()[protocol.__name__][counter]


@pytest.mark.parametrize("stack", ["sim.xml", "udp.xml", "tcp.xml"])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_killed_process_is_out_of_the_view_at_once(stack: str, victim: int) -> None:
    world = World(victim)
    members = group(world, "ABC", stack)
    dead = members[victim]
    dead.crash()
    assert time_to_agree(world, without(members, dead)) < SOON


@pytest.mark.parametrize("dead", ["A", "E", "AB", "EA", "BD", "BC", "ABD"])
def test_of_several_killed_at_once_each_is_seen_at_once(dead: str) -> None:
    """This also holds for two neighbours: no living member watched the right one, but it watched a living one."""
    world = World()
    members = group(world, "ABCDEF")
    gone = [m for m in members if m.name in dead]
    for member in gone:
        member.crash()
    assert time_to_agree(world, without(members, *gone)) < SOON


@pytest.mark.parametrize("seed", range(5))
def test_detection_is_soon_on_a_network_that_loses_packets(seed: int) -> None:
    world = World(seed, inside=LinkSettings(jitter=0.001, loss=0.02))
    members = group(world, "ABCDE", UNICAST3__xmit_interval="100ms", NAKACK2__xmit_interval="100ms")
    members[seed].crash()
    # A lost segment of a connection costs 0.2 s, a lost round trip of the agreement 0.1 s.
    assert time_to_agree(world, without(members, members[seed])) < SOON + 0.6


def test_a_process_started_again_on_the_same_port_is_another_member() -> None:
    world = World()
    members = group(world, "ABC")
    members[1].crash()
    again = world.start("B", "sim.xml", "test")
    assert time_to_agree(world, [members[0], members[2], again]) < SOON + 0.1
    assert again.address != members[1].address


@pytest.mark.parametrize("stack", ["sim.xml", "tcp.xml"])
def test_a_host_that_vanished_is_waited_for(stack: str) -> None:
    """Silence proves nothing: FD_ALL3's time-out and the whole verification."""
    world = World()
    members = group(world, "ABC", stack, FD_ALL3__timeout="5s", FD_ALL3__interval="1s")
    members[1].vanish()
    took = time_to_agree(world, without(members, members[1]))
    assert 4.0 + 1.5 < took < 5.0 + 1.0 + 1.6 + 0.1
    assert all(found(m, "confirmed_gone") == 0 for m in members)
    assert all(found(m, "deaths_proved", FD_SOCK2) == 0 for m in members)


def test_a_reset_by_a_host_that_then_is_silent_proves_nothing() -> None:
    """A container is removed: its connections break, and its address does not answer any more."""
    world = World()
    members = group(world, "ABC")
    members[1].crash()
    members[1].vanish()
    took = time_to_agree(world, without(members, members[1]))
    assert 1.5 < took < 4 * 1.0 + 1.6 + 0.1, "four ports are tried, then it is asked"
    assert all(found(m, "confirmed_gone") == 0 for m in members)


def test_a_paused_process_is_not_proved_dead() -> None:
    world = World()
    members = group(world, "ABC")
    members[1].pause()
    world.run_for(30.0)
    members[1].resume()
    world.run_for(30.0)
    assert {len(m.views[-1]) for m in members} == {3}
    assert all(found(m, "deaths_proved", FD_SOCK2) == 0 for m in members)


@pytest.mark.parametrize("stack", ["sim.xml", "tcp.xml"])
@pytest.mark.parametrize("silence", [0.0, 6.0])
@pytest.mark.parametrize("one_way", [False, True])
def test_connections_that_break_between_living_members_prove_nothing(
    stack: str, silence: float, one_way: bool
) -> None:
    """A firewall resets all connections and blocks new ones for a while: a watched member is searched in vain, and is
    back before the verification of a silent member ends."""
    world = World()
    members = group(world, "ABC", stack, VERIFY_SUSPECT2__timeout="10s")
    for a, b in itertools.combinations(members, 2):
        world.reset(a.host, b.host, one_way=one_way)
    token = world.partition(*([m] for m in members))
    world.run_for(silence)
    world.heal(token)
    for member in members:
        member.send(b"x", to=members[0])
        member.send(b"y")
    world.run_for(30.0)
    assert {len(m.views[-1]) for m in members} == {3}
    assert len(members[0].views) == 3
    assert all(sum(len(b) for b in m.batches) >= 3 for m in members)
    assert all(found(m, "deaths_proved", FD_SOCK2) == 0 for m in members)
    assert all(found(m, "confirmed") == 0 for m in members)


def test_without_proofs_the_verification_is_waited_out() -> None:
    world = World()
    members = group(world, "ABC", FD_SOCK2__prove_death="false")
    members[1].crash()
    assert 1.5 < time_to_agree(world, without(members, members[1])) < 1.7


def test_a_crash_right_behind_a_vanished_member_is_seen_at_once() -> None:
    """B had watched C, but C watched D. The view waits for B's report no longer than agree_timeout."""
    world = World()
    members = group(world, "ABCDE", GMS__agree_timeout="500ms")
    members[1].vanish()
    members[2].crash()
    began = world.now
    others = [members[0], *members[3:]]
    gone = members[2].address
    assert world.run_until(
        lambda: all(m.view is not None and gone not in m.view for m in others), limit=60
    )
    assert world.now - began < SOON + 0.5


def test_a_crash_behind_a_member_that_is_not_heard_is_seen_without_waiting_for_the_view() -> None:
    """The ring is that of JGroups, without proofs: A skips the silent B as soon as FD_ALL3 suspects it, and
    finds C dead while B's verification is still going on."""
    world = World()
    members = group(
        world,
        "ABCDE",
        FD_SOCK2__prove_death="false",
        FD_ALL3__timeout="5s",
        FD_ALL3__interval="1s",
        VERIFY_SUSPECT2__timeout="3s",
        GMS__agree_timeout="100ms",
    )
    members[1].vanish()
    world.run_for(4.0)
    members[2].crash()  # FD_ALL3 would take until 9 s
    took = 4.0 + time_to_agree(world, [members[0], *members[3:]])
    assert took < 5.0 + 1.0 + 3.1 + 0.5, "C's verification ran beside B's"


@pytest.mark.parametrize("victim", [0, 1, 2, 3])
def test_a_host_that_comes_back_proves_the_death_of_its_former_member(victim: int) -> None:
    """Old connections are reset, and the ports belong to another member: the former member is removed at once
    instead of after FD_ALL3's 40 s, and the new one is never suspected."""
    world = World()
    members = group(world, "ABCD", "udp.xml")
    former = members[victim]
    former.vanish()
    world.run_for(10.0)
    again = world.start(former.name, "udp.xml", "test")
    present = [*without(members, former), again]
    if victim:
        assert time_to_agree(world, present) < SOON + 0.1
    else:
        assert time_to_agree(world, present) < 50, "the new one cannot join before FD_ALL3's time"
    suspicions = [found(m, "suspicions", FD_SOCK2) for m in present]
    world.run_for(60.0)
    assert [found(m, "suspicions", FD_SOCK2) for m in present] == suspicions
    assert world.views_agree(present)


def test_a_connection_without_an_address_is_closed() -> None:
    """The other side may have ended silently, so that the end of the connection would never arrive."""
    world = World()
    members = group(world, "ABCD")
    target = members[3].stack.find(FD_SOCK2)
    mute = members[1].stack.find(FD_SOCK2)
    assert target is not None and mute is not None
    connections = mute._connections
    assert connections is not None and target._connections is not None
    local = target._connections.local
    assert local is not None
    members[1].act(lambda: connections.send(local, []))
    world.run_for(1.0)
    assert connections.get(local) is not None
    before = found(members[3], "suspicions", FD_SOCK2)
    world.run_for(2 * STRANGER_SECONDS + 1.0)
    assert connections.get(local) is None
    assert found(members[3], "suspicions", FD_SOCK2) == before
    assert world.views_agree(members)
