"""RequestWatch: looks for the next request in the step that has answered one, so that neither the kernel nor trio's loop wakes a task.

A caller that calls again and again sends its next request as soon as it has read an answer. The called member looks for it only
while the requests come so quickly, one soon after the other:

    the last two requests came within ``CYCLE_MAX``   look for the next one, for ``DriverLimits.watch`` at most
    they came further apart                           wait for the socket: the caller thinks, or the machine is busy
    more than ``FEW`` came together                   wait for the socket: others follow in a second packet, and are answered with these
    the request does not come in time                 the next 1, 2, 4 ... requests are not looked for (answer_watch.py)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from jgroups_py.driver.answer_watch import AnswerWatch, Readable
from jgroups_py.stack.ports import In

CYCLE_MAX: Final = 0.0005
"""Seconds between two requests. On a busy machine other processes run between them, which takes longer."""

FEW: Final = 16


def _anything() -> bool:
    return True


class RequestWatch:
    """See the module's docstring. ``take`` as in AnswerWatch."""

    __slots__ = ("_at", "watch")

    def __init__(self, limit: float, take: Callable[[Sequence[In]], bool]) -> None:
        self.watch = AnswerWatch(limit, take)
        self._at = -math.inf

    def comes(self, heard: Readable, now: float, count: int) -> bool:
        """Look for the next input on ``heard``, which brought ``count`` requests at ``now``. Return whether it has come and was
        taken."""
        before, self._at = self._at, now if count <= FEW else -math.inf
        if now - before > CYCLE_MAX or count > FEW:
            return False
        watch = self.watch
        watch.heard = heard
        return watch.until(_anything)
