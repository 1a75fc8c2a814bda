"""Messages of one size that follow each other: heads and payloads stand at equal distances.

``struct`` takes all heads, and all payloads, out of a packet in one call. That is several times as fast as a slice for each.
The heads differ in the low bytes of their numbers only, so the expected heads are made in one step and compared as a
whole.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

COPIED_MAX: Final = 2048
"""Payloads of at most this many bytes are copied out of their packet. A copy takes no longer than a view, does not
burden the garbage collector, and lets the packet be freed."""
AT_ONCE: Final = 256
"""The number of values of a low byte."""
_LAYOUTS: Final = 128
"""Layouts that are remembered. One of ``AT_ONCE`` messages takes 16 KB."""

COLUMN: Final = bytes(range(256)) * 2
"""Low bytes of numbers that follow each other."""


@functools.lru_cache(_LAYOUTS)
def _heads_only(head: int, size: int, count: int) -> Struct:
    return Struct(f"{head}s{size}x" * count)


@functools.lru_cache(_LAYOUTS)
def _heads_and_payloads(head: int, size: int, count: int) -> Struct:
    return Struct(f"{head}s{size}s" * count)


@functools.lru_cache(_LAYOUTS)
def _heads_together(head: int, count: int) -> Struct:
    return Struct(f"{head}s" * count)


def cut(heads: bytearray, head: int, count: int) -> Sequence[bytes]:
    """Return ``count`` heads, one by one."""
    return _heads_together(head, count).unpack(heads)


def split(data: bytes, at: int, head: int, size: int, count: int) -> tuple[bytes, Sequence[Any]]:
    """Return the heads of ``count`` messages from ``at`` on, joined, and their payloads. All of it must be within
    ``data``, and ``count`` at most ``AT_ONCE``."""
    if size <= COPIED_MAX:
        parts = _heads_and_payloads(head, size, count).unpack_from(data, at)
        return b"".join(parts[::2]), parts[1::2]
    heads = b"".join(_heads_only(head, size, count).unpack_from(data, at))
    view, stride = memoryview(data), head + size
    start = at + head
    return heads, [view[i : i + size] for i in range(start, start + count * stride, stride)]


def heads_from(head: bytes | bytearray, count: int, spots: Sequence[int]) -> bytearray:
    """Return ``head`` and the heads of the messages after it, joined. The low bytes at ``spots`` grow by one each time,
    up to 255."""
    heads = bytearray(head * count)
    size = len(head)
    for spot in spots:
        low = head[spot]
        heads[spot::size] = COLUMN[low : low + count]
    return heads


def room_in(head: bytes | bytearray, numbers: Sequence[tuple[int, int]]) -> int:
    """Return how many messages, including the one with ``head``, differ only in the low bytes of their numbers; at most
    ``AT_ONCE``.
    ``numbers``: where a number is, low byte first, and its bytes."""
    return min([AT_ONCE, *[256 - head[place] for place, _ in numbers]])


def advance(head: bytearray, numbers: Sequence[tuple[int, int]], count: int) -> bool:
    """Make ``head`` that of the message ``count`` further on. False: a number grows longer, and ``head`` is of no use."""
    for place, width in numbers:
        number = int.from_bytes(head[place : place + width], "little") + count
        if number >> 8 * width:
            return False
        head[place : place + width] = number.to_bytes(width, "little")
    return True


def payloads_of(
    data: bytes, at: int, head: int, size: int, count: int, numbers: Sequence[tuple[int, int]]
) -> list[Any] | None:
    """Return the payloads of ``count`` messages from ``at`` on. None: their heads do not follow each other, or a number
    grows longer. ``numbers`` as for ``room_in``."""
    first = bytearray(data[at : at + head])
    spots = [place for place, _ in numbers]
    payloads: list[Any] = []
    while True:
        part = min(count, room_in(first, numbers))
        heads, found = split(data, at, head, size, part)
        if heads != heads_from(first, part, spots):
            return None
        payloads += found
        count -= part
        if not count:
            return payloads
        if not advance(first, numbers, part):
            return None
        at += part * (head + size)
