"""LogLimit: one log line per interval and key; the next line says how many were left out.

It is for lines whose number others decide: a peer, a caller, an operator's mistake that repeats. Lines that are left
out are counted, never lost silently.

    limit = LogLimit(trio.current_time)
    if (left_out := limit.admit(("raised", method))) is not None:
        log.error("%s raised%s", method, left_out)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

INTERVAL: Final = 10.0
"""Seconds between two lines of one key."""
KEYS_MAX: Final = 64
"""The most keys told apart within an interval. More keys share one line per interval."""

_OTHERS: Final = object()


class _Key:
    """``since``: when its last line was written. ``left_out``: lines left out after that."""

    __slots__ = ("left_out", "since")

    def __init__(self, since: float, left_out: int = 0) -> None:
        self.since = since
        self.left_out = left_out


class LogLimit:
    """Decides which lines are written. It writes none itself, so it fits every logger.

    ``clock`` tells the time in seconds: ``trio.current_time``, or ``lambda: machine.now`` below the channel.
    At most ``keys_max + 1`` lines are written in one ``interval``, whatever the keys are.
    """

    def __init__(
        self, clock: Callable[[], float], *, interval: float = INTERVAL, keys_max: int = KEYS_MAX
    ) -> None:
        self.left_out = 0
        """Lines left out so far, of all keys."""
        self._clock = clock
        self._interval = interval
        self._keys_max = keys_max
        self._keys: dict[Hashable, _Key] = {}  # the oldest line first

    def admit(self, key: Hashable) -> str | None:
        """Return None to leave this line out. Otherwise return the text at its end: empty, or
        `` (7 more like this left out)``."""
        now = self._clock()
        self._forget(now)
        if key not in self._keys and self._told_apart() >= self._keys_max:
            key = _OTHERS
        known = self._keys.get(key)
        if known is not None and now - known.since < self._interval:
            known.left_out += 1
            self.left_out += 1
            return None
        left_out = 0 if known is None else self._keys.pop(key).left_out
        self._keys[key] = _Key(now)
        return f" ({left_out} more like this left out)" if left_out else ""

    def _told_apart(self) -> int:
        return len(self._keys) - (_OTHERS in self._keys)

    def _forget(self, now: float) -> None:
        """Remove keys whose interval is over. A key that left lines out stays, so that its next line has their number.
        When the table is full, such a key is removed, too: the total keeps the count."""
        for key, known in list(self._keys.items()):
            full = self._told_apart() >= self._keys_max
            if now - known.since < self._interval:
                break
            if full or not known.left_out:
                del self._keys[key]
