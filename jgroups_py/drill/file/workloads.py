"""Workloads: the parts of a drill file, and of a run, that differ between drills of messages, caches, maps and so on.

The loader, the plan and the command ask here. A new workload is a row of ``WORKLOADS``, its readers, and the modules of
``judged``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jgroups_py.drill.file import bucket_keys, cache_keys, live_keys, map_keys, values
from jgroups_py.drill.file.model import (
    CACHE_COUNTS,
    CACHE_FAULTS,
    CACHE_TIMES,
    COMPONENTS,
    COUNTS,
    FAULTS,
    MEMBERS_MAX,
    TIMES,
)

Readers = Mapping[str, Callable[[str], Any]]
"""The reader of each key's value. It raises ``ValueError`` with the accepted values."""


@dataclass(frozen=True)
class Workload:
    """One kind of drill."""

    name: str
    faults: tuple[str, ...]
    counts: tuple[str, ...]
    times: tuple[str, ...]
    """The figures that may be expected: numbers, and times."""
    asks: Callable[..., Any] | None = None
    """Makes a line of traffic from the values of ``traffic``. None: messages of a size."""
    traffic: Readers = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    """Keys of ``traffic`` that are drawn from a range."""
    settings: Readers = field(default_factory=dict)
    """Keys of the mapping at the top of the file that has the workload's name."""
    site_keys: tuple[str, ...] = ()
    stack: str = "relay-udp.xml"
    stack_alone: str = "relay-udp.xml"
    """The default stack for one site."""
    all_relay: bool = False
    """Every site relays: there is no primary."""
    sites_max: int = MEMBERS_MAX
    members_max: int = MEMBERS_MAX
    """The most members, and the reason in words."""
    why: str = ""
    components: tuple[str, ...] = ()
    """Selectors that name a member by its components."""
    during: tuple[str, ...] = ()
    """Actions in whose middle an event can come."""


_NO_PRIMARY: Final = tuple(fault for fault in FAULTS if fault != "promote")

WORKLOADS: Final = {
    one.name: one
    for one in (
        Workload("messages", FAULTS, COUNTS, TIMES, traffic={"size": values.size}),
        Workload(
            "cache",
            CACHE_FAULTS,
            CACHE_COUNTS,
            CACHE_TIMES,
            asks=cache_keys.Load,
            traffic=cache_keys.READERS,
            parts=cache_keys.PARTS,
            site_keys=("cache", "properties"),
            stack_alone="udp.xml",
        ),
        Workload(
            "map",
            _NO_PRIMARY,
            map_keys.COUNTS,
            map_keys.TIMES,
            asks=map_keys.MapLoad,
            traffic=map_keys.READERS,
            parts=map_keys.PARTS,
            settings=map_keys.SETTINGS,
            stack_alone="udp.xml",
            all_relay=True,
            members_max=map_keys.HOSTS_MAX,
            why=f"hosts of a map have identifiers from 1 to {map_keys.HOSTS_MAX}",
        ),
        Workload(
            "livebackup",
            tuple(fault for fault in _NO_PRIMARY if fault != "fail_site"),
            live_keys.COUNTS,
            live_keys.TIMES,
            asks=live_keys.LiveLoad,
            traffic=live_keys.READERS,
            settings=live_keys.SETTINGS,
            stack_alone="udp.xml",
            sites_max=1,
            why="a live node and its backups are of one site",
        ),
        Workload(
            "buckets",
            (*(fault for fault in _NO_PRIMARY if fault != "fail_site"), "upgrade"),
            bucket_keys.COUNTS,
            bucket_keys.TIMES,
            asks=bucket_keys.BucketWorkload,
            traffic=bucket_keys.READERS,
            parts=bucket_keys.PARTS,
            settings=bucket_keys.SETTINGS,
            stack_alone="udp.xml",
            sites_max=1,
            why="the members of a bucket store are of one site",
            components=COMPONENTS,
            during=bucket_keys.DURING,
        ),
    )
}
"""The workloads by name; the first one is the default."""
DEFAULT: Final = WORKLOADS["messages"]


def times() -> tuple[str, ...]:
    """Return the figures of all workloads that are times."""
    return tuple({name: None for one in WORKLOADS.values() for name in one.times})


def counts() -> tuple[str, ...]:
    """Return the figures of all workloads that are numbers."""
    return tuple({name: None for one in WORKLOADS.values() for name in one.counts})
