"""GMS, merging: separate groups become one.

    MergeViews                Members have different views. The lowest of their coordinators leads: it sends
                              MERGE_REQ to the coordinator of each subgroup.
    MERGE_REQ                 Ask the subgroup's members for their last sent numbers (GET_DIGEST_REQ,
                              GET_DIGEST_RSP). MERGE_RSP carries the subgroup's view and digest.
    all have answered, or     Make one MergeView of all answers, with a number above all others, and send it
      merge_timeout           (INSTALL_MERGE_VIEW) to each coordinator. With fewer than two: CANCEL_MERGE.
    INSTALL_MERGE_VIEW        Send VIEW with digest to the subgroup, and install it.
    CANCEL_MERGE, time-out    Forget the merge.

A *stale* member was left behind by the others. Its coordinator is known to have another view. Or its coordinator does
not answer, and another coordinator in that view has another view. A stale member takes part as a subgroup of its
own. Any other member whose coordinator did not answer is left to that coordinator. We make a view of our own and become a
coordinator if two things hold: no member leads or counts us, and the member that should make our next view has another
view. (That member may be deaf and have announced its view only.) A member in two views belongs to the newer one.

While a merge runs, no other view is made: members that depart or join meanwhile wait for its end. A coordinator that
is just replacing a member refuses, and MERGE3 reports again.

Source:  WIRE.md 11.3; JGroups Merger, MergeTask.
Differs: equal views change nothing, even when a member with an older view has come to ours before it answers. A member
         that does not answer has the digest that its coordinator knows.
Limits:  one merge at a time, at most 2 x merge_timeout.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.membership.gms.group import Group
from jgroups_py.protocols.membership.gms.out import GmsOut
from jgroups_py.stack.protocol import Timer
from jgroups_py.values.address import Address
from jgroups_py.values.events import HoldStability, PrepareView
from jgroups_py.values.message import Flag, MessageType, Transient
from jgroups_py.values.payloads import MergeId, ViewDigest
from jgroups_py.values.view import DeltaView, Digest, MergeView, View, ViewId, lowest, order_key
from jgroups_py.wire.headers import GmsHeader, GmsType
from jgroups_py.wire.primitives import Reader, Writer, decode_whole, encode_whole
from jgroups_py.wire.values import read_view_digest, write_view_digest

_OOB = int(Flag.OOB)
_DIGEST_FLAGS = int(Flag.OOB | Flag.NO_FC)


class _Led:
    """A merge we lead."""

    def __init__(self, participants: Mapping[Address, tuple[Address, ...]]) -> None:
        self.participants = participants
        self.answers: dict[Address, ViewDigest | None] = {}
        """Coordinator -> its answer. None: it refused."""


class MergeStep(Enum):
    """The effect of a message on the merge."""

    CANCELLED = auto()
    """The merge has ended without a view. Waiting changes can go on."""
    IGNORED = auto()
    """The message came late, twice, or from a stranger."""
    REFUSED = auto()
    """The request was not accepted."""


class TakePart(NamedTuple):
    """A request was accepted: call ``take_part`` with this, when no round of agreement runs any more."""

    leader: Address
    merge_id: MergeId
    members: tuple[Address, ...]


class MergedView(NamedTuple):
    """Send ``view`` with ``digest`` to ``members``, this member's subgroup, and install it."""

    view: View
    digest: Digest
    members: tuple[Address, ...]


Result = MergeStep | TakePart | MergedView | None


