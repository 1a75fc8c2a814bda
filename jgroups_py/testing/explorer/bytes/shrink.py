"""A finding made small: pieces are left out as long as the same goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

TRIES_MAX: Final = 2000
"""Of a byte string; a try takes some 0.1 ms."""


def smallest(parts: Sequence[T], same: Callable[[list[T]], bool], tries: int) -> list[T]:
    """``parts`` without what is not needed for ``same``, after at most ``tries`` calls of it."""
    kept = list(parts)
    size = len(kept) // 2
    while size and tries > 0:
        start = 0
        while start < len(kept) and tries > 0:
            shorter = kept[:start] + kept[start + size :]
            tries -= 1
            if same(shorter):
                kept = shorter
            else:
                start += size
        size //= 2
    return kept


def smallest_bytes(data: bytes, same: Callable[[bytes], bool], tries: int = TRIES_MAX) -> bytes:
    """As ``smallest``; what must stay becomes zero where it may."""
    if not same(data):
        return data
    kept = bytearray(smallest(data, lambda parts: same(bytes(parts)), tries * 2 // 3))
    for index, byte in zip(range(len(kept)), bytes(kept)[: tries // 3], strict=False):
        if byte:
            kept[index] = 0
            if not same(bytes(kept)):
                kept[index] = byte
    return bytes(kept)
