"""Drawing a schedule from a seed: topology, settings, traffic, faults; one function per profile.

    membership  one site: crashes, leaves, restarts, pauses, partitions, clogged links
    merge       one site: partitions above all, of all shapes, with crashes while it merges
    flow        one site: small credits, slow readers, large messages
    state       one site: members fetch states while everything happens
    relay       two or three sites joined by RELAY: relays, standbys, whole sites fall; WANs break
    all         its own mix of all of these

The drawing needs nothing but the seed and the options; playing draws nothing more.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from jgroups_py.errors import ConfigError
from jgroups_py.explore.draw_faults import FaultDraw
from jgroups_py.explore.draw_stack import draw_settings
from jgroups_py.explore.schedule import MEMBERS_MAX, Healing, Link, Load, Schedule, Site, Step

SITE_NAMES: Final = ("NYC", "SFO", "LON", "TYO", "SYD", "FRA", "GRU", "BOM", "JNB")
MESSAGES: Final = 600
"""Messages that loads are made to send, about; some of their senders fall."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the caller has fixed. ``members``: per site, least and most."""

    sites: int | None = None
    members: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.sites is not None and not 1 <= self.sites <= len(SITE_NAMES):
            raise ConfigError(f"sites: 1 to {len(SITE_NAMES)}, not {self.sites}")
        if self.members is not None:
            least, most = self.members
            if not 1 <= least <= most:
                raise ConfigError(f"members: N..M with 1 <= N <= M, not {least}..{most}")
            if (self.sites or 3) * most > MEMBERS_MAX:
                raise ConfigError(f"members: at most {MEMBERS_MAX} in all sites together")


def draw(seed: int, profile: str, wanted: Wanted = Wanted()) -> Schedule:
    """The schedule of a seed. Raises ``ConfigError`` for an unknown profile."""
    drawing = _PROFILES.get(profile)
    if drawing is None:
        raise ConfigError(f"profile: one of {', '.join(_PROFILES)}, not {profile!r}")
    return drawing(_Draw(seed, profile, wanted))


class _Draw:
    """What the profiles have in common."""

    def __init__(self, seed: int, profile: str, wanted: Wanted) -> None:
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
        """Every member sends multicasts; some send unicasts and out of band, too."""
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

    def healing(self, within: float, relays: bool = False) -> Healing:
        pick = self.random.choice
        return Healing(
            keep=pick([1.0, 1.0, 0.7, 0.5]),
            turn=self.random.randint(0, 5),
            rest=pick(["crash", "crash", "vanish", "pause", "cut", "cut", "mute", "deaf"]),
            within=within,
        )

    def faults(self, sites: tuple[Site, ...], seconds: float) -> FaultDraw:
        return FaultDraw(self.random, [s.name for s in sites], seconds)


def _name(number: int) -> str:
    letter, more = chr(ord("A") + number % 26), number // 26
    return f"{letter}{more}" if more else letter


def _membership(d: _Draw) -> Schedule:
    sites = d.sites(1, 3, 6)
    seconds = d.random.choice([30.0, 40.0, 50.0])
    stack, attributes = draw_settings(d.random)
    mix = {
        "crash": 4,
        "vanish": 2,
        "leave": 2,
        "restart": 6,
        "pause": 3,
        "cut": 3,
        "link": 2,
        "clog": 2,
        "drift": 1,
    }
    return Schedule(
        seed=d.seed,
        profile=d.profile,
        sites=sites,
        stack=stack,
        attributes=attributes,
        inside=d.inside(),
        start_gap=d.random.choice([0, 0.01, 0.3]),
        reopen=d.random.choice([0.0, 0.5, 2.0]),
        loads=d.loads(sites, seconds),
        steps=_steps(d.faults(sites, seconds), mix, d.random.randint(8, 18)),
        seconds=seconds,
        healing=d.healing(90.0),
    )


def _steps(faults: FaultDraw, mix: dict[str, int], count: int) -> tuple[Step, ...]:
    return faults.steps(mix, count)


_PROFILES: Final[dict[str, Callable[[_Draw], Schedule]]] = {
    "membership": _membership,
    "all": _membership,
}
PROFILES: Final = tuple(_PROFILES)
