"""What comes from other sites: each origin's messages in order, once, or a gap that is said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jgroups_py.protocols.relay.wire import SEQNO_MAX, SOURCE_ID, Gap, Lack
from jgroups_py.values.address import SiteUUID
from jgroups_py.values.batch import Batch
from jgroups_py.wire.headers import FragHeader, RelayHeader

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.protocol import RELAY


class Incoming:
    """RELAYED multicasts of this site's relay. How far each origin is: ``relay.state``."""

    def __init__(self, relay: RELAY) -> None:
        self.relay = relay
        self._lacking: dict[tuple[str, bytes], int] = {}
        """By site and origin: something came beyond this number."""

    def up(self, batch: Batch, header: FragHeader) -> None:
        relay = self.relay
        source = batch.header(SOURCE_ID, RelayHeader)
        sender = None if source is None else source.original_sender
        first = header.id
        last = first + len(batch) - 1
        if (
            not isinstance(sender, SiteUUID)
            or not sender.site
            or not 0 < first <= last <= SEQNO_MAX
        ):
            relay.out.refuse(batch.src, "a relayed run without number or source")
            relay.consume(batch)
        elif sender.site == relay.config.site:
            relay.counters.returned += len(batch)
            relay.consume(batch)
        elif relay.joining.waits:
            relay.joining.enqueue(batch)
        elif not relay.state.accepts(header.count, sender.site):
            relay.counters.fenced += len(batch)
            relay.consume(batch)
        else:
            self._deliver(batch, sender, sender.site, first, last)

    def _deliver(self, batch: Batch, sender: SiteUUID, site: str, first: int, last: int) -> None:
        relay, origin = self.relay, bytes(sender)
        have = relay.state.has(site, origin)
        if not have and relay.state.comes_back(site, origin):
            have = relay.state.has(site, origin)
            relay.report_soon()
        if last <= have:
            relay.out.dropped_duplicates(sender, first, len(batch))
            relay.consume(batch)
            return
        if first > have + 1:
            relay.counters.beyond += len(batch)
            relay.consume(batch)
            if self._lacking.get((site, origin)) != have:
                self._lacking[site, origin] = have
                relay.tell_relay(Lack(site, {origin: have}))
                relay.out.ask_again()
            return
        if first <= have:
            relay.out.dropped_duplicates(sender, first, have + 1 - first)
            batch = batch.slice(have + 1 - first, len(batch))
        relay.state.advance(site, origin, last)
        if self._lacking:
            self._lacking.pop((site, origin), None)
        relay.counters.delivered_relayed += len(batch)
        relay.progress(len(batch))
        if relay.watched:
            relay.trace(
                "deliver_relayed", origin=str(sender), seqno=last + 1 - len(batch), count=len(batch)
            )
        relay.pass_up(
            Batch(
                None,
                batch.payloads,
                {},
                sender,
                batch.flags,
                batch.transient,
                batch.type,
                batch.credits,
            )
        )

    def on_gap(self, gap: Gap) -> None:
        """These numbers will not come."""
        relay = self.relay
        for origin, upto in gap.numbers.items():
            relay.state.comes_back(gap.site, origin)
            have = relay.state.has(gap.site, origin)
            if upto <= have:
                continue
            relay.state.advance(gap.site, origin, upto)
            self._lacking.pop((gap.site, origin), None)
            if not gap.start:
                relay.counters.skipped += upto - have
                shown = f"{origin.hex()[:8]}:{gap.site}"
                relay.note_gap(gap.site, shown, have + 1, upto, "skipped")
        relay.report_soon()

    def ask_again(self) -> bool:
        """True: something is still missing."""
        for (site, origin), have in self._lacking.items():
            self.relay.tell_relay(Lack(site, {origin: have}))
        return bool(self._lacking)

    def forget(self, site: str, origins: Iterable[bytes]) -> None:
        for origin in origins:
            self._lacking.pop((site, origin), None)
