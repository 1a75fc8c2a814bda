"""Checkers: what must hold of any run, judged from outside the protocol code.

They see what applications sent, were delivered and were given as views, and nothing else.

    FIFO        per receiver and origin, numbers rise by one. A jump forward is allowed only where
                the two were not in one view meanwhile (a partition, healed by a merge).
    once        no number twice, none backwards.
    views       numbers of views rise at each member, every view contains its holder, and the same
                view id means the same members everywhere.
    agreement   members that share the view before and after a departure delivered the same of who
                departed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from jgroups_py.address import Address
from jgroups_py.batch import Batch
from jgroups_py.sim.member import Member
from jgroups_py.view import MergeView, View, ViewId

_HEADER = struct.Struct("!16sQ")
_SIZE = _HEADER.size


@dataclass(slots=True)
class _Seen:
    """What one member has had so far."""

    last: dict[Address, int] = field(default_factory=dict)
    apart: dict[Address, None] = field(default_factory=dict)
    view: View | None = None


class Checker:
    """Watches members of one cluster. ``problems`` are sentences; empty is good.

    Use ``payload`` for everything that is sent, and ``watch`` every member when it starts.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.sent: dict[Address, int] = {}
        self.delivered = 0
        self._members: dict[Address, Member] = {}
        self._seen: dict[Address, _Seen] = {}
        self._views: dict[ViewId, tuple[Address, ...]] = {}
        self._agreed: dict[tuple[ViewId, ViewId, Address], tuple[int, Address]] = {}

    def watch(self, member: Member) -> None:
        self._members[member.address] = member
        self._seen[member.address] = _Seen()
        member.keep_batches = False
        member.on_batch = self._on_batch
        member.on_view = self._on_view

    def payload(self, member: Member, size: int = 0) -> bytes:
        """The next message of ``member``: 24 bytes that say whose and which, padded."""
        number = self.sent.get(member.address, 0) + 1
        self.sent[member.address] = number
        return _HEADER.pack(member.address, number) + b"." * size

    def last(self, receiver: Member, origin: Member) -> int:
        """The highest number ``receiver`` has of ``origin``."""
        return self._seen[receiver.address].last.get(origin.address, 0)

    def _say(self, member: Member, problem: str) -> None:
        self.problems.append(f"{member.world.now:.3f} {member.name}: {problem}")

    def _name(self, address: Address) -> str:
        member = self._members.get(address)
        return f"{member.name}#{member.incarnation}" if member else str(address)

    def _on_batch(self, member: Member, batch: Batch) -> None:
        seen = self._seen[member.address]
        for payload in batch.payloads:
            raw, number = _HEADER.unpack(bytes(payload[:_SIZE]))
            last = seen.last.get(raw)
            self.delivered += 1
            if last is not None and number <= last:
                self._say(member, f"{number} of {self._name(raw)} again, after {last}")
            elif last is not None and number != last + 1 and raw not in seen.apart:
                self._say(member, f"{number} of {self._name(raw)} right after {last}")
            seen.last[raw] = max(number, last or 0)
            seen.apart.pop(raw, None)

    def _on_view(self, member: Member, view: View) -> None:
        seen = self._seen[member.address]
        old, seen.view = seen.view, view
        if member.address not in view.members:
            self._say(member, f"is not in its own view {view.id}")
        if old is not None and view.id <= old.id:
            self._say(member, f"view {view.id} after view {old.id}")
        if self._views.setdefault(view.view_id, view.members) != view.members:
            self._say(member, f"view {view.id} has other members elsewhere")
        if old is None:
            return
        for gone in view.left_since(old):
            if gone not in seen.apart:  # else it began anew with that sender and heard nothing
                self._agree(member, old, view, gone)
            seen.apart[gone] = None
        if isinstance(view, MergeView):
            mine = next((s for s in view.subgroups if member.address in s.members), None)
            for other in view.members:
                if mine is None or other not in mine.members:
                    seen.apart[other] = None

    def _agree(self, member: Member, old: View, view: View, gone: Address) -> None:
        if isinstance(view, MergeView):
            return
        has = self._seen[member.address].last.get(gone, 0)
        key = (old.view_id, view.view_id, gone)
        first = self._agreed.setdefault(key, (has, member.address))
        if 0 not in (has, first[0]) and first[0] != has:
            self._say(
                member,
                f"has {has} of {self._name(gone)} at view {view.id}, "
                f"but {self._name(first[1])} had {first[0]}",
            )
