"""Stamps: they decide which of two changes of a key is newer (K9-K11).

A time is in ticks of 1/256 microsecond since 1970. The processes of one host have different slots in the low eight bits, so two of
them never give the same time.

Source: seed 004 (Chronicle Map); Kulkarni and others, Logical Physical Clocks (2014), with the counter inside the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

TICKS_PER_S: Final = 256_000_000
SLOTS: Final = 256
"""The most processes of a host that write at the same time."""
IDENTIFIER_MAX: Final = 127
WIDE_IDENTIFIER_MAX: Final = 65_535
"""The largest identifier with ``wide_identifiers``."""


class MapStamp(NamedTuple):
    """Time in ticks, and the identifier of the host."""

    time: int
    node: int

    def is_newer(self, other: MapStamp) -> bool:
        """Is this stamp newer? At equal times the smaller identifier wins, on every node alike (K11)."""
        return self.time > other.time or (self.time == other.time and self.node < other.node)


ZERO: Final = MapStamp(0, WIDE_IDENTIFIER_MAX + 1)
"""Older than any change."""


class HybridClock:
    """Gives times that grow.

    ``wall``: nanoseconds since 1970. ``hybrid``: each time is also above every observed time, so that a change is newer
    than the value it is based on. Otherwise, as in Chronicle Map, the wall clock alone decides between hosts, and a
    host with a slow clock loses.
    """

    def __init__(self, wall: Callable[[], int], *, slot: int = 0, hybrid: bool = True) -> None:
        if not 0 <= slot < SLOTS:
            raise ValueError(f"slot must be from 0 to {SLOTS - 1}, got {slot}")
        self._wall = wall
        self._slot = slot
        self._hybrid = hybrid
        self._last = 0

    def wall_time(self) -> int:
        """Return the wall clock, in ticks."""
        return self._wall() * TICKS_PER_S // 1_000_000_000

    def next(self) -> int:
        """Return a time above all times that this clock has given or, if hybrid, observed."""
        time = max(self._wall() // 1000, (self._last >> 8) + 1) << 8 | self._slot
        self._last = time
        return time

    def observe(self, time: int) -> float:
        """Observe a foreign time. Return the seconds by which it is ahead of this host's wall clock."""
        if self._hybrid and time > self._last:
            self._last = time
        return (time - self.wall_time()) / TICKS_PER_S
