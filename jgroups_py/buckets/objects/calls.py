"""Calls of methods, their results and errors as bytes (msgpack), for both sides."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from jgroups_py.buckets.errors import BadKey, EntryFailed
from jgroups_py.buckets.objects.kinds import Kind, ObjectMethod
from jgroups_py.buckets.plugin import ReadAt, Request


class ObjectCall(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    method: str
    arguments: dict[str, Any]


class Returned(msgspec.Struct, frozen=True, tag="r", array_like=True, forbid_unknown_fields=True):
    value: Any


class ObjectRaised(
    msgspec.Struct, frozen=True, tag="e", array_like=True, forbid_unknown_fields=True
):
    """An error of the kind's ``errors``."""

    error: str
    arguments: list[Any]


_encode: Final = msgspec.msgpack.Encoder().encode
_call: Final = msgspec.msgpack.Decoder(ObjectCall)
_end: Final[msgspec.msgpack.Decoder[Returned | ObjectRaised]] = msgspec.msgpack.Decoder(
    Returned | ObjectRaised
)
UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)


def request_for(
    kind: Kind[Any],
    key: str,
    method: ObjectMethod,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    read_at: ReadAt | None,
) -> Request:
    """Return the request that calls ``method``. Raises BadKey; TypeError: the arguments do not fit, or have no codec.
    Nothing was sent."""
    if not isinstance(key, str) or not key:
        raise BadKey(f"a key is a text that is not empty, not {key!r}")
    bound = method.signature.bind(None, *args, **kwargs)
    given = dict(list(bound.arguments.items())[1:])
    try:
        for name, value in given.items():
            msgspec.convert(msgspec.to_builtins(value), method.arguments[name])
        body = _encode(ObjectCall(method.name, given))
    except (msgspec.ValidationError, TypeError, OverflowError) as error:
        raise TypeError(f"{kind.name}.{method.name}: {error}") from None
    return Request(body, f"{kind.name}/{key}", read_at)


def call_from(body: bytes) -> ObjectCall | None:
    """Decode a call. None: the bytes are no call."""
    try:
        return _call.decode(body)
    except UNREADABLE:
        return None


def arguments_of(method: ObjectMethod, call: ObjectCall) -> dict[str, Any]:
    """Return the arguments, converted to the method's types. Raises TypeError."""
    found = {}
    for name, value in call.arguments.items():
        if name not in method.arguments:
            raise TypeError(f"{method.name} has no argument {name!r}")
        try:
            found[name] = msgspec.convert(value, method.arguments[name])
        except msgspec.ValidationError as error:
            raise TypeError(f"{method.name}: argument {name!r}: {error}") from None
    return found


def returned(value: Any) -> bytes:
    return _encode(Returned(value))


def raised(error: Exception) -> bytes:
    return _encode(ObjectRaised(type(error).__name__, list(error.args)))


def value_of(kind: Kind[Any], method: ObjectMethod, replies: list[bytes]) -> Any:
    """Return the method's value. Raises its error. EntryFailed: the answer is not of this kind."""
    try:
        end = _end.decode(replies[0])
        if isinstance(end, Returned):
            return msgspec.convert(end.value, method.result)
        error = next(cls for cls in kind.errors if cls.__name__ == end.error)(*end.arguments)
    except (*UNREADABLE, IndexError, StopIteration, TypeError) as problem:
        raise EntryFailed(f"{kind.name}.{method.name}: no answer of this kind: {problem}") from None
    raise error
