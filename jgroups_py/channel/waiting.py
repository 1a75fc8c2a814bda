"""The log line about a send that waits: to whom, for how long, and for whose credit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from jgroups_py.channel.listeners import Warn
from jgroups_py.channel.outbox import Outbox
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.stack.stack import Stack
from jgroups_py.values.address import Address
from jgroups_py.values.events import FlowBlocked, LacksCredit

WARN_EVERY: Final = 30.0
"""Seconds between two log lines about sends to one destination that wait."""


class WaitingSends:
    """``unread`` returns the number of messages that this member's own reader has not read."""

    def __init__(self, warn: Warn, unread: Callable[[], int]) -> None:
        self._warn = warn
        self._unread = unread
        self._limit = LogLimit(trio.current_time, interval=WARN_EVERY)

    def tell(self, stack: Stack, outbox: Outbox, to: Address | None, seconds: float) -> None:
        left_out = self._limit.admit(to)
        if left_out is None:
            return
        sources = outbox.blocked.get(to) or next(iter(outbox.blocked.values()), {})
        reasons = [self._why_blocked(stack, event) for event in sources.values()]
        self._warn(
            "send to %s has waited %.0f s for %s%s",
            stack.name_of(to),
            seconds,
            "; ".join(reasons) or "room in the send buffer",
            left_out,
        )

    def _why_blocked(self, stack: Stack, event: FlowBlocked) -> str:
        members = event.waiting_for  # those at the moment of blocking; others may lack credit now
        for protocol in stack.protocols:
            if protocol.name == event.source:
                members = protocol.answer(LacksCredit(event.dest)) or members
        names = [stack.name_of(member) for member in members if member != stack.address]
        reasons = []
        if event.why != "credits" or not members:
            reasons.append(f"{event.why} of {', '.join(names) or 'nobody'}")
        elif names:
            its = "its application does" if len(names) == 1 else "their applications do"
            reasons.append(
                f"no credit from {', '.join(names)}: {its} not read, or cannot be reached"
            )
        if stack.address in members:
            reasons.append(
                f"no credit from this member's own reader ({self._unread()} messages unread)"
            )
        return f"{event.source}: {' and '.join(reasons)}"
