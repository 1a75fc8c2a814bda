"""``python -m jgroups_py.testing.explorer.starts --seeds 1..10000``: members that start at once on one machine, judged.

Each seed draws two to six members of one group on the loopback interface, when each starts (all within 2 ms, or within 3 s), how long
a turn of its loop takes, pauses of up to 0.4 s, a crash of the first member, and members of another cluster at the same group and port.

    one group        nobody is ever in a group of its own beside another one: no view is a MergeView
    found            all that live share one view within ``FOUND_WITHIN`` of the last start, pause or crash
    alone at once    who listens alone, with turns that take no time and without a pause, has its view within ``ALONE_WITHIN``
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
from dataclasses import dataclass, field
from typing import Final

from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.network import LinkSettings
from jgroups_py.testing.sim.world import World
from jgroups_py.values.view import MergeView

STACK: Final = "udp.xml"
FOUND_WITHIN: Final = 10.0
ALONE_WITHIN: Final = 0.01
TOGETHER: Final = 0.002
SPREAD: Final = 3.0
TURNS: Final = (0.0, 0.0, 0.001, 0.02, 0.1)
"""Seconds that a turn of a member's loop takes."""
PAUSE_MAX: Final = 0.4
"""A search lasts ``GMS.join_timeout``, 1 s in this stack. A coordinator that stands still for longer is not found, whoever looks."""


@dataclass(frozen=True, slots=True)
class Start:
    """One member: when it starts, how long its turns take, and when it stands still for how long (0: never)."""

    at: float
    name: str
    cluster: str
    turn: float
    pause_after: float
    pause: float


@dataclass(frozen=True, slots=True)
class StartsPlan:
    """What one seed draws. ``crash_at``: the first member crashes then; None: it lives."""

    starts: tuple[Start, ...]
    jitter: float
    crash_at: float | None

    @property
    def calm_from(self) -> float:
        """After this nothing starts, stands still or crashes any more."""
        ends = [one.at + one.pause_after + one.pause for one in self.starts]
        return max([*ends, self.crash_at or 0.0])


@dataclass(slots=True)
class StartsRun:
    """What came of a plan."""

    plan: StartsPlan
    problems: list[str] = field(default_factory=list)
    alone: int = 0
    """Members that were alone at once."""


def draw(seed: int) -> StartsPlan:
    chance = random.Random(f"starts/{seed}")
    span = TOGETHER if chance.random() < 0.6 else SPREAD
    starts = []
    for index in range(chance.randint(2, 6)):
        pause = chance.uniform(0.02, PAUSE_MAX) if chance.random() < 0.3 else 0.0
        starts.append(
            Start(
                round(chance.uniform(0, span), 4),
                "ABCDEF"[index],
                "other" if index and chance.random() < 0.1 else "test",
                chance.choice(TURNS),
                round(chance.choice((0.0, 0.001, 0.3, 1.0)) * chance.random(), 4),
                round(pause, 4),
            )
        )
    starts.sort(key=lambda one: one.at)
    crash_at = starts[0].at + chance.uniform(0, 2.5) if chance.random() < 0.2 else None
    return StartsPlan(tuple(starts), chance.choice((0.0, 0.003)), crash_at)


def play(seed: int) -> StartsRun:
    run = StartsRun(draw(seed))
    plan = run.plan
    world = World(seed, inside=LinkSettings(latency=0.0001, jitter=plan.jitter), check=False)
    world.is_one_machine = True
    for one in plan.starts:
        world.at(one.at, _start, world, one, run)
    if plan.crash_at is not None:
        world.at(plan.crash_at, lambda: world.member(plan.starts[0].name).crash())
    world.run(plan.calm_from + 0.001)
    for cluster in ("test", "other"):
        members = [
            world.member(one.name)
            for one in plan.starts
            if one.cluster == cluster and world.member(one.name).alive
        ]
        if members and not world.run_until(
            lambda members=members: world.views_agree(members),  # type: ignore[misc]
            limit=FOUND_WITHIN,
        ):
            seen = {member.name: "".join(member.view_names) for member in members}
            run.problems.append(f"{cluster}: no common view: {seen}")
    for member in world.everybody:
        if any(isinstance(view, MergeView) for view in member.views):
            run.problems.append(f"{member.name} was in a group of its own beside another one")
    world.close()
    return run


def _start(world: World, one: Start, run: StartsRun) -> None:
    listening = any(world.groups.values())
    member = world.start(one.name, STACK, one.cluster)
    if one.turn:
        member.slow_down(one.turn)
    if one.pause:
        world.at(one.at + one.pause_after, _pause, world, member, one.pause)
    if not (listening or one.turn or one.pause):
        world.at(one.at + ALONE_WITHIN, _judge_alone, member, run)


def _judge_alone(member: Member, run: StartsRun) -> None:
    if member.views or not member.alive:
        run.alone += bool(member.views)
        return
    others = [m for m in member.world.everybody if m is not member and m.host.memberships]  # type: ignore[attr-defined]
    if not others:
        run.problems.append(f"{member.name} listens alone and has no view after {ALONE_WITHIN} s")


def _pause(world: World, member: Member, seconds: float) -> None:
    if member.alive:
        member.pause()
        world.at(world.now + seconds, _resume, member)


def _resume(member: Member) -> None:
    if member.alive:
        member.resume()


def judged(seed: int) -> tuple[int, list[str], int]:
    run = play(seed)
    return seed, run.problems, run.alone


def main() -> int:
    parser = argparse.ArgumentParser(prog="starts-explore", description=__doc__)
    parser.add_argument("--seeds", default="1..500", metavar="A..B")
    parser.add_argument("--replay", type=int, metavar="SEED", help="play one and tell it")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.replay is not None:
        run = play(options.replay)
        print(run.plan, *(run.problems or ["nothing was violated"]), sep="\n")
        return 1 if run.problems else 0
    low, _, high = options.seeds.partition("..")
    if not (low.isdigit() and high.isdigit()):
        parser.error(f"--seeds must be like 1..500, got {options.seeds}")
    seeds = range(int(low), int(high) + 1)
    alone, failed = 0, {}
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for seed, problems, at_once in pool.imap(judged, seeds, 20):
            alone += at_once
            if problems:
                failed[seed] = problems
                print(f"seed {seed}: {problems[0]}", file=sys.stderr)
    print(json.dumps({"starts": len(seeds), "alone_at_once": alone, "violations": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
