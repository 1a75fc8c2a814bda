"""What a member tells its relay about itself: how far it has what comes from other sites."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jgroups_py.protocols.relay.state import Numbers
from jgroups_py.protocols.relay.wire import Report

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.protocol import RELAY


class Reporting:
    """At the next tick, or after ``ack_every`` messages; only what changed since the last time."""

    def __init__(self, relay: RELAY) -> None:
        self.relay = relay
        self.due = False
        self._told: dict[str, Numbers] = {}
        """By site, in this view."""
        self._told_state: tuple[int, bool] | None = None
        self._untold = 0

    def view_changed(self) -> None:
        """Everything is told again."""
        self._told = {}
        self._told_state = None

    def progress(self, count: int) -> None:
        """``count`` messages of other sites were delivered."""
        self._untold += count
        if self._untold >= self.relay.config.ack_every and not self.relay.is_relay:
            self.send()
        else:
            self.soon()

    def soon(self) -> None:
        self.due = True
        self.relay.wake()

    def send(self) -> None:
        """Tells the relay what changed since the last report in this view."""
        relay = self.relay
        self.due = False
        self._untold = 0
        if relay.view is None or relay.joining.waits or relay.is_relay:
            return
        digest: dict[str, Numbers] = {}
        for site, numbers in relay.state.site_digest.items():
            told = self._told.setdefault(site, {})
            news = {o: n for o, n in numbers.items() if told.get(o) != n}
            if news:
                digest[site] = news
                told.update(news)
        serial = relay.serials.get(relay.line[0], 0)
        state = (serial, relay.holding.complete)
        if digest or state != self._told_state:
            self._told_state = state
            relay.tell_relay(Report(relay.view_key, serial, relay.holding.complete, digest))

    def forget(self, site: str, origins: Iterable[bytes]) -> None:
        told = self._told.get(site, {})
        for origin in origins:
            told.pop(origin, None)
