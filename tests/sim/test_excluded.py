"""The group goes on without a member: the member learns of it at once, waits, and gets the names of its lost
messages."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.testing.check.checkers import Checker
from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.world import World
from jgroups_py.values.lost import Excluded, Lost
from jgroups_py.values.view import MergeView

SLOW: dict[str, str] = {}
"""udp.xml's times: 40 s of silence, announcements every 10 to 30 s."""
QUICK = {
    "FD_ALL3.timeout": "5s",
    "FD_ALL3.interval": "1s",
    "VERIFY_SUSPECT2.timeout": "500ms",
    "MERGE3.min_interval": "1s",
    "MERGE3.max_interval": "5s",
}


class Group:
    """Members that are watched by all checkers."""

    def __init__(self, names: str, settings: dict[str, str], seed: int = 1) -> None:
        self.world = World(seed)
        self.checker = Checker()
        self.members: list[Member] = []
        for name in names:
            member = self.world.start(name, "sim.xml", "test", attributes=settings)
            self.checker.watch(member)
            self.members.append(member)
            assert self.agree(30)

    def agree(self, limit: float) -> bool:
        return self.world.run_until(lambda: self.world.views_agree(self.members), limit=limit)

    def send(self, member: Member, count: int = 1) -> None:
        member.send(*[self.checker.payload(member) for _ in range(count)])

    def last(self, receiver: Member, origin: Member) -> int:
        return self.checker.messages.last(receiver, origin)

    def finish(self) -> None:
        """Check that messages sent from now on arrive everywhere, and that no rule was violated."""
        for member in self.members:
            self.send(member)
        count = self.checker.messages.count

        def missing() -> list[str]:
            return [
                f"{receiver.name} has {self.last(receiver, origin)} of {count(origin)} of {origin.name}"
                for receiver in self.members
                for origin in self.members
                if self.last(receiver, origin) != count(origin)
            ]

        # Credits that were on their way are given anew after a while.
        assert self.world.run_until(lambda: not missing(), limit=60.0), missing()
        self.world.run_for(5.0)
        assert [str(p) for p in self.checker.problems] == []
        self.world.close()


@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("seconds", [55, 300])
def test_stopped_for_longer_than_the_others_wait(victim: int, seconds: float) -> None:
    """The first item that the member reads reports it; its lost messages are named; later messages leave after the
    merge, which follows within seconds."""
    group = Group("ABC", SLOW)
    stopped = group.members[victim]
    others = [m for m in group.members if m is not stopped]
    group.send(stopped, 10)
    group.world.run_for(1.0)
    stopped.pause()
    group.world.run_for(seconds)
    group.send(stopped, 7)  # its loop sends before it reads
    stopped.resume()
    group.world.run_for(0.1)
    assert stopped.excluded == [
        Excluded(others[0].view, others[0].address, (Lost(None, ((11, 17),)),), True)  # type: ignore[arg-type]
    ]
    assert {dest for source, dest in stopped.blocked if source == "GMS"} == {
        None,
        *(m.address for m in others),
    }
    group.send(stopped, 5)
    assert group.agree(10)
    group.world.run_for(1.0)
    assert isinstance(stopped.view, MergeView)
    assert not stopped.blocked
    assert all(group.last(m, stopped) == 22 for m in others), "what waited has come"
    assert group.checker.messages.named.named == 7
    group.finish()


def test_the_view_that_it_missed_is_asked_for() -> None:
    """Full buffers dropped packets that waited for the member while it was stopped."""
    group = Group("ABC", SLOW)
    _, b, c = group.members
    token = group.world.partition([group.members[0], b], [c], one_way=True)
    c.pause()
    group.world.run_for(80.0)
    group.world.heal(token)
    c.resume()
    group.world.run_for(0.01)
    told_at = None
    for _ in range(40):
        group.send(c)
        group.world.run_for(0.1)
        if c.excluded and told_at is None:
            told_at = group.checker.messages.count(c)
    assert told_at is not None and told_at <= 10, "within a second"
    assert c.excluded[0].certain
    assert group.agree(20)
    group.finish()


def test_a_member_that_is_not_heard_does_no_harm() -> None:
    """Its messages reach no member, but it hears the others: they go on without it."""
    group = Group("ABC", QUICK)
    a, b, c = group.members
    token = group.world.partition([c], [a, b], one_way=True)
    for _ in range(60):
        if not c.blocked:
            group.send(c)
        group.world.run_for(0.25)
    assert len(c.excluded) == 1
    assert not c.excluded[0].certain, "nobody could answer"
    assert c.excluded[0].lost == (Lost(None, ((1, 19),)),), "until A and B had a view without it"
    assert c.view is not None and c.view.members == (c.address,), "and then it was told by its view"
    group.world.heal(token)
    assert group.agree(60)
    assert len(c.excluded) == 1
    group.finish()


