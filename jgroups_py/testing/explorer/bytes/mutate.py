"""One byte string made into another: numbers to their limits, pieces moved, repeated, cut, swapped.

A mutator draws from its generator only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from jgroups_py.testing.explorer.bytes.spots import Spot
from jgroups_py.wire.primitives import lz_bytes

INPUT_MAX: Final = 20_000
"""Bytes of the longest input that a mutation makes."""

_WIDTHS: Final = {"u8": 1, "i16": 2, "i32": 4, "i64": 8}
_NUMBERS: Final = (
    *(0, 1, 2, 3, 7, 8, 15, 16, 64, 100, 127, 128, 255, 256, 1000, 32767, 32768, 65535, 65536),
    *(2**20, 2**24, 2**30, 2**31 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**62 + 1),
    *(2**63 - 1, 2**63 - 2),
    *(-1, -2, -5, -128, -32768, -(2**31), -(2**63)),
)
_WORDS: Final = (
    *(b"0", b"-1", b"1", b"1e999", b"nan", b"inf", b"99999999999999999999", b"0x10", b"1_000"),
    *(
        b"true",
        b"null",
        b"",
        b" ",
        b"\t",
        b"\n",
        b"\r",
        b"\x00",
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
    ),
    *(b"<", b">", b"</", b"/>", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<?xml?>", b"<!DOCTYPE a>"),
    *(
        b"&",
        b"&#0;",
        b"&amp;",
        b"&a;",
        b'"',
        b"'",
        b"=",
        b"${",
        b"}",
        b"${a:b}",
        b"${${a}}",
        b":",
        b",",
    ),
    *(
        b"{",
        b"[",
        b"]",
        b"- ",
        b"? ",
        b"| ",
        b"> ",
        b"!!python/none",
        b"!x",
        b"&a ",
        b"*a",
        b"<<: ",
        b"%",
    ),
    *(
        b"---",
        b"...",
        b"#",
        b"1s",
        b"5ms..",
        b"..",
        b"<=",
        b">= ",
        b"100%",
        b"1/s",
        b"1GB",
        b"include",
    ),
    *("²".encode(), "٣".encode(), "\ufeff".encode(), "é".encode(), "\U0001f600".encode()),
)
_PAIRS: Final = (b"[", b"{a: ", b"<a>", b"(", b"- ")

Found = tuple[bytes, Sequence[Spot]]
"""An input and its spots."""


class Mutator:
    """Makes inputs of one target. ``text``: the inputs are texts that people write."""

    def __init__(self, rng: random.Random, *, text: bool = False) -> None:
        self.rng = rng
        blind: list[Callable[[bytearray, Found], None]] = [
            self._flip,
            self._byte,
            self._number,
            self._insert,
            self._delete,
            self._cut,
            self._repeat,
            self._cross,
        ]
        aware: list[Callable[[bytearray, Sequence[Spot], Found], None]] = [
            self._limit,
            self._limit,
            self._borrow,
            self._double,
            self._drop,
            self._end,
            self._nest,
        ]
        if text:
            aware += [self._word, self._word, self._word, self._swap]
        self._blind = blind
        self._aware = aware

    def mutate(self, entry: Found, other: Found) -> bytes:
        """Return ``entry`` changed once or a few times; pieces may come from ``other``."""
        rng = self.rng
        data, spots = bytearray(entry[0]), entry[1]
        for index in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
            # The spots are true for the first change only; later they are guesses, which do no harm.
            if spots and rng.random() < (0.7 if index == 0 else 0.4):
                rng.choice(self._aware)(data, spots, other)
            else:
                rng.choice(self._blind)(data, other)
            if len(data) > INPUT_MAX:
                del data[INPUT_MAX:]
        return bytes(data)

    # --- anywhere

    def _at(self, data: bytearray) -> int:
        return self.rng.randrange(len(data) + 1)

    def _flip(self, data: bytearray, other: Found) -> None:
        if data:
            data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)

    def _byte(self, data: bytearray, other: Found) -> None:
        if data:
            data[self.rng.randrange(len(data))] = self.rng.randrange(256)

    def _number(self, data: bytearray, other: Found) -> None:
        width, at = self.rng.choice((1, 2, 4, 8)), self._at(data)
        data[at : at + width] = self._fixed(width, len(data) - at)

    def _insert(self, data: bytearray, other: Found) -> None:
        at = self._at(data)
        data[at:at] = self.rng.randbytes(self.rng.randrange(1, 9))

    def _delete(self, data: bytearray, other: Found) -> None:
        at = self._at(data)
        del data[at : at + self.rng.randrange(1, 9)]

    def _cut(self, data: bytearray, other: Found) -> None:
        del data[self._at(data) :]

    def _repeat(self, data: bytearray, other: Found) -> None:
        start = self._at(data)
        piece = bytes(data[start : start + self.rng.choice((1, 2, 4, 16, 64))])
        data[start:start] = piece * self.rng.choice((1, 1, 2, 10, 100, 1000))

    def _cross(self, data: bytearray, other: Found) -> None:
        at = self._at(data)
        data[at:] = other[0][min(at, len(other[0])) :]

    # --- places

    def _fixed(self, width: int, left: int) -> bytes:
        """Return a number at a limit, or near the count of bytes that are left."""
        rng = self.rng
        near = left + rng.choice((-2, -1, 0, 1, 2))
        value = near if rng.random() < 0.15 else rng.choice(_NUMBERS)
        return (value % (1 << 8 * width)).to_bytes(width, "big")

    def _limit(self, data: bytearray, spots: Sequence[Spot], other: Found) -> None:
        spot = self.rng.choice(spots)
        data[spot.start : spot.end] = self._value(spot, data)

    def _value(self, spot: Spot, data: bytearray) -> bytes:
        rng = self.rng
        width = _WIDTHS.get(spot.kind)
        if width is not None:
            return self._fixed(width, len(data) - spot.end)
        if spot.kind == "lz":
            if rng.random() < 0.1:
                size = rng.choice((0, 1, 4, 5, 8, 9, 255))
                return bytes((size,)) + rng.randbytes(min(size, 9))
            value = rng.choice(_NUMBERS)
            return lz_bytes(value if -(2**63) <= value < 2**63 else 0, 8)
        if spot.kind == "seq":
            first, second = rng.choice((0, 1, 8, 8, 9, 15)), rng.choice((0, 1, 8, 15))
            return bytes((first << 4 | second,)) + rng.randbytes(first + second)
        if spot.kind == "word":
            return rng.choice(_WORDS)
        size = rng.choice((0, 1, spot.end - spot.start, spot.end - spot.start + 1, 300))
        return rng.choice((bytes(size), b"\xff" * size, rng.randbytes(size)))

    def _borrow(self, data: bytearray, spots: Sequence[Spot], other: Found) -> None:
        """Put in the value of a like place in another input."""
        spot = self.rng.choice(spots)
        like = [s for s in other[1] if s.kind == spot.kind]
        if like:
            found = self.rng.choice(like)
            data[spot.start : spot.end] = other[0][found.start : found.end]

    def _span(self, spots: Sequence[Spot]) -> tuple[int, int]:
        """Return the bounds from the beginning of one spot to the end of another."""
        first = self.rng.randrange(len(spots))
        last = min(len(spots) - 1, first + self.rng.choice((0, 1, 2, 3, 5, 10)))
        return spots[first].start, max(spots[first].end, spots[last].end)

    def _double(self, data: bytearray, spots: Sequence[Spot], other: Found) -> None:
        start, end = self._span(spots)
        data[end:end] = bytes(data[start:end]) * self.rng.choice((1, 1, 3, 50))

    def _drop(self, data: bytearray, spots: Sequence[Spot], other: Found) -> None:
        start, end = self._span(spots)
        del data[start:end]

    def _end(self, data: bytearray, spots: Sequence[Spot], other: Found) -> None:
        """Cut exactly between two values."""
        del data[self.rng.choice(spots).start :]

    def _nest(self, data: bytearray, spots: Sequence[Spot], other: Found) -> None:
        """Repeat the beginning: structures inside structures."""
        head = bytes(data[: self.rng.choice(spots).end][:64])
        data[0:0] = head * self.rng.choice((1, 5, 30, 300))

    def _word(self, data: bytearray, spots: Sequence[Spot], other: Found) -> None:
        spot = self.rng.choice(spots)
        words = [*self.rng.choices(_WORDS, k=2), self.rng.choice(_PAIRS) * 500]
        word = words[self.rng.choice((0, 0, 0, 0, 1, 1, 1, 2))]
        at = self.rng.choice((spot.start, spot.end))
        data[at:at] = word

    def _swap(self, data: bytearray, spots: Sequence[Spot], other: Found) -> None:
        """Insert a line of this text or of the other text somewhere."""
        lines = bytes(data).splitlines(keepends=True)
        theirs = other[0].splitlines(keepends=True)
        if lines and theirs:
            line = self.rng.choice(lines if self.rng.random() < 0.5 else theirs)
            lines.insert(self.rng.randrange(len(lines) + 1), line)
            if self.rng.random() < 0.5:
                del lines[self.rng.randrange(len(lines))]
            data[:] = b"".join(lines)


_KEYS: Final = (b"", b"\x00" * 16, b"\xff" * 16, "", "NYC", "x" * 300, -1, 2**63)
_LEAVES: Final[tuple[Any, ...]] = (
    *_KEYS,
    None,
    True,
    1.5,
    0,
    1,
    2**31,
    2**62,
    2**63 - 1,
    -(2**63),
    (),
    {},
)


def mutate_msgpack(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Return a msgpack record with one value exchanged, removed, doubled or made deep."""
    try:
        tree, theirs = msgspec.msgpack.decode(data), msgspec.msgpack.decode(other)
        places, pieces = list(_places(tree)), list(_places(theirs))
        if not places:
            return data
        holder, key = rng.choice(places)
        match rng.randrange(6):
            case 0 if pieces:
                there, index = rng.choice(pieces)
                holder[key] = there[index]
            case 1:
                holder.pop(key)
            case 2 if isinstance(holder, list):
                holder.insert(key, holder[key])
            case 3 if isinstance(holder, dict):
                holder[rng.choice(_KEYS)] = holder[key]
            case 4:
                for _ in range(rng.choice((1, 5, 600))):
                    holder[key] = [holder[key]]
            case _:
                holder[key] = rng.choice(_LEAVES)
        return msgspec.msgpack.encode(tree)
    except (msgspec.MsgspecError, OverflowError, RecursionError, TypeError):
        return data


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key or index) in ``tree``."""
    found: list[tuple[Any, Any]] = []
    todo = [tree]
    while todo and len(found) < 500:
        one = todo.pop()
        if isinstance(one, dict):
            keys: list[Any] = list(one)
        elif isinstance(one, list):
            keys = list(range(len(one)))
        else:
            continue
        for key in keys:
            found.append((one, key))
            todo.append(one[key])
    return found
