"""Checkers judge properties of every run from outside the protocol code.

They see only the messages, views and states of applications.
One file per family:

    messages       fifo, duplicate, gap, agreement, unicast
    named          named: the sender of a missing message was told that it is lost
    views          view_order, view_holder, view_identity
    stream         stream: views, messages and states stand in one order that makes sense
    bounds         bounds: configured limits are kept
    deaths         death: no living member is taken for proved dead
    rest           waiting messages when none should wait
    tables         leftovers: no table remembers a departed member
    relay_oracle   RELAY's invariants, and its guarantee
    violation      a finding
"""

from __future__ import annotations

from collections.abc import Callable

from jgroups_py.testing.check.messages import Messages
from jgroups_py.testing.check.stream import StreamCheck
from jgroups_py.testing.check.views import Views
from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.sim.member import Member
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.view import View

PROBLEMS_MAX = 50
"""The most problems kept of one run; those after the first rarely add anything."""


class Checker:
    """Watches members. ``problems`` is empty if all checks held.

    Use ``payload`` for all sent messages, and ``watch`` every member when it starts.
    """

    def __init__(self) -> None:
        self.problems: list[Violation] = []
        self.members: dict[Address, Member] = {}
        self.messages = Messages(self.say, self.name)
        self.views = Views(self.say)
        self.stream = StreamCheck(self.say, self.name)
        self._families = (self.stream, self.messages, self.views)

    def watch(self, member: Member) -> None:
        self.members[member.address] = member
        for family in self._families:
            family.watch(member)
        member.keep_batches = False
        member.on_batch = self._on_batch
        member.on_view = self._on_view
        member.on_state = self._on_state
        member.on_excluded = self.messages.on_excluded
        member.provide_state = lambda: self.messages.state_of(member)

    def payload(
        self, member: Member, size: int = 0, *, to: Member | None = None, oob: bool = False
    ) -> bytes:
        """Return the next message of ``member``: 25 bytes with sender and number, and ``size`` more."""
        return self.messages.payload(member, size, to, oob)

    def say(self, check: str, member: Member, problem: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            who = self.name(member.address)
            self.problems.append(Violation(check, f"{who}: {problem}", member.world.now))

    def name(self, address: Address) -> str:
        member = self.members.get(address)
        if member is None:
            return str(address)
        return member.name + (f"#{member.incarnation}" if member.incarnation > 1 else "")

    def _on_batch(self, member: Member, batch: Batch) -> None:
        runs = self.messages.decode(member, batch)
        self.stream.on_messages(member, batch, runs)
        self.messages.on_messages(member, runs)

    def _on_view(self, member: Member, view: View) -> None:
        self.messages.on_view(member, view)
        self.stream.on_view(member, view)
        self.views.on_view(member, view)

    def _on_state(self, member: Member, state: bytes | None) -> None:
        self.stream.on_state(member, state)
        self.messages.on_state(member, state)


Say = Callable[[str, "Member", str], None]
