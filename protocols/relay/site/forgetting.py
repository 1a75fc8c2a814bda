"""Forgets departed members of this site: the due ones, the order of the records, and the tables to clear.

The steps are those of ``Trimming`` (design/relay.md, "Forgetting"). ``start`` of protocol.py names every part that has
a table by origin, so that no entry of a forgotten origin is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol as Shape

from jgroups_py.protocols.relay.bridge.link import RelayBridge
from jgroups_py.protocols.relay.home.departures import Departures
from jgroups_py.protocols.relay.home.keep import CopyKeeping
from jgroups_py.protocols.relay.home.origins import Origins
from jgroups_py.protocols.relay.home.trim import Trimming
from jgroups_py.protocols.relay.out import RelayOut
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.protocols.relay.state import RelayState
from jgroups_py.protocols.relay.wire import Forget


class HasOrigins(Shape):
    """A part with a table by origin."""

    def forget(self, origin: bytes, /) -> None: ...


class Forgetting:
    """``wait``: seconds after which a departed member may be forgotten (``gap_wait``). ``parts``: the other parts with
    tables by origin."""

    def __init__(
        self,
        out: RelayOut,
        roles: Roles,
        state: RelayState,
        keeping: CopyKeeping,
        departures: Departures,
        trimming: Trimming,
        origins: Origins,
        bridge: RelayBridge,
        wait: float,
        parts: Sequence[HasOrigins],
    ) -> None:
        self._out = out
        self._roles = roles
        self._state = state
        self._keeping = keeping
        self._departures = departures
        self._trimming = trimming
        self._origins = origins
        self._bridge = bridge
        self._wait = wait
        self._parts: tuple[HasOrigins, ...] = (departures, trimming, origins, *parts)

    # --- as relay

    def tell(self, is_stable: Callable[[int], bool]) -> None:
        """Tell the site which origins to forget now. ``is_stable``: has a record reached all members?"""
        departures = self._departures
        acknowledged = partial(self._bridge.sessions.acknowledged, list(self._state.sites))
        due = [o for o in departures.gone_at if self._may_forget(o, acknowledged, is_stable)]
        if due:
            for origin in due:
                departures.forget(origin)
            serial = self._out.multicast(lambda serial: Forget(serial, "", due))
            self._trimming.forgets(due, serial)

    def _may_forget(
        self, origin: bytes, acknowledged: Callable[[bytes], int], is_stable: Callable[[int], bool]
    ) -> bool:
        """May the origin be forgotten? ``acknowledged``: the number that all other sites have acknowledged."""
        state, trimming = self._state, self._trimming
        waits = not self._departures.gone_for(origin, self._wait)
        if waits or origin in trimming.forgetting:
            return False
        if state.is_forgotten(origin):
            return True  # other members have forgotten it without telling us: no site acknowledges it again
        acked = acknowledged(origin)
        # Messages from before the site was primary are never relayed.
        acked = max(acked, state.base.get(origin, 0))
        kept = max(self._origins.known(origin), self._keeping.buffer.last(origin))
        return trimming.may_forget(origin, acked, kept, is_stable)

    def end_told(self, is_stable: Callable[[int], bool]) -> None:
        """End origins whose FORGET has reached all members: other sites learn of it."""
        told = self._trimming.forgotten_by_all(is_stable)
        if told:
            self.end(told)
            self._bridge.tell_known()

    def tell_again(self) -> None:
        """Repeat all forgotten origins, because members that come back by a merge have missed them."""
        gone = self._state.forgotten()
        if self._trimming.take_merge() and gone:
            serial = self._out.multicast(lambda serial: Forget(serial, "", gone))
            # Sessions from before the merge, and other sites, may know these origins from here.
            self._trimming.forgets(gone, serial)

    # --- as every member

    def drop_silent(self) -> bool:
        """Drop departed members without data, after ``wait``. True: some are left."""
        departures = self._departures
        silent = [o for o in departures.gone_at if self._origins.was_silent(o)]
        due = [o for o in silent if departures.gone_for(o, self._wait)]
        for origin in due:
            self._state.is_over(origin)
        self._drop(due)
        if due:
            # Other sites may know it from a relay of another half of ours.
            self.end(due)
            self._bridge.tell_known()
        return len(due) < len(silent)

    def forget_gone(self) -> None:
        """Forget all departed members of a site that does not relay, because no other site knows them."""
        gone = list(self._departures.gone_at)
        if gone:
            self.forget(gone)
            self.end(gone)

    def end(self, origins: Sequence[bytes]) -> None:
        """End origins in sessions, too, because all members at home have forgotten them."""
        self._trimming.end(origins)
        self._bridge.sessions.forget(origins)

    def forget_before(self, base: Iterable[bytes]) -> None:
        """Forget origins that are not in ``base``. While a site does not relay, each member forgets leavers on its own.
        Afterwards no member may relay an origin that the relay has forgotten."""
        self.forget_departed([o for o in self._state.delivered if o not in base])

    def forget_departed(self, origins: Iterable[bytes]) -> None:
        """Forget those of ``origins`` that are no members."""
        self.forget([o for o in origins if not self._roles.is_member(o)])

    def forget(self, origins: Sequence[bytes]) -> None:
        """Forget departed members of this site. Only a note that they are forgotten stays."""
        self._state.forget(origins, self._out.now)
        self._drop(origins)

    def _drop(self, origins: Sequence[bytes]) -> None:
        """Drop the entries of ``origins`` everywhere, also of members without a delivered message."""
        for origin in origins:
            self._keeping.cut(origin, 0)
            for part in self._parts:
                part.forget(origin)