class ViewMerger:
    """See the module's docstring. Leader and subgroup coordinator in one. ``end`` and ``collect`` are timers of
    the protocol: for the whole merge, and for the digests of our subgroup."""

    def __init__(
        self, out: GmsOut, group: Group, end: Timer, collect: Timer, timeout: float
    ) -> None:
        self._out = out
        self._group = group
        self._end = end
        self._collect = collect
        self._timeout = timeout
        """merge_timeout"""
        self._counter = 0
        self._id: MergeId | None = None
        """The merge that runs here."""
        self._leader: Address | None = None
        self._members: tuple[Address, ...] = ()
        self._digests: dict[Address, tuple[int, int]] | None = None
        """Member of the subgroup -> its answer. None: no answer is awaited."""
        self._led: _Led | None = None

    def _start(self, merge_id: MergeId, patience: float) -> None:
        """Start a merge. Messages that the collected digests name must not be purged before the merge view: members of
        the other subgroups begin there."""
        self._id = merge_id
        self._end.start(patience)
        self._out.down(HoldStability(True))

    def stop(self) -> None:
        if self.busy:
            self._out.down(HoldStability(False))
        self._id = None
        self._leader = None
        self._members = ()
        self._digests = None
        self._led = None
        self._end.cancel()
        self._collect.cancel()

    @property
    def busy(self) -> bool:
        return self._id is not None

    def view_installed(self, view: View) -> None:
        led, merge_id = self._led, self._id
        self.stop()
        if led is not None and merge_id is not None:
            self._cancel_at(tuple(led.participants), merge_id)

    # --- leader

    def to_lead(
        self,
        views: Mapping[Address, View],
        silent: tuple[Address, ...],
        next_coordinator: Address | None,
    ) -> dict[Address, tuple[Address, ...]] | None:
        """Return the subgroups of the merge that we are to lead. None: another member leads, or there is nothing to
        merge. ``views``: the different views that MERGE3 saw, ours among them. ``silent``: members with other views
        that did not answer. ``next_coordinator``: the member that should make our next view."""
        if len({v.view_id for v in views.values()}) < 2 and not silent:
            return None
        me = self._group.me
        participants = participants_of(views)
        leader = merge_leader(views, participants)
        counted = any(me in group for group in participants.values())
        if not (counted and leader) and self._is_left_behind(views, silent, next_coordinator):
            return {me: (me,)}
        return participants if len(participants) >= 2 and leader == me else None

    def _is_left_behind(
        self,
        views: Mapping[Address, View],
        silent: tuple[Address, ...],
        first: Address | None,
    ) -> bool:
        """Return whether ``first``, which should make our next view, has another view. Then no member will make
        ours."""
        if first in silent:
            return True
        theirs = None if first is None else views.get(first)
        return theirs is not None and theirs.view_id != views[self._group.me].view_id

    def lead(self, participants: Mapping[Address, tuple[Address, ...]]) -> Result:
        """Begin the merge of ``participants``."""
        me = self._group.me
        self._counter = (self._counter + 1) & 0x7FFFFFFF
        merge_id = MergeId(me, self._counter)
        self._start(merge_id, self._timeout)
        self._led = _Led(participants)
        for coordinator, members in participants.items():
            if coordinator != me:
                self._out.send(
                    coordinator,
                    GmsType.MERGE_REQ,
                    member=me,
                    merge_id=merge_id,
                    payload=encode_whole(Writer.addrs, members),
                    flags=_OOB,
                )
        return self._ask_subgroup(me, participants[me])

    def _answered(self, src: Address, answer: ViewDigest | None) -> Result:
        led = self._led
        if led is None or src not in led.participants or src in led.answers:
            return None
        if answer is not None:
            view = answer.view
            if not isinstance(view, View) or src not in view or answer.digest is None:
                raise RemoteProtocolError("a merge response without view or digest")
            if any(m not in answer.digest for m in view):
                raise RemoteProtocolError("a merge response whose digest lacks members")
        led.answers[src] = answer
        return self._decide(led) if len(led.answers) == len(led.participants) else None

    def _decide(self, led: _Led) -> Result:
        me, merge_id = self._group.me, self._id
        assert merge_id is not None
        accepted = {
            m: answer for m in led.participants if (answer := led.answers.get(m)) is not None
        }
        few = len(accepted) < min(2, len(led.participants)) or me not in accepted
        if few or (len(accepted) > 1 and len(groups_of(accepted)) == 1):
            self._out.trace("merge", step="cancelled", answers=tuple(led.answers))
            self.stop()
            self._cancel_at(tuple(led.participants), merge_id)
            return MergeStep.CANCELLED
        view, digest = merged(me, accepted, self._group.highest_id)
        payload = encode_whole(write_view_digest, ViewDigest(view, digest))
        self._out.trace("merge", step="install", view=view)
        self._led = None
        self._cancel_at(tuple(m for m in led.participants if m not in accepted), merge_id)
        self._out.down(PrepareView(view))
        for coordinator in accepted:
            if coordinator != me:
                self._out.send(
                    coordinator, GmsType.INSTALL_MERGE_VIEW, merge_id=merge_id, payload=payload
                )
        return self._merged(view, digest)

    def _cancel_at(self, members: tuple[Address, ...], merge_id: MergeId) -> None:
        for member in members:
            if member != self._group.me:
                self._out.send(member, GmsType.CANCEL_MERGE, merge_id=merge_id)

    def time_is_over(self) -> Result:
        """End a merge after merge_timeout, or twice that if we do not lead it."""
        led = self._led
        if led is not None:
            return self._decide(led)
        self._out.trace("merge", step="timed out")
        self.stop()
        return MergeStep.CANCELLED

    # --- coordinator of a subgroup

    def take(
        self, src: Address, header: GmsHeader, payload: bytes | memoryview, *, cannot: bool
    ) -> Result:
        """Take a message of a merge; we have a view. ``cannot``: we must make another view first. RemoteProtocolError:
        the message is impossible."""
        merge_id = header.merge_id
        if header.type == GmsType.GET_DIGEST_REQ:
            return self._digest_wanted(src, merge_id)
        if header.type == GmsType.MERGE_REQ:
            if merge_id is None:
                raise RemoteProtocolError("a merge request without merge id")
            return self._requested(src, merge_id, decode_whole(Reader.members, payload), cannot)
        if merge_id != self._id and not (merge_id is None and self.busy):
            return MergeStep.IGNORED  # the message belongs to a merge that is over
        match header.type:
            case GmsType.GET_DIGEST_RSP:
                return self._collected(src, self._content(payload))
            case GmsType.MERGE_RSP:
                rejected = header.rejected or not payload
                return self._answered(src, None if rejected else self._content(payload))
            case GmsType.INSTALL_MERGE_VIEW:
                return self._install_wanted(src, self._content(payload))
            case GmsType.CANCEL_MERGE if src == self._leader and self._led is None:
                self._out.trace("merge", step="cancelled", by=src)
                self.stop()
                return MergeStep.CANCELLED
        return None

    def _content(self, payload: bytes | memoryview) -> ViewDigest:
        content = decode_whole(read_view_digest, payload)
        if content.view is not None:
            self._group.believe(content.view.view_id.id, merging=True)
        return content

    def _requested(
        self, src: Address, merge_id: MergeId, members: tuple[Address, ...], cannot: bool
    ) -> Result:
        if self._group.me not in members:
            raise RemoteProtocolError("a merge request for others")
        if self.busy:
            return MergeStep.REFUSED
        if cannot:
            self._out.send(src, GmsType.MERGE_RSP, merge_id=merge_id, rejected=True, flags=_OOB)
            return MergeStep.REFUSED
        return TakePart(src, merge_id, members)

    def take_part(self, part: TakePart) -> Result:
        """Take part in a merge."""
        self._start(part.merge_id, 2 * self._timeout)
        return self._ask_subgroup(part.leader, part.members)

    def _ask_subgroup(self, leader: Address, members: tuple[Address, ...]) -> Result:
        """Ask the members of our subgroup for their digests."""
        me, view = self._group.me, self._group.view
        assert view is not None
        self._leader = leader
        self._members = tuple(m for m in view if m in members)
        self._digests = {me: self._out.digest_of((me,)).seqnos[me]}
        if len(self._members) == 1:
            return self.respond()
        self._collect.start(self._timeout / 2)
        self._out.send(
            None,
            GmsType.GET_DIGEST_REQ,
            merge_id=self._id,
            flags=_OOB,
            transient=int(Transient.DONT_LOOPBACK),
        )
        return None

    def _digest_wanted(self, src: Address, merge_id: MergeId | None) -> Result:
        view = self._group.view
        if view is None or src not in view:
            return MergeStep.IGNORED
        known = self._out.digest_of((self._group.me,))
        digest = encode_whole(write_view_digest, ViewDigest(None, known))
        self._out.send(
            src, GmsType.GET_DIGEST_RSP, merge_id=merge_id, payload=digest, flags=_DIGEST_FLAGS
        )
        return None

    def _collected(self, src: Address, answer: ViewDigest) -> Result:
        if self._digests is None or src not in self._members:
            return None
        if answer.digest is None or src not in answer.digest:
            raise RemoteProtocolError("a digest response without the member's own entry")
        self._digests[src] = answer.digest.seqnos[src]
        return self.respond() if len(self._digests) == len(self._members) else None

    def respond(self) -> Result:
        """Respond to the leader, after all answers of our subgroup or the time limit."""
        me, view = self._group.me, self._group.view
        assert self._digests is not None and view is not None and self._leader is not None
        self._collect.cancel()
        known = self._out.digest_of(self._members)
        digest = Digest({m: self._digests.get(m, known.seqnos[m]) for m in self._members})
        self._digests = None
        answer = ViewDigest(View(view.view_id, self._members), digest)
        if self._leader == me:
            return self._answered(me, answer)
        self._out.send(
            self._leader,
            GmsType.MERGE_RSP,
            merge_id=self._id,
            payload=encode_whole(write_view_digest, answer),
            flags=_OOB,
            message=MessageType.BYTES,
        )
        return None

    def _install_wanted(self, src: Address, content: ViewDigest) -> Result:
        view, digest = content.view, content.digest
        if view is None or isinstance(view, DeltaView) or digest is None:
            raise RemoteProtocolError("a merge view without members or digest")
        current = self._group.view
        assert current is not None
        ours = isinstance(view, MergeView) and self._group.is_merged_by(view)
        if src != self._leader or not ours or view.id <= current.id:
            return MergeStep.IGNORED
        return self._merged(view, digest)

    def _merged(self, view: View, digest: Digest) -> MergedView:
        members = self._members
        self.stop()
        return MergedView(view, digest, members)

    def check(self) -> None:
        assert self._end.armed == self.busy
        assert self._collect.armed <= self.busy
        assert self._led is None or self.busy