def test_a_member_that_hears_nobody_does_not_stop_the_others() -> None:
    """The member makes a view of its own; the others are the larger part and go on sending to each other."""
    group = Group("ABC", QUICK)
    a, b, c = group.members
    token = group.world.partition([a, b], [c], one_way=True)
    group.world.run_for(12.0)
    assert c.view is not None and len(c.view) == 1
    assert not a.excluded and not a.blocked and not b.excluded
    before = group.last(b, a)
    group.send(a, 3)
    group.world.run_for(0.5)
    assert group.last(b, a) == before + 3
    group.world.heal(token)
    assert group.agree(120)
    group.finish()


def test_cut_off_from_all_others_it_has_a_view_that_says_so() -> None:
    group = Group("ABCD", QUICK)
    *others, cut = group.members
    group.world.partition(others, [cut])
    for _ in range(60):
        group.send(cut)
        group.world.run_for(0.25)
    assert cut.view is not None and cut.view.members == (cut.address,)
    group.world.heal()
    assert group.agree(30)
    assert not cut.excluded
    group.finish()


def test_two_members_that_were_stopped_together_come_back() -> None:
    group = Group("ABCD", QUICK)
    a, b, c, d = group.members
    for member in (c, d):
        member.pause()
    group.world.run_for(20.0)
    group.send(c, 3)
    group.send(d, 4)
    for member in (c, d):
        member.resume()
    group.world.run_for(0.5)
    assert [m.excluded[0].lost_count for m in (c, d)] == [3, 4]
    assert not a.excluded and not b.excluded
    assert group.agree(30)
    group.finish()


def test_a_message_in_fragments_is_one_and_only_the_applications_are_named() -> None:
    group = Group("ABC", SLOW | {"FRAG2.frag_size": "1000"})
    c = group.members[2]
    c.pause()
    group.world.run_for(60.0)
    c.send(*[group.checker.payload(c, size) for size in (10, 5000, 20)])
    c.send(group.checker.payload(c, oob=True), flags=1)
    c.resume()
    group.world.run_for(0.2)
    (item,) = c.excluded
    assert item.lost == (Lost(None, ((1, 4),)),)
    assert not item.certain, "out of band: some may have taken it"
    assert group.agree(30)
    group.finish()


def test_unicasts_are_not_lost() -> None:
    group = Group("ABC", SLOW)
    a, _, c = group.members
    c.pause()
    group.world.run_for(60.0)
    for _ in range(5):
        c.send(group.checker.payload(c, to=a), to=a)
    c.resume()
    group.world.run_for(0.2)
    assert c.excluded[0].lost == ()
    c.send(group.checker.payload(c, to=a), to=a)
    assert group.agree(30)
    group.world.run_for(2.0)
    assert group.checker.messages.last(a, c, 1) == 6
    group.finish()


def test_an_expelled_member_without_merging_ends_with_its_possible_losses() -> None:
    group = Group("ABC", QUICK | {"GMS.excluded": "expel"})
    c = group.members[2]
    c.pause()
    group.world.run_for(20.0)
    group.send(c, 3)
    c.resume()
    group.world.run_for(0.2)
    (event,) = c.events
    assert type(event).__name__ == "Expel"
    lost: Any = event
    assert sum(len(run.payloads) for run in lost.lost if run.number) == 3
    group.world.close()


def test_a_message_is_named_of_which_the_rest_waits_for_credits() -> None:
    """The first fragments of the message arrived, and were dropped with the view without their sender."""
    small = {"FRAG2.frag_size": "500", "MFC.max_credits": "2000", "MFC.min_threshold": "0.1"}
    group = Group("ABC", SLOW | small)
    a, b, c = group.members
    a.reading = b.reading = False
    for _ in range(3):
        c.send(group.checker.payload(c, 700))
    group.world.run_for(1.0)
    c.pause()
    group.world.run_for(60.0)
    c.resume()
    group.world.run_for(0.5)
    assert c.excluded[0].lost == (Lost(None, ((3, 3),)),), "1 and 2 were whole"
    a.read_again()
    b.read_again()
    assert group.agree(30)
    group.finish()
