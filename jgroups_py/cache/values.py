"""The sizes that a cache is opened with, and what it tells of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class CacheLimits:
    """Sizes and times of one cache. Sizes are bytes, times seconds."""

    max_value_bytes: int = 16_000_000
    """The largest value, encoded."""
    max_call_nodes: int = 100_000
    """Nodes one call may load from a store, changes one batch may have."""
    lock_timeout: float = 10.0
    """How long a call waits for others on the same paths."""
    wake_up_interval: float = 5.0
    """How often what time made due is evicted, and what a failing store missed is tried again."""


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """A snapshot. ``nodes`` and ``bytes`` (names and values, as stored) are what memory holds;
    ``counters`` come from the interceptors, by name."""

    nodes: int
    bytes: int
    missed_by_listeners: int
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeOwner:
    """Logical names: who owns a node, who keeps copies (dataGravitationSearchBackupTrees false: unknown)."""

    owner: str
    backups: tuple[str, ...]