def participants_of(views: Mapping[Address, View]) -> dict[Address, tuple[Address, ...]]:
    """Return coordinator (or stale member) of each subgroup -> its members. ``views``: member -> its view. The
    subgroups share no member."""
    coordinators = [m for m, v in views.items() if v.coordinator == m]
    owner: dict[Address, Address] = {m: m for m in coordinators}
    for member, view in views.items():
        leader = view.coordinator
        if leader in views and views[leader].view_id == view.view_id:
            owner.setdefault(member, leader)
        elif leader in views or any(m in views[c] for c in coordinators for m in view):
            # A member of its view follows another coordinator now, so this coordinator was left behind.
            owner.setdefault(member, member)
    newest_first = sorted(coordinators, key=lambda m: (-views[m].id, order_key(m)))
    for leader in newest_first:
        for member in views[leader]:
            owner.setdefault(member, leader)
    groups = sorted({m: None for m in owner.values()}, key=order_key)
    return {g: tuple(m for m in views[g] if owner.get(m) == g) for g in groups}


def merge_leader(
    views: Mapping[Address, View], participants: Mapping[Address, tuple[Address, ...]]
) -> Address | None:
    """Return the lowest coordinator. If members follow each other in a circle, the lowest of those followed. None: no
    member is coordinator of its own view, and the coordinator of some member did not answer."""
    coordinators = tuple(m for m in participants if views[m].coordinator == m)
    followed = tuple(views[m].coordinator for m in participants)
    if not coordinators and all(m in participants for m in followed):
        coordinators = followed
    return lowest(coordinators) if coordinators else None


