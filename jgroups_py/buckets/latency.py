"""A router's requests, counted by their latency. Counts of members can be added, and counts of an earlier look
subtracted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

EDGES: Final = (
    250, 500, 1_000, 1_500, 2_000, 3_000, 4_000, 5_000, 6_000, 8_000, 10_000, 12_000, 15_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000,
    200_000, 300_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000, 10**12,
)  # fmt: skip
"""Microseconds. A request is counted at the first edge that it does not exceed."""
KINDS: Final = ("reads", "changes")
_NAMES: Final = {kind: tuple(f"{kind}_in_{edge}us" for edge in EDGES) for kind in KINDS}


class Latencies:
    """Answered requests of one router."""

    def __init__(self) -> None:
        self._counts = {kind: [0] * len(EDGES) for kind in KINDS}

    def add(self, seconds: float, *, modifies: bool) -> None:
        step = min(bisect_left(EDGES, seconds * 1e6), len(EDGES) - 1)
        self._counts["changes" if modifies else "reads"][step] += 1

    def counts(self) -> dict[str, int]:
        """Return ``reads_in_1000us`` and so on: requests that took longer than the edge before and at most this
        long."""
        return {
            name: count
            for kind in KINDS
            for name, count in zip(_NAMES[kind], self._counts[kind], strict=True)
            if count
        }


def percentile(counts: Mapping[str, int], kind: str, part: float) -> float | None:
    """Return, in milliseconds, the edge that this part of the requests did not exceed. None: there were no requests."""
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
