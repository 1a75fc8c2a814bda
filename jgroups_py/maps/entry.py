"""Entries: a map's data for one key, and their bytes in a file.

An origin is a host in one life of its file; it numbers its changes from 1. The dots of an entry are the changes that it
contains: with last-writer rules the one that won, with merging rules the last one of each origin.

Layout, little-endian: time u64, node u16, flags u8, count of dots u16, expiry u64 (if flagged), life u64 (if flagged), each dot as
origin u64 and number u64, then the value.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Final

import msgspec

from jgroups_py.maps.stamp import MapStamp

Dots = dict[int, int]
"""Numbers by origin."""

KEY_MAX: Final = 511
"""The most bytes of a key: LMDB's limit."""
TIME_MAX: Final = 1 << 62
"""The latest time in ticks (the year 2540). A later time is refused: a clock that adopted it could soon count no
further."""
NODE_SHIFT: Final = 48
LIFE_MASK: Final = (1 << NODE_SHIFT) - 1

_HEAD: Final = Struct("<QHBH")
_DOT: Final = Struct("<QQ")
_NUMBER: Final = Struct("<Q")
_REMOVED: Final = 1
_EXPIRES: Final = 2
_LIFE: Final = 4
_FLAGS: Final = 10
"""The offset of the flags; two bytes with the count of dots follow."""
_PLAIN_HEAD: Final = _HEAD.size
_PLAIN: Final = b"\0\1\0"
"""No flags and one dot, as most entries."""
_PLAIN_VALUE: Final = _HEAD.size + _DOT.size


class DamagedEntry(ValueError):
    """Bytes that are no entry."""


def origin_of(node: int, life: int) -> int:
    """Return the origin of a host whose file was made at ``life`` (milliseconds since 1970)."""
    return node << NODE_SHIFT | (life & LIFE_MASK)


def node_of(origin: int) -> int:
    """Return the identifier of the host."""
    return origin >> NODE_SHIFT


class MapEntry(msgspec.Struct, frozen=True, gc=False):
    """``value`` None: the key was removed (a tombstone). ``expires``: ticks, 0: never. ``life``: for merging rules, the
    time of the last removal before the value; a later life wins over an earlier one."""

    value: bytes | None
    stamp: MapStamp
    dots: Dots = {}
    expires: int = 0
    life: int = 0

    @property
    def removed(self) -> bool:
        return self.value is None

    def is_over(self, now: int) -> bool:
        """Has its time to live passed at ``now`` (ticks)?"""
        return 0 < self.expires <= now

    def encode(self) -> bytes:
        flags = (
            (_REMOVED if self.value is None else 0)
            | (_EXPIRES if self.expires else 0)
            | (_LIFE if self.life else 0)
        )
        parts = [_HEAD.pack(self.stamp.time, self.stamp.node, flags, len(self.dots))]
        if self.expires:
            parts.append(_NUMBER.pack(self.expires))
        if self.life:
            parts.append(_NUMBER.pack(self.life))
        parts += [_DOT.pack(origin, number) for origin, number in self.dots.items()]
        parts.append(self.value or b"")
        return b"".join(parts)


def decode_entry(data: bytes) -> MapEntry:
    """Decode an entry. Raises DamagedEntry."""
    try:
        time, node, flags, count = _HEAD.unpack_from(data)
        at = _HEAD.size
        expires = life = 0
        if flags & _EXPIRES:
            (expires,) = _NUMBER.unpack_from(data, at)
            at += 8
        if flags & _LIFE:
            (life,) = _NUMBER.unpack_from(data, at)
            at += 8
        end = at + count * _DOT.size
        if end > len(data):
            raise DamagedEntry(f"an entry of {len(data)} bytes says that it has {count} dots")
        dots = dict(_DOT.iter_unpack(data[at:end])) if count else {}
    except StructError as error:
        raise DamagedEntry(str(error)) from None
    if time > TIME_MAX:
        raise DamagedEntry(f"an entry of the time {time}, at most {TIME_MAX} is possible")
    return MapEntry(
        None if flags & _REMOVED else data[end:], MapStamp(time, node), dots, expires, life
    )


def value_at(data: bytes, now: Callable[[], int]) -> bytes | None:
    """Return the value of an encoded entry, fast. None: there is none, or it has expired. ``now`` returns ticks."""
    if data[_FLAGS:_PLAIN_HEAD] == _PLAIN:
        return data[_PLAIN_VALUE:]
    flags = data[_FLAGS]
    if flags & _REMOVED:
        return None
    at = _HEAD.size
    if flags & _EXPIRES:
        if _NUMBER.unpack_from(data, at)[0] <= now():
            return None
        at += 8
    if flags & _LIFE:
        at += 8
    count = data[11] | data[12] << 8
    return data[at + count * 16 :]
