"""RELAY seen from outside: status, tables, counters, lost ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jgroups_py.protocols.relay.home.buffer import RelayBuffer

_RANGES_MAX = 1000
"""Ranges remembered for each site. More than that are joined to one for each origin."""


@dataclass(frozen=True, slots=True)
class LostRange:
    """Numbers ``first .. last`` of one origin that one of two sites lacks."""

    origin: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class RelayStatus:
    """A snapshot. ``holders_complete`` of ``holders`` is meaningful at the relay."""

    site: str
    role: str
    relay: str | None
    relaying: bool
    epoch: tuple[int, str]
    holders_complete: int
    holders: int
    complete: bool
    bridge: tuple[str, ...]
    sessions: dict[str, bool]
    sites: tuple[str, ...]
    buffered_messages: int
    buffered_bytes: int
    spilled_messages: int
    buffer_fill: float
    blocked: bool
    out_of_sync: dict[str, tuple[LostRange, ...]]


class RelayNumbers(NamedTuple):
    """RELAY's tables at this moment. Read them; do not keep or change them.

    Origins are named by the 16 bytes of their address; numbers are RELAY.md's.
    """

    begun: bool
    """Does the member know where its streams begin?"""
    complete: bool
    """Does it count as a holder?"""
    relaying: bool
    """Does its site relay, as far as it knows?"""
    delivered: Mapping[bytes, int]
    trimmed: Mapping[bytes, int]
    base: Mapping[bytes, int]
    """Home numbers from before the site was primary: not relayed."""
    site_digest: Mapping[str, Mapping[bytes, int]]
    left: Mapping[str, Mapping[bytes, tuple[int, float]]]
    """Site -> forgotten origin -> (its number, the time when it was forgotten)."""
    forwarded: Mapping[str, Mapping[bytes, int]]
    cursors: Sequence[Mapping[bytes, int]]
    """Digests: the numbers sent to each relay of another site."""
    buffer: RelayBuffer


@dataclass(slots=True)
class RelayCounters:
    """RELAY's counters. Their names are those of its statistics."""

    relayed: int = 0
    replayed: int = 0
    delivered_relayed: int = 0
    duplicates_dropped: int = 0
    beyond: int = 0
    fenced: int = 0
    gaps: int = 0
    gaps_put_off: int = 0
    cut_off: int = 0
    """Views after which this relay stopped acknowledging, because most of its site may be elsewhere."""
    skipped: int = 0
    ahead: int = 0
    overflowed: int = 0
    spilled: int = 0
    takeovers: int = 0
    strangers: int = 0
    malformed: int = 0
    unicasts_dropped: int = 0
    returned: int = 0
    queue_full: int = 0
    posts_dropped: int = 0
    """Posts for which there was no link, or no room."""


class OutOfSync:
    """Lost ranges by site, until the sites are reconciled."""

    def __init__(self) -> None:
        self._sites: dict[str, list[LostRange]] = {}

    def add(self, site: str, origin: str, first: int, last: int) -> None:
        lost = self._sites.setdefault(site, [])
        for index, other in enumerate(lost):
            if other.origin == origin and first <= other.last + 1 and last >= other.first - 1:
                first, last = min(first, other.first), max(last, other.last)
                del lost[index]
                break
        lost.append(LostRange(origin, first, last))
        if len(lost) > _RANGES_MAX:
            self._sites[site] = _joined(lost)

    def clear(self, site: str) -> None:
        self._sites.pop(site, None)

    def ranges(self) -> dict[str, tuple[LostRange, ...]]:
        return {site: tuple(lost) for site, lost in self._sites.items()}


def _joined(lost: list[LostRange]) -> list[LostRange]:
    by_origin: dict[str, LostRange] = {}
    for item in lost:
        old = by_origin.get(item.origin, item)
        by_origin[item.origin] = LostRange(
            item.origin, min(old.first, item.first), max(old.last, item.last)
        )
    return list(by_origin.values())
