"""Requests to a cache, as a cluster of servers behind a load balancer gets them.

Buddy replication needs requests that are spread evenly and are sticky. Here each key has a home among the present
members (rendezvous hashing: when a member goes, only its keys move). With the probability ``stickiness`` a member asks
for a key whose home it is, else for a key of another member. Such a request has gone astray. Stickiness 1 is a perfect
load balancer, 0 one that always errs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

HOMES_KEPT_MAX = 4
"""The most sets of members whose homes are remembered."""


@dataclass(frozen=True, slots=True)
class Load:
    """``read_ratio``, ``stickiness``: fractions; ``remove_ratio``: of the writes. ``value_size``: bytes."""

    keys: int = 100
    read_ratio: float = 0.8
    stickiness: float = 0.95
    value_size: int = 1000
    remove_ratio: float = 0.0


class DrillRequest(NamedTuple):
    key: int
    read: bool
    at_home: bool


def home(key: int, members: Sequence[str]) -> str:
    """Return the member to which a load balancer sends requests for ``key``. Stable across processes."""
    return max(members, key=lambda name: blake2b(f"{name}/{key}".encode(), digest_size=8).digest())


@lru_cache(maxsize=HOMES_KEPT_MAX)
def homes(keys: int, members: tuple[str, ...]) -> dict[str, list[int]]:
    """Return, for each member, the keys that are at home there."""
    found: dict[str, list[int]] = {name: [] for name in members}
    for key in range(keys):
        found[home(key, members)].append(key)
    return found


class Requests:
    """The requests to one member. ``chance``: its own random stream."""

    def __init__(self, load: Load, me: str, chance: random.Random) -> None:
        self._load = load
        self._me = me
        self._chance = chance

    def next(self, members: Sequence[str]) -> DrillRequest:
        """Return the next request, with these members in the cluster."""
        load, chance = self._load, self._chance
        read = chance.random() < load.read_ratio
        mine = homes(load.keys, tuple(sorted(members)))[self._me]
        sticky = chance.random() < load.stickiness
        if sticky == bool(mine):
            # Sticky: a key at home here. Astray without such keys: any key is another's.
            key = chance.choice(mine) if mine else chance.randrange(load.keys)
            return DrillRequest(key, read, bool(mine))
        if len(mine) == load.keys:  # no other member has keys
            return DrillRequest(chance.choice(mine), read, True)
        if not mine:
            return DrillRequest(chance.randrange(load.keys), read, False)
        while True:
            key = chance.randrange(load.keys)
            if home(key, members) != self._me:
                return DrillRequest(key, read, False)
