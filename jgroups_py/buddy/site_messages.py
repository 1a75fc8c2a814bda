"""Messages between sites, and messages about sites inside one. See sites.py.

Over the link between two relays go ``SiteEvent``, ``EventAck``, ``Hello``, ``Sums`` and ``Listing``. Inside a site ``ToSite``
takes them to the relay, and ``FromSite`` takes them from the relay to a member.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from jgroups_py.buddy.values import Path, Stamp
from jgroups_py.values.address import Address


class SiteMessage(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of messages between two sites."""


class Sent(msgspec.Struct, frozen=True, array_like=True):
    """The value of a node as it is sent to another site."""

    path: Path
    value: Any
    stamp: Stamp
    removed: bool
    lineage: tuple[Stamp, ...]


class SiteEvent(SiteMessage, frozen=True):
    """The nodes that one write changed. ``origin``: the owner; ``n``: its number there for this site, from 1."""

    origin: Address
    n: int
    changes: tuple[Sent, ...]


class EventAck(SiteMessage, frozen=True):
    """The site's holders have these nodes as event ``n`` of ``origin`` brought them, or newer."""

    origin: Address
    n: int
    paths: tuple[Path, ...]


class Hello(SiteMessage, frozen=True):
    """From relay to relay. ``epoch``: the highest site epoch known. ``lost``: a member is gone that may have had
    events; send unacknowledged ones again."""

    epoch: int
    lost: bool = False


class Sums(SiteMessage, frozen=True):
    """For a reconciliation: a sum for each bucket of paths, over all nodes of the sender's site."""

    round: int
    sums: tuple[int, ...]


class There(msgspec.Struct, frozen=True, array_like=True):
    """A node at the other site. ``came``: true if the asking site sent its value."""

    path: Path
    stamp: Stamp
    removed: bool
    came: bool


class Listing(SiteMessage, frozen=True):
    """Answers ``Sums``: all nodes of the buckets that differ."""

    round: int
    buckets: tuple[int, ...]
    nodes: tuple[There, ...]


AnySiteMessage = SiteEvent | EventAck | Hello | Sums | Listing


# --- surveys of a whole site, in the order of claims

SurveyKind = Literal["mark", "left", "sums", "list", "compare"]


class Survey(msgspec.Struct, frozen=True, array_like=True):
    """Every member answers at the survey's place in the order of claims, so no moving node is missed. ``mark``: mark all nodes as
    unsent. ``left``: count the marked nodes that are still unsent. ``sums``: a sum for each bucket.
    ``list``: the nodes of some buckets. ``compare``: mark the nodes that are older or missing there."""

    site: str
    kind: SurveyKind
    buckets: tuple[int, ...] = ()
    nodes: tuple[There, ...] = ()


class Found(msgspec.Struct, frozen=True, array_like=True):
    """A member's answer. ``paths``: the paths of ``Survey.nodes`` that it owns."""

    count: int = 0
    sums: tuple[int, ...] = ()
    nodes: tuple[There, ...] = ()
    paths: tuple[Path, ...] = ()


WalkKind = Literal["bootstrap", "reconcile", "repair"]


class Walk(msgspec.Struct, frozen=True, array_like=True):
    """A task that covers all nodes of a site. It continues when the relay changes."""

    site: str
    kind: WalkKind


class SiteState(msgspec.Struct, frozen=True, array_like=True):
    """The knowledge of the coordinator. ``known``: the highest epoch of any site. ``up``: sites that can be
    reached; ``again``: those to which everything not acknowledged is to be sent again."""

    epoch: int = 0
    known: int = 0
    up: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    walks: tuple[Walk, ...] = ()
    out_of_sync: tuple[str, ...] = ()
