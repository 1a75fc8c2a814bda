"""One order of proposals for all members: the view's coordinator numbers them by multicasting them.

    origin       Propose(view, number, body)      -> coordinator, again with every view
    coordinator  Ordered(view, origin, number, body) -> all, itself included; in its one FIFO stream
    member       Done(view, number)               -> origin, when it has applied it

A proposal is applied once, at its place in the coordinator's stream. Numbers of an origin only rise, so a member drops
proposals that it has and that come again through a new coordinator. Survivors of a coordinator agree on its messages
before the next view (GMS); lost ones are proposed again. A joiner begins with a member's state at one point of the
stream.

A machine: messages and views come in, messages to send and bodies to apply come out. Nothing waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from jgroups_py.errors import ReplicationError

Member = bytes
KEEP_VIEWS = 1000
"""Views after which an absent member is forgotten. A state may name members of views to come, and a follower of changes
(jgroups_py.export) names all origins, so a joiner has to know them. Each costs some 100 bytes in memory, and some 100
in a state."""
EARLY_MAX = 10_000
"""The most messages of views that this member has not installed yet. With more of them this member is left behind."""


class Propose(msgspec.Struct, frozen=True, tag="p", array_like=True):
    """To the coordinator. ``view``: number of the sender's view; the coordinator's must be the same."""

    view: int
    number: int
    body: bytes


class Ordered(msgspec.Struct, frozen=True, tag="o", array_like=True):
    """From the coordinator to all, in its view ``view``."""

    view: int
    origin: Member
    number: int
    body: bytes


class AppliedHere(msgspec.Struct, frozen=True, tag="d", array_like=True):
    """To the origin: all batches up to this number are applied here, in view ``view`` at the latest."""

    view: int
    number: int


Said = Propose | Ordered | AppliedHere


@dataclass
class TotalOrder:
    """``to_send``: (member or None for all, message) to be taken by the driver, in order."""

    me: Member
    members: tuple[Member, ...] = ()
    view: int = -1
    ready: bool = False
    """False until this member has its state: it applies and orders nothing."""
    applied: dict[Member, int] = field(default_factory=dict)
    to_send: list[tuple[Member | None, Said]] = field(default_factory=list)
    to_apply: list[Ordered] = field(default_factory=list)
    """Proposals to be applied now, in order. Call ``applied_now`` after each."""
    finished: list[int] = field(default_factory=list)
    """Numbers of own proposals that all members have applied."""

    def __post_init__(self) -> None:
        self._last = 0
        self._since = 0  # orders of earlier views are void
        self._mine: dict[int, bytes] = {}
        self._to_be_applied: dict[Member, int] = {}
        self._reached: dict[Member, int] = {}  # member -> own proposals applied there
        self._absent: dict[Member, int] = {}
        self._sequenced: dict[Member, int] = {}
        self._early: list[tuple[Member, Said]] = []  # messages of later views

    @property
    def coordinator(self) -> Member:
        """Return the member that orders."""
        return self.members[0]

    @property
    def outstanding(self) -> int:
        """Count own proposals that some member has not applied."""
        return len(self._mine)

    def propose(self, body: bytes) -> int:
        """Send a proposal to the coordinator, and return its number."""
        self._last += 1
        self._mine[self._last] = body
        if self.ready:
            self._say(self._last, body)
        return self._last

    def give_up(self, number: int) -> None:
        """Stop waiting for a proposal; it may still be applied."""
        self._mine.pop(number, None)

    def install(
        self, view: int, members: Sequence[Member], *, ready: bool, anew: bool = False
    ) -> None:
        """Install a new view. ``ready``: this member has its state (else ``begin`` follows). ``anew``: the coordinator
        comes from a side whose order ends with this merge; its earlier orders may still arrive and are void."""
        new = [member for member in members if member not in self.members]
        self._forget({*self.members, *members})
        self.view, self.members = view, tuple(members)
        if anew:
            self._since = view
        self.ready = ready
        if ready:
            self._announce(new)
        self._finish()
        if ready:
            self._resume()

    def keeps(self, view: int, winners: Sequence[Member], first: Member) -> bool:
        """Tell whether this member keeps its state at a merge, before the merge view is installed.

        The members of one view have applied the same batches when the next view comes. But a merge may join only some
        of a view's members, without a view of their own. Some of those may lack the last orders. Then all members take the state
        of one of them.

        Args:
            view, winners: number and members of the group whose state is to stay.
            first: the first of the winners that is in the merge view.
        """
        if self.me not in winners:
            return False
        return self.me == first or (view == self.view and set(winners) == set(self.members))

    def begin(self, applied: Mapping[Member, int]) -> None:
        """Begin with a fetched state. ``applied``: the last number of each origin in it."""
        assert not self.to_apply
        self.applied = dict(applied)
        self._to_be_applied.clear()
        self._sequenced = dict(applied)
        if self.members:
            self.ready = True
            self._announce(self.members)
            self._finish()
            self._resume()

    def _resume(self) -> None:
        for number, body in self._mine.items():
            if number > self.applied.get(self.me, 0):
                self._say(number, body)
        early, self._early = self._early, []
        for sender, said in early:
            self.receive(sender, said)

    def _announce(self, origins: Sequence[Member]) -> None:
        """Report the batches in a state as applied to their origins."""
        for origin in origins:
            if origin != self.me and origin in self.applied:
                self.to_send.append((origin, AppliedHere(self.view, self.applied[origin])))

    def _forget(self, known: set[Member]) -> None:
        """Forget members that were in none of the last views."""
        tables = (self.applied, self._to_be_applied, self._sequenced, self._reached)
        for member in {member: None for table in tables for member in table}:
            self._absent[member] = 0 if member in known else self._absent.get(member, 0) + 1
        for member in [m for m, views in self._absent.items() if views >= KEEP_VIEWS]:
            del self._absent[member]
            for table in tables:
                table.pop(member, None)

    def _say(self, number: int, body: bytes) -> None:
        self.to_send.append((self.coordinator, Propose(self.view, number, body)))

    def receive(self, sender: Member, said: Said) -> None:
        """Handle a message.

        Raises:
            ReplicationError: the group went on without this member long ago.
        """
        if len(self._early) > EARLY_MAX:
            raise ReplicationError(f"{EARLY_MAX} messages came of views this member does not have")
        match said:
            case Propose():
                self._order(sender, said)
            case AppliedHere(view, number) if view > self.view:
                self._early.append((sender, said))
            case AppliedHere(_, number):
                self._reached[sender] = max(number, self._reached.get(sender, 0))
                self._finish()
            case Ordered(view, origin, number):
                if view > self.view:  # the sender installed that view first
                    self._early.append((sender, said))
                elif self.ready and sender == self.coordinator and view >= self._since:
                    known = max(self.applied.get(origin, 0), self._to_be_applied.get(origin, 0))
                    if number > known:
                        self._to_be_applied[origin] = number
                        self.to_apply.append(said)

    def applied_now(self, ordered: Ordered) -> None:
        """Note that the first of ``to_apply``, already removed from it, is applied here."""
        self.applied[ordered.origin] = ordered.number
        if ordered.origin != self.me:
            self.to_send.append((ordered.origin, AppliedHere(self.view, ordered.number)))
            return
        self._finish()

    def _order(self, sender: Member, propose: Propose) -> None:
        if propose.view > self.view or (propose.view == self.view and not self.ready):
            self._early.append((sender, propose))
        elif (
            propose.view == self.view
            and self.me == self.coordinator
            and propose.number > self._sequenced.get(sender, 0)
        ):
            self._sequenced[sender] = propose.number
            self.to_send.append((None, Ordered(self.view, sender, propose.number, propose.body)))

    def _finish(self) -> None:
        reached = self.applied.get(self.me, 0)
        for member in self.members:
            if member != self.me:
                reached = min(reached, self._reached.get(member, 0))
        for number in [n for n in self._mine if n <= reached]:
            del self._mine[number]
            self.finished.append(number)
