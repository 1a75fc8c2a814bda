"""Simultaneous starts on one machine, explored (``jgroups-py dev starts-explore``).

Each seed draws two to six members of one group on the loopback interface, the start of each (all within 2 ms, or within
3 s), the length of a turn of its loop, pauses of up to 0.4 s, a crash of the first member, and members of another
cluster at the same group and port.

    one group        nobody is ever in a group of its own beside another one: no view is a MergeView
    found            all that live share one view within ``FOUND_WITHIN`` of the last start, pause or crash
    alone at once    a member that listens alone, with turns that take no time and without a pause, has its view within
                     ``ALONE_WITHIN``
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

import msgspec

from jgroups_py.errors import ConfigError
from jgroups_py.testing.check.violation import Violation, violations_in
from jgroups_py.testing.explorer.case_text import read_as, written
from jgroups_py.testing.explorer.lab import ANYTHING, BackEnd, RunOutcome, Size
from jgroups_py.testing.explorer.shrink import parts, proposed
from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.network import LinkSettings
from jgroups_py.testing.sim.world import World
from jgroups_py.values.view import MergeView

KIND: Final = "starts"
STACK: Final = "udp.xml"
FOUND_WITHIN: Final = 10.0
ALONE_WITHIN: Final = 0.01
TOGETHER: Final = 0.002
SPREAD: Final = 3.0
TURNS: Final = (0.0, 0.0, 0.001, 0.02, 0.1)
"""Seconds that a turn of a member's loop takes."""
PAUSE_MAX: Final = 0.4
"""The longest pause of a member. A search lasts ``GMS.join_timeout``, 1 s in this stack: it cannot find a coordinator
that pauses longer."""


NAMES: Final = "ABCDEF"


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One member: the time of its start, the duration of its turns, and the time and duration of its pause (0: never)."""

    at: float
    name: str
    cluster: str
    turn: float
    pause_after: float
    pause: float


class StartsPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The draw of one seed. ``crash_at``: when the first member crashes; None: it lives."""

    kind: str
    seed: int
    starts: tuple[Start, ...]
    jitter: float
    crash_at: float | None

    @property
    def calm_from(self) -> float:
        """Return the time after which nothing starts, pauses or crashes."""
        ends = [one.at + one.pause_after + one.pause for one in self.starts]
        return max([*ends, self.crash_at or 0.0])


def draw(seed: int) -> StartsPlan:
    chance = random.Random(f"starts/{seed}")
    span = TOGETHER if chance.random() < 0.6 else SPREAD
    starts = []
    for index in range(chance.randint(2, len(NAMES))):
        pause = chance.uniform(0.02, PAUSE_MAX) if chance.random() < 0.3 else 0.0
        starts.append(
            Start(
                round(chance.uniform(0, span), 4),
                NAMES[index],
                "other" if index and chance.random() < 0.1 else "test",
                chance.choice(TURNS),
                round(chance.choice((0.0, 0.001, 0.3, 1.0)) * chance.random(), 4),
                round(pause, 4),
            )
        )
    starts.sort(key=lambda one: one.at)
    crash_at = starts[0].at + chance.uniform(0, 2.5) if chance.random() < 0.2 else None
    return StartsPlan(KIND, seed, tuple(starts), chance.choice((0.0, 0.003)), crash_at)


