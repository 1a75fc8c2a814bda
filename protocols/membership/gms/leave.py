"""GMS, leaving: from Disconnect to Disconnected.

    Disconnect                LEAVE_REQ to who acts as coordinator without us: the coordinator, or the
                              second member if we are it. Alone, or not joined: Disconnected at once
    that member goes too      LEAVE_REQ to the next one; nobody left: Disconnected
    LEAVE_RSP, a VIEW         Disconnected
      without us
    leave_timeout             Disconnected; the others will find out

Source: WIRE.md 11.2; JGroups Leaver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.values.address import Address
from jgroups_py.values.events import Disconnected
from jgroups_py.values.message import Flag
from jgroups_py.wire.headers import GmsType

if TYPE_CHECKING:
    from jgroups_py.protocols.membership.gms.protocol import GMS


class Leaver:
    """See the module's docstring."""

    def __init__(self, gms: GMS) -> None:
        self.gms = gms
        self.leaving = False
        self._target: Address | None = None
        self._timer = gms.timer(self._on_timeout, "_on_leave_timeout")

    def stop(self) -> None:
        self.leaving = False
        self._timer.cancel()

    def leave(self) -> None:
        gms = self.gms
        if self.leaving or gms.left:
            return
        gms.joiner.stop()
        gms.trace("leave")
        self.leaving = True
        if gms.view is None or len(gms.view) == 1:
            self.gone()
            return
        self._timer.start(gms.config.leave_timeout)
        gms.agreement.abandon()
        self.check_target()

    def check_target(self) -> None:
        """Who acts without us may have changed."""
        if not self.leaving:
            return
        target = self.gms.changes.acting_without_us()
        if target is None:
            self.gone()
        elif target != self._target:
            self._target = target
            self.tell(target, self.gms.local_address)

    def tell(self, target: Address, leaver: Address) -> None:
        """LEAVE_REQ: ``leaver`` wants to go."""
        self.gms.send(target, GmsType.LEAVE_REQ, member=leaver, flags=int(Flag.OOB))

    def response(self, src: Address) -> None:
        """LEAVE_RSP."""
        if self.leaving and self.gms.view is not None and src in self.gms.view:
            self.gone()

    def _on_timeout(self) -> None:
        self.gms.log.info("left without an answer of the group")
        self.gone()

    def gone(self) -> None:
        """Over: tell the owner."""
        gms = self.gms
        self.stop()
        gms.stop()
        gms.trace("left")
        gms.pass_event_up(Disconnected())

    def check(self) -> None:
        assert self._timer.armed == self.leaving
