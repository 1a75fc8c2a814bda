"""GMS, joining: from Connect to the first view.

    transport is ready        Discover.
    nobody is there           Make a group of our own.
    a coordinator             JOIN_REQ. Without an answer within join_timeout, discover anew.
    members without           Their coordinator is being replaced: discover anew after join_timeout.
      coordinator
    only others that join     The lowest address makes a group, after one more short look, since another
                              member may have done so meanwhile. A short look without an answer is followed by one of
                              join_timeout: members that answered before may be slow. The others pause and discover
                              anew.
    JOIN_RSP                  Install its view and digest, with us in it. Acknowledge it to its creator.

Every retry discovers anew. After max_join_attempts, ``give_up`` says whether a group of our own follows, or Failed.

Source: WIRE.md 11.1; JGroups ClientGmsImpl.
"""

from __future__ import annotations

from typing import NamedTuple

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.membership.gms.group import Group
from jgroups_py.protocols.membership.gms.out import GmsOut
from jgroups_py.stack.protocol import Timer
from jgroups_py.values.address import Address
from jgroups_py.values.events import Failed, FindMembers, FoundMember
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.payloads import JoinRsp
from jgroups_py.values.view import Digest, View, ViewId, lowest
from jgroups_py.wire.headers import GmsType

_GUARD = 1.0
"""The seconds after its time-out in which a discovery must answer; later it counts as having found no member. The stack
may have no discovery."""


class FirstView(NamedTuple):
    """Install ``view``; ``digest`` has the numbers at which senders begin for us. ``acknowledge``: the view comes from
    others."""

    view: View
    digest: Digest
    acknowledge: bool


class Joiner:
    """See the module's docstring. Idle before Connect and after the first view. Each step may return the
    first view. The keyword arguments are attributes of the protocol."""

    def __init__(
        self,
        out: GmsOut,
        group: Group,
        timer: Timer,
        *,
        join_timeout: float,
        max_join_attempts: int,
        give_up: str,
        all_clients_retry_timeout: float,
    ) -> None:
        self._out = out
        self._group = group
        self._timer = timer
        self._join_timeout = join_timeout
        self._max_attempts = max_join_attempts
        self._alone_at_last = give_up == "singleton"
        self._pause = all_clients_retry_timeout
        self._wanted = False
        self._ready = False
        self._with_state = False
        self._attempts = 0
        self._attempt_until = 0.0
        """The end of the present attempt, which lasts join_timeout. Short looks for others that join do not use up
        attempts."""
        self._discovering = False
        self._confirming = False
        """True if the running look is an additional one, after others that join were found."""
        self._short_look = False
        self._asked: dict[Address, None] = {}
        """Coordinators that were asked to let us in."""

    def stop(self) -> None:
        self._wanted = False
        self._asked.clear()
        self._discovering = False
        self._timer.cancel()

    def connect(self, with_state: bool) -> FirstView | None:
        if self._group.view is not None or self._group.left:
            return None
        self._wanted = True
        self._with_state = with_state
        return self._begin()

    def transport_ready(self) -> FirstView | None:
        self._ready = True
        return self._begin()

    def _begin(self) -> FirstView | None:
        if self._wanted and self._ready and self._attempts == 0:
            return self._discover()
        return None

    # --- discovery

    def _discover(self) -> FirstView | None:
        now = self._out.now
        if now >= self._attempt_until:
            if self._max_attempts and self._attempts >= self._max_attempts:
                return self._give_up()
            self._attempts += 1
            self._attempt_until = now + self._join_timeout
        self._search(self._join_timeout)
        return None

    def _search(self, timeout: float) -> None:
        self._discovering = True
        self._timer.start(timeout + _GUARD)
        self._out.down(FindMembers(self._out.name, timeout))

    def found(self, members: tuple[FoundMember, ...], alone: bool) -> FirstView | None:
        """Take the result of one discovery."""
        if not self._discovering or not self._wanted:
            return None
        self._discovering = False
        me = self._group.me
        others = [m for m in members if m.address != me]
        coordinators = [m.address for m in others if m.is_coordinator]
        confirmed, self._confirming = self._confirming, False
        short, self._short_look = self._short_look, False
        if coordinators:
            self._ask(coordinators[(self._attempts - 1) % len(coordinators)])
        elif short and not (alone or others):
            self._confirming = True
            self._search(self._join_timeout)
        elif alone or not others:
            return self._alone()
        elif any(m.is_server for m in others):
            self._timer.start(self._join_timeout)
        elif me != lowest((me, *[m.address for m in others])):
            self._timer.start(self._pause)
        elif confirmed:
            return self._alone()
        else:
            self._confirming = self._short_look = True
            self._search(self._pause)
        return None

    def time_is_over(self) -> FirstView | None:
        """Act when the timer has run out."""
        if self._discovering:
            return self.found((), False)
        return self._discover()

    # --- asking to be let in

    def _ask(self, coordinator: Address) -> None:
        self._asked[coordinator] = None
        self._out.trace("join", coordinator=coordinator, attempt=self._attempts)
        self._timer.start(self._join_timeout)
        kind = GmsType.JOIN_REQ_WITH_STATE_TRANSFER if self._with_state else GmsType.JOIN_REQ
        self._out.send(
            coordinator,
            kind,
            member=self._group.me,
            flags=int(Flag.OOB),
            message=MessageType.BYTES,
        )

    def has_asked(self, src: Address) -> bool:
        """Return whether an answer of ``src`` is awaited."""
        return self._wanted and src in self._asked

    def response(self, src: Address, answer: JoinRsp | None) -> FirstView | None:
        """Take a JOIN_RSP of an asked member. RemoteProtocolError: the response is impossible."""
        me = self._group.me
        if answer is None:
            raise RemoteProtocolError("an empty join response")
        if answer.fail_reason is not None and answer.view is None:
            self._fail(f"{self._out.name_of(src)} refused: {answer.fail_reason}")
            return None
        view, digest = answer.view, answer.digest
        if view is None or digest is None:
            raise RemoteProtocolError("a join response without view or digest")
        self._group.believe(view.id)
        if me not in view:  # the digest has the members of the view (write_digest_for)
            raise RemoteProtocolError("a join response without the joiner")
        self.stop()
        return FirstView(view, digest, True)

    # --- without others

    def _alone(self) -> FirstView:
        """Found a group of our own."""
        self.stop()
        me = self._group.me
        self._out.trace("alone")
        return FirstView(View(ViewId(me, 0), (me,)), Digest({me: (0, 0)}), False)

    def _give_up(self) -> FirstView | None:
        self._out.log.warning("could not join after %d attempts", self._attempts)
        if self._alone_at_last:
            return self._alone()
        self._fail(f"could not join after {self._attempts} attempts")
        return None

    def _fail(self, problem: str) -> None:
        self.stop()
        self._out.up(Failed(problem))

    def check(self) -> None:
        assert not (self._wanted and self._group.view is not None)
        if self._wanted and self._ready:
            assert self._timer.armed, "joining, but nothing will happen"
