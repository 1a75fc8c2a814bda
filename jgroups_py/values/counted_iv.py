"""Initialization vectors that count, so that the messages of a run need only the first one.

    GCM     random bytes, the last of them not 0 | count, 4 bytes, the low one first, never 0
    CTR     the same | 4 bytes of 0, which count the blocks of a message

Others see random bytes. The count is laid out as a sequence number on the wire (a byte that is not 0, then the low
byte). So a run is encoded and decoded by patching one byte for each message (wire/packing.py and packet.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SIZE: Final = 4
"""Number of bytes that count."""
FEWEST: Final = 12
"""The fewest bytes of an IV that counts."""
_MOST: Final = 1 << 8 * SIZE
_NO_BLOCKS: Final = bytes(SIZE)


def place_of_count(iv: bytes) -> int | None:
    """Return the beginning of the count. None: this IV does not count."""
    if len(iv) < FEWEST:
        return None
    place = len(iv) - SIZE
    if iv[place:] == _NO_BLOCKS:
        place -= SIZE
    return place if place > 0 and iv[place - 1] else None


def iv_after(iv: bytes, distance: int) -> bytes | None:
    """Return the IV of a later message, a given number of messages after the one with ``iv``. None: there is none."""
    place = place_of_count(iv)
    if place is None:
        return None
    end = place + SIZE
    count = int.from_bytes(iv[place:end], "little") + distance
    if not 0 <= count < _MOST:
        return None
    return iv[:place] + count.to_bytes(SIZE, "little") + iv[end:]


def ivs_from(iv: bytes, count: int) -> list[bytes]:
    """Return ``count`` consecutive IVs, ``iv`` first, or fewer if the count ends before."""
    place = place_of_count(iv)
    if count < 2 or place is None:
        return [iv]
    end = place + SIZE
    first = int.from_bytes(iv[place:end], "little")
    head, tail = iv[:place], iv[end:]
    numbers = range(first, min(first + count, _MOST))
    return [head + number.to_bytes(SIZE, "little") + tail for number in numbers]


class CountedIvs:
    """The IVs of one sender under one key. No IV comes twice.

    Args:
        length: bytes of an IV.
        blocks: the last four bytes count the blocks of a message.
        random_bytes: returns a given number of secret random bytes.
    """

    def __init__(self, length: int, blocks: bool, random_bytes: Callable[[int], bytes]) -> None:
        self._end = _NO_BLOCKS if blocks else b""
        self._random_size = length - SIZE - len(self._end)
        self._random = random_bytes
        self._prefix = b""
        self._next = _MOST

    def take(self, count: int = 1) -> bytes:
        """Return the first of ``count`` IVs that follow each other."""
        if self._next + count > _MOST:
            prefix = self._random(self._random_size)
            self._prefix = prefix[:-1] + bytes([prefix[-1] or 1])
            self._next = 1
        first, self._next = self._next, self._next + count
        return self._prefix + first.to_bytes(SIZE, "little") + self._end
