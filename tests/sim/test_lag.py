"""A member that was stopped, or whose loop was blocked or slow, suspects no other member because of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

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
    "NAKACK2.xmit_interval": "100ms",
    "UNICAST3.xmit_interval": "100ms",
}
"""The failure detection of relay-udp.xml."""


class Watched:
    """A group, and its suspicions: {(protocol, suspecting, suspected): count}."""

    def __init__(self, names: str, settings: dict[str, str], seed: int = 0) -> None:
        self.suspicions: Counter[tuple[str, str, str]] = Counter()
        links = LinkSettings(jitter=0.0003)
        self.world = World(seed, inside=links, trace=self._on_trace)
        self.members: list[Member] = []
        for name in names:
            self.members.append(self.world.start(name, "sim.xml", "test", attributes=settings))
            assert self.world.run_until(lambda: self.world.views_agree(self.members), limit=30)
        self.world.run_for(3.0)

    def _on_trace(
        self, at: float, member: str, protocol: str, what: str, details: dict[str, Any]
    ) -> None:
        if protocol in ("FD_ALL3", "GMS") and what == "suspect":
            for suspect in details["members"]:
                self.suspicions[protocol, member, self.world.name_of(suspect)] += 1
        elif protocol == "FD_SOCK2" and what == "not found":
            self.suspicions[protocol, member, details["member"]] += 1

    def by(self, member: Member) -> list[tuple[str, str, str]]:
        return [key for key in self.suspicions if key[1] == member.name]

    def talk(self) -> None:
        for member in self.members:
            member.send(*[b"x"] * 20)


@pytest.mark.parametrize("seconds", [5, 15, 20, 60])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_member_that_stood_still_suspects_nobody_when_it_goes_on(
    victim: int, seconds: float
) -> None:
    """With relay-udp.xml's times the others go on without the member from about 6 s on. It comes
    back by a merge, and has suspected no member."""
    group = Watched("ABC", QUICK, seed=int(seconds))
    world, stopped = group.world, group.members[victim]
    group.talk()
    stopped.pause()
    world.run_for(seconds)
    group.talk()
    stopped.resume()
    world.run_for(4.0)
    assert group.by(stopped) == []
    assert world.run_until(lambda: world.views_agree(group.members), limit=30.0)
    assert group.by(stopped) == []
    others = {key for key in group.suspicions if key[0] == "GMS"}
    assert all(suspect == stopped.name for _, _, suspect in others)
    assert bool(others) == (seconds > 5)


@pytest.mark.parametrize("seconds", [5, 15, 20])
def test_the_others_do_not_expel_a_paused_member_within_the_stacks_settings(seconds: float) -> None:
    """udp.xml's times: 40 s."""
    group = Watched("ABC", {})
    view = group.members[0].view
    group.members[1].pause()
    group.world.run_for(seconds)
    group.members[1].resume()
    group.world.run_for(60.0)
    assert group.suspicions == {}
    assert all(m.view == view for m in group.members)


@pytest.mark.parametrize("turn", [0.3, 0.45, 0.8])
def test_a_slow_loop_neither_suspects_nor_is_suspected(turn: float) -> None:
    group = Watched("ABC", QUICK)
    view = group.members[0].view
    slow = group.members[1]
    slow.slow_down(turn)
    for _ in range(60):
        group.talk()
        group.world.run_for(1.0)
    assert group.suspicions == {}
    assert all(m.view == view for m in group.members)
    assert slow.host.machine.lateness.recent(group.world.now) > 0.2


@pytest.mark.parametrize(("turn", "limit"), [(0.3, 5.0), (0.8, 12.0)])
def test_a_slow_coordinator_still_notices_a_death(turn: float, limit: float) -> None:
    """Patience has a limit: a member with lag must still notice deaths. A proof takes eight of its turns: one for each
    of four ports, and four for the rest."""
    group = Watched("ABC", QUICK)
    group.members[0].slow_down(turn)
    group.world.run_for(5.0)
    group.members[2].crash()
    assert group.world.run_until(lambda: group.world.views_agree(group.members[:2]), limit=limit)
    group.members.append(group.world.start("D", "sim.xml", "test", attributes=QUICK))
    del group.members[2]
    assert group.world.run_until(lambda: group.world.views_agree(group.members), limit=15.0)
    group.members[2].vanish()
    # 5 s + 1 s + 0.6 s, each longer by the lag; FD_ALL3 and VERIFY_SUSPECT2 by 10 s at most
    assert group.world.run_until(lambda: group.world.views_agree(group.members[:2]), limit=28.0)


