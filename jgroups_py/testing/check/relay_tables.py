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
    """One incarnation of a member, as a sender."""

    watched: Watched
    sums: array[int] = field(default_factory=lambda: array("L"))
    """A checksum of each payload; number n is at n - 1 - dropped."""
    dropped: int = 0
    """Numbers without a checksum: all members have these messages."""
    quiet: dict[int, None] = field(default_factory=dict)
    """Numbers that are not looped back."""
    first_at: float = 0.0
    base: int = 0
    """The origin's highest number from before its site was primary, kept even if its site has forgotten the origin."""

    @property
    def sent(self) -> int:
        return self.dropped + len(self.sums)

    def sum_of(self, number: int) -> int | None:
        """Return the checksum of message ``number``; None where it was not sent or its checksum was dropped."""
        at = number - 1 - self.dropped
        return self.sums[at] if 0 <= at < len(self.sums) else None

    def find(self, checksum: int, first: int) -> int:
        """Return the lowest number from ``first`` on with that checksum; 0: none."""
        try:
            at = self.sums.index(checksum, max(0, first - 1 - self.dropped))
        except ValueError:
            return 0
        return self.dropped + at + 1


@dataclass(slots=True)
class Track:
    """The messages of one origin delivered to one application."""

    last: int = 0
    exact: bool = True
    """True: the next message must be ``last + 1``. False: the next message sets the beginning."""
    early: dict[int, None] = field(default_factory=dict)
    """Out-of-band messages beyond ``last``."""
    older: tuple[int, ...] | None = None
    """A state came that may contain less: everything after it comes again in order, these early ones included. None: no
    message comes again."""

    def comes_again(self, number: int) -> None:
        """Note that the state was older: ``number`` is the first one after it."""
        for early in self.older or ():
            self.early.pop(early, None)
        self.older = None
        self.exact = True
        self.reach(number)

    def reach(self, number: int) -> None:
        """Advance to ``number``, and past early ones right behind it."""
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
    """The time of its first view."""
    begun: bool = False
    blind: bool = False
    """True: it joined when no member was left that could tell it where to begin."""
    complete: bool = False
    relaying_in: tuple[int, str] | None = None
    """The epoch in which, as far as it knows, its site relays. None: it does not relay."""
    fell: bool = False
    """True: it was a holder when it went."""
    given_up: bool = False
    """True: it is cut off for good and counts as dead for the others."""
    apart: bool = False
    """True: it may lack trimmed numbers, until it has visibly caught up."""
    outvoted: bool = False
    """A larger side of a partition went on without it, or one of two groups has begun beside the other: it may get
    gaps."""
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
    """By view and departed origin: the number of the first member that installed the view."""
    fallen: int = 0
    """Holders lost since all were complete."""
    spare: int = 0
    """The number of holders that may fall from then on."""
    split: bool = False
    """Was it split since then? Only one side's holders have that side's messages."""
    excused: dict[bytes, int] = field(default_factory=dict)
    """Numbers that may be missing: of departed origins after too many falls, and from before the
    site was primary."""
    overflowed: bool = False
    disturbed: bool = False
    """Was it split or empty for a while? Messages on their way from it may be given up."""
    emptied: bool = False
    """Was it empty for a while? Messages on their way to it may be given up."""
    due: bool = False
    """Is I3 to be checked?"""

    def living(self) -> list[Watched]:
        return [w for w in self.members if w.member.alive and not w.given_up]

    @property
    def is_settled(self) -> bool:
        """Do all living members, and only they, share one view?"""
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
        """Return the highest numbers of the site's origins that survivors delivered."""
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
    """Return the numbers of ``part`` that are not in ``span``."""
    (a, b), (c, d) = part, span
    if d < a or c > b:
        return [part]
    return [rest for rest in ((a, c - 1), (d + 1, b)) if rest[0] <= rest[1]]


def missing_in(buffers: Iterable[RelayBuffer], raw: bytes, low: int, high: int) -> list[Span]:
    """Return the numbers of ``low .. high`` that are in no buffer."""
    spans = [(low, high)]
    for buffer in buffers:
        spans = [rest for a, b in spans for rest in buffer.missing(raw, a, b)]
        if not spans:
            break
    return spans
