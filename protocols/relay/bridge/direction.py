"""Which site relays to the others: epochs, promotion, fencing. See design/relay.md, "Direction"."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from jgroups_py.errors import LocalProtocolError
from jgroups_py.protocols.relay.bridge.session import Session
from jgroups_py.protocols.relay.state import ALL, Epoch, Numbers
from jgroups_py.protocols.relay.wire import Cut, Known, PromoteAsk

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.protocol import RELAY


class Direction:
    """The state is in RelayState (``epoch``, ``base``) and in RELAY (``announced``)."""

    def __init__(self, relay: RELAY) -> None:
        self.relay = relay

    def say(self) -> None:
        """One line at the start: which site is primary, and whether this one relays."""
        config, log = self.relay.config, self.relay.log
        primary = config.first_primary
        if primary == ALL:
            log.info("primary: all; this site, %s, relays to the others", config.site)
        elif primary == config.site:
            log.info("primary: %s; this site relays to the others", primary)
        else:
            # A warning where nobody chose: the first of the sites is primary by default.
            log.log(
                logging.INFO if config.primary else logging.WARNING,
                "primary: %s%s; this site, %s, does not relay: other sites do not get what is sent"
                ' here (primary="all": every site relays)',
                primary,
                "" if config.primary else ", the first of sites",
                config.site,
            )

    def promote(self) -> None:
        """This site becomes primary. Any member may be told; its relay does it.

        Raises:
            LocalProtocolError: all sites relay anyway, or there is no view yet.
        """
        relay = self.relay
        if relay.config.first_primary == ALL:
            raise LocalProtocolError("every site relays: there is nothing to promote")
        if not relay.line:
            raise LocalProtocolError("not connected")
        if not relay.is_relay:
            relay.out.tell(relay.line[0], PromoteAsk())
            return
        if relay.is_relaying:
            return
        base = dict(relay.state.delivered)
        self.begin((relay.announced[0] + 1, relay.config.site), base)
        relay.bridge.tell_epoch()

    def hear(self, session: Session, epoch: Epoch) -> None:
        """A relay of another site lives in ``epoch``; a higher one than ours holds here too."""
        relay = self.relay
        if epoch <= relay.announced or not relay.is_relay or relay.config.first_primary == ALL:
            return
        was = relay.announced
        if relay.state.relays(was):
            for origin in relay.origins():
                first = max(relay.state.trimmed.get(origin, 0), session.acked.get(origin, 0)) + 1
                last = relay.known(origin)
                if first <= last:
                    relay.log.warning(
                        "%s is primary since epoch %d; not known to have %s %d..%d",
                        epoch[1],
                        epoch[0],
                        relay.shown(origin),
                        first,
                        last,
                    )
                    relay.note_gap(epoch[1], relay.shown(origin), first, last, "fenced")
        else:
            self.compare(epoch[1], was[1], session)
        self.begin(epoch, {})
        relay.bridge.tell_epoch()

    def compare(self, new: str, old: str, session: Session) -> None:
        """What the old primary sent must be the same here and at the new one."""
        relay = self.relay
        ours = relay.state.site_digest.get(old, {})
        theirs = session.have.get(old, {})
        if session.site != new or old == relay.config.site:
            return
        for origin in {**ours, **theirs}:
            low, high = sorted((ours.get(origin, 0), theirs.get(origin, 0)))
            if low < high:
                relay.note_gap(new, f"{origin.hex()[:8]}:{old}", low + 1, high, "differs")

    def begin(self, epoch: Epoch, base: Mapping[bytes, int]) -> None:
        """Announces it; it holds for each member from this place in the relay's stream on."""
        relay = self.relay
        relay.announced = epoch
        numbers = dict(base)
        relay.trace("promote", epoch=epoch[0], primary=epoch[1])
        relay.log.info("epoch %d: primary is %s", *epoch)
        if relay.state.relays(epoch):
            relay.state.base = dict(base)
            for origin, number in base.items():
                relay.state.trimmed[origin] = max(number, relay.state.trimmed.get(origin, 0))
        relay.out.multicast(lambda serial: Cut(serial, epoch, numbers))

    def repeat(self, known: Iterable[Known]) -> None:
        """After a merge: somebody whose half has not heard of the epoch, and does not collect."""
        relay = self.relay
        epoch = relay.announced
        if all(one.epoch >= epoch for one in known):
            return
        numbers: Numbers = {}
        if relay.state.relays(epoch):  # who is not named would be forgotten there
            numbers = {**dict.fromkeys(relay.state.delivered, 0), **relay.state.base}
        relay.out.multicast(lambda serial: Cut(serial, epoch, numbers))

    def on_cut(self, cut: Cut) -> None:
        relay = self.relay
        if cut.epoch <= relay.state.epoch:
            return
        relayed = relay.state.relays()
        relay.state.begin_epoch(cut.epoch, cut.base)
        relay.posts.epoch(*cut.epoch)
        relay.announced = max(relay.announced, cut.epoch)
        relays = relay.state.relays()
        if relays:
            self.forget_departed(cut)
        if relayed and not relays:
            relay.buffer.clear()
            relay.state.trimmed = {}
            relay.home.end_forgetting(list(relay.home.forgetting))
        elif relays:
            relay.keeping.trim()
            if not relayed and relay.is_holder:
                relay.holding.complete = relay.is_relay and relay.holding.complete
                relay.holding.new_round()
                relay.holding.ask_round()
        relay.report_soon()

    def forget_departed(self, cut: Cut) -> None:
        """While a site does not relay, each member forgets who has left on its own. Whom the relay has
        forgotten is not in its base: nobody else may take them for senders that are to be relayed."""
        relay = self.relay
        delivered = relay.state.delivered
        relay.forget([o for o in delivered if o not in cut.base and not relay.is_member(o)])
