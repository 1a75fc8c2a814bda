"""The limits of a cache, its statistics, and the owner of a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class CacheLimits:
    """Sizes and times of one cache. Sizes are bytes, times seconds."""

    max_value_bytes: int = 16_000_000
    """The largest value, encoded."""
    max_call_nodes: int = 100_000
    """The most nodes that one call may load from a store, and the most changes of one batch."""
    lock_timeout: float = 10.0
    """The longest wait of a call for others on the same paths."""
    wake_up_interval: float = 5.0
    """Seconds between two evictions of due nodes and retries of failed saves."""


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """A snapshot. ``nodes`` and ``bytes`` (names and values, as stored): those in memory. ``counters``: of the
    interceptors, by name."""

    nodes: int
    bytes: int
    missed_by_listeners: int
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeOwner:
    """The logical names of a node's owner and of the holders of copies (dataGravitationSearchBackupTrees false:
    unknown)."""

    owner: str
    backups: tuple[str, ...]
