"""Draws schedules of two or three sites: the steps in each, and between them."""

from __future__ import annotations

import random as _random
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from jgroups_py.testing.check.violation import Violated, violations_in
from jgroups_py.testing.explorer.buddies.draw import (
    FAULTS,
    REST_MAX,
    STEPS_MAX,
    BuddySchedule,
    Scheduler,
)
from jgroups_py.testing.explorer.buddies.sites import NAMES, ROUNDS_MAX, Pair, WorldSites
from jgroups_py.testing.explorer.buddies.world import BuddyWorld, Step, WorldSetting
from jgroups_py.testing.explorer.lab import RunOutcome

SITE_FAULTS: Final = frozenset({"cut", "promote", "lose", "begin", "bootstrap"})


class _Side(Scheduler):
    """Draws for one site."""

    def __init__(self, parent: SiteScheduler, at: int) -> None:
        self.parent = parent
        self.at = at
        self.random = parent.random
        self.profile = "crashes"
        self._bend()
        self.crashes = not parent.both_write
        self.splits = self.stops = False
        self.skips = False
        self.leaves = True

    @property
    def world(self) -> BuddyWorld:  # type: ignore[override]
        return self.parent.sites.world(self.at)

    def _take(self, step: Step) -> bool:
        if step[0] == "deliver":
            self.last = step[2]
        done = self.parent.take(("at", self.at, *step))
        if done and step[0] in FAULTS:
            self.parent.faults += 1
        return done

    def _kind(self) -> str:
        if self.at > 0 and not self.parent.second_writes:
            return "read"
        return super()._kind()


class SiteScheduler:
    """``both_write``: all sites are written to. ``second_writes``: the second site is written to, because the first was
    lost."""

    def __init__(self, seed: int, profile: str) -> None:
        self.seed = seed
        self.profile = profile
        self.random = random = _random.Random(f"{profile}:{seed}")
        self.both_write = profile == "active" or (profile == "three" and seed % 2 == 1)
        judged = "merges" if self.both_write else "values"
        removed_max = random.choice((0, 1)) if profile == "overflow" else 1000
        tombstones = 2.0 if profile == "overflow" else 1000.0
        made = []
        for name in NAMES if profile == "three" else NAMES[:2]:
            buddies = random.choice((1, 1, 2))
            members = random.randint(max(2, buddies), 4 if profile != "three" else 3)
            made.append(
                WorldSetting(
                    members,
                    buddies,
                    True,
                    judged,
                    tombstones,
                    False,
                    name,
                    removed_max=removed_max,
                )
            )
        for at in reversed(range(1, len(made))):
            made[at - 1] = replace(made[at - 1], other=made[at])
        self.setting = made[0]
        self.sites = WorldSites(self.setting)
        self.second_writes = self.both_write
        self.taken: list[Step] = []
        self.faults = 0
        self.sides = [_Side(self, at) for at in range(len(made))]
        self.link_rate = random.choice((0.01, 0.03))
        self.wan_rate = random.choice((0.05, 0.15, 0.3))
        self.length = random.randint(100, 2 * STEPS_MAX)

    def run(self) -> tuple[BuddySchedule, RunOutcome]:
        problems = violations_in(self._run)
        schedule = BuddySchedule(self.setting, tuple(self.taken))
        return schedule, RunOutcome(
            self.seed, problems, faults=self.faults, events=self.sites.steps
        )

    def _run(self) -> None:
        for side in self.sides:
            if self.random.random() < 0.9:
                side._recover()
        for pair in self.sites.pairs:
            self.take(_named("link", pair))
        for at in range(self.length):
            for number, _ in self.sites.both:
                if at % 25 == 0:
                    self.sides[number]._slow_down()
            self._one()
        sites_come_to_rest(self.sites, self)

    def take(self, step: Step) -> bool:
        self.taken.append(step)
        done = self.sites.step(step)
        if not done:
            self.taken.pop()
        elif step[0] in SITE_FAULTS:
            self.faults += 1
        return done

    def _one(self) -> None:
        random = self.random
        if random.random() < self.link_rate:
            self._between()
        elif random.random() >= self.wan_rate or not self._wan():
            at, _ = random.choice(self.sites.both)
            self.sides[at]._one()

    def _wan(self) -> bool:
        waiting = [pair for pair, wire in self.sites.wires.items() if wire]
        return bool(waiting) and self.take(_named("wan", self.random.choice(waiting)))

    def _pair(self) -> Pair:
        pairs = self.sites.pairs
        return pairs[0] if len(self.sites.worlds) == 2 else self.random.choice(pairs)

    def _between(self) -> None:
        random = self.random
        kinds = ["link"] * 6 + ["cut"] * 3 + ["tick"] * 4
        if self.profile != "overflow":
            kinds += ["promote"] if self.both_write else []
            kinds += ["bootstrap", "lose" if self.sites.worlds[0] is not None else "begin"]
        kind = random.choice(kinds)
        if kind == "tick":
            self._tick(random.choice((1.0, 4.0)))
        elif kind in ("promote", "bootstrap"):
            at, _ = random.choice(self.sites.both)
            if kind == "promote":
                self.take((kind, at))
            elif self.second_writes or at == 0 or self.sites.worlds[0] is None:
                self._bootstrap(at)
        elif kind == "lose":
            if random.random() < 0.3 and self.take(("lose",)):
                self.take(("promote", 1))
                self.second_writes = True
        elif kind == "begin":
            if self.take(("begin",)):
                self.sides[0] = _Side(self, 0)
                for at, _ in self.sites.both[1:]:
                    self.take(_named("bootstrap", (at, 0)))
        elif kind == "cut":
            count = random.randint(0, 3)
            if self.sites.pairs:
                self.take(("cut", count, *_named("cut", self._pair())[1:]))
        elif kind == "link" and self.sites.pairs:
            self.take(_named("link", self._pair()))

    def _bootstrap(self, at: int) -> None:
        others = [other for other, _ in self.sites.both if other != at]
        if len(self.sites.worlds) == 2:
            self.take(("bootstrap", at))
        elif others:
            self.take(("bootstrap", at, self.random.choice(others)))

    def _tick(self, seconds: float) -> None:
        """Let time pass. Where removed nodes are purged, no event may be older than the time for which they are
        kept."""
        if self.profile == "overflow":
            for _ in range(REST_MAX):
                if not _inside(self.sites, self.take, self) and not self._wan():
                    break
        for at, _ in self.sites.both:
            self.take(("at", at, "tick", seconds))


