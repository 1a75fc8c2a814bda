"""The outputs of a member in their order: messages, ends of calls, events, counters."""

from __future__ import annotations

from collections import deque
from typing import Any

from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import Message
from jgroups_py.buddy.outputs import (
    BuddyEvent,
    BuddyOutcome,
    Completed,
    Output,
    SendMessage,
    SendSite,
)
from jgroups_py.buddy.site_messages import AnySiteMessage
from jgroups_py.values.address import Address


class BuddyOut:
    """Collects outputs for all parts. A message carries the key of the view in which it is sent."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self.statistics: dict[str, int] = {}
        self.to_self: deque[Message] = deque()
        """Messages of this member to itself. The machine handles them at the end of the step."""
        self._outputs: list[Output] = []

    def send(self, to: Address, message: Message) -> None:
        """Send to one member, which may be this member."""
        if to == self.membership.me:
            self.to_self.append(message)
            return
        self.count(f"sent_{type(message).__name__}")
        self._outputs.append(SendMessage(to, self.membership.tag, message))

    def send_all(self, message: Message) -> None:
        """Send to all other members."""
        self.count(f"sent_{type(message).__name__}", len(self.membership.members) - 1)
        self._outputs.append(SendMessage(None, self.membership.tag, message))

    def send_member(self, to: Address, message: Message) -> None:
        """Send to ``to`` if it is still a member."""
        if to in self.membership.members:
            self.send(to, message)

    def send_site(self, site: str, message: AnySiteMessage) -> None:
        """Send over the link to the relay of ``site``."""
        self._outputs.append(SendSite(site, message))

    def complete(
        self, call: int, outcome: BuddyOutcome, result: Any = None, error: Exception | None = None
    ) -> None:
        """End a call."""
        self._outputs.append(Completed(call, outcome, result, error))

    def event(self, kind: str, detail: Any = None) -> None:
        self._outputs.append(BuddyEvent(kind, detail))

    def count(self, what: str, by: int = 1) -> None:
        self.statistics[what] = self.statistics.get(what, 0) + by

    def complain(self, what: str, detail: str) -> None:
        """Count and report something that should not happen and does no harm."""
        self.count(what)
        self.event("complaint", detail)

    def take(self) -> list[Output]:
        """Return all outputs since the last call."""
        taken, self._outputs = self._outputs, []
        return taken