def merged(
    leader: Address, answers: Mapping[Address, ViewDigest], highest_id: int
) -> tuple[MergeView, Digest]:
    """Make the view and digest of all answers, the leader's group first."""
    order = sorted(answers, key=lambda m: (m != leader, order_key(m)))
    seqnos: dict[Address, tuple[int, int]] = {}
    for coordinator in order:
        view, digest = answers[coordinator].view, answers[coordinator].digest
        assert isinstance(view, View) and digest is not None
        for member in view:
            delivered, received = digest.seqnos[member]
            known = seqnos.get(member, (0, 0))
            seqnos[member] = (max(known[0], delivered), max(known[1], received))
    groups = groups_of({m: answers[m] for m in order})
    number = max([highest_id, *[g.id for g in groups]]) + 1
    view = MergeView(ViewId(leader, number), tuple(seqnos), groups)
    return view, Digest(seqnos)


def groups_of(answers: Mapping[Address, ViewDigest]) -> tuple[View, ...]:
    """Return the subgroups. Two answers with the same view are one subgroup: a member that was left behind has followed
    the others meanwhile."""
    groups: dict[ViewId, dict[Address, None]] = {}
    for answer in answers.values():
        view = answer.view
        assert isinstance(view, View)
        groups.setdefault(view.view_id, {}).update(dict.fromkeys(view.members))
    return tuple(View(view_id, tuple(members)) for view_id, members in groups.items())
