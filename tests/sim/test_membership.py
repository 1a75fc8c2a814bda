"""Whole clusters: joins, leaves, crashes and merges, and the delivery of messages."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.network import LinkSettings
from jgroups_py.testing.sim.world import World
from jgroups_py.values.view import MergeView, View

FAST = {
    "FD_ALL3.timeout": "3s",
    "FD_ALL3.interval": "500ms",
    "VERIFY_SUSPECT2.timeout": "500ms",
    "MERGE3.min_interval": "500ms",
    "MERGE3.max_interval": "2s",
    "GMS.join_timeout": "500ms",
    "STABLE.desired_avg_gossip": "1s",
    "NAKACK2.xmit_interval": "100ms",
    "UNICAST3.xmit_interval": "100ms",
}


def start(world: World, names: str, **options: Any) -> list[Member]:
    return [world.start(n, "sim.xml", "test", attributes=FAST, **options) for n in names]


def together(world: World, members: list[Member], limit: float = 30.0) -> None:
    assert world.run_until(lambda: world.views_agree(members), limit=limit), [
        (m.name, m.view) for m in members
    ]


def group(world: World, names: str) -> list[Member]:
    members = []
    for name in names:
        members += start(world, name)
        together(world, members)
    return members


def names(world: World, member: Member) -> str:
    assert member.view is not None
    return "".join(world.name_of(m) for m in member.view.members)


@pytest.mark.parametrize("seed", range(3))
def test_five_that_start_at_once_are_one_group_soon(seed: int) -> None:
    world = World(seed)
    members = start(world, "ABCDE")
    together(world, members, limit=3.0)
    assert max(len(m.views) for m in members) <= 3


def test_two_members_and_the_coordinator_among_them_crash_at_once() -> None:
    world = World()
    members = group(world, "ABCDE")
    began = world.now
    members[0].crash()
    members[1].crash()
    together(world, members[2:], limit=2.0)
    assert world.now - began < 1.5
    assert names(world, members[2]) == "CDE"
    assert len(members[2].views) == len(members[3].views) + 1, "one view for both"


def test_three_parts_merge_at_once() -> None:
    world = World()
    members = group(world, "ABCDEF")
    world.partition(members[:2], members[2:4], members[4:])
    world.run_for(8.0)
    assert [names(world, m) for m in members] == ["AB", "AB", "CD", "CD", "EF", "EF"]
    world.heal()
    together(world, members, limit=2 * 3.2)
    view = members[0].view
    assert isinstance(view, MergeView) and len(view.subgroups) == 3


def test_a_member_that_stood_still_comes_back() -> None:
    world = World()
    members = group(world, "ABC")
    members[0].pause()
    world.run_for(8.0)
    assert names(world, members[1]) == "BC"
    members[0].resume()
    together(world, members, limit=8.0)
    assert sorted(names(world, members[1])) == list("ABC")


def test_members_of_a_quiet_group_are_not_suspected() -> None:
    traces: list[str] = []
    world = World(trace=lambda at, member, protocol, what, details: traces.append(what))
    members = group(world, "ABC")
    world.run_for(60.0)
    assert {m.view.id for m in members if m.view} == {2}
    assert "suspect" not in traces


# --- random runs: the promises always hold


class Log:
    """The items that one member's application got, in order."""

    def __init__(self, member: Member) -> None:
        self.items: list[View | tuple[str, int]] = []
        member.on_view = lambda m, view: self.items.append(view)
        member.on_batch = lambda m, batch: self.items.extend(
            (name, int(number))
            for name, _, number in (p.payload.decode().partition(":") for p in batch.messages())
        )

    def at_views(self) -> list[tuple[View, View, dict[str, int]]]:
        """(view, next view, highest number of each sender delivered before the next view)."""
        found: list[tuple[View, View, dict[str, int]]] = []
        highest: dict[str, int] = {}
        view: View | None = None
        for item in self.items:
            if isinstance(item, View):
                if view is not None:
                    found.append((view, item, dict(highest)))
                view = item
            else:
                highest[item[0]] = item[1]
        return found


