"""A schedule of a seed, by profile.

    cache-local       one cache, without a store, with one, or with passivation
    cache-replicated  everything to everybody
    cache-buddy       owners and buddies
    cache-sessions    visitors' requests, over one of these
    cache             one of these

About a third of the seeds has no faults: there the most calls meet.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from jgroups_py.errors import ConfigError
from jgroups_py.testing.explorer.caches.schedule import (
    MEMBERS_MAX,
    CacheFault,
    CacheSchedule,
    Caller,
    Do,
    Doing,
    FaultKind,
    Store,
)
from jgroups_py.testing.explorer.lab import ANYTHING, Size, drawing_of
from jgroups_py.testing.explorer.stacks.schedule import Link

NAMES: Final = "ABCDEFGH"
PATHS: Final = ("/a", "/a/x", "/b", "/b/y", "/c")
OPERATIONS: Final = 70
"""The approximate number of operations of one history."""
CALM: Final = 0.35
"""The part of the seeds without faults."""


def draw_caches(seed: int, profile: str, wanted: Size = ANYTHING) -> CacheSchedule:
    """Return the schedule of a seed. Raises ``ConfigError`` for an unknown profile, or an impossible group of
    caches."""
    drawing = drawing_of(_PROFILES, profile)
    if wanted.sites not in (None, 1):
        raise ConfigError(f"sites: caches are drawn on one site, not {wanted.sites}")
    if wanted.members is not None and wanted.members[1] > MEMBERS_MAX:
        raise ConfigError(f"members: at most {MEMBERS_MAX} with caches, not {wanted.members[1]}")
    return drawing(_Draw(seed, profile, wanted))


class _Draw:
    def __init__(self, seed: int, profile: str, wanted: Size) -> None:
        self.seed = seed
        self.profile = profile
        self.wanted = wanted
        self.random = random.Random(f"{seed}/histories/{profile}")
        self.calm = self.random.random() < CALM

    def schedule(self, back_end: Any, *, sessions: bool = False) -> CacheSchedule:
        pick, chance = self.random.choice, self.random
        members = self.members()
        # Of two members the remaining one would wait for the other for good, even for a killed one.
        majority = back_end == "buddy" and len(members) > 2 and pick((False, True))
        late: tuple[str, ...] = ()
        if back_end != "local" and not self.calm and len(members) > 2 and chance.random() < 0.3:
            late = () if majority else members[-1:]
        stores: tuple[Store, ...] = ("none", "through", "passivation")
        store: Store = pick(stores) if back_end == "local" else "none"
        return CacheSchedule(
            seed=self.seed,
            profile=self.profile,
            back_end=back_end,
            members=members,
            late=late,
            sessions=sessions,
            buddies=pick((1, 1, 2)),
            majority=majority,
            store=store,
            room=pick((1, 2, 3)),
            link=self.link(),
            callers=self.callers(back_end, members, sessions),
            faults=() if self.calm else self.faults(back_end, members, late, majority, store),
        )

    def members(self) -> tuple[str, ...]:
        least, most = self.wanted.members or (2, 5)
        return tuple(NAMES[: self.random.randint(least, most)])

    def link(self) -> Link:
        pick = self.random.choice
        return Link(
            latency=pick((0.0002, 0.001, 0.003)),
            jitter=pick((0.0, 0.0005, 0.003)),
            loss=0.0 if self.calm else pick((0.0, 0.0, 0.02, 0.1)),
            duplicate=0.0 if self.calm else pick((0.0, 0.0, 0.02)),
            reorder=0.0 if self.calm else pick((0.0, 0.0, 0.05)),
        )

    def callers(
        self, back_end: str, members: tuple[str, ...], sessions: bool
    ) -> tuple[Caller, ...]:
        chance, pick = self.random, self.random.choice
        each = chance.randint(1, 3)
        if back_end == "local":
            each = max(2, each)
        count = each * len(members)
        mix = self.mix(back_end, sessions)
        paths = self.paths(sessions)
        # With faults callers take their time, so that faults meet them.
        waits = pick(((0.0,), (0.0, 0.001), (0.0, 0.002, 0.01)))
        if not self.calm:
            waits = pick(((0.0, 0.05), (0.01, 0.1, 0.4), (0.1, 0.5)))
        steps = max(2, OPERATIONS // count)
        return tuple(
            Caller(
                member=members[number % len(members)],
                steps=tuple(self.step(mix, paths, waits) for _ in range(steps)),
            )
            for number in range(count)
        )

    def mix(self, back_end: str, sessions: bool) -> dict[Doing, int]:
        if sessions:
            return {"load": 4, "save": 8, "logout": self.random.choice((0, 1, 3))}
        mix: dict[Doing, int] = {
            "node": 5,
            "exists": 1,
            # A subtree of which a part is here is not searched for elsewhere.
            "children": 0 if back_end == "buddy" else 1,
            "put": 4,
            "update": 2,
            "remove": 1,
            "remove_node": 1,
            "remove_tree": 1,
            "move": 1,
            "rmw": 8,
            "pair": 3,
            "change": 2,
            "add": 2,
            "cas": 2,
        }
        bent = {do: weight * self.random.choice((0, 1, 1, 2)) for do, weight in mix.items()}
        return bent if any(bent.values()) else mix

    def paths(self, sessions: bool) -> tuple[str, ...]:
        if sessions:
            return tuple(f"/s{n}" for n in range(self.random.randint(1, 3)))
        count = self.random.randint(1, len(PATHS))
        return tuple(self.random.sample(PATHS, count))

    def step(self, mix: dict[Doing, int], paths: tuple[str, ...], waits: tuple[float, ...]) -> Do:
        chance = self.random
        [do] = chance.choices(list(mix), list(mix.values()))
        path = chance.choice(paths)
        other = ""
        if do in ("pair", "move"):
            others = [p for p in paths if p != path]
            if do == "move":
                others = [p for p in others if not _nested(p, path)]
            if others:
                other = chance.choice(others)
            else:
                do = "rmw"
        key = "w" if do in ("update", "save", "remove") and chance.random() < 0.5 else "v"
        return Do(do=do, path=path, other=other, key=key, wait=chance.choice(waits))

    def faults(
        self,
        back_end: str,
        members: tuple[str, ...],
        late: tuple[str, ...],
        majority: bool,
        store: Store,
    ) -> tuple[CacheFault, ...]:
        chance = self.random
        if back_end == "local":
            if store != "through":  # values in memory only are gone with the process, as documented
                return ()
            return tuple(
                CacheFault(at=round(chance.uniform(0, 2), 3), do="crash", who=members[:1])
                for _ in range(chance.randint(1, 3))
            )
        kinds = self.kinds(back_end, majority)
        found = (
            [CacheFault(at=round(chance.uniform(0.1, 2), 3), do="start", who=late)] if late else []
        )
        at = 0.0
        for _ in range(chance.randint(1, 5)):
            at += round(chance.uniform(0.1, 3.0), 3)
            do = chance.choice(kinds)
            who: tuple[str, ...] = (chance.choice(members),)
            seconds = 0.0
            if do == "cut":
                who = tuple(sorted(chance.sample(members, chance.randint(1, len(members) - 1))))
                seconds = chance.choice((0.3, 3.0, 6.0))
            elif do == "pause":
                seconds = chance.choice((0.3, 1.0, 4.0))
            found.append(CacheFault(at=round(at, 3), do=do, who=who, seconds=seconds))
            back = at + seconds
            if do in ("crash", "leave"):
                back = at + chance.choice((0.5, 2.0, 5.0))
                found.append(CacheFault(at=round(back, 3), do="start", who=who))
            if back_end == "buddy":
                at = back + PROTECTED_SECONDS
        return tuple(sorted(found, key=lambda fault: fault.at))

    def kinds(self, back_end: str, majority: bool) -> list[FaultKind]:
        if back_end == "replicated":
            return ["crash", "crash", "leave", "cut", "cut", "pause"]
        if majority:
            return ["crash", "cut", "cut", "pause", "leave"]
        return (
            ["crash", "crash", "leave", "cut"] if self.random.random() < 0.3 else ["crash", "leave"]
        )


PROTECTED_SECONDS: Final = 3.0
"""Seconds after a fault until all are in one view and all buddies are there again, so that the next may cost one
member."""


def _nested(one: str, other: str) -> bool:
    a, b = one + "/", other + "/"
    return a.startswith(b) or b.startswith(a)


def _sessions(d: _Draw) -> CacheSchedule:
    return d.schedule(d.random.choice(("buddy", "buddy", "replicated", "local")), sessions=True)


def _any(d: _Draw) -> CacheSchedule:
    kind = d.random.choice(("local", "replicated", "replicated", "buddy", "buddy", "sessions"))
    return _sessions(d) if kind == "sessions" else d.schedule(kind)


_PROFILES: Final[dict[str, Callable[[_Draw], CacheSchedule]]] = {
    "cache": _any,
    "cache-local": lambda d: d.schedule("local"),
    "cache-replicated": lambda d: d.schedule("replicated"),
    "cache-buddy": lambda d: d.schedule("buddy"),
    "cache-sessions": _sessions,
}
CACHE_PROFILES: Final = tuple(_PROFILES)
