"""GMS, changing the view: what the acting coordinator does about joins, leaves and suspicions.

Everybody remembers who is suspected and who wants to leave; the first member of the view that is
neither *acts*. All requests known are one new view: departed members out, joiners at the end.

    JOIN_REQ                  wait max_bundling_time for others, and for the acknowledgements of the
                              view before. Who is a member already gets the view once more
    LEAVE_REQ, Suspect        at once
    somebody departs          survivors agree first (gms_agree.py); requests that come meanwhile are
                              in the same view, a further departure starts the round again
    new view                  VIEW to the old members, JOIN_RSP with digest to the joiners, install
                              it here, LEAVE_RSP to leavers

JOIN_RSP goes out before the view is installed here, so that it comes to the joiner before anything
that the application sends to it.

Source: WIRE.md 11.1, 11.2; JGroups ViewHandler, CoordGmsImpl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.values.address import UUID, Address
from jgroups_py.values.message import Flag
from jgroups_py.values.payloads import JoinRsp
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import GmsType
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_join_rsp

if TYPE_CHECKING:
    from jgroups_py.protocols.membership.gms.protocol import GMS

_LEAVE_FLAGS = int(Flag.OOB | Flag.NO_RELIABILITY)


class Changes:
    """See the module's docstring."""

    def __init__(self, gms: GMS) -> None:
        self.gms = gms
        self._joiners: dict[Address, None] = {}
        self._leavers: dict[Address, None] = {}
        self._suspects: dict[Address, bool] = {}
        """True: its death is proved."""
        self._bundle = gms.timer(self._on_bundle, "_on_join_bundle")
        self._soon = False

    def stop(self) -> None:
        self._bundle.cancel()

    # --- who acts

    def _departing(self, member: Address) -> bool:
        return member in self._suspects or member in self._leavers

    @property
    def acting(self) -> bool:
        """It is for us to make the next view."""
        gms = self.gms
        if gms.view is None or gms.left or gms.leaver.leaving:
            return False
        if gms.excluding is not None and not self._is_over(gms.excluding):
            return False
        return self.first_that_stays == gms.local_address

    @property
    def first_that_stays(self) -> Address | None:
        """Who makes the next view, as far as we know."""
        view = self.gms.view
        return None if view is None else next((m for m in view if not self._departing(m)), None)

    def _is_over(self, view: View) -> bool:
        """Who leads it is suspected. Members of ours tell in a round whether they have that view;
        whom we do not know will never be suspected here."""
        known = () if self.gms.view is None else self.gms.view.members
        leads = view.coordinator in known
        return all(
            m in self._suspects
            for m in view
            if m in known
            and not (leads and m != view.coordinator and isinstance(m, UUID) and m.is_ours)
        )

    def acting_without_us(self) -> Address | None:
        """Who makes the view without us, None: nobody is left."""
        view, me = self.gms.view, self.gms.local_address
        if view is None:
            return None
        return next((m for m in view if m != me and not self._departing(m)), None)

    @property
    def departing(self) -> tuple[Address, ...]:
        """Members of the view that will not be in the next one."""
        view = self.gms.view
        return () if view is None else tuple(m for m in view if self._departing(m))

    def is_suspected(self, member: Address) -> bool:
        return member in self._suspects

    def is_leaving(self, member: Address) -> bool:
        """The member wants to go, and is alive as far as we know."""
        return member in self._leavers and member not in self._suspects

    # --- requests

    def join_requested(self, member: Address) -> None:
        gms, view = self.gms, self.gms.view
        if view is None or gms.left or not self.acting:
            return
        if member in view:
            if not self._departing(member):
                self._answer_join(member, view, flags=int(Flag.OOB))
            return
        if member not in self._joiners and len(self._joiners) >= gms.config.max_waiting:
            gms.joins_dropped += 1
            return
        if member not in self._joiners:
            gms.trace("join wanted", member=member)
        self._joiners[member] = None
        if not self._bundle.armed:
            delay = gms.config.max_bundling_time if gms.config.view_bundling else 0.0
            self._bundle.start(delay)

    def leave_requested(self, member: Address) -> None:
        gms, view = self.gms, self.gms.view
        if view is None or gms.left or member == gms.local_address:
            return
        if member not in view:
            self._joiners.pop(member, None)
            gms.send(member, GmsType.LEAVE_RSP, flags=_LEAVE_FLAGS)
            return
        known = member in self._leavers
        self._leavers[member] = None
        if not known:
            gms.trace("leave wanted", member=member)
        if gms.leaver.leaving and not known:
            self._pass_on(member)
        elif self.acting and not (isinstance(member, UUID) and member.is_ours):
            gms.send(member, GmsType.LEAVE_RSP, flags=_LEAVE_FLAGS)
        self.wake()

    def _pass_on(self, member: Address) -> None:
        """We leave as well: both requests are for the next one."""
        gms = self.gms
        target = self.acting_without_us()
        if target is None:
            gms.send(member, GmsType.LEAVE_RSP, flags=_LEAVE_FLAGS)
        else:
            gms.leaver.tell(target, member)
        gms.leaver.check_target()

    def suspect(self, members: tuple[Address, ...], gone: bool) -> None:
        for member in members:
            self._suspects[member] = gone or self._suspects.get(member, False)

    def unsuspect(self, members: tuple[Address, ...]) -> None:
        known = [m for m in members if m in self._suspects]
        for member in known:
            del self._suspects[member]
        if known:
            self.wake()

    def ended(self, view: View) -> tuple[Address, ...]:
        """Who is not in ``view`` because it left or died, for certain."""
        proved = [m for m, gone in self._suspects.items() if gone and m not in self._leavers]
        return tuple(m for m in (*self._leavers, *proved) if m not in view)

    def view_installed(self, view: View) -> None:
        self._joiners = {m: None for m in self._joiners if m not in view}
        self._leavers = {m: None for m in self._leavers if m in view}
        self._suspects = {m: gone for m, gone in self._suspects.items() if m in view}
        if not self.acting:
            self._joiners.clear()  # they ask again, and then the right one

    # --- making the view

    def wake(self) -> None:
        """Something changed: look when the handler that runs now has returned."""
        if not self._soon:
            self._soon = True
            self.gms.machine.soon(self._on_soon)

    def _on_soon(self) -> None:
        self._soon = False
        self._work()

    def _on_bundle(self) -> None:
        self._work()

    def _work(self) -> None:
        gms = self.gms
        if not self.acting:
            gms.agreement.give_up()
            return
        if gms.merger.busy:
            return
        departing = self.departing
        if departing:
            gms.agreement.reach(departing)
            return
        gms.agreement.give_up()
        if self._joiners and not self._bundle.armed and not gms.awaits_acks:
            self.make_view(())

    def make_view(self, departing: tuple[Address, ...]) -> None:
        """Now, without ``departing``, on whose messages the others agree, and with all joiners."""
        gms, old = self.gms, self.gms.view
        assert old is not None and self.acting
        me = gms.local_address
        joiners = tuple(self._joiners)
        stay = tuple(m for m in old if m not in departing)
        assert stay[0] == me
        leavers = [m for m in departing if self.is_leaving(m)]
        view = View(ViewId(me, gms.next_id()), stay + joiners)
        self._bundle.cancel()
        self._joiners.clear()
        if len(old) > 1 or joiners:
            gms.multicast_view(view, view.members)
        for joiner in joiners:
            self._answer_join(joiner, view)
        gms.install(view)
        for leaver in leavers:
            if isinstance(leaver, UUID) and leaver.is_ours:
                gms.send(leaver, GmsType.LEAVE_RSP, flags=_LEAVE_FLAGS)

    def _answer_join(self, joiner: Address, view: View, flags: int = 0) -> None:
        gms = self.gms
        plain = View(view.view_id, view.members)  # before 5.6 a merge view cannot be read there
        answer = JoinRsp(plain, gms.digest_of(view.members))
        payload = encode_whole(write_join_rsp, answer)
        gms.send(joiner, GmsType.JOIN_RSP, payload=payload, flags=flags)

    def check(self) -> None:
        view = self.gms.view
        if view is None:
            assert not self._joiners and not self._leavers and not self._suspects
            return
        assert all(m not in view for m in self._joiners)
        assert all(m in view for m in self._suspects)
        assert self.gms.local_address not in self._suspects
