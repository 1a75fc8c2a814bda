"""Virtual time: actions at instants. Actions of one instant run in the order they were added."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

Action = Callable[..., None]


class Clock:
    """Instants are rounded up to ``grid`` seconds, so that what happens together is found together
    (each distinct instant costs a heap operation)."""

    def __init__(self, grid: float = 0.0001) -> None:
        self.now = 0.0
        self.grid = grid
        self.events = 0
        self._instants: list[int] = []
        self._actions: dict[int, list[tuple[Action, tuple[Any, ...]]]] = {}

    def at(self, when: float, action: Action, *args: Any) -> None:
        """Runs ``action(*args)`` at ``when`` (not before now)."""
        # Rounded up, but a multiple of the grid stays where it is in spite of float division.
        tick = math.ceil(max(when, self.now) / self.grid - 1e-6)
        actions = self._actions.get(tick)
        if actions is None:
            self._actions[tick] = [(action, args)]
            heapq.heappush(self._instants, tick)
        else:
            actions.append((action, args))

    def next_instant(self) -> float | None:
        return self._instants[0] * self.grid if self._instants else None

    def step(self) -> bool:
        """Runs everything of the next instant; False when nothing is left."""
        if not self._instants:
            return False
        tick = self._instants[0]
        self.now = max(self.now, tick * self.grid)
        actions = self._actions[tick]
        index = 0
        while index < len(actions):  # actions may add more for this very instant
            action, args = actions[index]
            action(*args)
            index += 1
        self.events += index
        heapq.heappop(self._instants)
        del self._actions[tick]
        return True
