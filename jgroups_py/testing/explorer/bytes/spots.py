"""The places of numbers, lengths and strings in a byte string.

These places are not written down a second time: a ``SpyReader`` is a Reader that notes each request and its place, so
the decoders' own reading of a valid input is its map. Texts are cut into words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.wire.primitives import DEFAULT_VERSION, Buffer, Reader

SPOTS_MAX: Final = 400
"""The most spots kept of one input; a long one repeats itself."""

_WORD: Final = re.compile(rb"[A-Za-z0-9_.]+|\s+|[^A-Za-z0-9_.\s]")


class Spot(NamedTuple):
    """Bytes ``start`` (inclusive) to ``end`` (exclusive), read as ``kind``."""

    start: int
    end: int
    kind: str


class SpyReader(Reader):
    """A Reader that notes every number and every run of bytes it gives out."""

    __slots__ = ("spots",)

    def __init__(self, data: Buffer, pos: int = 0, version: int = DEFAULT_VERSION) -> None:
        super().__init__(data, pos, version)
        self.spots: list[Spot] = []

    def _note(self, start: int, kind: str) -> None:
        if self.pos > start and len(self.spots) < SPOTS_MAX:
            self.spots.append(Spot(start, self.pos, kind))

    def u8(self) -> int:
        start = self.pos
        value = super().u8()
        self._note(start, "u8")
        return value

    def i8(self) -> int:
        start = self.pos
        value = super().i8()
        self._note(start, "u8")
        return value

    def flag(self) -> bool:
        start = self.pos
        value = super().flag()
        self._note(start, "u8")
        return value

    def i16(self) -> int:
        start = self.pos
        value = super().i16()
        self._note(start, "i16")
        return value

    def u16(self) -> int:
        start = self.pos
        value = super().u16()
        self._note(start, "i16")
        return value

    def i32(self) -> int:
        start = self.pos
        value = super().i32()
        self._note(start, "i32")
        return value

    def u32(self) -> int:
        start = self.pos
        value = super().u32()
        self._note(start, "i32")
        return value

    def i64(self) -> int:
        start = self.pos
        value = super().i64()
        self._note(start, "i64")
        return value

    def lz64(self) -> int:
        start = self.pos
        value = super().lz64()
        self._note(start, "lz")
        return value

    def lz32(self) -> int:
        start = self.pos
        value = super().lz32()
        self._note(start, "lz")
        return value

    def seq(self) -> tuple[int, int]:
        start = self.pos
        value = super().seq()
        self._note(start, "seq")
        return value

    def take(self, size: int) -> bytes:
        start = self.pos
        value = super().take(size)
        self._note(start, "bytes")
        return value

    def view(self, size: int) -> memoryview:
        start = self.pos
        value = super().view(size)
        self._note(start, "bytes")
        return value


def spots_of(data: bytes, read: Callable[[Reader], object] | None) -> list[Spot]:
    """Return the spots of ``data`` as ``read`` sees it, up to where it gives up; ``read`` None: words."""
    if read is None:
        words = _WORD.finditer(data)
        return [
            Spot(m.start(), m.end(), "word") for m, _ in zip(words, range(SPOTS_MAX), strict=False)
        ]
    spy = SpyReader(data)
    try:
        read(spy)
    except RemoteProtocolError:
        pass
    return spy.spots
