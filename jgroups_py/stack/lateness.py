"""Lateness: a process measures how late it is itself, so that it does not blame others.

The driver tells a machine when it wanted to run the machine and when it did (``Machine.woke``). Lateness beyond
``threshold`` is a lag: the process was stopped, or its loop was blocked, and packets of others wait in the kernel or
were lost there. For that time no other member can be blamed:

    timers                       are put off by as much; time stood still
    Lag down every stack         for deadlines that protocols keep in tables
    recent lateness, small too   lengthens time-outs that wait for others: Protocol.patience

``allowance`` bounds all of it. A lag of that length or more is forgiven wholly. Shorter lags are forgiven up to that
total for one wait, because a process that is always slow would otherwise never notice anything.
"""

from __future__ import annotations

from typing import Final

WINDOW: Final = 10.0
"""Seconds. Recent lateness happened in this window or the one before."""
ROUND_TRIP: Final = 2
"""Lateness counts twice: a question leaves late and its answer is taken late."""


class Lateness:
    """The lateness of one process. Times are seconds."""

    def __init__(self, threshold: float = 0.5, allowance: float = 10.0) -> None:
        self.threshold = threshold
        self.allowance = allowance
        self.lags = 0
        """The number of times that lateness was beyond the threshold."""
        self.longest = 0.0
        self._began = 0.0
        self._now = 0.0
        self._before = 0.0

    def note(self, late: float, now: float) -> bool:
        """Note that we are ``late``. Return whether that is a lag."""
        self._turn_over(now)
        self._now = max(self._now, late)
        self.longest = max(self.longest, late)
        if late <= self.threshold:
            return False
        self.lags += 1
        return True

    def recent(self, now: float) -> float:
        """Return the worst lateness of the last 10 to 20 seconds."""
        self._turn_over(now)
        return max(self._now, self._before)

    def _turn_over(self, now: float) -> None:
        if now - self._began >= WINDOW:
            self._before = self._now if now - self._began < 2 * WINDOW else 0.0
            self._now = 0.0
            self._began = now

    def patience(self, now: float) -> float:
        """Return the seconds by which a time-out for other members must be longer."""
        return min(ROUND_TRIP * self.recent(now), self.allowance)

    def forgiven(self, lag: float, before: float) -> float:
        """Return the part of ``lag`` by which a wait is put off, after ``before`` so far."""
        if lag >= self.allowance:
            return lag
        return max(0.0, min(lag, self.allowance - before))
