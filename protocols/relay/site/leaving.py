"""The leave of a relay: it flushes delivered messages, leaves the bridge, and then leaves its site.

It leaves the bridge first, so that the successor finds it in order. If the member ends before its good-bye arrives, the
bridge notices by suspicion only.
"""

from __future__ import annotations

from collections.abc import Callable

from jgroups_py.protocols.relay.bridge.direction import Direction
from jgroups_py.protocols.relay.bridge.link import RelayBridge
from jgroups_py.protocols.relay.home.origins import Origins
from jgroups_py.protocols.relay.out import RelayOut
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.protocols.relay.state import Numbers, RelayState


class RelayLeaving:
    """Holds ``disconnect`` back until the last messages are acknowledged, at most for ``timeout``."""

    def __init__(
        self,
        out: RelayOut,
        roles: Roles,
        state: RelayState,
        origins: Origins,
        direction: Direction,
        bridge: RelayBridge,
        timeout: float,
        disconnect: Callable[[], None],
    ) -> None:
        self.flush: Numbers | None = None
        """Numbers that must be acknowledged; None: not leaving, or done."""
        self.done = False
        self.timer = out.timer(self.on_timeout, "_on_leave_timeout")
        self._gone = False
        self._out = out
        self._roles = roles
        self._state = state
        self._origins = origins
        self._direction = direction
        self._bridge = bridge
        self._timeout = timeout
        self._disconnect = disconnect

    def begin(self) -> None:
        ready = self._roles.is_relay and self._direction.is_relaying and self._bridge.is_open
        if self.flush is not None:
            return
        if not ready or not self._state.sites:
            self.finish()
            return
        self.flush = self._origins.so_far()
        if self.nobody_is_there():
            # Waiting is useless: no member takes over, and no site can acknowledge.
            self.give_up(": no other site is on the bridge")
            return
        self.timer.start(self._timeout)
        self.go_on()

    def go_on(self) -> None:
        assert self.flush is not None
        trimmed = self._state.trimmed
        if all(trimmed.get(o, 0) >= n for o, n in self.flush.items() if n):
            self.finish()
        else:
            self._out.wake()

    def on_timeout(self) -> None:
        if self.flush is not None:
            self.give_up()
        elif self.done:
            self._out.log.warning("leaving without a word from the bridge")
            self._go()

    def nobody_is_there(self) -> bool:
        """Return whether this member is alone at home and on the bridge, and no other site has ever acknowledged a message. A site that
        has acknowledged may come back within ``timeout``."""
        bridge = self._bridge
        alone = bridge.view is not None and not bridge.sessions
        return len(self._roles.line) == 1 and alone and not any(self._state.trimmed.values())

    def give_up(self, why: str = "") -> None:
        out, trimmed = self._out, self._state.trimmed
        assert self.flush is not None
        lacking = sum(max(0, n - trimmed.get(o, 0)) for o, n in self.flush.items())
        if lacking:
            out.log.warning("leaving with %d messages that are not acknowledged%s", lacking, why)
            out.trace("leave_timeout", count=lacking)
        self.finish()

    def abandon(self) -> None:
        """Give up the flush: another member is relay now."""
        if self.flush is not None:
            self.finish()

    def finish(self) -> None:
        if self.done:
            return
        self.flush = None
        self.done = True
        self._roles.leave()
        self.timer.start(self._timeout)
        self._bridge.close(then=self._go)

    def _go(self) -> None:
        self.timer.cancel()
        if not self._gone:
            self._gone = True
            self._disconnect()
