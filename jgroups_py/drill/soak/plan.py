"""The events of a long run: cycles of churn, each with a calm moment for measuring at its end.

    |<------------- churn ------------->|<------------ calm ----------->|
    | faults, each undone after a while | all are back; nothing happens |  sample
    |<---------------------- traffic --------------------->|<- quiet -->|

Everything is drawn from the seed and the number of the cycle. Targets are names or roles, as in drill files; a role
becomes a member when the fault fires. The first two members of the first site are ``ELDERS``: no fault ends them, so
two processes live as long as the run, one of them as relay.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jgroups_py.drill.file import loader
from jgroups_py.drill.file.model import FilePlace, Selector
from jgroups_py.drill.file.plan import DrillPlan as DrillPlan
from jgroups_py.drill.file.plan import Load, PlannedEvent, build
from jgroups_py.errors import ConfigError

SITES_MAX: Final = 20
MEMBERS_MAX: Final = 100
"""The most members of one site."""
CYCLES_MIN: Final = 4
"""The least cycles, so that the first quarter has a calm moment."""
HOURS_MAX: Final = 24.0 * 365
ELDERS: Final = 2
SIZE: Final = 200
"""Bytes of a message."""
DECK: Final = (
    *("crash",) * 3,
    *("relay",) * 3,
    *("leave",) * 3,
    *("pause",) * 2,
    *("split",) * 2,
    *("wan",) * 2,
    "standby",
    "vanish",
    "site",
)
HAND: Final = 3
"""Events of a cycle. The deck is shuffled and dealt, so that every six cycles have the same kinds. relay, standby: the
member in that role crashes; split: a site falls into two;
wan: a site is cut off from the others; site: all of it crashes, and returns."""
_PLACE: Final = FilePlace("long life", 1, 1)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. ``calm`` must hold the detection of the last fault, joins, merges and RELAY's rest."""

    cycle: float
    calm: float
    quiet: float
    """Seconds without traffic at the end of the calm."""
    away: tuple[float, float]
    """The time for which a member that crashed, left or vanished stays away."""
    cut: tuple[float, float]
    """The length of a partition."""
    pause: tuple[float, float]
    rate: float
    """Messages a second of each member."""

    @property
    def churn(self) -> float:
        return self.cycle - self.calm


