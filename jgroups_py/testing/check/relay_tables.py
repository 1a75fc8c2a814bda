"""The notes of the RELAY oracle about origins, members and sites."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jgroups_py.protocols.relay.home.buffer import RelayBuffer
from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.testing.sim.member import Member
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import MessageType
from jgroups_py.values.view import View

Span = tuple[int, int]


@dataclass(slots=True, eq=False)
class Origin:
    """One incarnation as a sender."""

    watched: Watched
    sums: array[int] = field(default_factory=lambda: array("L"))
    """A checksum of each payload; number n is at n - 1 - dropped."""
    dropped: int = 0
    """Numbers whose checksums are gone: everybody has had them."""
    quiet: dict[int, None] = field(default_factory=dict)
    """Numbers that are not looped back."""
    first_at: float = 0.0
    base: int = 0
    """Its highest number from before its site was primary, also when its site has forgotten it."""

    @property
    def sent(self) -> int:
        return self.dropped + len(self.sums)

    def sum_of(self, number: int) -> int | None:
        """Return the checksum of message ``number``; None where it was not sent or its checksum was dropped."""
        at = number - 1 - self.dropped
        return self.sums[at] if 0 <= at < len(self.sums) else None

    def find(self, checksum: int, first: int) -> int:
        """The lowest number from ``first`` on with that checksum; 0: none."""
        try:
            at = self.sums.index(checksum, max(0, first - 1 - self.dropped))
        except ValueError:
            return 0
        return self.dropped + at + 1


@dataclass(slots=True)
class Track:
    """The messages that one application was delivered of one origin."""

    last: int = 0
    exact: bool = True
    """The next one must be ``last + 1``; else the next one tells where it begins."""
    early: dict[int, None] = field(default_factory=dict)
    """Out-of-band messages beyond it."""
    older: tuple[int, ...] | None = None
    """A state came that may contain less: all behind it comes again in order, also these, which had
    come early. None: what was delivered does not come again."""

    def comes_again(self, number: int) -> None:
        """The state was older: ``number`` is the first behind it."""
        for early in self.older or ():
            self.early.pop(early, None)
        self.older = None
        self.exact = True
        self.reach(number)

    def reach(self, number: int) -> None:
        """It is at ``number`` now, and has what came early right behind."""
        self.last = number
        while self.early and self.last + 1 in self.early:
            self.last += 1
            del self.early[self.last]


@dataclass(slots=True)
class RelayedRun:
    """Messages that RELAY handed to the application."""

    origin: bytes
    number: int | None
    sums: list[int]
    oob: bool


@dataclass(slots=True, eq=False)
class Watched:
    """One incarnation of a member."""

    member: Member
    relay: RELAY
    site: SiteTables
    raw: bytes
    stream: list[RelayedRun | View] = field(default_factory=list)
    tracks: dict[bytes, Track] = field(default_factory=dict)
    view: View | None = None
    since: float = 0.0
    """When it had its first view."""
    begun: bool = False
    blind: bool = False
    """It joined, and those who could tell where to begin had gone."""
    complete: bool = False
    relaying_in: tuple[int, str] | None = None
    """The epoch in which its site relays, as it knows. None: it does not."""
    fell: bool = False
    """It was a holder when it went."""
    given_up: bool = False
    """It is cut off for good: for the others as good as dead."""
    apart: bool = False
    """It may have less than what was trimmed, until it is seen to have caught up."""
    outvoted: bool = False
    """More members than on its side of a partition went on without it, or one of both groups has begun
    beside the other: it may be told of gaps."""
    states: int = 0
    gaps: int = 0
    skipped: dict[bytes, list[Span]] = field(default_factory=dict)
    delivered: Mapping[bytes, int] = field(default_factory=dict)
    trimmed: Mapping[bytes, int] = field(default_factory=dict)
    digest: dict[str, Mapping[bytes, int]] = field(default_factory=dict)
    forwarded: dict[str, Mapping[bytes, int]] = field(default_factory=dict)
    cursors: list[Mapping[bytes, int]] = field(default_factory=list)
    held: tuple[int, int, int] = (0, 0, 0)
    base: Mapping[bytes, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        name, nth = self.member.name, self.member.incarnation
        return f"{self.site.name}.{name}" + (f"#{nth}" if nth > 1 else "")

    def has(self, raw: bytes) -> int:
        track = self.tracks.get(raw)
        return 0 if track is None else track.last


@dataclass(slots=True, eq=False)
class SiteTables:
    name: str
    members: list[Watched] = field(default_factory=list)
    trimmed: dict[bytes, int] = field(default_factory=dict)
    """The highest that any member had."""
    agreed: dict[tuple[Any, bytes], tuple[int, Watched]] = field(default_factory=dict)
    """By view and departed origin: what the first member to install it had."""
    fallen: int = 0
    """Holders lost since all were complete."""
    spare: int = 0
    """How many holders may fall from then on."""
    split: bool = False
    """It was split since then: only one side's holders have what that side sent."""
    excused: dict[bytes, int] = field(default_factory=dict)
    """Numbers that may be missing: of departed origins after too many falls, and from before the
    site was primary."""
    overflowed: bool = False
    disturbed: bool = False
    """It was split, or empty, for a while: what was under way from it may be given up."""
    emptied: bool = False
    """It was empty for a while: what was under way to it may be given up."""
    due: bool = False
    """I3 is to be looked at."""

    def living(self) -> list[Watched]:
        return [w for w in self.members if w.member.alive and not w.given_up]

    @property
    def is_settled(self) -> bool:
        """Do all who live share one view, and nobody else is in it?"""
        living = self.living()
        views = {id(w.view): w.view for w in living}
        if not living or None in views.values():
            return False
        first = living[0].view
        assert first is not None
        return all(v is not None and v.view_id == first.view_id for v in views.values()) and len(
            first.members
        ) == len(living)

    def highest(self, living: Sequence[Watched]) -> dict[bytes, int]:
        """The messages that survivors delivered of the site's origins."""
        highest: dict[bytes, int] = {}
        for watched in self.members:
            number = max(w.has(watched.raw) for w in living)
            if number:
                highest[watched.raw] = number
        return highest


def sums_of(batch: Batch) -> list[int]:
    if batch.type not in (MessageType.BYTES, MessageType.EMPTY, MessageType.NIO):
        return [batch.type] * len(batch)
    crc = zlib.crc32
    return [0 if p is None else crc(p) for p in batch.payloads]


def without(part: Span, span: Span) -> list[Span]:
    """The numbers of ``part`` that are not in ``span``."""
    (a, b), (c, d) = part, span
    if d < a or c > b:
        return [part]
    return [rest for rest in ((a, c - 1), (d + 1, b)) if rest[0] <= rest[1]]


def missing_in(buffers: Iterable[RelayBuffer], raw: bytes, low: int, high: int) -> list[Span]:
    """The numbers of ``low .. high`` that are in none of them."""
    spans = [(low, high)]
    for buffer in buffers:
        spans = [rest for a, b in spans for rest in buffer.missing(raw, a, b)]
        if not spans:
            break
    return spans