class Run:
    """Random joins, crashes, leaves, and messages under loss."""

    def __init__(self, seed: int, *, partitions: bool) -> None:
        links = LinkSettings(jitter=0.0003, loss=0.02, duplicate=0.002, reorder=0.01)
        self.world = World(seed, inside=links)
        self.random = random.Random(f"run {seed}")
        self.partitions = partitions
        self.members: dict[str, Member] = {}
        self.logs: dict[str, Log] = {}
        self.sent: Counter[str] = Counter()

    def start(self) -> None:
        name = f"M{len(self.logs) + 1}"
        self.members[name] = member = self.world.start(name, "sim.xml", "test", attributes=FAST)
        self.logs[name] = Log(member)

    def send(self, member: Member) -> None:
        if member.view is not None:
            self.sent[member.name] += 1
            member.send(f"{member.name}:{self.sent[member.name]}".encode())

    def step(self) -> None:
        chance, world = self.random, self.world
        for _ in range(chance.randint(1, 20)):
            self.send(chance.choice(list(self.members.values())))
            world.run_for(chance.choice([0, 0.0005, 0.01]))
        what, known = chance.random(), list(self.members)
        if what < 0.3 and len(known) < 7:
            self.start()
        elif what < 0.6 and len(known) > 2:
            for name in chance.sample(known, min(len(known) - 1, chance.choice([1, 1, 2]))):
                self.members.pop(name).crash()
                world.run_for(chance.choice([0, 0, 0.0003, 0.3]))
        elif what < 0.75 and len(known) > 2:
            self.members.pop(chance.choice(known)).leave()
        elif what < 0.9 and self.partitions and len(known) > 2:
            cut = chance.randint(1, len(known) - 1)
            sides = known[:cut], known[cut:]
            world.partition(*[[self.members[n] for n in side] for side in sides])
            world.run_for(chance.choice([1, 6]))
            world.heal()
        world.run_for(chance.choice([0, 0.01, 0.3, 1, 4]))

    def run(self) -> None:
        for _ in range(self.random.randint(2, 5)):
            self.start()
        self.world.run_for(self.random.choice([0.1, 2, 4]))
        for _ in range(self.random.randint(5, 10)):
            self.step()
        members = list(self.members.values())
        together(self.world, members, limit=60.0)
        for member in members:
            self.send(member)
        self.world.run_for(3.0)

    def check(self) -> None:
        for name, log in self.logs.items():
            highest: dict[str, int] = {}
            view_id = -1
            for item in log.items:
                if isinstance(item, View):
                    assert item.id > view_id, f"{name}: view {item.id} after {view_id}"
                    view_id = item.id
                else:
                    sender, number = item
                    assert number > highest.get(sender, 0), f"{name}: {item} twice or late"
                    highest[sender] = number
            if name in self.members:
                for sender in self.members:
                    assert highest[sender] == self.sent[sender], f"{name} lacks {sender}'s last"

    def check_agreement(self) -> None:
        """Check that members with the same two views delivered the same messages of the departed ones."""
        steps: dict[Any, dict[str, tuple[View, View, dict[str, int]]]] = {}
        for name, log in self.logs.items():
            for step in log.at_views():
                steps.setdefault((step[0].view_id, step[1].view_id), {})[name] = step
        for members in steps.values():
            view, following, _ = next(iter(members.values()))
            for departed in following.left_since(view):
                who = self.world.name_of(departed)
                counts = {n: h[who] for n, (_, _, h) in members.items() if who in h}
                assert len(set(counts.values())) <= 1, (view.id, following.id, who, counts)


@pytest.mark.parametrize("seed", range(6))
def test_survivors_agree_on_the_messages_of_departed_members(seed: int) -> None:
    run = Run(seed, partitions=False)
    run.run()
    run.check()
    run.check_agreement()


@pytest.mark.parametrize("seed", range(100, 104))
def test_after_partitions_there_is_one_group_again_and_messages_flow(seed: int) -> None:
    run = Run(seed, partitions=True)
    run.run()
    run.check()


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [False, True])
def test_many_random_runs_hold(partitions: bool) -> None:
    for seed in range(1000, 1300):
        run = Run(seed, partitions=partitions)
        run.run()
        run.check()
        if not partitions:
            run.check_agreement()


# --- state


class Counting:
    """An application whose state is the number of messages received from each sender."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.counts: Counter[str] = Counter()
        self.fetched: bytes | None = None
        member.on_batch = self.on_batch
        member.provide_state = lambda: json.dumps(self.counts).encode() + self.padding
        self.padding = b""

    def on_batch(self, member: Member, batch: Any) -> None:
        state = member.state
        if state is not None and state is not self.fetched:
            self.fetched = state
            self.counts = Counter(json.loads(state))
        for message in batch.messages():
            name, _, number = message.payload.decode().partition(":")
            assert int(number) == self.counts[name] + 1, f"{member.name}: {name}:{number}"
            self.counts[name] += 1


@pytest.mark.parametrize(("seed", "size"), [(0, 0), (2, 300_000)])
def test_a_joiner_continues_exactly_where_the_state_ends(seed: int, size: int) -> None:
    world = World(seed, inside=LinkSettings(jitter=0.0005, loss=0.02))
    members = group(world, "ABC")
    apps = [Counting(m) for m in members]
    for app in apps:
        app.padding = b" " * size
    sent: Counter[str] = Counter()

    def talk(rounds: int) -> None:
        for _ in range(rounds):
            for member in members:
                for _ in range(3):
                    sent[member.name] += 1
                    member.send(f"{member.name}:{sent[member.name]}".encode())
            world.run_for(0.002)

    talk(50)
    joiner = start(world, "D", with_state=True)[0]
    app = Counting(joiner)
    talk(100)
    assert world.run_until(lambda: joiner.state is not None, limit=20.0)
    talk(20)
    world.run_for(2.0)
    assert joiner.state is not None and app.counts == sent == apps[0].counts
    assert len(joiner.state) > size