def test_a_verification_goes_on_where_it_stood() -> None:
    """A suspects C for its silence and is stopped while it waits for the answer; C is heard again
    while A is stopped."""
    group = Watched("ABC", QUICK)
    world = group.world
    a, _, c = group.members
    c.pause()
    assert world.run_until(lambda: ("FD_ALL3", "A", "C") in group.suspicions, limit=10.0)
    a.pause()
    world.run_for(0.2)
    c.resume()
    world.run_for(1.0)
    a.resume()
    world.run_for(5.0)
    assert ("GMS", "A", "C") not in group.suspicions
    assert world.views_agree(group.members)


def test_a_look_for_a_neighbour_goes_on_where_it_stood() -> None:
    """The view comes, B begins to connect to C, and is stopped; the time for connecting runs out
    meanwhile."""
    group = Watched("AB", QUICK)
    world = group.world
    group.members.append(world.start("C", "sim.xml", "test", attributes=QUICK))
    b = group.members[1]
    assert world.run_until(lambda: b.view is not None and len(b.view) == 3, limit=5.0)
    b.pause()
    world.run_for(4.0)
    b.resume()
    world.run_for(10.0)
    assert group.suspicions == {}


def test_a_joiner_that_is_stopped_in_the_middle_joins_and_founds_no_group_of_its_own() -> None:
    for step in range(1, 12):
        group = Watched("AB", QUICK, seed=step)
        world = group.world
        joiner = world.start("C", "sim.xml", "test", attributes=QUICK)
        world.run_for(step * 0.006)
        joiner.pause()
        world.run_for(3.0)
        joiner.resume()
        group.members.append(joiner)
        assert world.run_until(lambda g=group: g.world.views_agree(g.members), limit=10.0), step  # type: ignore[misc]
        assert all(len(v) > 1 for v in joiner.views), f"stopped after {step * 6} ms: alone first"


def test_a_merge_leader_that_is_stopped_in_the_middle_does_not_end_in_three_groups() -> None:
    for step in range(1, 8):
        group = Watched("ABCD", QUICK, seed=step)
        world, (a, b, c, d) = group.world, group.members
        world.partition([a, b], [c, d])
        assert world.run_until(lambda g=group: len(g.members[3].views[-1]) == 2, limit=20)  # type: ignore[misc]
        world.run_for(2.0)
        world.heal()
        merges = [len(a.views), len(c.views)]
        found = lambda m=a: bool(m.stack.statistics()["MERGE3"]["merges_reported"])  # noqa: E731
        world.run_until(found, limit=20)
        world.run_for(step * 0.0007)
        a.pause()
        world.run_for(2.0)
        a.resume()
        assert world.run_until(lambda g=group: g.world.views_agree(g.members), limit=30.0), step  # type: ignore[misc]
        assert len(a.views) - merges[0] <= 3 and len(c.views) - merges[1] <= 3, step


def test_after_a_pause_nothing_is_sent_again_that_has_arrived() -> None:
    """Acknowledgements and messages of the others wait in the paused member's socket: it reads them first."""
    group = Watched("ABC", QUICK)
    world, stopped = group.world, group.members[1]
    group.talk()
    stopped.send(*[b"y"] * 50, to=group.members[0])
    stopped.pause()
    world.run_for(4.0)
    before = retransmitted(group.members)
    stopped.resume()
    world.run_for(5.0)
    assert [stats - b for stats, b in zip(retransmitted(group.members), before, strict=True)] == [
        0
    ] * 3


def retransmitted(members: list[Member]) -> list[float]:
    """Return the times at which members asked for messages, or resent messages unasked."""
    return [
        sum(
            value
            for protocol in ("NAKACK2", "UNICAST3")
            for key, value in m.stack.statistics()[protocol].items()
            if key in COUNTED
        )
        for m in members
    ]


COUNTED = {"requests_sent", "retransmitted", "last_resent"}
