"""Faults made in a member's own driver, for drills with real processes.

A driver with ``faults`` set asks it for every datagram and every read; without, nothing is asked.
Loss, delay and the like happen on receipt. A partition and a vanished host also stop what is sent
(on a connection only the side that opened it knows the other's port, so it holds both ways).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol as Interface

from jgroups_py.stack.ports import Endpoint


class Faults(Interface):
    """What a driver asks. Times are seconds."""

    def datagram(self, source: Endpoint) -> Sequence[float]:
        """Delay of each copy to be handed in; empty: the datagram is lost."""

    def stream(self, peer: Endpoint) -> float | None:
        """Delay of bytes of a connection; None: nothing passes now, ask again later."""

    def sends(self, dest: Endpoint) -> bool:
        """False: nothing leaves for there. Datagrams are lost, bytes and connections wait."""

    @property
    def vanished(self) -> bool:
        """True: nothing comes in or goes out any more, closing included."""


class FaultFilter:
    """Seeded faults. The attributes may be changed at any time.

    ``loss``, ``duplicate``, ``reorder``: chances per datagram. ``latency``, ``jitter``: one way;
    the jitter is added or taken away, evenly drawn. ``is_cut``: endpoints out of reach.
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
        """From now on as if the cable were out. There is no way back."""
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
