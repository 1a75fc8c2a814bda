"""TakingTurns: finds two hosts that have copies of one folder, and so one identifier and one file.

Each of the two looks like the other one connecting again. A host that comes back after a crash does that once. Two
hosts would displace each other again and again, because both dial. So the connected host stays, and the other host is refused
with the reason.
"""

from __future__ import annotations

from collections import deque
from typing import Final

TURNS: Final = 5
"""A host that connects this many times within TURNS_WITHIN seconds, while it is connected, is refused."""
TURNS_WITHIN: Final = 60.0
NODES_MAX: Final = 126
"""The most identifiers that are watched at a time. Beyond it all are forgotten."""


class TakingTurns:
    def __init__(self) -> None:
        self._times: dict[int, deque[float]] = {}

    def displaced(self, node: int, now: float) -> bool:
        """Note that a new link of ``node`` would displace the present one. Return whether that happens too often for
        one host."""
        if node not in self._times and len(self._times) >= NODES_MAX:
            self._times.clear()
        times = self._times.setdefault(node, deque(maxlen=TURNS))
        times.append(now)
        return len(times) == TURNS and now - times[0] < TURNS_WITHIN
