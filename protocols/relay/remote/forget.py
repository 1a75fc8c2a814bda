"""What every site has, and whom every site has forgotten: nothing is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jgroups_py.protocols.relay.wire import Forget, Trim
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.protocol import RELAY


class Forgetting:
    """Applies what the relay says in its stream."""

    def __init__(self, relay: RELAY) -> None:
        self.relay = relay

    def on_trim(self, src: Address, trim: Trim) -> None:
        relay = self.relay
        if relay.line and src == relay.line[0] and not relay.is_relay:
            relay.state.sites = {name: None for name in trim.sites if name != relay.config.site}
        for origin, number in trim.trimmed.items():
            if relay.state.is_forgotten(origin):
                continue
            if number > relay.state.trimmed.get(origin, 0):
                relay.state.trimmed[origin] = number
            count = relay.buffer.trim(origin, number)
            if relay.watched:
                relay.trace("trim", origin=relay.shown(origin), seqno=number, count=count)

    def on_forget(self, forget: Forget) -> None:
        relay = self.relay
        if forget.site:
            relay.state.forget_remote(forget.site, forget.origins, relay.now)
            relay.reports.forget(forget.site, forget.origins)
            for session in relay.bridge.sessions.values():
                session.forget_remote(forget.site, forget.origins)
            relay.reporting.forget(forget.site, forget.origins)
            relay.incoming.forget(forget.site, forget.origins)
            for origin in forget.origins:
                for session in relay.bridge.sessions.values():
                    session.forget(origin)
            return
        # Who was left out by the others of our view is told, too, that they forget it.
        self.forget([o for o in forget.origins if not relay.is_member(o)])

    def forget(self, origins: Sequence[bytes]) -> None:
        """Departed members of this site: nothing is left of them, but that they are forgotten."""
        self.relay.state.forget(origins, self.relay.now)
        self.drop(origins)

    def drop(self, origins: Sequence[bytes]) -> None:
        """Also what there is of members of which nothing was delivered."""
        relay = self.relay
        tables: tuple[dict[bytes, Any], ...] = (
            relay.home.gone_at,
            relay.home.trim_serials,
            relay.sources,
            relay.stability.numbers,
            relay.stability.marks,
        )
        for origin in origins:
            relay.buffer.cut(origin, 0)
            for numbers in tables:
                numbers.pop(origin, None)
            for floor in relay.holding.floors.values():
                floor.pop(origin, None)
