"""Java and Python members in one group: the members after joins, leaves, crashes and pauses."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
import trio
from java_parts import JavaParts
from mixed_group import HASTY, Group, Member, ProcessMember, PythonMember, mixed_group

from jgroups_py import UUID
from jgroups_py.driver import FaultFilter

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]
STACKS = pytest.mark.parametrize("stack", ["udp", "tcp"])


async def agree(*members: Member, seconds: float = 60.0) -> None:
    """Wait until all members have one view of exactly themselves and hear each other in it."""
    names = sorted(member.name for member in members)

    def settled() -> bool:
        newest = {member.views[-1] for member in members}
        return len({(v.number, v.creator, v.ids) for v in newest}) == 1 and all(
            sorted(member.members) == names for member in members
        )

    with trio.move_on_after(seconds):
        while not settled():  # noqa: ASYNC110 - several members, each with an event of its own
            await trio.sleep(0.02)
    assert settled(), "\n".join(member.summary() for member in members)


async def hear_each_other(*members: Member, mark: str) -> None:
    """Check that a multicast of each member reaches each member."""
    for member in members:
        if isinstance(member, PythonMember):
            await member.send(mark)
        elif isinstance(member, ProcessMember):
            await member.tell("send", "*", "-", mark)
    for member in members:
        for sender in members:
            await member.until(lambda m=member, s=sender: mark in m.texts(s))


@STACKS
async def test_two_java_members_join_python_and_everyone_leaves(
    parts: JavaParts, stack: str
) -> None:
    async with mixed_group(parts, stack) as group:
        p = await group.python("P")
        j = await group.java("J")
        k = await group.java("K")
        await agree(p, j, k)
        assert p.members == ("P", "J", "K")
        await hear_each_other(p, j, k, mark="three")
        q = await group.python("Q")
        await agree(p, j, k, q)
        # A participant of each kind leaves, then the coordinator: Java takes over from Python.
        await q.leave()
        await agree(p, j, k)
        await k.tell("close")
        await agree(p, j)
        k = await group.java("L")
        await agree(p, j, k)
        await p.leave()
        await agree(j, k)
        assert j.members == ("J", "L")
        await hear_each_other(j, k, mark="two")


@STACKS
async def test_python_takes_over_from_a_java_coordinator_that_leaves(
    parts: JavaParts, stack: str
) -> None:
    # A Java member that has left hears multicasts until its sockets are closed, and logs a warning about a view.
    async with mixed_group(parts, stack, allowed=["J: not member of view"]) as group:
        j = await group.java("J")
        p = await group.python("P")
        k = await group.java("K")
        await agree(j, p, k)
        await j.tell("close")
        await agree(p, k)
        assert p.members == ("P", "K")
        await hear_each_other(p, k, mark="taken over")
        late = await group.java("L")
        await agree(p, k, late)


@STACKS
@pytest.mark.parametrize("victim", ["coordinator", "participant"])
async def test_a_killed_java_member_is_removed(parts: JavaParts, stack: str, victim: str) -> None:
    # The other Java member finds its connection to the dead one broken when it says goodbye on it.
    async with mixed_group(parts, stack, allowed=["failed sending graceful close"]) as group:
        j = await group.java("J")
        p = await group.python("P")
        k = await group.java("K")
        await agree(j, p, k)
        dead, stays = (j, k) if victim == "coordinator" else (k, j)
        dead.kill()
        await agree(p, stays)
        await hear_each_other(p, stays, mark="without it")


@STACKS
@pytest.mark.parametrize("victim", ["coordinator", "participant"])
async def test_a_killed_python_member_is_removed(parts: JavaParts, stack: str, victim: str) -> None:
    async with mixed_group(parts, stack) as group:
        if victim == "coordinator":
            dead = await group.python_process("X")
            j = await group.java("J")
        else:
            j = await group.java("J")
            dead = await group.python_process("X")
        p = await group.python("P")
        await agree(j, dead, p)
        assert dead.process.stdin is not None
        await dead.process.stdin.send_all(b"bye\n")
        await j.until(lambda: "bye" in j.texts(dead))
        dead.kill()
        await agree(j, p)
        await hear_each_other(j, p, mark="without it")


@STACKS
async def test_two_of_four_are_killed_at_once(parts: JavaParts, stack: str) -> None:
    async with mixed_group(parts, stack, allowed=["failed sending graceful close"]) as group:
        dead_java = await group.java("J")
        dead_python = await group.python_process("X")
        k = await group.java("K")
        p = await group.python("P")
        await agree(dead_java, dead_python, k, p)
        dead_java.kill()
        dead_python.kill()
        await agree(k, p)
        await hear_each_other(k, p, mark="half")


@STACKS
async def test_four_members_that_start_at_once_are_one_group(parts: JavaParts, stack: str) -> None:
    """Any member may found the group: it is one group in the end, by joining or by merging."""
    merging = {"MERGE3.min_interval": "500", "MERGE3.max_interval": "1000"}
    # Two that connect to each other at once close the same connection, from both ends.
    crossed = "failed sending graceful close"
    # Members of a group that was founded at the same time hear each other's views.
    said = [crossed, "not member of view", "dropped message .*from non-member"]
    async with mixed_group(parts, stack, merging, allowed=said) as group:
        j, k = [await group.java(name, connect=False, attributes=HASTY) for name in ("J", "K")]
        async with trio.open_nursery() as nursery:
            await j.start("connect", group.cluster)
            nursery.start_soon(partial(group.python, "P", attributes=HASTY))
            await k.start("connect", group.cluster)
            nursery.start_soon(partial(group.python, "Q", attributes=HASTY))
            await j.finished()
            await k.finished()
        p, q = group.python_members
        await agree(j, k, p, q)
        await hear_each_other(j, k, p, q, mark="one")


@STACKS
async def test_a_quiet_group_stays_as_it_is(parts: JavaParts, stack: str) -> None:
    """Heartbeats, announcements, stability and idle connections are so frequent that 8 s show them."""
    pace = {
        "STABLE.desired_avg_gossip": "500",
        "UNICAST3.conn_expiry_timeout": "1000",
        "UNICAST3.conn_close_timeout": "1000",
    }
    async with mixed_group(parts, stack, {**FAST, **pace}) as group:
        p, j = await group.python("P"), await group.java("J")
        q, k = await group.python("Q"), await group.java("K")
        everybody = (p, j, q, k)
        await agree(*everybody)
        await hear_each_other(*everybody, mark="one")
        # From now on nobody lacks a message, so nobody asks for one.
        for java in (j, k):
            await has(java, "NAKACK2", size_of_all_messages="0b")
        asked = [await number(java, "NAKACK2", "xmit_reqs_sent") for java in (j, k)]
        views = [len(member.views) for member in everybody]
        await trio.sleep(8)
        assert [len(member.views) for member in everybody] == views
        assert [await number(java, "NAKACK2", "xmit_reqs_sent") for java in (j, k)] == asked
        for java in (j, k):
            assert await number(java, "STABLE", "stability_received") > 0
            await has(java, "NAKACK2", size_of_all_messages="0b")
            await has(java, "UNICAST3", num_unacked_messages="0")
            await java.tell("stats", stack.upper())
            assert java.stats["different_version_messages"] == "0"
            assert java.stats.get("dropped_messages", "0") == "0"
        # Connections that were closed for being idle open again.
        await j.tell("send", "P", "-", "again")
        await p.send("again", j)
        await p.until(lambda: p.texts(j, multicast=False) == ["again"])
        await j.until(lambda: j.texts(p, multicast=False) == ["again"])
        await hear_each_other(*everybody, mark="two")


async def number(java: ProcessMember, protocol: str, name: str) -> int:
    await java.tell("stats", protocol)
    return int(java.stats[name])


async def has(java: ProcessMember, protocol: str, **wanted: str) -> None:
    """Wait until a protocol of a Java member has these figures."""
    found: dict[str, object] = {}
    with trio.move_on_after(60):
        while found != wanted:
            await java.tell("stats", protocol)
            found = {name: java.stats[name] for name in wanted}
    assert found == wanted


FAST = {
    "FD_ALL3.timeout": "6000",
    "FD_ALL3.interval": "500",
    "MERGE3.min_interval": "500",
    "MERGE3.max_interval": "1000",
}


@STACKS
@pytest.mark.parametrize("first", ["java", "python"])
async def test_a_paused_java_member_is_expelled_and_merges(
    parts: JavaParts, stack: str, first: str
) -> None:
    # Once it runs again, it reads the view that was made without it, or goes on alone for a moment.
    paused = ["J: not member of view", "J: dropped message from non-member"]
    async with mixed_group(parts, stack, FAST, allowed=paused) as group:
        if first == "java":
            j = await group.java("J")
            p = await group.python("P")
        else:
            p = await group.python("P")
            j = await group.java("J")
        q = await group.python("Q")
        await agree(j, p, q)
        j.kill(signal.SIGSTOP)
        await agree(p, q)
        j.kill(signal.SIGCONT)
        await agree(j, p, q)
        await hear_each_other(j, p, q, mark="one again")


@pytest.mark.parametrize("leader", ["java", "python"])
async def test_groups_that_never_met_merge(parts: JavaParts, leader: str) -> None:
    async with mixed_group(parts, "udp", FAST) as group:
        j, k = await group.java("J"), await group.java("K")
        await agree(j, k)
        theirs = UUID(bytes.fromhex(j.views[-1].ids[0])).order_key
        p = await alone_with(group, lambda ours: (ours.order_key < theirs) is (leader == "python"))
        await hear_each_other(p, mark="alone")
        p.faults.is_cut = None
        await agree(j, k, p)
        assert p.views[-1].merge and j.views[-1].merge and k.views[-1].merge
        assert (p.members[0] == "P") is (leader == "python")
        await hear_each_other(j, k, p, mark="one")


async def alone_with(group: Group, wanted: Callable[[UUID], bool]) -> PythonMember:
    """Return a Python member whose address is as wanted, cut off from everybody."""
    seed = next(n for n in count() if wanted(UUID.make(random.Random(n))))
    cut = FaultFilter(is_cut=lambda endpoint: True)
    member = await group.python("P", seed=seed, faults=cut, attributes=HASTY)
    assert wanted(member.channel.address)
    return member
