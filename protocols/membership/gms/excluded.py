"""GMS, exclusions: when others go on without this member, the application learns of it and of its lost messages.

    a view without us, of      No more messages go out: FlowBlocked up, Withhold down. ASK goes to the members
      most of our view         that went on: which of our messages do they have?
    ASK from a member that     HAS: the number up to which its multicasts were delivered here. While
      has gone                 the member is in our view, the answer waits until it is not.
    all have answered, or      Exclude up, with the messages that they have not delivered.
      view_ack_collection_timeout
    another view without us,   ASK goes to those of its members that had not gone on yet. Exclude up once more, if they
      of others of our view    lack more messages than were named.
    a merge view, with those   Exclude up, without further questions.
      who went on unnoticed
    the next view              Exclude before it, unless it went up already. FlowOpened after it.

*Most of our view* counts all views without us together. Where fewer members went on than stayed, the rest is the group:
it keeps sending among itself, and a merge brings the others back. Half of a view counts as most of it: when one of two members
goes on, the other cannot distinguish that from its own exclusion.

The others will not deliver our messages that they have not delivered by then. They drop multicasts of members outside
their view, and after a merge they begin at the number that we report (NAKACK2: after all messages that were numbered
before Withhold). A member that has not answered, or is not of this package, may have any message that is not known to
be everywhere. Then the loss is not certain, and all possibly lost messages are named.

Unicasts are not lost: they are sent until they are acknowledged, also across a merge. Only a next view that we made
ourselves lacks the members that went on. Then their unacknowledged unicasts are dropped, and named in a second Exclude.

Source: RELAY.md of the design. JGroups has nothing like it: its members learn of an exclusion by the merge view only.
"""

from __future__ import annotations

from typing import Any

from jgroups_py.protocols.membership.gms.group import Group
from jgroups_py.protocols.membership.gms.out import GmsOut
from jgroups_py.protocols.membership.gms.wire import RoundKind, encode_has, read_has
from jgroups_py.stack.protocol import Timer
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Exclude,
    FlowBlocked,
    FlowOpened,
    GetDelivered,
    GetSentAfter,
    GetUnacknowledged,
    Withhold,
)
from jgroups_py.values.message import Flag
from jgroups_py.values.view import MergeView, View
from jgroups_py.wire.primitives import decode_whole

_FLAGS = int(Flag.OOB | Flag.NO_FC)
_OOB = int(Flag.OOB)
WHY = "a view with this member again"
"""FlowBlocked says that a ``send`` waits for this."""


