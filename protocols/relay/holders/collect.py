"""COLLECT: the round in which a member becomes a holder, and the results of the last one. See RELAY.md.

The member asks every member of its view. Each answers, after it has installed that view, with its knowledge and its
buffered runs. The asker fetches missing runs, one piece at a time. The round is over when all members have answered and all
messages are fetched.
"""

from __future__ import annotations

from collections.abc import Sequence

from jgroups_py.protocols.relay.home.buffer import RelayBuffer
from jgroups_py.protocols.relay.out import RelayOut
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.protocols.relay.state import Numbers, RelayState, SiteNumbers
from jgroups_py.protocols.relay.wire import (
    CollectAnswer,
    CollectAsk,
    Fetch,
    Fetched,
    Known,
    Ranges,
    ViewKey,
)
from jgroups_py.values.address import Address
from jgroups_py.values.view import View


class Collect:
    """One round. ``members``: those to ask, without the asker."""

    def __init__(self, view: ViewKey, members: Sequence[Address]) -> None:
        self.view = view
        self.members = list(members)
        self.answers: dict[Address, Known] = {}
        self.fetching: Address | None = None
        self._offers: dict[Address, Ranges] = {}

    @property
    def silent(self) -> list[Address]:
        """Return the members that have not answered."""
        return [m for m in self.members if m not in self.answers]

    def answered(self, member: Address, answer: CollectAnswer) -> None:
        if member in self.members:
            self.answers[member] = answer.known
            self._offers[member] = dict(answer.ranges)

    def next_fetch(self, buffer: RelayBuffer, trimmed: Numbers) -> tuple[Address, Ranges] | None:
        """Return the member to ask now, and the runs to ask for. None: there is nothing to ask, or an answer is on its way.

        Each offered run is asked for once. If the member does not send it, the run is gone there.
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
        """Note the end of a member's answer. ``rest``: ranges to ask for again."""
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


class CopyHolding:
    """The state of this member as a holder, complete or not, and the answers of the other holders."""

    def __init__(self, out: RelayOut, roles: Roles, state: RelayState, buffer: RelayBuffer) -> None:
        self.round: Collect | None = None
        self.complete = False
        """Has this member collected since it became a holder?"""
        self.floors: dict[Address, Numbers] = {}
        """Numbers beyond ours that others reported as delivered in the last round."""
        self.merged = False
        """There was a merge: others may have delivered messages that never come here."""
        self.second_look = False
        """This round only looks again for missing numbers; sessions with other sites go on."""
        self.looked_at = -1e9
        """The time when other members' buffers were last searched for missing numbers."""
        self._out = out
        self._roles = roles
        self._state = state
        self._buffer = buffer

    def known(self, origin: bytes) -> int:
        """Return the highest number of a home origin that a survivor is known to have delivered."""
        own = self._state.delivered.get(origin, 0)
        if not self.floors or (not self.merged and self._roles.is_member(origin)):
            return own
        view = self._roles.view
        members = () if view is None else view.members
        return max(own, *(n.get(origin, 0) if m in members else 0 for m, n in self.floors.items()))

    # --- the round

    def new_round(self, *, complete: bool = False, second_look: bool = False) -> None:
        """Prepare a round. ``complete``: this member counts as a complete holder meanwhile."""
        self.complete = complete
        self.second_look = second_look
        self.round = Collect(self._roles.key, self._roles.others)

    def begin_anew(self, merged: bool) -> None:
        """Prepare the round of a new view: this member counts as a holder again after it."""
        self.merged = self.merged or merged
        self.new_round()

    def stand_down(self) -> None:
        """Stop being a holder."""
        self.complete = False
        self.round = None

    def ask_silent_ones(self) -> bool:
        """Ask the members that have not answered. True: there are some."""
        if self.round is None or not self.round.silent:
            return False
        for member in self.round.silent:
            self._out.tell(member, CollectAsk(self.round.view))
        return True

    def answered(self, src: Address, answer: CollectAnswer) -> bool:
        """Take a member's answer. False: it belongs to no running round."""
        if self.round is None or answer.view != self.round.view:
            return False
        self.round.answered(src, answer)
        return True

    def fetched(self, src: Address, fetched: Fetched) -> bool:
        """Take the end of a member's answer to one Fetch. False: it belongs to no running round."""
        if self.round is None or fetched.view != self.round.view:
            return False
        self.round.fetched(src, fetched.rest)
        return True

    def takes_copies_of(self, src: Address) -> bool:
        """Was ``src`` asked for copies?"""
        return self.round is not None and self.round.fetching == src

    def fetch_next(self) -> Collect | None:
        """Ask for the next piece. Return the round if it is over."""
        collect = self.round
        assert collect is not None
        fetch = collect.next_fetch(self._buffer, self._state.trimmed)
        if fetch is not None:
            self._out.tell(fetch[0], Fetch(collect.view, fetch[1]))
            return None
        return collect if collect.complete else None

    def collected(self, collect: Collect) -> None:
        """End the round: this member is a complete holder."""
        self.round = None
        self.complete = True
        here, remembered = self._state.delivered, self._state.remembered
        said = {m: remembered(numbers) for m, numbers in collect.delivered.items()}
        more = {m: {o: n for o, n in s.items() if n > here.get(o, 0)} for m, s in said.items()}
        self.floors = {m: numbers for m, numbers in more.items() if numbers}

    def looked(self) -> bool:
        """Was the last round only a second look?"""
        second_look, self.second_look = self.second_look, False
        if second_look:
            self.looked_at = self._out.now
        return second_look

    # --- for others

    def send_copies(self, src: Address, fetch: Fetch, room: int) -> None:
        """Send ``src`` the requested runs, about ``room`` bytes of them."""
        buffer, out = self._buffer, self._out
        rest: Ranges = {}
        for origin, spans in fetch.ranges.items():
            for first, last in spans:
                at: int | None = first
                while room > 0 and at is not None and at <= last:
                    found = buffer.get(origin, at, last, room)
                    if found is None:
                        at = buffer.next_above(origin, at)
                        continue
                    run, payloads = found
                    out.send_copy(src, origin, at, payloads, run.flags, run.type)
                    room -= max(1, run.size * len(payloads) // run.count)
                    at += len(payloads)
                if at is not None and at <= last:
                    rest.setdefault(origin, []).append((at, last))
        out.tell(src, Fetched(fetch.view, rest))

    def keep(self, view: View) -> None:
        """Forget the answers of members that are not in ``view``."""
        for member in [m for m in self.floors if m not in view.members]:
            del self.floors[member]

    def forget(self, origin: bytes) -> None:
        for floor in self.floors.values():
            floor.pop(origin, None)
