"""Virtual time: actions at instants. Actions of one instant run in the order they were added.

The actions of a host at one instant are one turn of its loop: its packets leave after all of them, as a real member's
do when its loop has read all waiting input.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

Action = Callable[..., None]


class Clock:
    """Instants are rounded up to ``grid`` seconds, so that simultaneous actions are found together
    (each distinct instant costs a heap operation)."""

    def __init__(self, grid: float = 0.0001) -> None:
        self.now = 0.0
        self.grid = grid
        self.events = 0
        self._instants: list[int] = []
        self._actions: dict[int, list[tuple[Action, tuple[Any, ...]]]] = {}
        self._stepping = False
        self._ends: dict[Callable[[], None], None] = {}

    def at(self, when: float, action: Action, *args: Any) -> None:
        """Run ``action(*args)`` at ``when`` (not before now)."""
        # ``when`` is rounded up, but a multiple of the grid stays, in spite of float division.
        tick = math.ceil(max(when, self.now) / self.grid - 1e-6)
        actions = self._actions.get(tick)
        if actions is None:
            self._actions[tick] = [(action, args)]
            heapq.heappush(self._instants, tick)
        else:
            actions.append((action, args))

    def at_end(self, end: Callable[[], None]) -> None:
        """Run ``end`` once after all actions of this time; at once if no action runs now."""
        if self._stepping:
            self._ends[end] = None
        else:
            end()

    def end_turns(self) -> None:
        """Run the actions put off by ``at_end`` now, before a change that must not affect them."""
        while self._ends:
            ends, self._ends = self._ends, {}
            for end in ends:
                end()

    def next_instant(self) -> float | None:
        return self._instants[0] * self.grid if self._instants else None

    def step(self) -> bool:
        """Run all actions of the next time. False: no action is left."""
        if not self._instants:
            return False
        tick = self._instants[0]
        self.now = max(self.now, tick * self.grid)
        actions = self._actions[tick]
        index = 0
        self._stepping = True
        try:
            while index < len(actions):  # actions may add more for this very instant
                action, args = actions[index]
                action(*args)
                index += 1
                if index == len(actions):
                    self.end_turns()  # these actions may add more, too
        finally:
            self._stepping = False
        self.events += index
        heapq.heappop(self._instants)
        del self._actions[tick]
        return True
