"""Faults of a real drill, made in each member's driver on receipt.

All members are on one host, so ports identify them: each member has its own, known to all. A packet or connection from
a port of the bridge gets the bridge's figures, every other one the site's. An accepted connection comes from a port of
the kernel's choice; it counts as one of the bridge while the member is relay.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from jgroups_py.drill.file.plan import FaultFigures
from jgroups_py.stack.ports import Endpoint

RESEND_SECONDS = 0.2
"""The time that a lost packet costs a connection: TCP's first time-out."""
REORDER_SECONDS = 0.005
"""The longest delay of a datagram that is to be overtaken."""


class PortFaults:
    """The driver's ``Faults``. ``cut``: ports out of reach; may be changed at any time."""

    def __init__(
        self,
        seed: str,
        inside: FaultFigures,
        between: FaultFigures,
        bridge_ports: Iterable[int],
        known_ports: Iterable[int],
        is_relay: Callable[[], bool],
    ) -> None:
        self._random = random.Random(seed)
        self._inside = inside
        self._between = between
        self._bridge_ports = dict.fromkeys(bridge_ports)
        self._known_ports = dict.fromkeys(known_ports)
        self._is_relay = is_relay
        self.cut: dict[int, None] = {}
        self._vanished = False

    @property
    def vanished(self) -> bool:
        return self._vanished

    def vanish(self) -> None:
        """Vanish: send no packet and no close from now on."""
        self._vanished = True

    def datagram(self, source: Endpoint) -> Sequence[float]:
        """Return the delay of each copy of a datagram. Empty: the datagram is lost."""
        figures = self._of(source[1])
        if not self.sends(source) or self._happens(figures.loss):
            return ()
        delay = self._delay(figures)
        if self._happens(figures.reorder):
            delay += self._random.random() * REORDER_SECONDS
        if self._happens(figures.duplicate):
            return (delay, delay + self._random.random() * REORDER_SECONDS)
        return (delay,)

    def stream(self, peer: Endpoint) -> float | None:
        """Return the delay of bytes of a connection. ``None``: nothing passes now."""
        if not self.sends(peer):
            return None
        figures = self._of(peer[1])
        return self._delay(figures) + (RESEND_SECONDS if self._happens(figures.loss) else 0.0)

    def sends(self, dest: Endpoint) -> bool:
        """Return whether packets to this destination may be sent."""
        return not self._vanished and dest[1] not in self.cut

    def _of(self, port: int) -> FaultFigures:
        if port in self._bridge_ports or (port not in self._known_ports and self._is_relay()):
            return self._between
        return self._inside

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._random.random() < chance

    def _delay(self, figures: FaultFigures) -> float:
        jitter = self._random.random() * figures.jitter if figures.jitter else 0.0
        return (figures.latency or 0.0) + jitter
