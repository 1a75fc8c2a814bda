"""bounds: a stack keeps the bounds of its configuration, checked during a run.

It compares a protocol's own statistics with simple limits. It also checks the reader's stream. The stream holds at most
the credits of each sender and one message that FRAG2 cut, because the credits of fragments are given back in advance.
The check leaves out members that were apart, because the sender did not count those messages.
"""

from __future__ import annotations

import math
from typing import Any, Final

from jgroups_py.testing.check.checkers import Checker
from jgroups_py.testing.sim.host import Host
from jgroups_py.testing.sim.member import Member
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch

EVERY: Final = 16
"""Steps of a host between two checks, which are costly."""

PER_MEMBER: Final[tuple[tuple[str, str, str], ...]] = (
    ("NAKACK2", "pending", "max_window"),
    ("UNICAST3", "pending", "max_window"),
    ("FRAG2", "incomplete", "max_messages"),
    ("FRAG2", "incomplete_bytes", "max_bytes"),
)
"""(protocol, statistic, attribute that bounds it for each known sender)."""


class Bounds:
    """Watches every member of ``checker``."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._steps: dict[Host, int] = {}
        self._members: dict[Host, Member] = {}

    def after_step(self, host: Host) -> None:
        steps = self._steps[host] = self._steps.get(host, 0) + 1
        if steps % EVERY:
            return
        member = self._members.get(host)
        if member is None:
            for known in self._checker.members.values():
                self._members[known.host] = known
            member = self._members.get(host)
        if member is not None and member.alive:
            self.look(member)

    def look(self, member: Member) -> None:
        """Report values that exceed their bounds now."""
        senders = len(self._checker.members)
        for protocol in member.stack.protocols:
            for name, key, attribute in PER_MEMBER:
                if protocol.name == name:
                    has = protocol.statistics()[key]
                    limit = getattr(protocol.config, attribute) * senders
                    if has > limit:
                        self._say(member, f"{name}.{key} is {has}, {attribute} allows {limit}")
        self._look_at_stream(member)

    def _look_at_stream(self, member: Member) -> None:
        if len(member.unread) < 2:
            return
        held: dict[tuple[Address, bool], int] = {}
        largest: dict[tuple[Address, bool], int] = {}
        for item in member.unread:
            if isinstance(item, Batch):
                for credit in item.credits:
                    key = (credit.sender, credit.multicast)
                    held[key] = held.get(key, 0) + credit.amount
                    largest[key] = max(largest.get(key, 0), credit.amount)
        messages = self._checker.messages
        for (sender, multicast), amount in held.items():
            if messages.were_apart(sender, member.address):
                continue  # the sender did not wait for us meanwhile
            limit = self._credits(member, multicast)
            # A message larger than all credits goes alone. One that was cut comes on top of them.
            most = largest[sender, multicast]
            allowed = limit + most if most > self._frag_size(member) else max(limit, most)
            if limit and amount > allowed:
                name = self._checker.name(sender)
                self._say(member, f"{amount} bytes of {name} are unread, credits allow {allowed}")

    @staticmethod
    def _credits(member: Member, multicast: bool) -> int:
        for protocol in member.stack.protocols:
            if protocol.name == ("MFC" if multicast else "UFC"):
                config: Any = protocol.config
                return int(config.max_credits)
        return 0

    @staticmethod
    def _frag_size(member: Member) -> float:
        """Return the size from which messages are cut; without FRAG2 none is."""
        for protocol in member.stack.protocols:
            if protocol.name == "FRAG2":
                config: Any = protocol.config
                return int(config.frag_size)
        return math.inf

    def _say(self, member: Member, problem: str) -> None:
        self._checker.say("bounds", member, problem)
