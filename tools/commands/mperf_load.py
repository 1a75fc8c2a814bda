"""The load of mperf's members, and the rate at which one of them reads.

A payload begins with ``HEAD``: the number of its sender and a sequence number.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import trio

HEAD: Final = struct.Struct(">Q")  # sender << 40 | seqno
SEQNO_BITS: Final = 40
SIZE_MIN: Final = HEAD.size
CHUNK_BYTES: Final = 240_000
"""Bytes of payloads that are made and sent between two looks at the clock."""
CHUNK_MAX: Final = 1_000
SMALL_BETWEEN_HUGE: Final = 50
"""Small payloads before each huge one, where there are huge ones. A huge one has as many bytes as thousands of small
ones, so the queues are full of both."""


class Payloads:
    """Makes ``count`` payloads of ``size`` bytes at once, because only the stack is to be measured."""

    def __init__(self, size: int, count: int) -> None:
        self._size, self.count = size, count
        self._bytes = bytearray(size * count)
        self._heads = struct.Struct(f">{count}Q")
        self._all = struct.Struct(f"{size}s" * count)

    def beginning(self, first: int) -> tuple[bytes, ...]:
        """Return payloads that begin with ``first`` and the numbers after it."""
        heads = self._heads.pack(*range(first, first + self.count))
        for column in range(HEAD.size):
            self._bytes[column :: self._size] = heads[column :: HEAD.size]
        return self._all.unpack(self._bytes)


class MixedPayloads:
    """Makes ``SMALL_BETWEEN_HUGE`` payloads of ``size`` bytes and then one of ``huge`` bytes."""

    count = SMALL_BETWEEN_HUGE + 1

    def __init__(self, size: int, huge: int) -> None:
        self._small = Payloads(size, SMALL_BETWEEN_HUGE)
        self._rest = bytes(huge - HEAD.size)

    def beginning(self, first: int) -> tuple[bytes, ...]:
        """Return payloads that begin with ``first`` and the numbers after it."""
        last = HEAD.pack(first + SMALL_BETWEEN_HUGE) + self._rest
        return (*self._small.beginning(first), last)


def mean_size(size: int, huge: int) -> float:
    """Return the mean bytes of a payload."""
    return (SMALL_BETWEEN_HUGE * size + huge) / (SMALL_BETWEEN_HUGE + 1) if huge else size


def payloads(size: int, huge: int) -> Payloads | MixedPayloads:
    """Return the maker of the payloads of a turn. ``huge`` 0: all have ``size`` bytes."""
    if huge:
        return MixedPayloads(size, huge)
    return Payloads(size, max(1, min(CHUNK_MAX, CHUNK_BYTES // size)))


class SlowTaker:
    """Takes at most ``rate`` bytes a second, like an application that is slower than its group."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._busy_until = 0.0

    async def take(self, payloads: Sequence[Any]) -> None:
        """Return when these payloads have been worked on."""
        began = max(self._busy_until, trio.current_time())
        self._busy_until = began + sum(map(len, payloads)) / self._rate
        await trio.sleep_until(self._busy_until)
