"""AnswerWatch: looks for an answer in the step of the task that waits for it, so that no other task has to wake it.

A task that waits for a socket is woken by the kernel and then by trio's loop, and the caller by another round of that loop.
A caller that has nothing else to do looks at the socket itself until its answer is there.

    the answer comes in time   no task had to be woken
    it does not come in time   the caller waits as always, and the next callers do not look: 1 of them, then 2, 4 ... ``PAUSE_MAX``
    between two looks          the processor is offered to others (``sched_yield``), perhaps to the called member

Other tasks of this process do not run meanwhile. So the look is bounded by ``DriverLimits.watch``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Final
from typing import Protocol as Interface

from jgroups_py.stack.ports import In

PAUSE_MAX: Final = 1024
"""The most callers that do not look, after a caller that looked in vain."""


class Readable(Interface):
    """A socket or a connection that can be looked at without waiting."""

    def look(self) -> Sequence[In] | None:
        """Return the inputs that have come, maybe none. None: the socket or connection has ended."""


def _offer_nothing() -> None:
    """Do nothing, where the system cannot offer the processor to others."""


offer_processor = getattr(os, "sched_yield", _offer_nothing)


class AnswerWatch:
    """See the module's docstring. ``heard`` is the socket or connection that brought the last input. ``take`` hands
    inputs in and runs a turn. It returns whether that went well."""

    __slots__ = ("_left_out", "_limit", "_pause", "_take", "ended", "heard", "in_vain")

    def __init__(self, limit: float, take: Callable[[Sequence[In]], bool]) -> None:
        self._limit = limit
        self._take = take
        self._pause = 1
        self._left_out = 0
        self.heard: Readable | None = None
        self.ended = 0
        """Number of awaited answers that came in time."""
        self.in_vain = 0
        """Number of awaited answers that did not come in time."""

    def until(self, is_over: Callable[[], bool]) -> bool:
        """Look until ``is_over``, but not longer than the limit. Return whether it is over."""
        if self._left_out:
            self._left_out -= 1
            return False
        heard = self.heard
        if heard is None or self._limit <= 0:
            return False
        look, clock = heard.look, time.perf_counter
        end = clock() + self._limit
        while True:
            inputs = look()
            if inputs is None or (inputs and not self._take(inputs)):
                self.heard = None
                return False
            if inputs and is_over():
                self.ended += 1
                self._pause = 1
                return True
            if clock() > end:
                break
            if not inputs:
                offer_processor()
        self.in_vain += 1
        self._left_out = self._pause
        self._pause = min(2 * self._pause, PAUSE_MAX)
        return False
