"""GMS, joining: from Connect to the first view.

    transport is ready        discover
    nobody is there           a group of our own
    a coordinator             JOIN_REQ; no answer within join_timeout: discover anew
    members without           their coordinator is being replaced: join_timeout later discover anew
      coordinator
    only others that join     the lowest address makes a group (after one more short look, since
                              another may have done so meanwhile), the rest pauses and discovers anew
    JOIN_RSP                  view and digest with us in it: installed; acknowledged to its creator

Every retry discovers anew. After max_join_attempts: a group of our own, or Failed (`give_up`).

Source: WIRE.md 11.1; JGroups ClientGmsImpl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.values.address import Address
from jgroups_py.values.events import Failed, FindMembers, FoundMember
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.view import Digest, View, ViewId, lowest
from jgroups_py.wire.headers import GmsType
from jgroups_py.wire.values import read_join_rsp

if TYPE_CHECKING:
    from jgroups_py.protocols.membership.gms.protocol import GMS

_GUARD = 1.0
"""Seconds beyond its time-out after which a discovery that did not answer is taken to have found
nobody (there may be none in the stack)."""


class Joiner:
    """See the module's docstring. Idle before Connect and after the first view."""

    def __init__(self, gms: GMS) -> None:
        self.gms = gms
        self._timer = gms.timer(self._on_timer, "_on_join_timer")
        self._wanted = False
        self._ready = False
        self._with_state = False
        self._attempts = 0
        self._attempt_until = 0.0
        """An attempt lasts join_timeout; looking quickly for others that join does not use them up."""
        self._discovering = False
        self._confirming = False
        self._asked: dict[Address, None] = {}
        """Coordinators that were asked to let us in."""

    def stop(self) -> None:
        self._wanted = False
        self._asked.clear()
        self._discovering = False
        self._timer.cancel()

    def connect(self, with_state: bool) -> None:
        if self.gms.view is None and not self.gms.left:
            self._wanted = True
            self._with_state = with_state
            self._begin()

    def transport_ready(self) -> None:
        self._ready = True
        self._begin()

    def _begin(self) -> None:
        if self._wanted and self._ready and self._attempts == 0:
            self._discover()

    # --- discovery

    def _discover(self) -> None:
        gms, config = self.gms, self.gms.config
        if gms.now >= self._attempt_until:
            if config.max_join_attempts and self._attempts >= config.max_join_attempts:
                self._give_up()
                return
            self._attempts += 1
            self._attempt_until = gms.now + config.join_timeout
        self._search(config.join_timeout)

    def _search(self, timeout: float) -> None:
        self._discovering = True
        self._timer.start(timeout + _GUARD)
        self.gms.pass_event_down(FindMembers(self.gms.name, timeout))

    def found(self, members: tuple[FoundMember, ...], alone: bool) -> None:
        """The end of one discovery."""
        if not self._discovering or not self._wanted:
            return
        self._discovering = False
        gms = self.gms
        others = [m for m in members if m.address != gms.local_address]
        coordinators = [m.address for m in others if m.is_coordinator]
        confirmed, self._confirming = self._confirming, False
        if coordinators:
            self._ask(coordinators[(self._attempts - 1) % len(coordinators)])
        elif alone or not others:
            self._become_singleton()
        elif any(m.is_server for m in others):
            self._timer.start(gms.config.join_timeout)
        elif gms.local_address != lowest((gms.local_address, *[m.address for m in others])):
            self._timer.start(gms.config.all_clients_retry_timeout)
        elif confirmed:
            self._become_singleton()
        else:
            self._confirming = True
            self._search(gms.config.all_clients_retry_timeout)

    def _on_timer(self) -> None:
        if self._discovering:
            self.found((), False)
        else:
            self._discover()

    # --- asking to be let in

    def _ask(self, coordinator: Address) -> None:
        gms = self.gms
        self._asked[coordinator] = None
        gms.trace("join", coordinator=coordinator, attempt=self._attempts)
        self._timer.start(gms.config.join_timeout)
        kind = GmsType.JOIN_REQ_WITH_STATE_TRANSFER if self._with_state else GmsType.JOIN_REQ
        gms.send(
            coordinator,
            kind,
            member=gms.local_address,
            flags=int(Flag.OOB),
            message=MessageType.BYTES,
        )

    def response(self, src: Address, payload: bytes | memoryview) -> None:
        """JOIN_RSP."""
        gms = self.gms
        answer = gms.decode(read_join_rsp, payload)
        if not self._wanted or src not in self._asked:
            gms.views_ignored += 1
            return
        if answer is None:
            raise RemoteProtocolError("an empty join response")
        if answer.fail_reason is not None and answer.view is None:
            self._fail(f"{gms.name_of(src)} refused: {answer.fail_reason}")
            return
        view, digest = answer.view, answer.digest
        if view is None or digest is None:
            raise RemoteProtocolError("a join response without view or digest")
        gms.believe(view.id)
        if gms.local_address not in view or gms.local_address not in digest:
            raise RemoteProtocolError("a join response without the joiner")
        self.stop()
        gms.install_first(view, digest)
        gms.send(view.view_id.creator, GmsType.VIEW_ACK, flags=int(Flag.OOB | Flag.NO_FC))

    # --- without others

    def _become_singleton(self) -> None:
        gms = self.gms
        self.stop()
        me = gms.local_address
        gms.trace("alone")
        gms.install_first(View(ViewId(me, 0), (me,)), Digest({me: (0, 0)}))

    def _give_up(self) -> None:
        gms = self.gms
        gms.log.warning("could not join after %d attempts", self._attempts)
        if gms.config.give_up == "singleton":
            self._become_singleton()
        else:
            self._fail(f"could not join after {self._attempts} attempts")

    def _fail(self, problem: str) -> None:
        self.stop()
        self.gms.pass_event_up(Failed(problem))

    def check(self) -> None:
        assert not (self._wanted and self.gms.view is not None)
        if self._wanted and self._ready:
            assert self._timer.armed, "joining, but nothing will happen"
