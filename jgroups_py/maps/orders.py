"""The outputs of a replica: orders for its driver, and news."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.table import ChangedKey


@dataclass(frozen=True, slots=True)
class SendToPeer:
    link: int
    data: bytes


@dataclass(frozen=True, slots=True)
class SendAll:
    """One message for several links that share a medium. Others on the medium may get it, too, and ignore what they
    cannot use."""

    links: tuple[int, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class CloseLink:
    link: int


@dataclass(frozen=True, slots=True)
class Told:
    """News for the log. ``kind``: connected, gone, refused, same identifier, other codecs, restored, skew, future, ahead, diverged,
    differs, stale, garbage, full. ``node``: the peer's identifier; 0: unknown."""

    kind: str
    node: int
    text: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """Entries of a peer that were given to the table. ``changed`` None: the table has not applied them yet."""

    node: int
    origin: int
    entries: Sequence[tuple[bytes, MapEntry]]
    changed: Sequence[ChangedKey] | None


@dataclass(frozen=True, slots=True)
class Sent:
    """Entries that left for a peer (K23)."""

    node: int
    origin: int
    entries: Sequence[tuple[bytes, bytes]]


Out = SendToPeer | SendAll | CloseLink | Told | Arrived | Sent
