"""The commonest questions of users of such toolkits, as scenarios: traffic, rolling updates, splits.

Numbers are those of design/trust.md's table of themes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jgroups_py.testing.check.checkers import Checker
from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.network import LinkSettings
from jgroups_py.testing.sim.world import World
from jgroups_py.values.view import MergeView

FAST = {
    "FD_ALL3.timeout": "3s",
    "FD_ALL3.interval": "500ms",
    "VERIFY_SUSPECT2.timeout": "500ms",
    "MERGE3.min_interval": "500ms",
    "MERGE3.max_interval": "2s",
    "STABLE.desired_avg_gossip": "1s",
    "NAKACK2.xmit_interval": "100ms",
    "UNICAST3.xmit_interval": "100ms",
}
CREDITS = 20_000
SMALL = {"MFC__max_credits": str(CREDITS), "UFC__max_credits": str(CREDITS)}


def start(world: World, name: str, stack: str = "sim.xml", **more: str) -> Member:
    properties = {"jgroups.tcpping.initial_hosts": "10.0.0.1[7800]"} if stack == "tcp.xml" else None
    attributes = {**FAST, **{key.replace("__", "."): value for key, value in more.items()}}
    return world.start(name, stack, "test", attributes=attributes, properties=properties)


def group(world: World, names: str, stack: str = "sim.xml", **more: str) -> list[Member]:
    members = []
    for name in names:
        members.append(start(world, name, stack, **more))
        assert world.run_until(lambda: world.views_agree(members), limit=30)
    return members


def until(world: World, condition: Callable[[], bool], limit: float) -> None:
    began = world.now
    assert world.run_until(condition, limit=limit), f"not within {limit} s of {began:.3f}"


# --- 12: a sender starves after members have come and left


@pytest.mark.parametrize("how", ["crash", "leave", "vanish"])
@pytest.mark.parametrize("to", [None, "B"])
def test_no_credit_is_lost_however_often_members_come_and_go(how: str, to: str | None) -> None:
    world = World(f"{how}{to}")
    a, b = group(world, "AB", **SMALL)
    received: list[int] = []
    b.keep_batches = False
    b.on_batch = lambda member, batch: received.append(batch.length)
    dest = None if to is None else b
    for _ in range(8):
        c = start(world, "C", **SMALL)
        until(world, lambda c=c: world.views_agree([a, b, c]), 20)  # type: ignore[misc]
        c.reading = False  # it takes credits and gives none back
        for _ in range(2 * CREDITS // 1000):
            a.send(b"." * 1000, to=dest)
            a.send(b"." * 1000, to=c)
        world.run_for(0.5)
        getattr(c, how)()
        until(world, lambda: world.views_agree([a, b]), 20)
    received.clear()
    for _ in range(4 * CREDITS // 1000):
        a.send(b"." * 1000, to=dest)
    until(world, lambda: sum(received) >= 4 * CREDITS and not a.blocked, 5)


# --- 13: one slow or half-dead peer


def test_a_peer_that_takes_no_bytes_holds_up_nobody_else() -> None:
    """A's connection to C is open, but no byte gets through, while C is still heard."""
    world = World(13)
    a, b, c = group(world, "ABC", "tcp.xml", FD_ALL3__timeout="1h")
    b.batches.clear()
    world.clog(a.host, c.host)
    for n in range(300):
        a.send(b"%d" % n + b"." * 1000, to=b)
        a.send(b"." * 1000, to=c)
        world.run_for(0.01)
    world.run_for(0.1)
    assert len(b.payloads) == 300, "B has all of it at once"
    assert a.view is not None and len(a.view) == 3
    world.unclog(a.host, c.host)
    until(world, lambda: len(c.payloads) == 300, 20)


def test_a_peer_that_takes_no_bytes_is_out_in_time_and_then_holds_up_no_multicast() -> None:
    world = World(14)
    a, b, c = group(world, "ABC", "tcp.xml", **SMALL)
    for other in (a, b):
        world.clog(c.host, other.host)
        world.clog(other.host, c.host)
    sent = 4 * CREDITS // 1000
    for _ in range(sent):
        a.send(b"." * 1000)
    assert world.run_until(lambda: bool(a.blocked), limit=1), "C's credits are used up"
    until(world, lambda: world.views_agree([a, b]), 3 + 0.5 + 1)
    until(world, lambda: len(b.payloads) == sent and not a.blocked, 2)


# --- 18: a rolling update


