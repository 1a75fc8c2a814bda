"""COLLECT: the round in which a member becomes a holder. See RELAY.md.

The member asks everybody in its view; each answers after it has installed that view: what it knows, and
which runs it buffers. What the asker lacks it fetches, one piece at a time. When everybody has answered and
nothing is left to fetch, the round is over.
"""

from __future__ import annotations

from collections.abc import Sequence

from jgroups_py.protocols.relay.home.buffer import Buffer
from jgroups_py.protocols.relay.state import Numbers, SiteNumbers
from jgroups_py.protocols.relay.wire import CollectAnswer, Known, Ranges, ViewKey
from jgroups_py.values.address import Address


class Collect:
    """One round. ``members``: whom to ask (without the asker)."""

    def __init__(self, view: ViewKey, members: Sequence[Address]) -> None:
        self.view = view
        self.members = list(members)
        self.answers: dict[Address, Known] = {}
        self.fetching: Address | None = None
        self._offers: dict[Address, Ranges] = {}

    @property
    def silent(self) -> list[Address]:
        """Who has not answered."""
        return [m for m in self.members if m not in self.answers]

    def answered(self, member: Address, answer: CollectAnswer) -> None:
        if member in self.members:
            self.answers[member] = answer.known
            self._offers[member] = dict(answer.ranges)

    def next_fetch(self, buffer: Buffer, trimmed: Numbers) -> tuple[Address, Ranges] | None:
        """Whom to ask for which runs now; None: nothing to ask, or an answer is under way.

        A member's offer is taken up once: what it then does not send it does not have any more.
        """
        if self.fetching is not None:
            return None
        for member in list(self._offers):
            offer = self._offers.pop(member)
            wanted: Ranges = {}
            for origin, spans in offer.items():
                low = trimmed.get(origin, 0) + 1
                lacking = [
                    gap
                    for first, last in spans
                    for gap in buffer.missing(origin, max(first, low), last)
                ]
                if lacking:
                    wanted[origin] = lacking
            if wanted:
                self.fetching = member
                return member, wanted
        return None

    def fetched(self, member: Address, rest: Ranges) -> None:
        """``member`` has sent what it could at once; ``rest`` is asked for again."""
        if member == self.fetching:
            self.fetching = None
            if rest:
                self._offers[member] = rest

    @property
    def complete(self) -> bool:
        return not self.silent and self.fetching is None and not self._offers

    @property
    def delivered(self) -> dict[Address, Numbers]:
        return {m: known.delivered for m, known in self.answers.items()}

    @property
    def site_digests(self) -> list[SiteNumbers]:
        return [known.site_digest for known in self.answers.values()]
