"""The simulated network: who reaches whom, how fast, and what gets lost.

Each direction of each pair of hosts draws from its own generator, so that one link's luck does not
depend on another's traffic.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Of one link, one way. Seconds; probabilities per packet, independent.

    ``reorder`` is the share of datagrams held back by up to ``reorder_delay`` more.
    """

    latency: float = 0.0002
    jitter: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_delay: float = 0.005


class Network:
    """Links between hosts. ``inside``: within a site; ``between``: across sites."""

    def __init__(
        self,
        seed: str,
        inside: LinkSettings | None = None,
        between: LinkSettings | None = None,
    ) -> None:
        self._seed = seed
        self.inside = inside or LinkSettings()
        self.between = between or LinkSettings(latency=0.04)
        self.sites: dict[str, str] = {}
        self.links: dict[tuple[str, str], LinkSettings] = {}
        self._cuts: dict[int, tuple[tuple[frozenset[str], ...], bool]] = {}
        self._next_cut = 1
        self._randoms: dict[tuple[str, str], random.Random] = {}
        self.lost = 0
        self.duplicated = 0

    def settings(self, source: str, dest: str) -> LinkSettings:
        link = self.links.get((source, dest))
        if link is not None:
            return link
        return self.inside if self.sites[source] == self.sites[dest] else self.between

    def cut(self, groups: Iterable[Iterable[str]], *, one_way: bool = False) -> int:
        """Cuts every group of hosts off from every other; hosts not named are cut off from
        nobody. ``one_way``: only packets from an earlier group to a later one are dropped.
        Returns a token for ``heal``."""
        token = self._next_cut
        self._next_cut += 1
        self._cuts[token] = (tuple(frozenset(g) for g in groups), one_way)
        return token

    def heal(self, token: int | None = None) -> None:
        """Takes back one cut, or all of them."""
        if token is None:
            self._cuts.clear()
        else:
            self._cuts.pop(token, None)

    @property
    def is_cut(self) -> bool:
        return bool(self._cuts)

    def connected(self, source: str, dest: str) -> bool:
        """Does a packet from ``source`` reach ``dest`` now?"""
        if source == dest:
            return True
        for groups, one_way in self._cuts.values():
            i = next((n for n, group in enumerate(groups) if source in group), None)
            j = next((n for n, group in enumerate(groups) if dest in group), None)
            if i is not None and j is not None and i != j and not (one_way and i > j):
                return False
        return True

    def random(self, source: str, dest: str) -> random.Random:
        key = (source, dest)
        found = self._randoms.get(key)
        if found is None:
            found = self._randoms[key] = random.Random(f"{self._seed}/link/{source}/{dest}")
        return found

    def datagram_delays(self, source: str, dest: str) -> tuple[float, ...]:
        """When copies of one datagram arrive, in seconds from now; empty if it is lost."""
        link = self.settings(source, dest)
        if not (link.jitter or link.loss or link.duplicate or link.reorder):
            return (link.latency,)
        rng = self.random(source, dest)
        if link.loss and rng.random() < link.loss:
            self.lost += 1
            return ()
        delay = link.latency + (rng.random() * link.jitter if link.jitter else 0.0)
        if link.reorder and rng.random() < link.reorder:
            delay += rng.random() * link.reorder_delay
        if link.duplicate and rng.random() < link.duplicate:
            self.duplicated += 1
            return (delay, delay + rng.random() * link.reorder_delay)
        return (delay,)

    def stream_delay(self, source: str, dest: str) -> float:
        """How long bytes of a connection take; a lost packet costs a retransmission time-out."""
        link = self.settings(source, dest)
        delay = link.latency
        if link.jitter or link.loss:
            rng = self.random(source, dest)
            delay += rng.random() * link.jitter
            if link.loss and rng.random() < link.loss:
                delay += max(0.2, 2 * link.latency)
        return delay
