"""GMS, requests of others to join or to leave, and the joiners that must first prove their presence.

It knows the tables of requests (change.py) and of strangers (strangers.py), not GMS. It tells GMS what to do.
"""

from __future__ import annotations

from enum import Enum, auto

from jgroups_py.protocols.membership.gms.change import PendingChanges
from jgroups_py.protocols.membership.gms.group import Group
from jgroups_py.protocols.membership.gms.out import GmsOut
from jgroups_py.protocols.membership.gms.strangers import Strangers
from jgroups_py.stack.protocol import Timer
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.events import CanProveReach, ProveReach
from jgroups_py.values.message import Flag
from jgroups_py.values.view import View
from jgroups_py.wire.headers import GmsType

LEAVE_FLAGS = int(Flag.OOB | Flag.NO_RELIABILITY)


class JoinAsked(Enum):
    """The result of a request to join."""

    WAITS = auto()
    """The request is remembered, or its joiner must first prove its presence."""
    AGAIN = auto()
    """The joiner is a member already: the view is to be sent to it once more."""
    DROPPED = auto()
    """Too many joiners wait. This one asks again."""
    NOT_HERE = auto()
    """This member lets no joiner in now."""


class GmsRequests:
    """Owns the strangers and the time in which joins are gathered. ``bundling``: seconds that a join waits for others.
    ``prove``: joiners must answer at their claimed place."""

    def __init__(
        self,
        out: GmsOut,
        group: Group,
        changes: PendingChanges,
        strangers: Strangers,
        doubts: Timer,
        bundle: Timer,
        bundling: float,
        prove: bool,
    ) -> None:
        self.strangers = strangers
        self.bundle = bundle
        """Armed while a join waits for others."""
        self._doubts = doubts
        self._out = out
        self._group = group
        self._changes = changes
        self._bundling = bundling
        self._prove = prove

    def stop(self) -> None:
        self.bundle.cancel()
        self.strangers.clear()
        self._doubts.cancel()

    # --- joining

    def join(self, member: Address) -> JoinAsked:
        group, changes = self._group, self._changes
        view = group.view
        if view is None or group.left or not changes.acting:
            return JoinAsked.NOT_HERE
        if member in view:
            return JoinAsked.NOT_HERE if changes.departs(member) else JoinAsked.AGAIN
        if member not in changes.joiners and self._must_prove:
            self._doubt(member)
            return JoinAsked.WAITS
        return self._admit(member)

    def reached(self, joiner: Address, nonce: Address) -> JoinAsked:
        """Take an answer in the name of ``joiner`` from discovery."""
        view = self._group.view
        if self.strangers.answered(joiner, nonce):
            self._ask_strangers()
            if view is not None and joiner not in view and self._changes.acting:
                return self._admit(joiner)
        return JoinAsked.NOT_HERE

    def _admit(self, member: Address) -> JoinAsked:
        """Let a joiner into the next view."""
        added = self._changes.add_joiner(member)
        if added is None:
            return JoinAsked.DROPPED
        if added:
            self._out.trace("join wanted", member=member)
        if not self.bundle.armed:
            self.bundle.start(self._bundling)
        return JoinAsked.WAITS

    # --- strangers

    @property
    def _must_prove(self) -> bool:
        """Return whether a joiner must prove its presence: only with a discovery in the stack, which asks it."""
        return self._prove and bool(self._out.ask(CanProveReach()))

    def _doubt(self, joiner: Address) -> None:
        crowded = self.strangers.doubt(joiner, self._out.now)
        if crowded is not None:
            self._out.turn_away("unproved", crowded)
        self._ask_strangers()

    def _ask_strangers(self) -> None:
        for joiner, nonce, until in self.strangers.to_ask(self._out.now):
            self._out.trace("prove", joiner=joiner)
            self._out.down(ProveReach(joiner, nonce, until))
        next_at = self.strangers.next_at
        if next_at is None:
            self._doubts.cancel()
        else:
            self._doubts.start_at(next_at)

    def on_doubts(self) -> None:
        for joiner in self.strangers.late(self._out.now):
            self._out.turn_away("unproved", joiner)
        self._ask_strangers()

    def view_installed(self, view: View) -> None:
        self.strangers.forget(view)
        if not self._changes.acting:
            self.strangers.clear()
        self._ask_strangers()

    # --- leaving

    def leave(self, src: Address, member: Address) -> bool:
        """Note the report of ``src`` that ``member`` wants to go. Leavers pass on each other's requests, so they may be
        two members of the view. True: a member goes, so a new view is needed."""
        group = self._group
        view = group.view
        if src != member and (view is None or src not in view):
            self._out.turn_away("foreign_leave", src)
            return False
        if view is None or group.left or member == group.me:
            return False
        if member not in view:
            self._changes.drop_joiner(member)
            self.let_go(member)
            return False
        if self._changes.add_leaver(member):
            self._out.trace("leave wanted", member=member)
            if group.leaving:
                self.pass_on(member)
                return True
        if self._changes.acting and not (isinstance(member, UUID) and member.is_ours):
            self.let_go(member)
        return True

    def let_go(self, leaver: Address) -> None:
        """Tell ``leaver`` that the group knows."""
        self._out.send(leaver, GmsType.LEAVE_RSP, flags=LEAVE_FLAGS)

    def pass_on(self, member: Address) -> None:
        """Pass a request on to the next member: we leave as well."""
        target = self._changes.acting_without_us()
        if target is None:
            self.let_go(member)
        else:
            self.ask_to_let_go(target, member)

    def ask_to_let_go(self, target: Address, leaver: Address) -> None:
        """Ask ``target`` to let ``leaver`` go."""
        self._out.send(target, GmsType.LEAVE_REQ, member=leaver, flags=int(Flag.OOB))

    def check(self) -> None:
        assert self._doubts.armed == (self.strangers.next_at is not None)
