"""A relay that leaves: flush what was delivered until now, leave the bridge, go.

The bridge first, so that the successor finds it in order: a member that ends while its good-bye
is still under way is missed there only when it is suspected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.protocols.relay.state import Numbers
from jgroups_py.values.events import Disconnect

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.protocol import RELAY


class Leaving:
    """Holds Disconnect back while the tail is not acknowledged, ``leave_timeout`` at most."""

    def __init__(self, relay: RELAY) -> None:
        self.relay = relay
        self.flush: Numbers | None = None
        """What must be acknowledged; None: not leaving, or done."""
        self.done = False
        self._gone = False
        self.timer = relay.timer(self.on_timeout, "_on_leave_timeout")

    def begin(self) -> None:
        relay = self.relay
        ready = relay.is_relay and relay.is_relaying and relay.bridge.is_open
        if self.flush is not None:
            return
        if not ready or not relay.state.sites:
            self.finish()
            return
        self.flush = {origin: relay.known(origin) for origin in relay.origins()}
        if self.nobody_is_there():
            # Waiting helps nobody: no member takes over, and no site can acknowledge.
            self.give_up(": no other site is on the bridge")
            return
        self.timer.start(relay.config.leave_timeout)
        self.go_on()

    def go_on(self) -> None:
        assert self.flush is not None
        trimmed = self.relay.state.trimmed
        if all(trimmed.get(o, 0) >= n for o, n in self.flush.items() if n):
            self.finish()
        else:
            self.relay.out.wake()

    def on_timeout(self) -> None:
        if self.flush is not None:
            self.give_up()
        elif self.done:
            self.relay.log.warning("leaving without a word from the bridge")
            self._go()

    def nobody_is_there(self) -> bool:
        """We are alone at home and on the bridge, which has told us who is there, and no other site has ever
        acknowledged anything. One that has may come back within ``leave_timeout``."""
        relay = self.relay
        alone = relay.bridge.view is not None and not relay.bridge.sessions
        return len(relay.line) == 1 and alone and not any(relay.state.trimmed.values())

    def give_up(self, why: str = "") -> None:
        relay = self.relay
        assert self.flush is not None
        lacking = sum(max(0, n - relay.state.trimmed.get(o, 0)) for o, n in self.flush.items())
        if lacking:
            relay.log.warning("leaving with %d messages that are not acknowledged%s", lacking, why)
            relay.trace("leave_timeout", count=lacking)
        self.finish()

    def abandon(self) -> None:
        """Another member is relay now: leaving needs no flush."""
        if self.flush is not None:
            self.finish()

    def finish(self) -> None:
        if self.done:
            return
        self.flush = None
        self.done = True
        self.relay.roles.leave()
        self.timer.start(self.relay.config.leave_timeout)
        self.relay.bridge.close(then=self._go)

    def _go(self) -> None:
        self.timer.cancel()
        if not self._gone:
            self._gone = True
            self.relay.pass_event_down(Disconnect())
