"""The choice of the site that relays to the others: epochs, promotion, fencing. See design/relay.md, "Direction"."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from jgroups_py.errors import LocalProtocolError
from jgroups_py.protocols.relay.bridge.session import RelaySession
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.protocols.relay.home.origins import Origins
from jgroups_py.protocols.relay.out import RelayOut
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.protocols.relay.state import ALL, Epoch, Numbers, RelayState
from jgroups_py.protocols.relay.wire import Cut, Known


class Direction:
    """``state`` has the epoch that holds at this member. A relay may have announced a newer one."""

    def __init__(
        self, config: RelayConfig, out: RelayOut, roles: Roles, state: RelayState, origins: Origins
    ) -> None:
        self.announced: Epoch = state.epoch
        """The newest epoch that this member, as relay, has announced to its site."""
        self._config = config
        self._out = out
        self._roles = roles
        self._state = state
        self._origins = origins

    @property
    def is_relaying(self) -> bool:
        """Does this site relay to others now?"""
        return self._state.relays(self.announced)

    def say(self) -> None:
        """Log at the start which site is primary and whether this site relays."""
        config, log = self._config, self._out.log
        primary = config.first_primary
        if primary == ALL:
            log.info("primary: all; this site, %s, relays to the others", config.site)
        elif primary == config.site:
            log.info("primary: %s; this site relays to the others", primary)
        else:
            # Warn if the primary was not chosen: the first of the sites is primary by default.
            log.log(
                logging.INFO if config.primary else logging.WARNING,
                "primary: %s%s; this site, %s, does not relay: other sites do not get what is sent"
                ' here (primary="all": every site relays)',
                primary,
                "" if config.primary else ", the first of sites",
                config.site,
            )

    def may_promote(self) -> None:
        """Raises:
        LocalProtocolError: all sites relay anyway, or there is no view yet.
        """
        if self._config.first_primary == ALL:
            raise LocalProtocolError("every site relays: there is nothing to promote")
        if not self._roles.line:
            raise LocalProtocolError("not connected")

    def promote(self) -> None:
        """Make this site primary. Messages delivered earlier are not relayed."""
        base = dict(self._state.delivered)
        self.begin((self.announced[0] + 1, self._config.site), base)

    def follow(self) -> bool:
        """Follow a new epoch of ``state``. False: this member announced it."""
        if self._state.epoch <= self.announced:
            return False
        self.announced = self._state.epoch
        return True

    def step_down(self) -> None:
        """Stop being relay: an announced epoch may never arrive."""
        self.announced = self._state.epoch

    def hear(self, session: RelaySession, epoch: Epoch) -> bool:
        """Note the ``epoch`` of another site's relay. True: it is higher than ours and now holds here, too."""
        out, state, was = self._out, self._state, self.announced
        if epoch <= was or not self._roles.is_relay or self._config.first_primary == ALL:
            return False
        if state.relays(was):
            for origin in self._origins.origins():
                first = max(state.trimmed.get(origin, 0), session.acked.get(origin, 0)) + 1
                last = self._origins.known(origin)
                if first <= last:
                    out.log.warning(
                        "%s is primary since epoch %d; not known to have %s %d..%d",
                        epoch[1],
                        epoch[0],
                        out.shown(origin),
                        first,
                        last,
                    )
                    out.lost(epoch[1], out.shown(origin), first, last, "fenced")
        else:
            self.compare(epoch[1], was[1], session)
        self.begin(epoch, {})
        return True

    def compare(self, new: str, old: str, session: RelaySession) -> None:
        """Compare the old primary's messages here with its messages at the new primary."""
        ours = self._state.site_digest.get(old, {})
        theirs = session.have.get(old, {})
        if session.site != new or old == self._config.site:
            return
        for origin in {**ours, **theirs}:
            low, high = sorted((ours.get(origin, 0), theirs.get(origin, 0)))
            if low < high:
                self._out.lost(new, f"{origin.hex()[:8]}:{old}", low + 1, high, "differs")

    def begin(self, epoch: Epoch, base: Mapping[bytes, int]) -> None:
        """Announce ``epoch``. It holds at each member from this place in the relay's stream on."""
        out, state = self._out, self._state
        self.announced = epoch
        numbers = dict(base)
        out.trace("promote", epoch=epoch[0], primary=epoch[1])
        out.log.info("epoch %d: primary is %s", *epoch)
        if state.relays(epoch):
            state.begin_relaying(base)
        out.multicast(lambda serial: Cut(serial, epoch, numbers))

    def repeat(self, known: Iterable[Known]) -> None:
        """Announce the epoch again after a merge, for members of the other half that do not collect."""
        state, epoch = self._state, self.announced
        if all(one.epoch >= epoch for one in known):
            return
        numbers: Numbers = {}
        if state.relays(epoch):  # the other members would forget origins that are not named
            numbers = {**dict.fromkeys(state.delivered, 0), **state.base}
        self._out.multicast(lambda serial: Cut(serial, epoch, numbers))
