"""Multicasts of other sites, from this site's relay: each origin's numbers once and in order, or a reported gap."""

from __future__ import annotations

from collections.abc import Iterable

from jgroups_py.protocols.relay.out import RelayOut
from jgroups_py.protocols.relay.state import RelayState, fresh_from
from jgroups_py.protocols.relay.wire import SEQNO_MAX, SOURCE_ID, Gap, Lack
from jgroups_py.values.address import SiteUUID
from jgroups_py.values.batch import Batch
from jgroups_py.wire.headers import FragHeader, RelayHeader


class RelayedIncoming:
    """Tracks missing numbers. The numbers of each origin are in ``state``."""

    def __init__(self, out: RelayOut, state: RelayState) -> None:
        self.came_back = False
        """The origin of the last run had been forgotten and is known again."""
        self.asks: Lack | None = None
        """The question to the relay, if the last run was beyond a gap."""
        self._out = out
        self._state = state
        self._lacking: dict[tuple[str, bytes], int] = {}
        """By site and origin, the number below an open gap."""

    # --- runs

    def is_of_others(self, batch: Batch, header: FragHeader) -> bool:
        """Is this a run of another site? False: it has no number or source, or is our own; it is counted and must be
        dropped."""
        sender = sender_of(batch)
        last = header.id + len(batch) - 1
        if sender is None or not sender.site or not 0 < header.id <= last <= SEQNO_MAX:
            self._out.refuse(batch.src, "a relayed run without number or source")
            return False
        if sender.site == self._state.site:
            self._out.counters.returned += len(batch)
            return False
        return True

    def arrive(self, batch: Batch, header: FragHeader) -> Batch | None:
        """Return the new part of a run of another site. None: there is none. See ``asks`` and ``came_back``."""
        sender = sender_of(batch)
        assert sender is not None and sender.site, "see is_of_others"
        out, first = self._out, header.id
        site, origin = sender.site, bytes(sender)
        self.came_back, self.asks = False, None
        last = first + len(batch) - 1
        if not self._state.accepts(header.count, site):
            out.counters.fenced += len(batch)
            return None
        fresh = self.take(site, origin, first, last)
        if fresh is None:
            out.counters.beyond += len(batch)
            self.asks = self.lack(site, origin)
            return None
        if fresh > first:
            out.dropped_duplicates(sender, first, fresh - first)
        if fresh > last:
            return None
        out.counters.delivered_relayed += last + 1 - fresh
        return batch.slice(fresh - first, len(batch))

    # --- numbers

    def take(self, site: str, origin: bytes, first: int, last: int) -> int | None:
        """Take numbers ``first .. last`` of ``origin``. Return the first new one, or ``last + 1``. None: the run is
        beyond a gap, and ``lack`` makes the question."""
        state = self._state
        have = state.has(site, origin)
        self.came_back = not have and state.comes_back(site, origin)
        if self.came_back:
            have = state.has(site, origin)
        fresh = fresh_from(have, first, last)
        if fresh is not None and fresh <= last:
            state.advance(site, origin, last)
            if self._lacking:
                self._lacking.pop((site, origin), None)
        return fresh

    def lack(self, site: str, origin: bytes) -> Lack | None:
        """Return the report about a gap that ``take`` has found, once for each gap."""
        have = self._state.has(site, origin)
        if self._lacking.get((site, origin)) == have:
            return None
        self._lacking[site, origin] = have
        return Lack(site, {origin: have})

    def skip(self, gap: Gap) -> list[tuple[bytes, int, int]]:
        """Skip the numbers of ``gap``, which will not come. Return the lost numbers: origin, first and last number."""
        state, site = self._state, gap.site
        lost = []
        for origin, upto in gap.numbers.items():
            state.comes_back(site, origin)
            have = state.has(site, origin)
            if upto <= have:
                continue
            state.advance(site, origin, upto)
            self._lacking.pop((site, origin), None)
            if not gap.start:
                lost.append((origin, have + 1, upto))
        return lost

    def lacks(self) -> list[Lack]:
        """Return reports of all open gaps."""
        return [Lack(site, {origin: have}) for (site, origin), have in self._lacking.items()]

    def forget(self, site: str, origins: Iterable[bytes]) -> None:
        for origin in origins:
            self._lacking.pop((site, origin), None)


def sender_of(batch: Batch) -> SiteUUID | None:
    """Return the member of another site that sent this run, by the relay's header."""
    source = batch.header(SOURCE_ID, RelayHeader)
    sender = None if source is None else source.original_sender
    return sender if isinstance(sender, SiteUUID) else None
