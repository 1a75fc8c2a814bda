"""COLLECT: the round in which a member becomes a holder, and what it knows from the last one. See RELAY.md.

The member asks every member of its view. Each answers after it has installed that view: what it knows, and which runs
it buffers. The asker fetches what it lacks, one piece at a time. The round is over when everybody has answered and
nothing is left to fetch.
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
    """One round. ``members``: whom to ask (without the asker)."""

    def __init__(self, view: ViewKey, members: Sequence[Address]) -> None:
        self.view = view
        self.members = list(members)
        self.answers: dict[Address, Known] = {}
        self.fetching: Address | None = None
        self._offers: dict[Address, Ranges] = {}

    @property
    def silent(self) -> list[Address]:
        """Members that have not answered."""
        return [m for m in self.members if m not in self.answers]

    def answered(self, member: Address, answer: CollectAnswer) -> None:
        if member in self.members:
            self.answers[member] = answer.known
            self._offers[member] = dict(answer.ranges)

    def next_fetch(self, buffer: RelayBuffer, trimmed: Numbers) -> tuple[Address, Ranges] | None:
        """The member to ask now, and for which runs. None: there is nothing to ask, or an answer is under way.

        A member's offer is taken up once: what the member then does not send it does not have any more.
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


class CopyHolding:
    """Whether this member is a complete holder, and what the other holders said."""

    def __init__(self, out: RelayOut, roles: Roles, state: RelayState, buffer: RelayBuffer) -> None:
        self.round: Collect | None = None
        self.complete = False
        """Has this member collected since it is a holder?"""
        self.floors: dict[Address, Numbers] = {}
        """Numbers beyond ours that others said in the last round to have delivered."""
        self.merged = False
        """There was a merge: others may have delivered what never comes here."""
        self.second_look = False
        """This round only looks once more for what is missing; sessions with other sites go on."""
        self.looked_at = -1e9
        """When other members' buffers were last searched for what is missing."""
        self._out = out
        self._roles = roles
        self._state = state
        self._buffer = buffer

    def known(self, origin: bytes) -> int:
        """The highest number of a home origin that a survivor is known to have delivered."""
        own = self._state.delivered.get(origin, 0)
        if not self.floors or (not self.merged and self._roles.is_member(origin)):
            return own
        view = self._roles.view
        members = () if view is None else view.members
        return max(own, *(n.get(origin, 0) if m in members else 0 for m, n in self.floors.items()))

    # --- the round

    def new_round(self, *, complete: bool = False, second_look: bool = False) -> None:
        """``complete``: this member counts as a complete holder meanwhile."""
        self.complete = complete
        self.second_look = second_look
        self.round = Collect(self._roles.key, self._roles.others)

    def begin_anew(self, merged: bool) -> None:
        """This member is a holder by a new view: it counts as one again when it has collected."""
        self.merged = self.merged or merged
        self.new_round()

    def stand_down(self) -> None:
        """This member is no holder."""
        self.complete = False
        self.round = None

    def ask_silent_ones(self) -> bool:
        """Asks those that have not answered. True: there are some."""
        if self.round is None or not self.round.silent:
            return False
        for member in self.round.silent:
            self._out.tell(member, CollectAsk(self.round.view))
        return True

    def answered(self, src: Address, answer: CollectAnswer) -> bool:
        """Take a holder's report of what it has. False: the answer belongs to no round that is under way."""
        if self.round is None or answer.view != self.round.view:
            return False
        self.round.answered(src, answer)
        return True

    def fetched(self, src: Address, fetched: Fetched) -> bool:
        """Take the end of a holder's answer to one Fetch. False: the answer belongs to no round that is under way."""
        if self.round is None or fetched.view != self.round.view:
            return False
        self.round.fetched(src, fetched.rest)
        return True

    def takes_copies_of(self, src: Address) -> bool:
        """Was ``src`` asked for copies?"""
        return self.round is not None and self.round.fetching == src

    def fetch_next(self) -> Collect | None:
        """Asks for the next piece. Returns the round if it is over."""
        collect = self.round
        assert collect is not None
        fetch = collect.next_fetch(self._buffer, self._state.trimmed)
        if fetch is not None:
            self._out.tell(fetch[0], Fetch(collect.view, fetch[1]))
            return None
        return collect if collect.complete else None

    def collected(self, collect: Collect) -> None:
        """The round is over: this member is a complete holder."""
        self.round = None
        self.complete = True
        here, remembered = self._state.delivered, self._state.remembered
        said = {m: remembered(numbers) for m, numbers in collect.delivered.items()}
        more = {m: {o: n for o, n in s.items() if n > here.get(o, 0)} for m, s in said.items()}
        self.floors = {m: numbers for m, numbers in more.items() if numbers}

    def looked(self) -> bool:
        """Was the round that is over only a second look?"""
        second_look, self.second_look = self.second_look, False
        if second_look:
            self.looked_at = self._out.now
        return second_look

    # --- for others

    def send_copies(self, src: Address, fetch: Fetch, room: int) -> None:
        """Sends ``src`` the runs it asked for, about ``room`` bytes of them."""
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
        """Forgets what members said that are not in ``view``."""
        for member in [m for m in self.floors if m not in view.members]:
            del self.floors[member]

    def forget(self, origin: bytes) -> None:
        for floor in self.floors.values():
            floor.pop(origin, None)
