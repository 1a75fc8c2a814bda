"""Drawing a schedule from a seed: topology, settings, traffic, faults; one function per profile.

    membership  one site: crashes, leaves, restarts, pauses, partitions, clogged links
    merge       one site: partitions above all, of all shapes, with crashes while it merges
    flow        one site: small credits, slow readers, large messages
    state       one site: members fetch states while everything happens
    relay       two or three sites joined by RELAY: relays, standbys, whole sites fall; WANs break
    all         its own mix of all of these
    sealed      the same mix, every stack with SEAL

The drawing needs only the seed and the options; playing draws nothing more.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import msgspec

from jgroups_py.testing.explorer.lab import ANYTHING, Size, drawing_of
from jgroups_py.testing.explorer.stacks.draw_faults import FaultDraw
from jgroups_py.testing.explorer.stacks.draw_stack import draw_relay_settings, draw_settings
from jgroups_py.testing.explorer.stacks.schedule import (
    Healing,
    Link,
    Load,
    Rest,
    Schedule,
    Site,
    Step,
)
from jgroups_py.testing.explorer.stacks.shared import callers_drawn

SITE_NAMES: Final = ("NYC", "SFO", "LON", "TYO", "SYD", "FRA", "GRU", "BOM", "JNB")
MESSAGES: Final = 600
"""The approximate number of messages of all loads; some of their senders fall."""


def draw(seed: int, profile: str, wanted: Size = ANYTHING) -> Schedule:
    """Return the schedule of a seed. Raises ``ConfigError`` for an unknown profile."""
    return drawing_of(_PROFILES, profile)(_Draw(seed, profile, wanted))


class _Draw:
    """The parts that the profiles have in common."""

    def __init__(self, seed: int, profile: str, wanted: Size) -> None:
        self.seed = seed
        self.profile = profile
        self.wanted = wanted
        self.random = random.Random(f"{seed}/explore/{profile}")

    def sites(self, sites: int, least: int, most: int) -> tuple[Site, ...]:
        if self.wanted.sites is not None:
            sites = self.wanted.sites
        if self.wanted.members is not None:
            least, most = self.wanted.members
        found = []
        number = 0
        for index in range(sites):
            names = []
            for _ in range(self.random.randint(least, most)):
                names.append(_name(number))
                number += 1
            found.append(Site(name=SITE_NAMES[index], members=tuple(names)))
        return tuple(found)

    def inside(self) -> Link:
        pick = self.random.choice
        return Link(
            latency=pick([0.0002, 0.0005, 0.002]),
            jitter=pick([0, 0.001, 0.01]),
            loss=pick([0, 0, 0.01, 0.05, 0.1]),
            duplicate=pick([0, 0, 0.02]),
            reorder=pick([0, 0, 0.05]),
        )

    def between(self) -> Link:
        pick = self.random.choice
        return Link(
            latency=pick([0.005, 0.02, 0.04]),
            jitter=pick([0, 0.005]),
            loss=pick([0, 0, 0.01]),
        )

    def loads(
        self,
        sites: tuple[Site, ...],
        seconds: float,
        sizes: tuple[int, ...] = (0, 50, 1000),
        messages: int = MESSAGES,
    ) -> tuple[Load, ...]:
        """Draw loads: every member sends multicasts; some send unicasts and out of band, too."""
        pick = self.random.choice
        names = [name for site in sites for name in site.members]
        found = []
        for name in names:
            count = self.random.randint(1, 5)
            found.append(
                Load(
                    member=name,
                    start=round(self.random.uniform(0, 1), 3),
                    stop=seconds,
                    every=round(seconds * count * len(names) / messages, 3),
                    count=count,
                    size=pick(sizes),
                )
            )
            for to, chance in (("one", 0.4), ("oob", 0.1)):
                if self.random.random() < chance:
                    found.append(
                        Load(
                            member=name,
                            start=round(self.random.uniform(0, 3), 3),
                            stop=seconds,
                            every=round(self.random.uniform(0.5, 3), 3),
                            count=self.random.randint(1, 3),
                            size=pick(sizes),
                            to=to,  # type: ignore[arg-type]
                        )
                    )
        return tuple(found)

    def healing(self, within: float, *, one_way: bool = True) -> Healing:
        pick = self.random.choice
        rests: list[Rest] = ["crash", "crash", "vanish", "pause", "cut", "cut"]
        if one_way:
            rests += ["mute", "deaf"]
        return Healing(
            keep=pick([1.0, 1.0, 0.7, 0.5]),
            turn=self.random.randint(0, 5),
            rest=pick(rests),
            within=within,
        )

    def steps(self, kind: str, sites: tuple[Site, ...], seconds: float) -> tuple[Step, ...]:
        mix = {}
        for do, weight in MIXES[kind].items():
            mix[do] = weight * self.random.choice([0, 1, 1, 2, 3])
        if not any(mix.values()):
            mix = MIXES[kind]
        names = [site.name for site in sites]
        faults = FaultDraw(self.random, names, seconds, MOMENTS[kind])
        found = faults.steps(mix, self.random.randint(8, 18))
        # They have a generator of their own, so that the rest of a seed is the same as before there were resets.
        own = random.Random(f"{self.seed}/resets/{self.profile}")
        faults = FaultDraw(own, names, seconds, MOMENTS[kind])
        resets = [faults.step("reset") for _ in range(own.choice([0, 0, 1, 3]))]
        return tuple(sorted([*found, *resets], key=lambda step: step.at))


def _name(number: int) -> str:
    letter, more = chr(ord("A") + number % 26), number // 26
    return f"{letter}{more}" if more else letter


MIXES: Final[dict[str, dict[str, int]]] = {
    "membership": {
        "crash": 4,
        "vanish": 2,
        "leave": 2,
        "restart": 6,
        "pause": 3,
        "cut": 3,
        "link": 2,
        "clog": 2,
        "drift": 1,
    },
    "merge": {
        "cut": 9,
        "crash": 2,
        "vanish": 1,
        "leave": 1,
        "restart": 3,
        "pause": 2,
        "link": 2,
        "clog": 3,
    },
    "flow": {
        "slow": 6,
        "burst": 6,
        "crash": 1,
        "leave": 1,
        "restart": 2,
        "pause": 2,
        "cut": 1,
        "link": 2,
        "clog": 2,
        "drift": 1,
    },
    "state": {
        "state": 8,
        "crash": 3,
        "vanish": 1,
        "leave": 1,
        "restart": 5,
        "pause": 2,
        "cut": 1,
        "link": 2,
        "clog": 2,
        "slow": 2,
        "burst": 1,
    },
    "relay": {
        "crash": 5,
        "vanish": 2,
        "leave": 2,
        "fail_site": 1,
        "restart": 7,
        "pause": 2,
        "wan": 4,
        "cut": 1,
        "link": 2,
        "clog": 2,
        "drift": 1,
        "slow": 1,
        "burst": 1,
        "promote": 1,
        "state": 1,
    },
}
"""The weight of each kind of fault, by profile; each seed bends the weights."""
MOMENTS: Final[dict[str, tuple[str, ...]]] = {
    "membership": ("join", "hand-over", "merge", "repair"),
    "merge": ("merge", "merge", "hand-over"),
    "flow": ("hand-over", "repair"),
    "state": ("state", "state", "join"),
    "relay": ("relay", "relay", "hand-over", "join", "state"),
}
"""The events that some of the faults wait for."""
SIZES: Final[dict[str, tuple[int, ...]]] = {"flow": (0, 500, 5000, 20_000)}
"""Sizes of messages, where they are not 0, 50 and 1000 bytes."""
LEAST_FAULTS: Final = 5
"""Faults go on until there were this many, because steps find no member where few members are alive."""


def _single(d: _Draw, kind: str) -> Schedule:
    """Draw one group, as profile ``kind`` has it."""
    pick = d.random.choice
    sites = d.sites(1, 3, 6)
    seconds = pick([30.0, 40.0, 50.0])
    stack, attributes = draw_settings(d.random, flow=kind == "flow")
    return Schedule(
        seed=d.seed,
        profile=d.profile,
        sites=sites,
        stack=stack,
        attributes=attributes,
        inside=d.inside(),
        start_gap=pick([0, 0.01, 0.3]),
        with_state=kind == "state" and d.random.random() < 0.7,
        reopen=pick([0.0, 0.5, 2.0]),
        loads=d.loads(sites, seconds, SIZES.get(kind, (0, 50, 1000))),
        steps=d.steps(kind, sites, seconds),
        seconds=seconds,
        least_faults=LEAST_FAULTS,
        shared=callers_drawn(d.seed, d.profile),
        healing=d.healing(90.0),
    )


def _relay(d: _Draw) -> Schedule:
    pick = d.random.choice
    sites = d.sites(pick([2, 2, 2, 3]), 2, 4)
    seconds = pick([30.0, 40.0, 50.0])
    stack, attributes, bridge = draw_relay_settings(d.random, [site.name for site in sites])
    return Schedule(
        seed=d.seed,
        profile=d.profile,
        sites=sites,
        stack=stack,
        attributes=attributes,
        bridge_attributes=bridge,
        inside=d.inside(),
        between=d.between(),
        start_gap=pick([0.01, 0.3]),
        with_state=d.random.random() < 0.2,
        reopen=pick([0.5, 2.0]),
        loads=d.loads(sites, seconds),
        steps=d.steps("relay", sites, seconds),
        seconds=seconds,
        least_faults=LEAST_FAULTS,
        shared=callers_drawn(d.seed, d.profile),
        healing=d.healing(120.0, one_way=False),
    )


def _all(d: _Draw) -> Schedule:
    """Draw mostly several sites; the other profiles' faults of one site, too."""
    kind = d.random.choice(["relay", "relay", "relay", "membership", "merge", "flow", "state"])
    if d.wanted.sites is not None:
        kind = "relay" if d.wanted.sites > 1 else d.random.choice(["membership", "merge", "flow"])
    return _relay(d) if kind == "relay" else _single(d, kind)


def _sealed(d: _Draw) -> Schedule:
    return msgspec.structs.replace(_all(d), sealed=True)


_PROFILES: Final[dict[str, Callable[[_Draw], Schedule]]] = {
    "relay": _relay,
    "membership": lambda d: _single(d, "membership"),
    "flow": lambda d: _single(d, "flow"),
    "state": lambda d: _single(d, "state"),
    "merge": lambda d: _single(d, "merge"),
    "all": _all,
    "sealed": _sealed,
}
PROFILES: Final = tuple(_PROFILES)
