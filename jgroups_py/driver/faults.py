"""Faults in a member's own driver, for drills with real processes.

A driver with ``faults`` asks them for every datagram and every read. Loss, delay and the like happen on receipt. A
partition and a vanished host also stop sending (on a connection only the side that opened it knows the other's port, so
it holds both ways).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol as Interface

from jgroups_py.stack.ports import Endpoint


class Faults(Interface):
    """The questions of a driver. Times are seconds."""

    def datagram(self, source: Endpoint) -> Sequence[float]:
        """Return the delay of each copy to be handed in. If it is empty, the datagram is lost."""

    def stream(self, peer: Endpoint) -> float | None:
        """Return the delay of bytes of a connection, or None if none pass now; then ask again later."""

    def sends(self, dest: Endpoint) -> bool:
        """Return whether packets to ``dest`` may be sent. If not, datagrams are lost, and bytes and connections
        wait."""

    @property
    def vanished(self) -> bool:
        """True when nothing comes in or goes out any more, not even the end of a connection."""


class FaultFilter:
    """Seeded faults. The attributes may be changed at any time.

    ``loss``, ``duplicate`` and ``reorder`` are chances per datagram. ``latency`` and ``jitter`` are one way; the jitter is
    added or taken away, evenly drawn. ``is_cut`` tells which endpoints are out of reach.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        loss: float = 0.0,
        duplicate: float = 0.0,
        reorder: float = 0.0,
        latency: float = 0.0,
        jitter: float = 0.0,
        is_cut: Callable[[Endpoint], bool] | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.loss = loss
        self.duplicate = duplicate
        self.reorder = reorder
        self.latency = latency
        self.jitter = jitter
        self.is_cut = is_cut
        self._vanished = False
        self.dropped = 0
        self.duplicated = 0
        self.reordered = 0

    @property
    def vanished(self) -> bool:
        return self._vanished

    def vanish(self) -> None:
        """Behave from now on as if the cable were out. There is no way back."""
        self._vanished = True

    def datagram(self, source: Endpoint) -> Sequence[float]:
        if self._cut(source) or (self.loss and self.random.random() < self.loss):
            self.dropped += 1
            return ()
        delay = self._delay()
        if self.reorder and self.random.random() < self.reorder:
            self.reordered += 1
            delay += 2 * self.jitter + 0.001
        if self.duplicate and self.random.random() < self.duplicate:
            self.duplicated += 1
            return (delay, delay + self._delay())
        return (delay,)

    def stream(self, peer: Endpoint) -> float | None:
        return None if self._cut(peer) else self._delay()

    def sends(self, dest: Endpoint) -> bool:
        return not self._cut(dest)

    def _cut(self, endpoint: Endpoint) -> bool:
        return self._vanished or (self.is_cut is not None and self.is_cut(endpoint))

    def _delay(self) -> float:
        if not self.jitter:
            return self.latency
        return max(0.0, self.latency + self.random.uniform(-self.jitter, self.jitter))
