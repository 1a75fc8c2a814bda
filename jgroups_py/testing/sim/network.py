"""The simulated network: connectivity, delays and losses.

Each direction of each pair of hosts draws from its own generator, so that the losses of one link do not depend
on the traffic of another link.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

CLOG_MAX = 2000
"""The most datagrams that wait on one clogged link, as in a router's queue; more are lost."""


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Settings of one link, one way: seconds, and independent probabilities per packet.

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
        self._next_token = 1
        self._changes: dict[int, tuple[frozenset[str], frozenset[str], LinkSettings]] = {}
        self.clogs: dict[tuple[str, str], list[Callable[[], None]]] = {}
        """Deliveries that wait on links that are clogged, by link."""
        self._randoms: dict[tuple[str, str], random.Random] = {}
        self.lost = 0
        self.duplicated = 0

    def change(
        self, settings: LinkSettings, sources: Iterable[str], dests: Iterable[str] | None = None
    ) -> int:
        """Change the links from ``sources`` to ``dests`` (None: the same hosts) until ``restore`` of the token. The
        newest change of a link counts."""
        token = self._new_token()
        hosts = frozenset(sources)
        self._changes[token] = (hosts, hosts if dests is None else frozenset(dests), settings)
        return token

    def restore(self, token: int | None = None) -> None:
        """Undo one change, or all of them."""
        if token is None:
            self._changes.clear()
        else:
            self._changes.pop(token, None)

    def _new_token(self) -> int:
        self._next_token += 1
        return self._next_token

    def settings(self, source: str, dest: str) -> LinkSettings:
        for sources, dests, changed in reversed(self._changes.values()):
            if source in sources and dest in dests:
                return changed
        link = self.links.get((source, dest))
        if link is not None:
            return link
        return self.inside if self.sites[source] == self.sites[dest] else self.between

    def cut(self, groups: Iterable[Iterable[str]], *, one_way: bool = False) -> int:
        """Cut every group of hosts off from every other group. Hosts that are not named keep all
        their links. ``one_way``: only packets from an earlier group to a later one are dropped.
        Returns a token for ``heal``."""
        token = self._new_token()
        self._cuts[token] = (tuple(frozenset(g) for g in groups), one_way)
        return token

    def heal(self, token: int | None = None) -> None:
        """Undo one cut, or all of them."""
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

    def clog(self, source: str, dest: str) -> None:
        """Clog one way of one link: packets wait in order, and none is lost."""
        if source != dest:
            self.clogs.setdefault((source, dest), [])

    def is_clogged(self, source: str, dest: str) -> bool:
        return (source, dest) in self.clogs

    def queue(self, source: str, dest: str, deliver: Callable[[], None]) -> None:
        """Let a datagram wait on a clogged link."""
        waiting = self.clogs[source, dest]
        if len(waiting) < CLOG_MAX:
            waiting.append(deliver)
        else:
            self.lost += 1

    def flows(self, source: str, dest: str) -> bool:
        """Do bytes of a connection pass now?"""
        return (source, dest) not in self.clogs and self.connected(source, dest)

    def random(self, source: str, dest: str) -> random.Random:
        key = (source, dest)
        found = self._randoms.get(key)
        if found is None:
            found = self._randoms[key] = random.Random(f"{self._seed}/link/{source}/{dest}")
        return found

    def datagram_delays(self, source: str, dest: str) -> tuple[float, ...]:
        """Return the delays of a datagram's copies in seconds. Empty: the datagram is lost."""
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
        """Return the delay of a connection's bytes. A lost packet costs a retransmission time-out."""
        link = self.settings(source, dest)
        delay = link.latency
        if link.jitter or link.loss:
            rng = self.random(source, dest)
            delay += rng.random() * link.jitter
            if link.loss and rng.random() < link.loss:
                delay += max(0.2, 2 * link.latency)
        return delay
