"""Tables that grew in long runs, one test each."""

from __future__ import annotations

import pytest

from jgroups_py.drill.soak.tables import roots_of, walk
from jgroups_py.protocols.relay.bridge.session import RelaySession
from jgroups_py.protocols.relay.state import FORGOTTEN_AGES, RelayState
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.testing.sim import World
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event

ORIGINS = [bytes([n]) * 16 for n in range(1, 6)]


def forgotten(state: RelayState, now: float) -> list[bytes]:
    return list(state.known(0, now).forgotten)


def test_departed_origins_are_remembered_for_as_long_as_a_buffer_may_hold_them() -> None:
    state = RelayState("NYC", "all", (), max_age=600.0)
    state.forget(ORIGINS[:2], now=0.0)
    state.forget(ORIGINS[2:3], now=1000.0)
    assert forgotten(state, 1190.0) == ORIGINS[:3]
    assert forgotten(state, FORGOTTEN_AGES * 600.0) == ORIGINS[2:3]
    assert state.is_forgotten(ORIGINS[2]) and not state.is_forgotten(ORIGINS[0])


def test_reports_of_others_do_not_make_an_entry_younger() -> None:
    member = RelayState("NYC", "all", (), max_age=600.0)
    member.forget(ORIGINS[:1], now=0.0)
    for now in (
        500.0,
        1000.0,
        1500.0,
    ):  # one joiner after another; each learns from the previous one
        assert member.is_forgotten(ORIGINS[0])
        joiner = RelayState("NYC", "all", (), max_age=600.0)
        joiner.learn(member.known(0, now), now, digest=False)
        member = joiner
    assert not member.is_forgotten(ORIGINS[0])


def test_without_an_age_limit_only_their_number_is_limited() -> None:
    state = RelayState("NYC", "all", ())
    state.forget(ORIGINS, now=0.0)
    assert forgotten(state, 1e6) == ORIGINS


def test_a_session_forgets_departed_origins_of_both_sides() -> None:
    session = RelaySession(make_address(1))
    home, remote, living = ORIGINS[:3]
    session.have = {"NYC": {home: 5, living: 1}, "SFO": {remote: 7, living: 2}}
    session.told = {remote: 7, living: 2}
    session.forget(home)
    session.forget(remote)
    assert session.have == {"NYC": {living: 1}, "SFO": {living: 2}}
    assert session.told == {living: 2}


class Owner:
    """The owner of a child stack; it ignores all events."""

    def deliver(self, batch: Batch) -> None: ...

    def notify(self, event: Event) -> None: ...


def test_a_closed_child_stack_leaves_no_timer_behind() -> None:
    world = World(1)
    member = world.start("A", "sim.xml", "demo")
    assert world.run_until(lambda: member.view is not None, limit=10)
    machine = member.host.machine
    before = walk(roots_of(machine), (world, member, member.host)).lengths
    child = member.stack.open_child("sim.xml", "child", Owner())
    child.connect("child")
    member.host.after_step()
    world.run_for(5)
    ticks = child.protocols[2].timer(lambda: None, "late")
    ticks.start(3600)
    child.close()
    member.host.after_step()
    assert not [entry for entry in machine._timers if entry[2].owner in child.protocols]
    ticks.start(1)
    assert not ticks.armed
    after = walk(roots_of(machine), (world, member, member.host)).lengths
    assert after.keys() == before.keys()


def test_peers_that_refused_long_ago_are_not_remembered() -> None:
    from jgroups_py.protocols.transport.tcp import TCP
    from jgroups_py.stack.ports import ConnectFailed
    from jgroups_py.values.address import IpAddress

    tcp = TCP(bind_addr="127.0.0.1", bind_port=7800)
    fake = FakeStack(tcp)
    connections = tcp._connections
    for n in range(50):
        connection = connections.connect(IpAddress("127.0.0.1", 9000 + n))
        assert connection is not None
        fake.machine.handle([ConnectFailed(connection.handle, True, "refused")], float(n * 60))
    assert len(connections._refused) == 1


@pytest.mark.parametrize("check", [True, False])
def test_entries_of_a_step_are_not_noted_for_ever(check: bool) -> None:
    """A leak stayed unnoticed where no check follows each step, as in a day of churn: no closed bridge stack was
    released."""
    world = World(1, check=check)
    members = [world.start(name, "sim.xml", "test") for name in "AB"]
    assert world.run_until(lambda: world.views_agree(members), limit=10)
    world.run_for(60)
    member = members[0]
    found = walk(roots_of(member.host.machine), (world, member, member.host)).lengths
    assert not any(length for name, length in found.items() if "_touched" in name)


def test_the_world_forgets_a_member_that_vanished() -> None:
    """The others never learned that the member had left: it was still in their multicast groups."""
    world = World(1)
    members = [world.start(name, "udp.xml", "test") for name in "ABC"]
    assert world.run_until(lambda: world.views_agree(members), limit=10)
    gone = members.pop()
    gone.vanish()
    assert world.run_until(lambda: world.views_agree(members), limit=60)
    world.start("C", "udp.xml", "test")
    world.run_for(1)
    assert any(gone.host in group for group in world.groups.values())
    world.forget_ended()
    assert not any(gone.host in group for group in world.groups.values())
    assert not any(pipe.dest is gone.host for pipe in world.stalled)
