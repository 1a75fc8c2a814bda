"""Turns attribute values into bytes and back. MessagePack is used unless a user gives another codec.

The cache keeps bytes, not objects. Callers cannot change a stored value, its size is exact, and stores and other
members need no second encoding.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from jgroups_py.errors import CacheRefused
from jgroups_py.stack.raised import text_of


class Codec(Protocol):
    """Turns values into bytes and back. Never pickle here: bytes may come from other machines."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value. Any exception means that the value cannot be stored."""

    def decode(self, data: bytes) -> Any:
        """Return the value of bytes that ``encode`` made."""


class MsgpackCodec:
    """None, bool, int (64 bits), float, str, bytes, lists, dicts, datetimes, UUIDs, dataclasses.

    Plain values come back: tuples as lists, dataclasses as dicts, UUIDs as texts.
    """

    def __init__(self) -> None:
        self.encode = msgspec.msgpack.Encoder().encode
        self.decode = msgspec.msgpack.Decoder().decode


def encoded(codec: Codec, value: Any, limit: int) -> bytes:
    """Return the bytes of a value as the cache keeps them.

    Raises:
        CacheRefused: the codec cannot, or the value has more than ``limit`` bytes.
    """
    try:
        data = codec.encode(value)
    except Exception as error:
        kind = type(value).__name__
        raise CacheRefused(f"a value of type {kind} cannot be stored: {text_of(error)}") from error
    if not isinstance(data, bytes):
        raise CacheRefused(f"the codec made {type(data).__name__} of a value, not bytes")
    if len(data) > limit:
        raise CacheRefused(f"a value has at most {limit} bytes, got {len(data)} (max_value_bytes)")
    return data
