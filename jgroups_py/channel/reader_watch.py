"""ReaderWatch: a member whose application takes nothing from the channel logs it, and leaves in the end.

Senders in the whole group wait for the slowest reader. That is flow control. But a reader that never comes back
would stop them for good. So this member logs a line, and after ``ChannelLimits.hold_senders_max`` seconds it
leaves, and the others go on.

Time counts only while a sender waits: flow control reports a sender that asked for credit and got none, and the
application takes nothing. Messages may stay unread as long as no sender waits. ``slow_reader_timeout``, where
it is given, replaces that rule: then the time counts whether senders wait or not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import trio

from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.values.events import HeldSenders

if TYPE_CHECKING:
    from jgroups_py.channel.channel import Channel
    from jgroups_py.values.address import Address

WARN_AFTER: Final = 10.0
"""Seconds for which senders wait before the first line."""
WARN_EVERY: Final = 30.0
"""Seconds between two lines."""
LEAST_TICK: Final = 0.01
NAMES_MAX: Final = 5
"""The most senders that a line names."""


class ReaderWatch:
    """See the module's docstring. ``timeout`` is ``slow_reader_timeout``; None if it was not given."""

    def __init__(self, channel: Channel, timeout: float | None) -> None:
        self._channel = channel
        self._timeout = timeout
        self._most = channel.limits.hold_senders_max
        self._limit = LogLimit(trio.current_time, interval=WARN_EVERY)
        self._position = channel.reading()[0]
        self._moved_at = trio.current_time()

    async def run(self) -> None:
        """Watch until the channel ends."""
        shortest = min(WARN_AFTER, self._most if self._timeout is None else self._timeout)
        tick = max(LEAST_TICK, shortest / 8)
        while self._channel.error is None:
            await trio.sleep(tick)
            if self._channel.error is None:
                self._look(trio.current_time())

    def _look(self, now: float) -> None:
        channel = self._channel
        position, unread = channel.reading()
        if position != self._position:
            self._position, self._moved_at = position, now
        held = self._held()
        held_for = now - max(self._moved_at, min(held.values(), default=now))
        if held_for >= WARN_AFTER:
            self._warn(held_for, held, unread)
        if self._timeout is not None:
            idle = now - max(self._moved_at, channel.waiting_since(now))
            if idle > self._timeout:
                channel.abandon(f"the reader took nothing for {idle:.1f} s, {unread} waiting")
        elif held_for > self._most:
            channel.abandon(
                f"the application took nothing for {held_for:.0f} s while {self._names(held)} "
                f"could not send ({unread} messages unread, hold_senders_max)"
            )

    def _held(self) -> dict[Address, float]:
        """Return the senders that wait for this application, and since when."""
        held: dict[Address, float] = {}
        for protocol in self._channel.stack.protocols:
            for sender, since in (protocol.answer(HeldSenders()) or {}).items():
                held[sender] = min(since, held.get(sender, since))
        return held

    def _warn(self, seconds: float, held: dict[Address, float], unread: int) -> None:
        if self._limit.admit("unread") is None:
            return  # the watch looks more often than it logs
        if self._timeout is not None:
            end = f"slow_reader_timeout is {self._timeout:g} s"
        elif self._most == math.inf:
            end = "they wait for ever"
        else:
            end = f"this member leaves the group in {max(0, self._most - seconds):.0f} s"
        self._channel.warn(
            "nobody takes items from this channel since %.0f s: %d messages wait, and %s cannot send; %s",
            seconds,
            unread,
            self._names(held),
            end,
        )

    def _names(self, held: dict[Address, float]) -> str:
        names = [self._channel.name_of(sender) for sender in held]
        more = len(names) - NAMES_MAX
        return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")