class StartsRun:
    """One plan while it is played."""

    def __init__(self, plan: StartsPlan) -> None:
        self.plan = plan
        inside = LinkSettings(latency=0.0001, jitter=plan.jitter)
        self.world = World(plan.seed, inside=inside, check=False)
        self.world.is_one_machine = True
        self.outcome = RunOutcome(plan.seed, [])
        self.alone = 0
        """Members that formed a group of their own at once."""

    def play(self) -> RunOutcome:
        outcome, world = self.outcome, self.world
        outcome.problems += violations_in(self._play, lambda: world.now)
        outcome.virtual_s = world.now
        world.close()
        return outcome

    def _play(self) -> None:
        plan, world = self.plan, self.world
        for one in plan.starts:
            world.at(one.at, self._start, one)
        if plan.crash_at is not None and plan.starts:
            world.at(plan.crash_at, self._crash, plan.starts[0].name)
        world.run(plan.calm_from + 0.001)
        for cluster in ("test", "other"):
            self._judge_found(cluster)
        for member in world.everybody:
            self.outcome.delivered += len(member.views)
            if any(isinstance(view, MergeView) for view in member.views):
                self._violated("one group", f"{member.name} was in one of its own beside another")

    def _judge_found(self, cluster: str) -> None:
        world = self.world
        members = [
            world.member(one.name)
            for one in self.plan.starts
            if one.cluster == cluster and world.member(one.name).alive
        ]
        if members and not world.run_until(lambda: world.views_agree(members), limit=FOUND_WITHIN):
            seen = {member.name: "".join(member.view_names) for member in members}
            self._violated("found", f"{cluster}: no common view: {seen}")

    def _violated(self, check: str, detail: str) -> None:
        self.outcome.problems.append(Violation(check, detail, self.world.now))

    def _tell(self, what: str) -> None:
        self.outcome.story.append(f"{self.world.now:8.4f} {what}")

    def _start(self, one: Start) -> None:
        world = self.world
        listening = any(world.groups.values())
        self.outcome.events += 1
        self._tell(f"{one.name} of {one.cluster} starts; a turn takes {one.turn} s")
        member = world.start(one.name, STACK, one.cluster)
        if one.turn:
            member.slow_down(one.turn)
        if one.pause:
            world.at(one.at + one.pause_after, self._pause, member, one.pause)
        if not (listening or one.turn or one.pause):
            world.at(one.at + ALONE_WITHIN, self._judge_alone, member)

    def _crash(self, name: str) -> None:
        self.outcome.faults += 1
        self._tell(f"{name} crashes")
        self.world.member(name).crash()

    def _judge_alone(self, member: Member) -> None:
        if member.views or not member.alive:
            self.alone += bool(member.views)
            return
        others = [m for m in self.world.everybody if m is not member and m.host.memberships]
        if not others:
            self._violated(
                "alone at once", f"{member.name} listens alone, no view after {ALONE_WITHIN} s"
            )

    def _pause(self, member: Member, seconds: float) -> None:
        if member.alive:
            self.outcome.faults += 1
            self._tell(f"{member.name} stands still for {seconds} s")
            member.pause()
            self.world.at(self.world.now + seconds, self._resume, member)

    def _resume(self, member: Member) -> None:
        if member.alive:
            member.resume()


def _calmer(plan: StartsPlan) -> Iterator[StartsPlan]:
    """Propose the plan without the crash, and each member without its pause and its slow turns."""
    replace = msgspec.structs.replace
    yield replace(plan, crash_at=None)
    for at, one in enumerate(plan.starts):
        for calm in (replace(one, pause_after=0.0, pause=0.0), replace(one, turn=0.0)):
            yield replace(plan, starts=(*plan.starts[:at], calm, *plan.starts[at + 1 :]))


class Starts(BackEnd[StartsPlan]):
    """Simultaneous starts on one machine."""

    kind = KIND
    profiles = ("starts",)
    command = "starts-explore"
    passes = (parts("starts"), proposed(_calmer))

    def draw(self, seed: int, profile: str, size: Size = ANYTHING) -> StartsPlan:
        return draw(seed)

    def play(self, case: StartsPlan) -> RunOutcome:
        return StartsRun(case).play()

    def write(self, case: StartsPlan) -> str:
        return written(case)

    def read(self, text: str, file: str) -> StartsPlan:
        plan = read_as(StartsPlan, text, file, "a plan of starts")
        names = [one.name for one in plan.starts]
        if len(set(names)) < len(names) or not set(names) <= set(NAMES):
            raise ConfigError(f"starts: names {', '.join(NAMES)}, each once", file=file)
        return plan
