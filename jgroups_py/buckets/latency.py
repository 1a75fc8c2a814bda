"""Requests and locks of moves, counted by the time that they took. Counts of members can be added, and counts of an
earlier look subtracted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

EDGES: Final = (
    250, 500, 1_000, 1_500, 2_000, 3_000, 4_000, 5_000, 6_000, 8_000, 10_000, 12_000, 15_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000,
    200_000, 300_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000, 10**12,
)  # fmt: skip
"""Microseconds. A time is counted at the first edge that it does not exceed."""
KINDS: Final = ("reads", "changes")
"""Requests of a router."""
LOCKS: Final = "locks"
"""Locks of a manager's buckets, each at the end of a move."""
_NAMES: Final = {kind: tuple(f"{kind}_in_{edge}us" for edge in EDGES) for kind in (*KINDS, LOCKS)}


class Latencies:
    """Times of one component, by kind."""

    def __init__(self, *kinds: str) -> None:
        self._counts = {kind: [0] * len(EDGES) for kind in kinds}

    def add(self, kind: str, seconds: float) -> None:
        step = min(bisect_left(EDGES, seconds * 1e6), len(EDGES) - 1)
        self._counts[kind][step] += 1

    def counts(self) -> dict[str, int]:
        """Return counts by name, such as ``reads_in_1000us``. Each one counts times above the previous edge, up
        to this edge."""
        return {
            name: count
            for kind, found in self._counts.items()
            for name, count in zip(_NAMES[kind], found, strict=True)
            if count
        }


def percentile(counts: Mapping[str, int], kind: str, part: float) -> float | None:
    """Return, in milliseconds, the edge that this part of the times did not exceed. None: there were none."""
    found = [counts.get(name, 0) for name in _NAMES[kind]]
    wanted = part * sum(found)
    if wanted <= 0:
        return None
    so_far = 0
    for edge, count in zip(EDGES, found, strict=True):
        so_far += count
        if so_far >= wanted:
            return edge / 1000
    raise AssertionError("the last edge has all of them")
