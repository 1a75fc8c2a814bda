"""The origins of this site: their highest numbers here, and the numbers that other sites may have.

Other parts own the data. Only the senders that other sites see are kept here.
"""

from __future__ import annotations

from collections.abc import Callable

from jgroups_py.protocols.relay.holders.collect import CopyHolding
from jgroups_py.protocols.relay.home.buffer import RelayBuffer
from jgroups_py.protocols.relay.home.departures import Departures
from jgroups_py.protocols.relay.home.stability import Stability
from jgroups_py.protocols.relay.home.trim import Trimming
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.protocols.relay.state import Numbers, RelayState
from jgroups_py.values.address import UUID, Address, SiteUUID


class Origins:
    """``stability`` None: received messages may be relayed at once (``relay_when``)."""

    def __init__(
        self,
        roles: Roles,
        state: RelayState,
        holding: CopyHolding,
        buffer: RelayBuffer,
        departures: Departures,
        trimming: Trimming,
        stability: Stability | None,
        known_name: Callable[[Address], str | None],
    ) -> None:
        self._roles = roles
        self._state = state
        self._holding = holding
        self._buffer = buffer
        self._departures = departures
        self._trimming = trimming
        self._stability = stability
        self._known_name = known_name
        self._sources: dict[bytes, SiteUUID] = {}

    def known(self, origin: bytes) -> int:
        """Return the highest number of a home origin that a survivor is known to have delivered."""
        return self._holding.known(origin)

    def sendable(self, origin: bytes) -> int:
        """Return the number up to which other sites may have ``origin`` now."""
        known = self.known(origin)
        if self._stability is not None and self._roles.is_member(origin):
            if known == self._state.delivered.get(origin, 0):
                return min(known, self._stability.numbers.get(origin, 0))
            # A message from the other side of a partition will never be stable here.
        return known

    def origins(self) -> dict[bytes, None]:
        """Return the known origins that are not forgotten."""
        origins = dict.fromkeys(self._state.delivered)
        origins.update(dict.fromkeys(self._state.trimmed))
        for numbers in self._holding.floors.values():
            origins.update(dict.fromkeys(numbers))
        return {o: None for o in origins if not self._state.is_forgotten(o)}

    def so_far(self) -> Numbers:
        """Return the numbers delivered so far. A new session counts them as replay."""
        return {origin: self.known(origin) for origin in self.origins()}

    def still_known(self) -> list[bytes]:
        """Return the origins that other sites must not forget: members, and all with data here."""
        origins = self.origins()
        for member in self._roles.line:
            origins[bytes(member)] = None
        origins.update(dict.fromkeys(self._buffer.origins()))
        origins.update(dict.fromkeys(self._trimming.forgetting))
        # Lost members may be alive beyond a partition, with another relay.
        origins.update(dict.fromkeys(self._departures.gone_at))
        return list(origins)

    def was_silent(self, origin: bytes) -> bool:
        """Is there no message of ``origin``?"""
        return not (
            self.known(origin) or origin in self._state.trimmed or self._buffer.last(origin)
        )

    def source(self, origin: bytes) -> SiteUUID:
        """Return the sender that other sites see."""
        source = self._sources.get(origin)
        if source is None:
            name = self._known_name(UUID(origin))
            source = SiteUUID(origin, self._state.site, name)
            if name is not None:
                self._sources[origin] = source
        return source

    def forget(self, origin: bytes) -> None:
        self._sources.pop(origin, None)
