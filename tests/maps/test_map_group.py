"""Links of a map with the members of a group, without I/O."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py.maps.group import (
    MAGIC,
    BadEnvelope,
    Down,
    Envelope,
    GroupLinks,
    GroupSettings,
    Incoming,
    LinkKind,
    Overheard,
    Send,
    Up,
    opened,
    sealed,
)
from jgroups_py.values.address import UUID, Address


class Member:
    """One member: its links, and the reports to its host."""

    def __init__(self, number: int, seed: int, **settings: object) -> None:
        self.address = UUID(bytes([number]) * 16)
        chance = random.Random(seed * 100 + number)
        self.links = GroupLinks(
            "fx",
            self.address,
            lambda: chance.randint(1, 2**32 - 1),
            GroupSettings(**settings),  # type: ignore[arg-type]
        )
        self.up: dict[Address, list[bytes]] = {}
        """The messages that came over each link that is up."""
        self.overheard: list[bytes] = []
        self.opened = 0


class Group:
    """Members whose messages are delayed; each pair keeps the order of unicasts, and of multicasts."""

    def __init__(self, numbers: Iterable[int], seed: int = 1, **settings: object) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.members = {number: Member(number, seed, **settings) for number in numbers}
        self.by_address: dict[Address, Member] = {m.address: m for m in self.members.values()}
        self.queues: dict[tuple[Address, Address, bool], deque[bytes]] = {}
        self.sites: list[set[int]] = [set(self.members)]
        self.sent = 0

    def view(self, *numbers: int, at: Iterable[int] | None = None) -> None:
        for number in at or numbers:
            member = self.members[number]
            member.links.view([self.members[n].address for n in numbers], self.now)
            self.carry_out(member)

    def carry_out(self, member: Member) -> None:
        for out in member.links.take():
            if isinstance(out, Send):
                self.sent += 1
                for to in [out.to] if out.to is not None else list(self.by_address):
                    if to != member.address and to in self.by_address:
                        key = member.address, to, out.to is None
                        self.queues.setdefault(key, deque()).append(out.data)
            elif isinstance(out, Up):
                assert out.member not in member.up
                member.up[out.member] = []
                member.opened += 1
            elif isinstance(out, Down):
                member.up.pop(out.member, None)
            elif isinstance(out, Incoming):
                member.up[out.member].append(out.data)
            else:
                assert isinstance(out, Overheard)
                member.overheard.append(out.data)

    def deliver(self, most: int = 100_000) -> None:
        """Deliver messages until none is on its way."""
        for _ in range(min(most, 2000)):
            waiting = [key for key, queue in self.queues.items() if queue]
            if not waiting:
                return
            source, to, _ = key = self.chance.choice(waiting)
            data = self.queues[key].popleft()
            envelope = opened(data)
            assert envelope is not None
            receiver = self.by_address[to]
            receiver.links.received(source, envelope, self.now)
            self.carry_out(receiver)
        assert most < 2000, "members talk for ever"

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 0.5
            for member in self.members.values():
                member.links.tick(self.now)
                self.carry_out(member)
            self.deliver()

    def assert_linked(self, *numbers: int) -> None:
        for number in numbers:
            others = {self.members[n].address for n in numbers if n != number}
            assert set(self.members[number].up) == others


def test_members_of_a_view_are_linked_with_each_other() -> None:
    group = Group((1, 2, 3))
    group.view(1, 2, 3)
    group.deliver()
    group.assert_linked(1, 2, 3)
    one, two, three = group.members.values()
    one.links.send(two.address, b"to two")
    one.links.send_all(b"to all")
    group.carry_out(one)
    group.deliver()
    assert sorted(two.up[one.address]) == [b"to all", b"to two"]
    assert three.up[one.address] == [b"to all"]
    group.run(300)
    assert [member.opened for member in group.members.values()] == [2, 2, 2]


def test_a_member_that_leaves_and_comes_back_has_a_new_link() -> None:
    group = Group((1, 2))
    group.view(1, 2)
    group.deliver()
    one, two = group.members.values()
    group.view(1, at=[1])  # member two has noticed nothing
    assert one.up == {}
    two.links.send(one.address, b"of the old link")
    group.carry_out(two)
    group.view(1, 2, at=[1])
    group.deliver()
    group.assert_linked(1, 2)
    assert (one.opened, two.opened) == (2, 2)
    assert one.up[two.address] == [] and one.links.counters["stale"] == 1


def test_a_member_that_does_not_answer_is_greeted_less_and_less_often() -> None:
    group = Group((1,))
    one = group.members[1]
    one.links.view([one.address, UUID(b"j" * 16)], 0.0)
    group.carry_out(one)
    group.run(600)
    assert 10 <= group.sent <= 20


def test_a_member_that_serves_the_map_later_is_linked_at_once() -> None:
    group = Group((1, 2))
    group.view(1, 2, at=[1])
    group.deliver()
    group.run(100)
    group.view(1, 2, at=[2])
    group.deliver()
    group.assert_linked(1, 2)


def test_an_early_speaker_is_linked_and_forgotten_if_no_view_includes_it() -> None:
    group = Group((1, 2, 3))
    group.view(1, at=[1])
    group.view(1, 2, 3, at=[2, 3])
    group.deliver()
    assert set(group.members[1].up) == {group.members[2].address, group.members[3].address}
    group.view(1, 2)
    assert set(group.members[1].up) == {group.members[2].address}


def test_few_members_that_are_in_no_view_are_listened_to() -> None:
    group = Group((1,), early_max=3)
    one = group.members[1]
    group.view(1)
    for number in range(10, 30):
        one.links.received(UUID(bytes([number]) * 16), Envelope("fx", LinkKind.HI, 5, 0), 0.0)
    assert sum(isinstance(out, Send) for out in one.links.take()) == 3
    assert one.links.counters["crowded"] == 17


def test_a_link_that_the_host_has_closed_stays_closed_for_a_while() -> None:
    group = Group((1, 2))
    group.view(1, 2)
    group.deliver()
    one, two = group.members.values()
    del one.up[two.address], two.up[one.address]
    one.links.close(two.address, group.now)
    two.links.close(one.address, group.now)
    group.run(50)
    assert one.up == two.up == {}
    group.run(20)
    group.assert_linked(1, 2)


def test_a_member_that_leaves_is_linked_no_more_and_may_come_back() -> None:
    group = Group((1, 2))
    group.view(1, 2)
    group.deliver()
    one, two = group.members.values()
    two.links.leave()
    group.carry_out(two)
    group.deliver()
    assert one.up == {}
    two.up.clear()
    group.view(1, 2, at=[2])
    group.deliver()
    group.assert_linked(1, 2)


def test_the_first_members_of_two_sites_are_linked_and_the_others_overhear() -> None:
    group = Group((1, 2, 3, 4), sites=True)
    group.view(1, 2)
    group.view(3, 4)
    group.run(5)
    one, two, three, four = group.members.values()
    assert set(one.up) == {two.address, three.address}
    assert set(three.up) == {one.address, four.address}
    assert set(two.up) == {one.address} and set(four.up) == {three.address}
    two.links.send_all(b"change")
    one.links.send(three.address, b"for three")
    for member in (one, two):
        group.carry_out(member)
    group.deliver()
    assert four.overheard == three.overheard == [b"change"]
    assert three.up[one.address] == [b"for three"]


def test_a_first_member_that_is_gone_is_replaced_by_the_next_one() -> None:
    group = Group((1, 2, 3), sites=True)
    group.view(1, 2)
    group.view(3)
    group.run(5)
    del group.by_address[group.members[1].address], group.members[1]
    group.view(2)
    group.run(15)
    two, three = group.members.values()
    assert set(two.up) == {three.address} and set(three.up) == {two.address}


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_after_any_views_all_members_of_the_last_one_are_linked(seed: int) -> None:
    chance = random.Random(seed)
    numbers = list(range(1, chance.randint(3, 6)))
    group = Group(numbers, seed)
    for _ in range(chance.randint(1, 15)):
        chosen = sorted(chance.sample(numbers, chance.randint(1, len(numbers))))
        group.view(*chosen, at=chance.sample(chosen, chance.randint(1, len(chosen))))
        group.deliver(chance.choice([0, 3, 20]))
        if chance.random() < 0.3:
            group.now += 0.5
            for member in group.members.values():
                member.links.tick(group.now)
                group.carry_out(member)
        a, b = chance.choice(numbers), chance.choice(numbers)
        group.members[a].links.send(group.members[b].address, b"%d" % a)
        group.carry_out(group.members[a])
    group.view(*numbers)
    group.run(130)
    group.assert_linked(*numbers)
    for member in group.members.values():
        for source, got in member.up.items():
            assert set(got) <= {b"%d" % source[0]}
    opened = [member.opened for member in group.members.values()]
    group.run(130)
    assert [member.opened for member in group.members.values()] == opened


@settings(max_examples=100)
@given(st.binary(max_size=80))
def test_any_bytes_are_an_envelope_or_refused(data: bytes) -> None:
    assert opened(b"x" + data) is None
    try:
        envelope = opened(MAGIC + data)
    except BadEnvelope:
        return
    assert envelope is not None
    member = Member(1, 1)
    member.links.received(UUID(b"2" * 16), envelope, 0.0)


def test_an_envelope_comes_back_as_it_was() -> None:
    envelope = Envelope("fx", LinkKind.DATA, 1, 2**32 - 1, b"t" * 16, b"data")
    assert opened(sealed(envelope)) == envelope


@pytest.mark.parametrize("setting", ["hi_first", "hi_max", "announce_interval", "remote_timeout"])
def test_a_time_of_a_group_that_is_none_is_named(setting: str) -> None:
    with pytest.raises(ValueError, match=setting):
        GroupSettings(**{setting: 0.0})  # type: ignore[arg-type]
