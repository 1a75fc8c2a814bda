"""The keys of a drill of maps: lines of traffic, settings of the map, expectations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.drill.file import cache_keys, values
from jgroups_py.maps.stamp import IDENTIFIER_MAX

HOSTS_MAX: Final = IDENTIFIER_MAX
COUNTS: Final = ("lost", "diverged", "stale", "unsent")
TIMES: Final = ("detection", "lag", "lag_p50", "lag_p99", "divergence", "healed")
"""The figures that may be expected of maps; see judge/map_judge.py."""
SECONDS_MIN: Final = 0.001
WINDOW_MIN: Final = 1_000


@dataclass(frozen=True, slots=True)
class MapLoad:
    """``read_ratio``: the part of requests that read. ``remove_ratio``: the part of the others that remove.
    ``value_size``: bytes."""

    keys: int = 100
    read_ratio: float = 0.5
    remove_ratio: float = 0.1
    value_size: int = 100


def seconds(text: str) -> float:
    """Read a duration that a map accepts."""
    found = values.duration(text)
    if found < SECONDS_MIN:
        raise ValueError(f"{text!r} is too short; at least {SECONDS_MIN * 1000:g}ms")
    return found


def window(text: str) -> int:
    """Read the size of a window: ``1MB``."""
    found = values.size(text)
    if found < WINDOW_MIN:
        raise ValueError(f"{found} B; at least {WINDOW_MIN} B")
    return found


PARTS: Final = ("read_ratio", "remove_ratio")
READERS: Final[dict[str, Callable[[str], Any]]] = {
    name: cache_keys.READERS[name] for name in ("keys", *PARTS, "value_size")
}
SETTINGS: Final[dict[str, Callable[[str], Any]]] = {
    "flush_interval": seconds,
    "tombstone_age": seconds,
    "window": window,
    "max_bandwidth": values.size,
}
"""The settings of ``maps.Replication``; ``max_bandwidth`` is a size per second."""
