"""The own last number. It is repeated for a while when no messages are sent, so that every member knows whether it
lacks the end."""

from __future__ import annotations

from jgroups_py.stack.protocol import Timer


class LastNumber:
    """``most``: number of repetitions of one number; 0: none. ``interval``: seconds until the first one; then they
    double."""

    def __init__(self, timer: Timer, interval: float, most: int) -> None:
        self._timer = timer
        self._interval = interval
        self._most = most
        self._seqno = 0
        self._count = 0

    def sent(self, seqno: int) -> None:
        """Note that own message ``seqno`` has just been sent. If the timer runs, the newest number at its end
        counts."""
        if self._timer.deadline is None:
            self._begin(seqno)

    def _begin(self, seqno: int) -> None:
        if self._most > 0:
            self._seqno = seqno
            self._count = 0
            self._timer.start(self._interval)

    def is_due(self, seqno: int, purged: int) -> bool:
        """Return whether to repeat the number when the time is over. ``seqno``: the last sent number. ``purged``: the
        number up to which all members have the messages."""
        if seqno > self._seqno:
            self._begin(seqno)
            return False
        if purged >= seqno:
            return False
        self._count += 1
        if self._count < self._most:
            self._timer.start(self._interval * 2**self._count)
        return True
