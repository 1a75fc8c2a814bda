"""The expectations of every receiver about the messages of each sender.

    fifo       numbers of one sender rise
    duplicate  no message twice
    gap        none is left out, unless the two were apart meanwhile (not in one view; or a state
               came that contains them)
    named      messages are left out only of senders that were reported as lost (named.py)
    agreement  members that share the view before and after a departure delivered the same in between:
               always the messages of those who departed; those of the others too, unless a round of theirs
               ran into a time-out
    unicast    the same three, for messages to one member
    state      later messages continue a state; own messages are never delivered again, so a state
               contains those that its receiver had

Numbers count from 1 for each incarnation of a member; unicasts for each destination. Messages that
another site's members sent come through RELAY: gaps are announced there, and its oracle knows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from jgroups_py.testing.check.named import Named
from jgroups_py.testing.sim.member import Member
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Exclude
from jgroups_py.values.view import MergeView, View, ViewId

_HEADER: Final = struct.Struct("!16sBQ")
_SIZE: Final = _HEADER.size
SHARED: Final = b"shared:"
"""The prefix, after the number, in messages of registers (explorer/stacks/shared.py), which read the rest."""
MULTICAST, UNICAST, OOB = 0, 1, 2
_STATE: Final = list[tuple[bytes, int, bool, list[int]]]
"""The state of each sender: its bytes, the last number, true if the next may skip some, out-of-band numbers."""


@dataclass(slots=True)
class _Track:
    """The messages of one sender and kind that a member has received."""

    last: int = 0
    known: bool = False
    """False: the next message sets the beginning."""
    apart: bool = False
    """May messages be missing before the next one?"""
    lost: int = 0
    """The number up to which the sender has given messages up; these may be missing."""
    seen: dict[int, None] = field(default_factory=dict)
    """Out-of-band ones."""


@dataclass(slots=True)
class _Seen:
    tracks: dict[tuple[Address, int], _Track] = field(default_factory=dict)
    view: View | None = None
    jumped: int = 0
    """A state came: it may contain messages that were sent in this many of the next views."""

    def track(self, origin: Address, kind: int) -> _Track:
        track = self.tracks.get((origin, kind))
        if track is None:
            track = self.tracks[origin, kind] = _Track()
        return track


Run = tuple[Address, int, int]
"""Sender, kind, number of one message."""


class Messages:
    """See the module's docstring. ``sent``: by sender, kind and destination."""

    def __init__(
        self, say: Callable[[str, Member, str], None], name: Callable[[Address], str]
    ) -> None:
        self._say = say
        self._name = name
        self.named = Named(say, name, self.count)
        self._members: dict[Address, Member] = {}
        self._seen: dict[Address, _Seen] = {}
        self._agreed: dict[tuple[ViewId, ViewId, Address], tuple[int, Address]] = {}
        self._late_at: dict[ViewId, int] = {}
        """``_late`` of the site when the first member had that view."""
        self.sent: dict[tuple[Address, int, Address | None], int] = {}
        self.total = 0
        self.delivered = 0
        self.of_site: dict[Address, str] = {}
        self.parted: dict[tuple[Address, Address], None] = {}
        """(member, other): ``member`` had a view with ``other`` and then one without it, or both were in different
        groups that merged. Older credits may then be given twice."""

    def watch(self, member: Member) -> None:
        self.named.watch(member)
        self._members[member.address] = member
        self._seen[member.address] = _Seen()
        self.of_site[member.address] = member.site

    # --- sending

    def payload(self, member: Member, size: int, to: Member | None, oob: bool) -> bytes:
        kind = OOB if oob else MULTICAST if to is None else UNICAST
        key = (member.address, kind, None if to is None else to.address)
        number = self.sent.get(key, 0) + 1
        self.sent[key] = number
        self.total += 1
        return _HEADER.pack(member.address, kind, number) + b"." * size

    def count(self, member: Member, to: Member | None = None) -> int:
        """Return the number of multicasts, or of unicasts to ``to``, that it has sent."""
        if to is None:
            return self.sent.get((member.address, MULTICAST, None), 0)
        return self.sent.get((member.address, UNICAST, to.address), 0)

    def last(self, receiver: Member, origin: Member, kind: int = MULTICAST) -> int:
        """Return the highest number of ``origin`` at ``receiver``."""
        track = self._seen[receiver.address].tracks.get((origin.address, kind))
        return 0 if track is None else track.last

    # --- delivery

    def decode(self, member: Member, batch: Batch) -> list[Run]:
        runs: list[Run] = []
        for payload in batch.payloads:
            if payload is None or len(payload) < _SIZE:
                self._say("content", member, f"{len(payload or b'')} bytes that nobody sent")
                continue
            raw, kind, number = _HEADER.unpack_from(payload)
            rest = bytes(payload[_SIZE:])
            if rest.strip(b".") and not rest.startswith(SHARED):
                self._say("content", member, f"{number} of {self._name(UUID(raw))} is damaged")
            runs.append((UUID(raw), kind, number))
        return runs

    def on_messages(self, member: Member, runs: list[Run]) -> None:
        seen = self._seen[member.address]
        self.delivered += len(runs)
        for origin, kind, number in runs:
            if kind == OOB:
                self._take_oob(member, seen, origin, number)
                continue
            track = seen.track(origin, kind)
            if track.last + 1 != number:
                self._judge(member, track, origin, kind, number)
            track.last = max(number, track.last)
            track.known = True
            track.apart = False

    def _take_oob(self, member: Member, seen: _Seen, origin: Address, number: int) -> None:
        numbers = seen.track(origin, OOB).seen
        if number in numbers:
            self._say("duplicate", member, f"out-of-band {number} of {self._name(origin)} again")
        numbers[number] = None

    def _judge(
        self, member: Member, track: _Track, origin: Address, kind: int, number: int
    ) -> None:
        """Judge a ``number`` that is not the next one."""
        check, what = ("unicast", "unicast ") if kind == UNICAST else ("gap", "")
        name = f"{what}{number} of {self._name(origin)}"
        if track.known and number == track.last:
            self._say("duplicate" if kind == MULTICAST else check, member, f"{name} twice")
        elif track.known and number < track.last:
            check = "fifo" if kind == MULTICAST else check
            self._say(check, member, f"{name} after {track.last}")
        elif not track.known or self.of_site.get(origin) != member.site:
            return
        elif track.apart:
            if kind == MULTICAST:
                self.named.missing(member, origin, track.last + 1, number - 1)
        elif not self._has_ended(track, origin, member, number):
            self._say(check, member, f"{name} right after {track.last}")

    # --- views

    def _has_ended(self, track: _Track, origin: Address, member: Member, number: int) -> bool:
        """Had ``origin`` a view without ``member`` before it sent ``number``, read or unread?"""
        if number - 1 <= track.lost:
            return True
        return any(member.address not in view for view in self._unread_views(origin))

    def _unread_views(self, member: Address) -> list[View]:
        known = self._members.get(member)
        return [] if known is None else [v for v in known.unread if isinstance(v, View)]

    def were_apart(self, one: Address, other: Address) -> bool:
        """Return whether the two members were apart (see ``parted``). Unread views count, too."""
        return any(
            (a, b) in self.parted
            or any(isinstance(v, MergeView) or b not in v for v in self._unread_views(a))
            for a, b in ((one, other), (other, one))
        )

    def on_excluded(self, member: Member, event: Exclude) -> None:
        numbers: dict[int, None] = {}
        for run in event.lost:
            for part in run.payloads if run.number and run.dest is None else ():
                whole: Any = part
                if isinstance(part, memoryview):
                    whole = part.obj  # the whole message, if the part is a fragment
                if whole is not None and bytes(whole[:16]) == bytes(member.address):
                    _, kind, number = _HEADER.unpack_from(whole)
                    if kind == MULTICAST:
                        numbers[number] = None
        self.named.lost(member, list(numbers))

    def on_view(self, member: Member, view: View) -> None:
        self.named.on_view(member, view)
        seen = self._seen[member.address]
        old, seen.view = seen.view, view
        self._late_at.setdefault(view.view_id, self._late(member.site))
        if old is None:
            return
        merged = isinstance(view, MergeView)
        jumped, seen.jumped = seen.jumped, max(0, seen.jumped - 1)
        if view.left_since(old) and not merged and not jumped and self._in_time(member, old):
            for stays in view:
                track = seen.tracks.get((stays, MULTICAST))
                if track is not None and not track.apart:
                    self._agree(member, old, view, stays, track.last)
        for gone in view.left_since(old):
            track = seen.tracks.get((gone, MULTICAST))
            if track is not None and not track.apart and not merged:
                self._agree(member, old, view, gone, track.last)
            self.parted[member.address, gone] = None
            self._part(seen, gone)
            self._lose(gone, member)
        for origin in view.joined_since(old):
            if (member.address, origin) in self.parted:
                self._leave_out(origin, member)
            if not merged:
                # Everything that it sends follows this view.
                track = seen.track(origin, MULTICAST)
                track.known = track.known or not self._was_away(origin, view)
        if isinstance(view, MergeView):
            mine = next((s for s in view.subgroups if member.address in s.members), None)
            for other in view.members:
                if other != member.address and (mine is None or other not in mine.members):
                    self.parted[member.address, other] = None
                    self._part(seen, other)
                    self._lose(other, member)

    def _late(self, site: str) -> int:
        """Return the sum of the timed-out rounds of agreement of the members at ``site``."""
        return sum(m.late_rounds or 0 for m in self._members.values() if m.site == site)

    def _in_time(self, member: Member, old: View) -> bool:
        """Did survivors agree in time on all messages of the view ``old``?"""
        if member.late_rounds is None:
            return False
        return self._late(member.site) == self._late_at[old.view_id]

    def _was_away(self, origin: Address, view: View) -> bool:
        """Had it its own group before? Then its numbers do not begin with the first."""
        there = self._seen.get(origin)
        return there is None or (there.view is not None and there.view.view_id != view.view_id)

    def _part(self, seen: _Seen, origin: Address) -> None:
        for kind in (MULTICAST, UNICAST):
            seen.track(origin, kind).apart = True

    def _lose(self, there: Address, member: Member) -> None:
        """Allow a gap: messages of ``member`` on their way to ``there`` are dropped; some may be there unread."""
        seen = self._seen.get(there)
        if seen is not None:
            track = seen.track(member.address, UNICAST)
            track.lost = self.sent.get((member.address, UNICAST, there), 0)
        self._leave_out(there, member)

    def _leave_out(self, there: Address, member: Member) -> None:
        """Allow a gap: ``member`` may have forgotten its earlier multicasts, because ``there`` was not in its view."""
        seen = self._seen.get(there)
        if seen is not None:
            seen.track(member.address, MULTICAST).lost = self.count(member)

    def _agree(self, member: Member, old: View, view: View, gone: Address, has: int) -> None:
        key = (old.view_id, view.view_id, gone)
        first, other = self._agreed.setdefault(key, (has, member.address))
        if 0 not in (has, first) and first != has:
            self._say(
                "agreement",
                member,
                f"has {has} of {self._name(gone)} at view {view.id}, "
                f"but {self._name(other)} had {first}",
            )

    # --- state

    def state_of(self, member: Member) -> bytes:
        """Return the application's state: its messages by sender, and whether a merge since then has cost it the other
        side's earlier messages."""
        seen = self._seen[member.address]
        return msgspec.msgpack.encode(
            [
                (bytes(origin), track.last, track.apart, self._out_of_band(seen, origin))
                for (origin, kind), track in seen.tracks.items()
                if kind == MULTICAST and (track.last or track.apart)
            ]
        )

    @staticmethod
    def _out_of_band(seen: _Seen, origin: Address) -> list[int]:
        early = seen.tracks.get((origin, OOB))
        return [] if early is None else list(early.seen)

    def on_state(self, member: Member, state: bytes | None) -> None:
        if state is None:
            return
        seen = self._seen[member.address]
        # Views that were held back for the state follow it, with less in them.
        seen.jumped = max(1, sum(isinstance(item, View) for item in member.unread))
        contents = msgspec.msgpack.decode(state, type=_STATE)
        named = {UUID(raw) for raw, *_ in contents} | {member.address}
        for key in [key for key in seen.tracks if key[1] != UNICAST and key[0] not in named]:
            del seen.tracks[key]  # the state has no message of that sender
        for raw, number, apart, oob in contents:
            track = seen.track(UUID(raw), MULTICAST)
            early = seen.track(UUID(raw), OOB).seen
            if number < track.last or not early.keys() <= set(oob):
                early.clear()  # an older state: all messages after it come again
            if raw == member.address and number < track.last and not apart:
                self._say("state", member, f"has {number} of its own, had {track.last} before")
            track.last, track.known, track.apart = number, True, apart