class Exclusion:
    """See the module's docstring."""

    def __init__(self, out: GmsOut, group: Group, timer: Timer, timeout: float) -> None:
        self._out = out
        self._group = group
        self._timer = timer
        self._timeout = timeout
        """view_ack_collection_timeout"""
        self._number = 0
        self._view: View | None = None
        """The view of the others. None: we are in the group."""
        self._by: Address | None = None
        self._gone: tuple[Address, ...] = ()
        """Members of our view that are in that view."""
        self._went_on: dict[Address, None] = {}
        """Members of our view that are in a view without us, perhaps in different ones."""
        self._asked: dict[Address, None] = {}
        """Members that have not answered."""
        self._has: dict[Address, int] = {}
        self._told = False
        self._told_after: int | None = None
        """The application knows of the loss of all multicasts after this number. None: it was told of none yet."""
        self._wanted: dict[Address, int] = {}
        """Members of our view that have asked. They get an answer when they are not in it any more."""

    def stop(self) -> None:
        self._timer.cancel()
        self._asked.clear()
        self._wanted.clear()

    # --- excluded

    def begin(self, by: Address, view: View, ours: View, *, ask: bool = True) -> bool:
        """Note that members of our view have ``view``, which is without us. Return whether this is news, and they are
        most of the group."""
        out = self._out
        self._went_on.update((m, None) for m in ours if m in view)
        gone = tuple(m for m in ours if m in self._went_on)
        if 2 * len(gone) < len(ours):
            return False
        news = self._view is None
        more = gone if news else tuple(m for m in gone if m not in self._gone)
        if not more:
            return False
        self._view, self._by, self._gone = view, by, gone
        if news:
            self._told_after = None
            self._has = {}
            self._number = self._number % 0x7FFFFFFF + 1
            out.down(Withhold())
        self._told = False
        for dest in (None, *gone) if news else more:
            out.up(FlowBlocked(out.name, dest, gone, WHY))
        self._ask([m for m in more if ask and isinstance(m, UUID) and m.is_ours])
        return news

    def _ask(self, members: list[UUID]) -> None:
        self._asked.update(dict.fromkeys(members))
        if not self._asked:
            self.tell()
            return
        self._timer.start(self._out.patience(self._timeout))
        for member in members:
            self._send(member, RoundKind.ASK, self._number, b"")

    def lost_at_worst(self) -> tuple[Batch, ...]:
        """Return all messages that are not known to have arrived. A member that ends now reports them."""
        group, out = self._group, self._out
        assert group.view is not None
        others = tuple(m for m in group.view if m != group.me)
        runs = out.ask(GetSentAfter(0)) or ()
        return (*runs, *(out.ask(GetUnacknowledged(others)) or ()))

    def tell(self) -> None:
        """Tell the application, after all answers or the time limit."""
        self._told = True
        self._timer.cancel()
        silent = [m for m in self._gone if m not in self._has]
        self._asked.clear()
        least = 0 if silent else min(self._has.values())
        lost: tuple[Batch, ...] = self._out.ask(GetSentAfter(least)) or ()
        if self._told_after is not None:
            if least >= self._told_after:
                return
            told: tuple[Batch, ...] = self._out.ask(GetSentAfter(self._told_after)) or ()
            lost = _without_last(lost, sum(len(run.payloads) for run in told))
        self._told_after = least
        self._say(lost, not silent and not any(run.number and run.flags & _OOB for run in lost))

    def _say(self, lost: tuple[Batch, ...], certain: bool) -> None:
        assert self._view is not None and self._by is not None
        self._out.trace("excluded", step="told", lost=len(lost), certain=certain)
        self._out.up(Exclude(self._view, self._by, lost, certain))

    def before_view(self, old: View, view: View) -> int:
        """Report exclusions before ``view``, which follows ``old``, goes down. Return the number of exclusions that
        were not reported before."""
        if self._view is None:
            return self._merged_unnoticed(old, view)
        if not self._told:
            self.tell()
        dropped = tuple(m for m in self._gone if m not in view)
        lost = self._out.ask(GetUnacknowledged(dropped)) or ()
        if any(run.number for run in lost):
            self._say(lost, False)
        return 0

    def _merged_unnoticed(self, old: View, view: View) -> int:
        """Handle an exclusion that only a merge view reveals."""
        if not isinstance(view, MergeView):
            return 0
        others = [g for g in view.subgroups if g.view_id != old.view_id and self._group.me not in g]
        return sum([self.begin(view.coordinator, group, old, ask=False) for group in others])

    def view_installed(self, view: View) -> None:
        """Go on after the protocols below and above have ``view``."""
        for member in [m for m in self._wanted if m not in view]:
            self._answer(member, self._wanted[member])
        self._wanted.clear()
        self._went_on.clear()
        if self._view is None:
            return
        gone, self._gone, self._view, self._by = self._gone, (), None, None
        self._has.clear()
        for dest in (None, *gone):
            self._out.up(FlowOpened(self._out.name, dest))

    # --- messages

    def take(self, src: Address, kind: int, number: int, payload: Any) -> None:
        """Take one ASK or HAS, which members with different views exchange. RemoteProtocolError: the message is
        impossible."""
        if kind == RoundKind.ASK:
            self._asked_by(src, number)
        else:
            self._answered(src, number, payload)

    def _asked_by(self, src: Address, number: int) -> None:
        view = self._group.view
        if view is not None and src in view:
            self._wanted[src] = number
        else:
            self._answer(src, number)

    def _answer(self, to: Address, number: int) -> None:
        """Answer a member. Unknown ones get no answer."""
        delivered = self._out.ask(GetDelivered(to))
        if delivered is not None:
            self._send(to, RoundKind.HAS, number, encode_has(delivered))

    def _answered(self, src: Address, number: int, payload: Any) -> None:
        if self._view is None or number != self._number or src not in self._asked:
            return
        self._has[src] = decode_whole(read_has, payload)
        del self._asked[src]
        if not self._asked:
            self.tell()

    def _send(self, dest: Address, kind: RoundKind, number: int, payload: bytes) -> None:
        self._out.send_round(dest, kind, number, payload, _FLAGS)

    def check(self) -> None:
        assert self._timer.armed == bool(self._asked)
        assert not self._asked or (self._view is not None and not self._told)
        assert (self._view is not None) == bool(self._gone)
        assert len(self._gone) <= len(self._went_on)
        view = self._group.view
        assert all(view is not None and m in view for m in self._wanted)


def _without_last(runs: tuple[Batch, ...], count: int) -> tuple[Batch, ...]:
    """Return the runs without their last ``count`` messages."""
    kept = list(runs)
    while kept and count > 0:
        run = kept.pop()
        size = len(run.payloads)
        if size > count:
            kept.append(run.slice(0, size - count))
        count -= size
    return tuple(kept)
