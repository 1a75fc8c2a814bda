"""Codecs: how keys and values become bytes, and back. Never pickle: bytes may come from other hosts.

A file keeps the names of its codecs, so that a map of numbers is not opened as one of texts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from jgroups_py.maps.errors import MapError, MapTypeError
from jgroups_py.stack.raised import text_of

T = TypeVar("T")

_INT: Final = Struct(">q")
_SIGN: Final = 1 << 63


@dataclass(frozen=True)
class Codec(Generic[T]):
    """``encode`` and ``decode`` are inverse to each other, at every host. One value must always have the same bytes if it is a key. Any exception of
    ``encode`` means that the value cannot be stored. ``name``: the name that a file keeps."""

    name: str
    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]
    kind: Any = None
    """The msgspec Struct of this codec. None: this is no codec of a Struct."""


def _bytes(value: bytes) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("it must be bytes")
    return bytes(value)


def _text(value: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError("it must be a str")
    return value.encode()


def _number(value: int) -> bytes:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("it must be an int")
    if not -_SIGN <= value < _SIGN:
        raise ValueError(f"it must have at most 64 bits, got {value}")
    return ((value + _SIGN) & (2 * _SIGN - 1)).to_bytes(8, "big")  # sorted by number


def _number_of(data: bytes) -> int:
    if len(data) != 8:
        raise ValueError(f"{len(data)} bytes, a number has 8")
    return int.from_bytes(data, "big") - _SIGN


_JSON_BYTES: Final = msgspec.json.Encoder(order="deterministic").encode


def _json(value: Any) -> bytes:
    data = _JSON_BYTES(value)
    if b"null" in data and has_no_number(value):
        raise ValueError("JSON has neither NaN nor Infinity")
    return data


def has_no_number(value: Any) -> bool:
    """Return whether a value contains NaN or an infinite number, of which msgspec makes null."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(has_no_number, value.values()))
    return isinstance(value, list | tuple | set | frozenset) and any(map(has_no_number, value))


BYTES: Final = Codec[bytes]("bytes", _bytes, bytes)
STR: Final = Codec[str]("str", _text, lambda data: str(data, "utf-8"))
INT: Final = Codec[int]("int", _number, _number_of)
"""64 bits with sign. Keys are in the order of numbers."""
JSON: Final = Codec[Any]("json", _json, msgspec.json.Decoder().decode)
"""None, bool, int, float (no NaN, no Infinity), str, lists, dicts with keys of str. Tuples come back as lists."""


def struct_codec(kind: type[T]) -> Codec[T]:
    """Return the codec of a msgspec Struct, in MessagePack. A field that is added later needs a default value."""
    encode = msgspec.msgpack.Encoder(order="deterministic").encode

    def checked(value: T) -> bytes:
        if not isinstance(value, kind):
            raise TypeError(f"it must be a {kind.__name__}")
        return encode(value)

    return Codec(f"struct {kind.__name__}", checked, msgspec.msgpack.Decoder(kind).decode, kind)


CODECS: Final[dict[str, Codec[Any]]] = {codec.name: codec for codec in (BYTES, STR, INT, JSON)}

AnyCodec = Codec[Any] | str | type[Any] | tuple[Callable[[Any], bytes], Callable[[bytes], Any]]
"""A Codec, "bytes", "str", "int" or "json", the types bytes, str and int, a msgspec Struct, or a pair of functions."""


def codec_of(given: AnyCodec, what: str = "codec") -> Codec[Any]:
    """Return the codec for an option. MapError: the option is no codec; the text lists the accepted ones."""
    if isinstance(given, Codec):
        return given
    if isinstance(given, str) and given in CODECS:
        return CODECS[given]
    if isinstance(given, type):
        if given in (bytes, str, int):
            return CODECS[given.__name__]
        if issubclass(given, msgspec.Struct):
            return struct_codec(given)
    if isinstance(given, tuple) and len(given) == 2 and all(callable(part) for part in given):
        return Codec("own", *cast(Any, given))
    shown = (
        f'"{given}"' if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
    )
    raise MapError(
        f'{what} {shown} is not known: give bytes, str, int, "json", a msgspec Struct, a pair of functions (encode, decode) or a Codec'
    )


def encoded(codec: Codec[Any], value: object, what: str) -> bytes:
    """Encode a key or value. MapTypeError: the value cannot be stored. The text gives the reason but not the value."""
    try:
        data = codec.encode(value)
    except Exception as error:
        raise MapTypeError(
            f"a {what} of type {type(value).__name__} cannot be stored in a map whose {what}s are {codec.name}: {text_of(error)}"
        ) from error
    if not isinstance(data, bytes):
        raise MapTypeError(f"the codec of {what}s made {type(data).__name__}, not bytes")
    return data


def quick(codec: Codec[Any], what: str) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Return fast forms of ``encoded`` and ``decoded``. After any exception call the plain ones: they name the
    problem."""
    if codec is STR:
        return str.encode, codec.decode
    if codec.kind is not None or any(codec is shipped for shipped in CODECS.values()):
        return codec.encode, codec.decode
    # a user's codec may return anything
    return lambda value: encoded(codec, value, what), lambda data: decoded(codec, data, what)


def decoded(codec: Codec[Any], data: bytes, what: str) -> Any:
    """Decode a key or value. MapError: the codec cannot read the bytes, because another codec wrote them."""
    try:
        return codec.decode(data)
    except Exception as error:
        raise MapError(
            f"a {what} in the file cannot be read as {codec.name}: {text_of(error)}"
        ) from error
