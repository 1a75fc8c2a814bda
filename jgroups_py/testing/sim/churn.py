"""Churn: a random schedule of membership faults on one cluster, drawn from a seed.

First faults with traffic: loss, reordering, duplicates, crashes, vanishings, leaves, restarts,
pauses, partitions. Then the network heals, and within a bound everybody must be in one view and
hear everybody.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from jgroups_py.testing.check.checkers import Checker, Problem
from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.network import LinkSettings
from jgroups_py.testing.sim.world import World
from jgroups_py.values.events import Expel, Failed

FAST: Mapping[str, str] = {
    "FD_ALL3.timeout": "4s",
    "FD_ALL3.interval": "1s",
    "MERGE3.min_interval": "1s",
    "MERGE3.max_interval": "3s",
    "VERIFY_SUSPECT2.timeout": "500ms",
    "NAKACK2.xmit_interval": "100ms",
    "UNICAST3.xmit_interval": "100ms",
    "STABLE.desired_avg_gossip": "2s",
}
"""So that detection, merge and repair fit into a short run."""

CRASHES = ("crash", "crash", "leave", "vanish", "two", "restart", "restart", "restart")
CUTS = ("pause", "cut", "heal")


@dataclass(slots=True)
class Outcome:
    """What a run showed. ``problems`` empty: everything held."""

    seed: int
    problems: list[Problem]
    schedule: list[str] = field(default_factory=list)
    delivered: int = 0
    virtual_s: float = 0.0
    events: int = 0


def run_churn(
    seed: int,
    *,
    stack: str = "sim.xml",
    members: int = 5,
    seconds: float = 30.0,
    cuts: bool = True,
    heal_within: float = 90.0,
) -> Outcome:
    """One run. ``cuts``: also pauses and partitions."""
    return _Churn(seed, stack, members, seconds, cuts).run(heal_within)


class _Churn:
    def __init__(self, seed: int, stack: str, members: int, seconds: float, cuts: bool) -> None:
        self.random = random.Random(f"{seed}/churn")
        pick = self.random.choice
        link = LinkSettings(
            latency=0.0005,
            jitter=pick([0, 0.001, 0.01]),
            loss=pick([0, 0, 0.01, 0.05, 0.1]),
            duplicate=pick([0, 0.02]),
            reorder=pick([0, 0.05]),
        )
        self.world = World(seed, inside=link)
        self.stack = stack
        self.names = "ABCDEFGHIJ"[:members]
        self.seconds = seconds
        self.faults = CRASHES + (CUTS if cuts else ())
        self.checker = Checker()
        self.outcome = Outcome(seed, self.checker.problems)
        self.end = 0.0

    def run(self, heal_within: float) -> Outcome:
        for name in self.names:
            self._start(name)
            self.world.run_for(self.random.choice([0, 0.01, 0.3]))
        self.world.run_for(3)
        self.end = self.world.now + self.seconds
        self._traffic()
        while self.world.now < self.end:
            self.world.run_for(self.random.uniform(0.2, 4))
            self._fault(self.random.choice(self.faults))
        self._heal(heal_within)
        self.outcome.delivered = self.checker.messages.delivered
        self.outcome.virtual_s = self.world.now
        self.outcome.events = self.world.clock.events
        return self.outcome

    def _note(self, what: str, *members: Member) -> None:
        names = " ".join(m.name for m in members)
        self.outcome.schedule.append(f"{self.world.now:.3f} {what} {names}".rstrip())

    def _start(self, name: str) -> None:
        member = self.world.start(name, self.stack, "churn", attributes=FAST)
        self.checker.watch(member)

    def _alive(self) -> list[Member]:
        """Members that run; one that was expelled or could not join ends, as a channel would."""
        for member in self.world.everybody:
            if member.alive and any(isinstance(e, Failed | Expel) for e in member.events):
                self._note("gave up", member)
                member.crash()
        return [m for m in map(self.world.member, self.names) if m.alive]

    def _traffic(self) -> None:
        for member in self._alive():
            if member.view is not None and not member.host.paused:
                count, size = self.random.randint(1, 5), self.random.choice([0, 50, 1000])
                member.send(*(self.checker.payload(member, size) for _ in range(count)))
        if self.world.now < self.end:
            self.world.at(self.world.now + 0.1, self._traffic)

    def _fault(self, what: str) -> None:
        alive = self._alive()
        if what in ("crash", "vanish", "leave") and len(alive) > 2:
            member = self.random.choice(alive)
            self._note(what, member)
            getattr(member, what)()
        elif what == "two" and len(alive) > 3:
            two = self.random.sample(alive, 2)
            self._note("crash", *two)
            for member in two:
                member.crash()
        elif what == "restart":
            dead = [n for n in self.names if self._is_dead(n)]
            if dead:
                self._start(self.random.choice(dead))
                self._note("restart", self.world.everybody[-1])
        elif what == "pause":
            member = self.random.choice(alive)
            self._note("pause", member)
            member.pause()
            self.world.at(self.world.now + self.random.uniform(0.1, 8), member.resume)
        elif what == "cut" and len(alive) > 1:
            self.random.shuffle(alive)
            size = self.random.randint(1, len(alive) - 1)
            self._note("cut off", *alive[:size])
            self.world.partition(alive[:size], alive[size:])
        elif what == "heal":
            self._note("heal")
            self.world.heal()

    def _is_dead(self, name: str) -> bool:
        host = self.world.member(name).host
        return not host.alive or host.vanished

    def _heal(self, within: float) -> None:
        self._note("heal for good")
        self.world.heal()

        def settled() -> bool:
            alive = self._alive()
            return self.world.views_agree(alive) and not any(m.host.paused for m in alive)

        if not self.world.run_until(settled, limit=within):
            views = [(m.name, m.view_names) for m in self._alive()]
            self._say(f"no common view within {within} s: {views}")
            return
        self.world.run_for(10)
        alive = self._alive()
        for member in alive:
            member.send(self.checker.payload(member))
        self.world.run_for(10)
        for receiver in alive:
            for origin in alive:
                messages = self.checker.messages
                has, sent = messages.last(receiver, origin), messages.count(origin)
                if has != sent:
                    self._say(f"{receiver.name} has {has} of {origin.name}, which sent {sent}")
        if not settled():
            self._say("the common view did not last")

    def _say(self, problem: str) -> None:
        self.checker.problems.append(Problem("healing", problem, self.world.now))
