"""A drill file as frozen values, each with the place it was read from.

Nothing is drawn here: a varying value is a ``DrawnValue``. ``plan`` turns this and a seed into a ``DrillPlan``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jgroups_py.drill.file.values import DrawnValue

MEMBERS_MAX = 1_000
"""The most members of all sites together."""

ROLES = ("coordinator", "relay", "standby", "newest", "any")
"""Selectors that are not names; no member may have such a name."""

COMPONENTS = ("manager", "master", "slave", "target", "index", "router", "proxy", "node")
"""Selectors of bucket stores, by a member's components. No member of a bucket store can have such a name."""
FALLEN = "fallen"
"""The member to restart there: the absent one, or any one of them."""

FAULTS = ("crash", "vanish", "pause", "leave", "restart", "partition", "fail_site", "promote")
"""The actions of the timeline."""

COUNTS = ("lost", "lost_inside", "duplicated", "out_of_order")
TIMES = ("detection", "takeover", "unrelayed_at_site_failure")
"""The figures that may be expected: numbers of messages, and times."""

PRIMARY_ONLY = "primary only"
"""The values of ``relay`` in a drill file."""
CACHE_FAULTS = (*FAULTS, "bootstrap")
"""Caches have one more: all nodes are sent to a site."""
CACHE_COUNTS = ("lost", "stale", "doubly_owned", "diverged", "discarded")
CACHE_TIMES = ("detection", "unprotected", "bootstrap", "unrelayed_at_site_failure")
"""The figures that may be expected of caches: numbers of keys, and times."""


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A place in a drill file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Override:
    """``PROTOCOL.attribute: value``; the value is text, as a stack file would have it."""

    protocol: str
    attribute: str
    value: str
    place: FilePlace


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    """The faults of packets; ``None``: no fault is injected. Fractions and seconds, one way."""

    latency: DrawnValue | None = None
    jitter: DrawnValue | None = None
    loss: DrawnValue | None = None
    duplicate: DrawnValue | None = None
    reorder: DrawnValue | None = None


@dataclass(frozen=True, slots=True)
class DrillSite:
    name: str
    members: tuple[str, ...]
    """The members in the order of joining: the first becomes coordinator and relay."""
    stack: str
    overrides: tuple[Override, ...]
    place: FilePlace
    cache: str = ""
    """The cache file, of caches."""
    properties: tuple[tuple[str, str], ...] = ()
    """Values for ``${name}`` in it."""


@dataclass(frozen=True, slots=True)
class Bridge:
    stack: str
    network: NetworkFaults
    overrides: tuple[Override, ...]
    place: FilePlace


@dataclass(frozen=True, slots=True)
class DrillTraffic:
    site: str
    members: tuple[str, ...]
    rate: DrawnValue
    """Messages, or requests, a second and member."""
    size: int
    start: DrawnValue
    stop: DrawnValue | None
    """``None``: until the last event is over."""
    place: FilePlace
    asks: Any = None
    """The requests of workloads other than messages (``Workload.asks``), which do not use ``size``."""
    drawn: tuple[tuple[str, DrawnValue], ...] = ()
    """Parts of ``asks`` that were given, by name."""


@dataclass(frozen=True, slots=True)
class Selector:
    """``SITE`` (``what`` is ``None``), ``SITE.NAME`` or ``SITE.role``. ``component``: the role is one of ``COMPONENTS``."""

    site: str
    what: str | None
    place: FilePlace
    component: bool = False

    @property
    def is_role(self) -> bool:
        return self.component or self.what in ROLES

    def __str__(self) -> str:
        return self.site if self.what is None else f"{self.site}.{self.what}"


@dataclass(frozen=True, slots=True)
class DrillEvent:
    at: DrawnValue
    fault: str
    """One of the workload's faults."""
    targets: tuple[Selector, ...]
    groups: tuple[tuple[Selector, ...], ...]
    """The groups of a partition, which has no ``targets``."""
    gap: DrawnValue
    shuffled: bool
    duration: DrawnValue | None
    how: str
    """The way of ``fail_site``: ``vanish`` or ``crash``."""
    place: FilePlace
    during: str = ""
    """With bucket stores: the event waits for a ``move`` or for one of an ``upgrade``, and comes in its middle."""


@dataclass(frozen=True, slots=True)
class Expectation:
    name: str
    compare: str
    """``<=``, ``<``, ``>=``, ``=``."""
    limit: float
    text: str
    """The text of the file, for people."""
    place: FilePlace

    def holds(self, measured: float | None) -> bool:
        """Does the figure hold? A figure that was not measured does not hold."""
        if measured is None:
            return False
        match self.compare:
            case "<=":
                return measured <= self.limit
            case "<":
                return measured < self.limit
            case ">=":
                return measured >= self.limit
            case _:
                return measured == self.limit


@dataclass(frozen=True, slots=True)
class Drill:
    name: str
    file: str
    seed: int
    primary: str | None
    """``None``: every site relays to every other."""
    sites: tuple[DrillSite, ...]
    bridge: Bridge
    network: NetworkFaults
    overrides: tuple[Override, ...]
    traffic: tuple[DrillTraffic, ...]
    timeline: tuple[DrillEvent, ...]
    settle: DrawnValue
    grace: DrawnValue
    expect: tuple[Expectation, ...]
    workload: str = "messages"
    """The name of one of ``workloads.WORKLOADS``."""
    primary_only: bool = False
    """``relay: primary only``: messages of other sites are not meant to be relayed."""
    settings: tuple[tuple[str, Any], ...] = ()
    """The settings of the workload, by name."""

    def site(self, name: str) -> DrillSite:
        return next(site for site in self.sites if site.name == name)