def test_all_members_are_replaced_one_by_one() -> None:
    """Traffic goes on; no member is ever alone, and all members see each step as one view."""
    world = World(18, inside=LinkSettings(latency=0.001, jitter=0.002, loss=0.02))
    checker = Checker()
    members: dict[str, Member] = {}

    def begin(name: str) -> None:
        members[name] = start(world, name)
        checker.watch(members[name])

    def talk(seconds: float) -> None:
        for _ in range(int(seconds * 20)):
            for member in members.values():
                if member.alive and member.view is not None:
                    member.send(checker.payload(member, 100))
            world.run_for(0.05)

    for name in "ABCDE":
        begin(name)
        until(world, lambda: world.views_agree(members.values()), 10)
    for name in "ABCDE":
        members[name].leave()
        talk(1)
        assert not members[name].alive
        begin(name)
        talk(2)
        until(world, lambda: world.views_agree(members.values()), 5)
    world.run_for(5)
    assert checker.problems == []
    for member in members.values():
        assert not any(isinstance(view, MergeView) for view in member.views), "it never split"
        assert min(len(view) for view in member.views) >= 4
        for origin in members.values():
            assert checker.messages.last(member, origin) == checker.messages.count(origin)


def test_groups_of_different_wire_versions_stay_apart_and_count_it() -> None:
    """The groups formed while they could not hear each other; a group never changes its version."""
    world = World(181)
    old = [start(world, name, "udp.xml", UDP__version="5.4") for name in "AB"]
    new = [start(world, name, "udp.xml", UDP__version="5.6") for name in "CD"]
    world.partition(old, new)
    until(world, lambda: world.views_agree(old) and world.views_agree(new), 10)
    world.heal()
    world.run_for(10)
    assert world.views_agree(old) and world.views_agree(new)
    for member in (*old, *new):
        assert member.statistics()["UDP"]["dropped_version"] > 0, "it says why"


def test_a_newer_member_speaks_the_version_of_the_group_it_joins() -> None:
    world = World(182)
    a, b = group(world, "AB", "udp.xml", UDP__version="5.4")
    c = start(world, "C", "udp.xml", UDP__version="5.6")
    until(world, lambda: world.views_agree([a, b, c]), 10)
    c.send(b"hello")
    until(world, lambda: all(b"hello" in m.payloads for m in (a, b, c)), 2)


# --- 21: a split and the fate of the messages


def test_a_split_is_visible_and_each_side_has_all_of_its_own() -> None:
    world = World(21, inside=LinkSettings(loss=0.05))
    checker = Checker()
    members = []
    for name in "ABCDE":
        members.append(start(world, name))
        checker.watch(members[-1])
    until(world, lambda: world.views_agree(members), 10)
    left, right = members[:2], members[2:]
    items: dict[str, list[str]] = {m.name: [] for m in members}

    def talk(rounds: int) -> None:
        for _ in range(rounds):
            for member in members:
                member.send(checker.payload(member, 50))
            world.run_for(0.05)

    for member in members:
        inner_batch, inner_view = member.on_batch, member.on_view
        assert inner_batch is not None and inner_view is not None

        def on_batch(m, batch, inner=inner_batch):  # type: ignore[no-untyped-def]
            items[m.name].extend([world.name_of(batch.src)] * len(batch.payloads))
            inner(m, batch)

        def on_view(m, view, inner=inner_view):  # type: ignore[no-untyped-def]
            items[m.name].append("merge" if isinstance(view, MergeView) else "view")
            inner(m, view)

        member.on_batch, member.on_view = on_batch, on_view
    talk(20)
    world.partition(left, right)
    talk(200)
    assert world.views_agree(left) and world.views_agree(right)
    world.heal()
    until(world, lambda: world.views_agree(members), 6)
    talk(20)
    world.run_for(5)
    assert checker.problems == []
    for member in members:
        own = left if member in left else right
        heard = items[member.name]
        assert heard.count("merge") == 1
        merge = heard.index("merge")
        split = max(n for n, item in enumerate(heard[:merge]) if item == "view")
        others = {m.name for m in members if m not in own}
        assert not others & set(heard[split:merge]), "nothing of the other side between the views"
        for origin in members:
            has = heard.count(origin.name)
            sent = checker.messages.count(origin)
            assert has == sent if origin in own else has < sent, (member, origin, has, sent)
            assert checker.messages.last(member, origin) == sent, "and all of it after the merge"
    merge_view = members[0].view
    assert isinstance(merge_view, MergeView)
    assert {len(s) for s in merge_view.subgroups} == {2, 3}, "it says who was where"
