"""The form of calls between members of ours: bytes, with msgpack or a codec of the user's.

    request   u8 length of the method's name, the name (UTF-8), the arguments (codec: a sequence)
    value     the value (codec)
    error     msgpack [refused, type, text]

No bytes from the network are unpickled. All members must have the same codec.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from typing import Protocol as Interface

import msgspec

from jgroups_py.errors import CallError, LocalProtocolError, Refused, RemoteError
from jgroups_py.rpc.form import TEXT_MAX, Encoded, Unreadable
from jgroups_py.rpc.java import Arg
from jgroups_py.stack.raised import text_of
from jgroups_py.values.address import Address
from jgroups_py.values.message import MessageType

NAME_MAX: Final = 255
"""The most bytes of a method's name."""
NAMES_KEPT: Final = 1000
"""The most names whose encoding is remembered."""


class Codec(Interface):
    """Makes bytes of values, and values of bytes. ``decode`` gets bytes from the network and must not trust them. The
    bytes count as unreadable when it raises."""

    def encode(self, value: Any, /) -> bytes: ...

    def decode(self, data: bytes | memoryview, /) -> Any: ...


class Msgpack:
    """The default codec. It takes None, bool, int of 64 bits, float, str, bytes, list, dict, datetime and other types
    of msgspec. Tuples and sets arrive as lists, other bytes-like values as bytes."""

    def __init__(self) -> None:
        self.encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode
        self.decode = msgspec.msgpack.Decoder().decode


def _plain(value: Any) -> Any:
    if isinstance(value, Arg):
        return value.value
    raise TypeError(f"a {type(value).__name__} has no encoding")


class OurForm:
    """See the module's docstring and form.py."""

    def __init__(self, codec: Codec) -> None:
        self._encode: Callable[[Any], Any] = codec.encode  # a user's codec may return anything
        self._decode = codec.decode
        self._heads: dict[str, bytes] = {}  # name -> its length and bytes
        self._names: dict[bytes, str] = {}
        self._errors = msgspec.msgpack.Decoder(tuple[bool, str, str])

    def write_request(self, method: str, args: Sequence[Any]) -> Encoded:
        payload = self.request(method, args)
        return Encoded(payload, len(payload), 0, MessageType.BYTES)

    def request(self, method: str, args: Sequence[Any]) -> bytes:
        """Return the payload of a request. Errors are those of ``write_request``."""
        head = self._heads.get(method) or self._head(method)
        try:
            data = self._encode(args)
        except Exception as error:
            raise _cannot_be_encoded("the arguments", error) from error
        if type(data) is not bytes:
            data = _bytes_of("the arguments", data)
        return head + data

    def _head(self, method: str) -> bytes:
        name = method.encode()
        if not 0 < len(name) <= NAME_MAX:
            raise LocalProtocolError(f"a method's name has 1 to {NAME_MAX} bytes: {method[:50]!r}")
        if len(self._heads) >= NAMES_KEPT:
            self._heads.clear()
        head = self._heads[method] = bytes([len(name)]) + name
        return head

    def read_request(self, payload: Any) -> tuple[str, Sequence[Any]]:
        if not payload:
            raise Unreadable("an empty request")
        end = 1 + payload[0]
        raw = bytes(payload[1:end])
        name = self._names.get(raw) or self._name(raw)
        try:
            args = self._decode(payload[end:])
        except Exception as error:
            raise Unreadable(f"the arguments: {text_of(error)}") from error
        if type(args) is not list and not isinstance(args, tuple):
            raise Unreadable("the arguments are not a sequence")
        return name, args

    def _name(self, raw: bytes) -> str:
        try:
            name = raw.decode()
        except UnicodeDecodeError as error:
            raise Unreadable(f"the method's name: {error}") from error
        if not name:
            raise Unreadable("a method without a name")
        if len(self._names) >= NAMES_KEPT:
            self._names.clear()
        self._names[raw] = name
        return name

    def write_value(self, value: Any) -> Encoded:
        payload = self.value(value)
        return Encoded(payload, len(payload), 0, MessageType.BYTES)

    def value(self, value: Any) -> bytes:
        """Return the payload of a reply with a value. Errors are those of ``write_value``."""
        try:
            data = self._encode(value)
        except Exception as error:
            raise _cannot_be_encoded("the value", error) from error
        return data if type(data) is bytes else _bytes_of("the value", data)

    def read_value(self, payload: Any) -> Any:
        try:
            return self._decode(payload)
        except Exception as error:
            raise Unreadable(f"the value: {text_of(error)}") from error

    def write_error(self, type: str, text: str, *, refused: bool) -> Encoded:
        payload = msgspec.msgpack.encode((refused, type[:TEXT_MAX], text[:TEXT_MAX]))
        return Encoded(payload, len(payload), 0, MessageType.BYTES)

    def read_error(self, payload: Any, member: Address) -> CallError:
        try:
            refused, type, text = self._errors.decode(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError, TypeError) as error:
            raise Unreadable(f"the error: {error}") from error
        return Refused(text, member) if refused else RemoteError(type, text, member)


def _cannot_be_encoded(what: str, error: Exception) -> LocalProtocolError:
    return LocalProtocolError(f"{what} cannot be encoded: {text_of(error)}")


def _bytes_of(what: str, data: object) -> bytes:
    if not isinstance(data, bytes):
        kind = type(data).__name__
        raise LocalProtocolError(f"the codec made {kind} of {what}, not bytes")
    return data
