"""The commonest questions of users of such toolkits, as scenarios: health (theme 10) and ends of members (theme 14).

Numbers are those of design/trust.md's table of themes.
"""

from __future__ import annotations

import pytest

from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.network import LinkSettings
from jgroups_py.testing.sim.world import World

QUICK = {
    "FD_ALL3.timeout": "5s",
    "FD_ALL3.interval": "1s",
    "VERIFY_SUSPECT2.timeout": "500ms",
    "MERGE3.min_interval": "1s",
    "MERGE3.max_interval": "5s",
    "GMS.join_timeout": "500ms",
}
"""With relay-udp.xml a silent member is removed after 4 to 6.6 s."""


def start(world: World, name: str, stack: str = "sim.xml") -> Member:
    hosts = "10.0.0.1[7800],10.0.0.2[7800]"
    properties = {"jgroups.tcpping.initial_hosts": hosts} if stack == "tcp.xml" else None
    return world.start(name, stack, "test", attributes=QUICK, properties=properties)


def group(world: World, names: list[str], stack: str = "sim.xml") -> list[Member]:
    members = []
    for name in names:
        members.append(start(world, name, stack))
        assert world.run_until(lambda: world.views_agree(members), limit=30)
    world.run_for(2.0)
    return members


# --- 10: false suspicion during pauses, flapping, and the reverse


@pytest.mark.parametrize("seconds", [5, 15, 60])
def test_10_after_a_stop_of_the_world_the_group_is_as_before(seconds: int) -> None:
    """All members stop at once: the hypervisor stood still. No member is suspected."""
    world = World(seconds)
    members = group(world, list("ABCDE"))
    view = members[0].view
    for member in members:
        member.pause()
    world.run_for(seconds)
    for member in members:
        member.resume()
        world.run_for(0.3)
    world.run_for(30.0)
    assert all(m.view == view for m in members)


def test_10_pauses_all_over_a_big_group_make_no_view_flap() -> None:
    """For twenty seconds some of 12 members stand still at any time, each for less time than FD_ALL3 allows."""
    world = World("flapping", inside=LinkSettings(jitter=0.0005))
    members = group(world, [f"M{n}" for n in range(12)])
    view = members[0].view
    chance = world.random
    end = world.now + 20.0
    while world.now < end:
        sleeper = chance.choice([m for m in members if not m.host.paused])
        sleeper.pause()
        world.at(world.now + chance.uniform(0.5, 3.0), sleeper.resume)
        world.run_for(0.5)
    world.run_for(10.0)
    assert all(m.view == view for m in members)


@pytest.mark.parametrize("size", [2, 5, 10])
def test_10_a_hung_member_is_found_when_the_stack_says(size: int) -> None:
    world = World(size)
    members = group(world, [f"M{n}" for n in range(size)])
    members[size // 2].pause()
    rest = [m for m in members if not m.host.paused]
    began = world.now
    assert world.run_until(lambda: world.views_agree(rest), limit=30)
    assert 4.0 < world.now - began < 6.7


def test_10_a_hung_member_is_found_by_a_slow_one_too() -> None:
    world = World("slow")
    members = group(world, list("ABC"))
    members[0].slow_down(0.3)
    world.run_for(5.0)
    members[1].pause()
    began = world.now
    assert world.run_until(lambda: world.views_agree([members[0], members[2]]), limit=30)
    assert world.now - began < 6.7 + 2 * 2 * 0.3 + 10 * 0.3, "its own lag and some turns more"


# --- 14: remains of a member keep it alive for others, or leave the next one alone


@pytest.mark.parametrize("stack", ["sim.xml", "udp.xml", "tcp.xml"])
@pytest.mark.parametrize("end", ["leave", "crash"])
@pytest.mark.parametrize("who", ["A", "C"])
def test_14_a_member_that_starts_again_at_once_is_one_of_the_group(
    stack: str, end: str, who: str
) -> None:
    world = World(f"{stack}{end}{who}")
    members = group(world, list("ABC"), stack)
    old = next(m for m in members if m.name == who)
    getattr(old, end)()
    assert world.run_until(lambda: not old.alive, limit=5.0)
    new = start(world, who, stack)
    others = [m for m in members if m is not old]
    began = world.now
    assert world.run_until(lambda: world.views_agree([*others, new]), limit=10.0)
    assert world.now - began < 1.2
    assert all(len(v) > 1 for v in new.views), "it was never alone"
    world.run_for(30.0)
    assert world.views_agree([*others, new])


@pytest.mark.parametrize("stack", ["sim.xml", "udp.xml", "tcp.xml"])
def test_14_after_the_end_nothing_is_open_and_nothing_runs(stack: str) -> None:
    world = World(stack)
    members = group(world, list("ABC"), stack)
    leaver = members[1]
    leaver.send(*[b"x"] * 100)
    leaver.leave()
    assert world.run_until(lambda: leaver.left and not leaver.host.alive, limit=5.0)
    host = leaver.host
    assert leaver.stack.ports == {} and host.machine.stacks == []
    assert not (host.sockets or host.connections or host.listeners or host.datagram_ports)
    world.run_for(5.0)
    addresses = [
        c.out.dest.address for m in members if m.alive for c in m.host.connections.values()
    ]
    assert host.address not in addresses, "nobody keeps a connection to it"


def test_14_a_leaver_that_is_killed_while_it_says_goodbye_is_gone_soon() -> None:
    """The leaver closed its connections in good order, and was killed before it could leave."""
    for step in range(8):
        world = World(step)
        members = group(world, list("ABC"))
        leaver = members[step % 3]
        leaver.leave()
        world.run_for(step * 0.0002)
        leaver.crash()
        rest = [m for m in members if m is not leaver]
        began = world.now
        assert world.run_until(lambda w=world, r=rest: w.views_agree(r), limit=10.0), step  # type: ignore[misc]
        assert world.now - began < 1.0, step
