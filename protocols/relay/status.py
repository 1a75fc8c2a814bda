"""What RELAY says of itself to its owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.home.buffer import Buffer
    from jgroups_py.protocols.relay.protocol import RELAY

_RANGES_MAX = 1000
"""Ranges remembered per site; more than that are joined to one per origin."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Numbers ``first .. last`` of one origin that one end of a site pair does not have."""

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
    out_of_sync: dict[str, tuple[Lost, ...]]


class RelayNumbers(NamedTuple):
    """RELAY's tables as they are at this moment: to be looked at, not kept and not written.

    Origins are named by the 16 bytes of their address; numbers are RELAY.md's.
    """

    begun: bool
    """Does the member know where its streams begin?"""
    complete: bool
    """Does it count as a holder?"""
    relaying: bool
    """Does it hold its site for one that relays?"""
    delivered: Mapping[bytes, int]
    trimmed: Mapping[bytes, int]
    base: Mapping[bytes, int]
    """Home numbers from before the site was primary: not relayed."""
    site_digest: Mapping[str, Mapping[bytes, int]]
    left: Mapping[str, Mapping[bytes, tuple[int, float]]]
    """Forgotten origins of other sites: their number, and when."""
    forwarded: Mapping[str, Mapping[bytes, int]]
    cursors: Sequence[Mapping[bytes, int]]
    """What was sent to each relay of another site."""
    buffer: Buffer


def numbers_of(relay: RELAY) -> RelayNumbers:
    """For those who look at RELAY from outside: tests and the simulator's oracle."""
    state, bridge = relay.state, relay.bridge
    return RelayNumbers(
        not relay.joining.waits,
        relay.holding.complete,
        relay.is_relaying,
        state.delivered,
        state.trimmed,
        state.base,
        state.site_digest,
        state.left,
        bridge.forwarded,
        [s.cursor for s in bridge.sessions.values()] if bridge.sessions else (),
        relay.buffer,
    )


class OutOfSync:
    """Ranges by site; shown until the sites were reconciled."""

    def __init__(self) -> None:
        self._sites: dict[str, list[Lost]] = {}

    def add(self, site: str, origin: str, first: int, last: int) -> None:
        lost = self._sites.setdefault(site, [])
        for index, other in enumerate(lost):
            if other.origin == origin and first <= other.last + 1 and last >= other.first - 1:
                first, last = min(first, other.first), max(last, other.last)
                del lost[index]
                break
        lost.append(Lost(origin, first, last))
        if len(lost) > _RANGES_MAX:
            self._sites[site] = _joined(lost)

    def clear(self, site: str) -> None:
        self._sites.pop(site, None)

    def ranges(self) -> dict[str, tuple[Lost, ...]]:
        return {site: tuple(lost) for site, lost in self._sites.items()}


def _joined(lost: list[Lost]) -> list[Lost]:
    by_origin: dict[str, Lost] = {}
    for item in lost:
        old = by_origin.get(item.origin, item)
        by_origin[item.origin] = Lost(
            item.origin, min(old.first, item.first), max(old.last, item.last)
        )
    return list(by_origin.values())