def _named(kind: str, pair: Pair) -> Step:
    """Return the step with its sites. The second site is left out where both are the first two."""
    if kind == "wan":
        return (kind, pair[0]) if max(pair) == 1 else (kind, *pair)
    if kind == "bootstrap":
        return (kind, pair[0]) if max(pair) == 1 else (kind, *pair)
    return (kind,) if pair == (0, 1) else (kind, *pair)


def sites_come_to_rest(sites: WorldSites, scheduler: SiteScheduler | None) -> None:
    """Deliver all messages, let time pass until no event is left, and judge."""

    def take(step: Step) -> bool:
        return scheduler.take(step) if scheduler is not None else sites.step(step)

    steps = rounds = 0
    while steps < REST_MAX and rounds < ROUNDS_MAX:
        steps += 1
        if _inside(sites, take, scheduler):
            continue
        waiting = next((pair for pair, wire in sites.wires.items() if wire), None)
        apart = next((pair for pair in sites.pairs if pair not in sites.sessions), None)
        if waiting is not None:
            take(_named("wan", waiting))
        elif apart is not None:
            take(_named("link", apart))
        elif sites.leaderless:
            take(("promote", 1))
        elif sites.unasked:
            take(_named("bootstrap", (sites.unasked[0], 0)))
        elif not sites.finished:
            rounds += 1
            for at, _ in sites.both:
                take(("at", at, "tick", 4.0))
        else:
            sites.at_rest()
            return
    raise Violated("end", f"no rest after {steps} steps and {rounds} ticks")


def _inside(
    sites: WorldSites, take: Callable[[Step], bool], scheduler: SiteScheduler | None
) -> bool:
    """Do a step in one of the sites. False: there is none."""
    for at, world in sites.both:
        if world.channels:
            if scheduler is None or not scheduler.sides[at]._deliver():
                take(("at", at, "deliver", *next(iter(world.channels))))
            return True
        viewing = next((m for m, queue in world.views.items() if queue), None)
        if viewing is not None:
            return take(("at", at, "view", viewing))
        pushing = next((m for m, x in world.machines.items() if x.buddies.pushing), None)
        if pushing is not None:
            return take(("at", at, "push", pushing))
        late = next((i for i, part in enumerate(world.parts) if world.outdated(part)), None)
        if late is not None:
            return take(("at", at, "detect", late))
        if any(take(("at", at, "go", member)) for member in list(world.may_go)):
            return True
    return False
