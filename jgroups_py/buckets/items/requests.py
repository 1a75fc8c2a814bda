"""Requests to one item, and their outcomes, as values that travel.

A request reads no clock and draws no random number: the door that takes it from a client adds the time and
a stamp (``Stamped``). So a request that runs twice, or on two copies of the item, has the same effect.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from jgroups_py.errors import RemoteProtocolError

NUMBER_MAX: Final = 2**64 - 1
"""The largest number of ``Count``, as in memcached."""
FLAGS_MAX: Final = 2**32 - 1


class Change(StrEnum):
    """The effect of ``Put`` on a present value."""

    SET = "set"
    """Store in any case."""
    ADD = "add"
    """Store if there is no value."""
    REPLACE = "replace"
    """Store if there is a value."""
    APPEND = "append"
    """Add the data behind the present value. Flags and expiry stay."""
    PREPEND = "prepend"
    """Add the data before the present value. Flags and expiry stay."""
    CAS = "cas"
    """Store if the item's stamp is ``unique``."""


class Word(StrEnum):
    """The outcome of a change."""

    STORED = "stored"
    CREATED = "created"
    """Stored, and there was no value."""
    NOT_STORED = "not_stored"
    """``ADD`` found an item, or ``REPLACE``, ``APPEND`` and ``PREPEND`` found none."""
    EXISTS = "exists"
    """The item has another stamp than ``unique``."""
    NOT_FOUND = "not_found"
    DELETED = "deleted"
    TOUCHED = "touched"
    NOT_A_NUMBER = "not_a_number"
    """``Count`` found a value that is no number."""
    TOO_LARGE = "too_large"
    """The value would be larger than allowed. The item is as before."""


class Read(msgspec.Struct, frozen=True, tag="r", array_like=True):
    """Ask for the value."""

    key: str


class Put(msgspec.Struct, frozen=True, tag="p", array_like=True):
    """Store a value. ``expires`` is a Unix time in seconds, 0 for never."""

    key: str
    change: Change
    data: bytes
    flags: int = 0
    expires: float = 0.0
    unique: int = 0


class Count(msgspec.Struct, frozen=True, tag="c", array_like=True):
    """Add to a value that is a decimal number: up modulo 2^64, down to 0 at the least."""

    key: str
    delta: int
    down: bool = False


class Remove(msgspec.Struct, frozen=True, tag="d", array_like=True):
    """Delete the item. With ``unique`` only if it has that stamp."""

    key: str
    unique: int | None = None


class Touch(msgspec.Struct, frozen=True, tag="t", array_like=True):
    """Give the item another expiry. With ``read`` the outcome is the value."""

    key: str
    expires: float
    read: bool = False


ItemRequest: TypeAlias = Read | Put | Count | Remove | Touch


class Stamped(msgspec.Struct, frozen=True, array_like=True):
    """A request with the additions of the door."""

    request: ItemRequest
    stamp: int
    """Drawn at random for this request, 1 to 2^63 - 1. A change gives it to the item: clients know it as memcached's cas unique and as
    HTTP's ETag."""
    now: float
    """The door's Unix time in seconds. Expiry is judged by it."""


class Found(msgspec.Struct, frozen=True, tag="f", array_like=True):
    """The value of an item."""

    data: bytes
    flags: int
    stamp: int


class Said(msgspec.Struct, frozen=True, tag="s", array_like=True):
    """The outcome of a change. ``stamp`` is that of the item after it, 0 if there is none."""

    word: Word
    stamp: int = 0


class Counted(msgspec.Struct, frozen=True, tag="n", array_like=True):
    """The number after ``Count``."""

    number: int
    stamp: int


Outcome: TypeAlias = Found | Said | Counted

_encode: Final = msgspec.msgpack.Encoder().encode
_request: Final = msgspec.msgpack.Decoder(Stamped)
_outcome: Final[msgspec.msgpack.Decoder[Outcome]] = msgspec.msgpack.Decoder(Found | Said | Counted)


def written(value: Stamped | Outcome) -> bytes:
    """Return a request or an outcome as bytes (msgpack)."""
    return _encode(value)


def request_from(data: bytes) -> Stamped:
    """Return the request in ``data``. RemoteProtocolError: the bytes are no request."""
    try:
        return _request.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"no request to an item: {error}") from None


def outcome_from(data: bytes) -> Outcome:
    """Return the outcome in ``data``. RemoteProtocolError: the bytes are no outcome."""
    try:
        return _outcome.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"no outcome of an item: {error}") from None


def modifies(request: ItemRequest) -> bool:
    """Return whether the request may change its item (A11)."""
    return not isinstance(request, Read)