SIMULATED: Final = Pace(600, 150, 45, (20, 100), (3, 90), (1, 20), 0.01)
SIMULATED_SETTINGS: Final = {
    "FD_ALL3.timeout": 40.0,
    "FD_ALL3.interval": 8.0,
    "MERGE3.min_interval": 10.0,
    "MERGE3.max_interval": 30.0,
    "STABLE.desired_avg_gossip": 50.0,
    "NAKACK2.xmit_interval": 0.5,
    "UNICAST3.xmit_interval": 0.5,
    "GMS.agree_timeout": 60.0,
    "RELAY.ack_interval": 1.0,
    "RELAY.gap_wait": 60.0,
}
"""Settings as in udp.xml instead of relay-udp.xml: a quiet group sends an eighth of the packets."""
REAL: Final = Pace(150, 50, 12, (5, 20), (2, 20), (0.5, 3), 0.5)
REAL_SETTINGS: Final = {
    "FD_ALL3.timeout": 10.0,
    "FD_ALL3.interval": 2.0,
    "GMS.agree_timeout": 15.0,
    "RELAY.max_age": 150.0,
}
"""Slow detection, so that a busy machine expels nobody, and short memories of RELAY, so that they fill in time."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """Times count from the start of the run."""

    number: int
    start: float
    events: tuple[PlannedEvent, ...]
    back: tuple[tuple[float, str], ...]
    """(when, site): the absent members of the site return."""
    loads: tuple[Load, ...]
    calm_at: float
    """The time when all members return and all cuts are healed."""
    quiet_at: float
    end: float
    """The time of the measurement."""

    @property
    def probe_at(self) -> float:
        """Return the time at which the group is at rest and each member sends one more message."""
        return (self.quiet_at + self.end) / 2


@dataclass(frozen=True, slots=True)
class SoakPlan:
    hours: float
    seed: int
    sites: int
    members: int
    """The members of each site."""
    pace: Pace
    drill: DrillPlan
    """Sites, names, stacks, settings."""

    @property
    def cycles(self) -> int:
        return round(self.hours * 3600 / self.pace.cycle)

    def cycle(self, number: int) -> Cycle:
        return _Draw(self, number).cycle()

    @property
    def elders(self) -> tuple[tuple[str, str], ...]:
        first = self.drill.sites[0]
        return tuple((first.name, name) for name in first.members[:ELDERS])


def scaled(pace: Pace, settings: Mapping[str, float], by: float) -> tuple[Pace, dict[str, float]]:
    """Return all times ``by`` times as long."""

    def span(times: tuple[float, float]) -> tuple[float, float]:
        return times[0] * by, times[1] * by

    scaled_pace = Pace(
        pace.cycle * by,
        pace.calm * by,
        pace.quiet * by,
        span(pace.away),
        span(pace.cut),
        span(pace.pause),
        pace.rate / by,
    )
    return scaled_pace, {key: value * by for key, value in settings.items()}


def make(
    hours: float,
    seed: int,
    sites: int,
    members: int,
    pace: Pace,
    settings: Mapping[str, float],
    *,
    stack: str = "relay-udp.xml",
) -> SoakPlan:
    """Make a plan. ``settings``: times (``PROTOCOL.attribute``, seconds) of the sites' stacks and the bridge's.

    Raises:
        ConfigError: the figures are impossible.
    """
    if not 2 <= sites <= SITES_MAX:
        raise ConfigError(f"sites must be 2 to {SITES_MAX}, got {sites}")
    if not ELDERS < members <= MEMBERS_MAX:
        raise ConfigError(f"members must be {ELDERS + 1} to {MEMBERS_MAX} a site, got {members}")
    if round(hours * 3600 / pace.cycle) < CYCLES_MIN:
        least = CYCLES_MIN * pace.cycle / 3600
        raise ConfigError(
            f"{CYCLES_MIN} cycles of {pace.cycle:g} s are {least:.3g} h: {hours:g} h is less"
        )
    lines = ["name: long life", f"seed: {seed}", "primary: all", "sites:"]
    for s in range(sites):
        names = ", ".join(f"{chr(ord('a') + s)}{m + 1}" for m in range(members))
        lines.append(f"  {chr(ord('A') + s) * 3}: {{members: [{names}], stack: {stack}}}")
    lines.append("bridge:")
    lines.append("  stack: relay-bridge-tcp.xml")
    times = {key: f"{value * 1000:.0f}ms" for key, value in settings.items()}
    only_inside = ("RELAY.", "GMS.agree")
    lines += _set({k: v for k, v in times.items() if not k.startswith(only_inside)}, "  ")
    lines += _set(times, "")
    lines += ["traffic:", "  - {site: AAA, rate: 0/s, size: 100B, start: 0s, stop: 1s}"]
    lines += ["timeline: []", "settle: 1s", "expect: {}"]
    drill = loader.loads("\n".join(lines) + "\n", "long-life.yaml")
    return SoakPlan(hours, seed, sites, members, pace, build(drill))


def _set(settings: Mapping[str, str], indent: str) -> list[str]:
    return [f"{indent}set:", *(f"{indent}  {key}: {value}" for key, value in settings.items())]


class _Draw:
    """One cycle."""

    def __init__(self, plan: SoakPlan, number: int) -> None:
        self.plan = plan
        self.number = number
        self.start = number * plan.pace.cycle
        self.random = random.Random(f"{plan.seed}/long life/{number}")
        self.calm_at = self.start + plan.pace.churn
        self.events: list[PlannedEvent] = []
        self.back: list[tuple[float, str]] = []

    def cycle(self) -> Cycle:
        pace = self.plan.pace
        share = pace.churn / HAND
        for i, kind in enumerate(self.hand()):
            self.event(self.start + (i + self.random.uniform(0.1, 0.9)) * share, kind)
        end = self.start + pace.cycle
        quiet_at = end - pace.quiet
        loads = [
            Load(site.name, name, pace.rate, SIZE, self.start, quiet_at)
            for site in self.plan.drill.sites
            for name in site.members
        ]
        return Cycle(
            self.number,
            self.start,
            tuple(self.events),
            tuple(sorted(self.back)),
            tuple(loads),
            self.calm_at,
            quiet_at,
            end,
        )

    def hand(self) -> list[str]:
        cycles = len(DECK) // HAND
        deck = list(DECK)
        random.Random(f"{self.plan.seed}/deck/{self.number // cycles}").shuffle(deck)
        return deck[self.number % cycles :: cycles]

    def event(self, at: float, kind: str) -> None:
        sites = self.plan.drill.sites
        mortal = sites[1:]  # a whole site, or its relay, may fall there
        site = self.random.choice(mortal if kind in ("relay", "standby", "site") else sites)
        young = [n for n in site.members if (site.name, n) not in self.plan.elders]
        pace = self.plan.pace
        match kind:
            case "relay" | "standby":
                self.add(at, "crash", site.name, kind)
            case "crash" | "leave" | "vanish":
                self.add(at, kind, site.name, self.random.choice(young))
            case "site":
                self.add(at, "fail_site", site.name, None)
            case "pause":
                name = self.random.choice(site.members)
                self.add(at, kind, site.name, name, self.until(at, pace.pause))
                return
            case "split":
                names = list(site.members)
                self.random.shuffle(names)
                cut = self.random.randint(1, len(names) - 1)
                self.partition(
                    at,
                    [(site.name, name) for name in names[:cut]],
                    [(site.name, name) for name in names[cut:]],
                )
                return
            case _:
                others = [(other.name, None) for other in sites if other is not site]
                self.partition(at, [(site.name, None)], others)
                return
        self.back.append((at + self.until(at, pace.away), site.name))

    def until(self, at: float, span: tuple[float, float]) -> float:
        """Draw a duration that ends before the calm."""
        return min(self.random.uniform(*span), self.calm_at - at)

    def partition(self, at: float, *sides: Sequence[tuple[str, str | None]]) -> None:
        groups = tuple(tuple(Selector(s, n, _PLACE) for s, n in side) for side in sides)
        duration = self.until(at, self.plan.pace.cut)
        self.events.append(self.planned(at, "partition", (), groups, duration))

    def add(
        self, at: float, fault: str, site: str, what: str | None, duration: float | None = None
    ) -> None:
        self.events.append(self.planned(at, fault, (Selector(site, what, _PLACE),), (), duration))

    def planned(
        self,
        at: float,
        fault: str,
        targets: tuple[Selector, ...],
        groups: tuple[tuple[Selector, ...], ...],
        duration: float | None,
    ) -> PlannedEvent:
        return PlannedEvent(
            at=at,
            fault=fault,
            targets=targets,
            groups=groups,
            gap=0.0,
            shuffled=False,
            duration=duration,
            how="crash",
            place=_PLACE,
            stream=f"{self.plan.seed}/long life/{self.number}/{len(self.events)}",
        )
