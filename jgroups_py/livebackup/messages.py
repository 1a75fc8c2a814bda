"""Messages between nodes: msgpack, one each."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from jgroups_py.livebackup.tickets import NAME_MAX, Key, Number, Ticket

MESSAGE_MAX: Final = 64 * 1024 * 1024
"""The most bytes of one message."""
ARGUMENTS_MAX: Final = MESSAGE_MAX // 2
"""The most bytes of the arguments of one operation. Its message has the objects that it changed, too."""
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX)]


class Op(msgspec.Struct, frozen=True, tag="o", array_like=True, forbid_unknown_fields=True):
    """An operation, from the live node to all. ``record``: None in the reference mode. ``outcome``: the name of the error it raised on
    the live node, or nothing. ``checksums``: of the object after some of the changes, which are counted from 0. ``effects``: for each
    change the method, its arguments and the name of the error it raised; None: the backup runs the operation again. ``forgotten``: objects
    whose removal every backup has confirmed; their names begin anew with this operation."""

    term: Number
    number: Number
    name: Name
    arguments: list[Any]
    now: float
    seed: Number
    record: list[Ticket] | None
    outcome: str
    checksums: list[tuple[Number, bytes]] = []
    effects: list[tuple[Name, list[Any], str]] | None = None
    forgotten: list[Key] = []


class Ops(msgspec.Struct, frozen=True, tag="O", array_like=True, forbid_unknown_fields=True):
    """Operations that waited together to be sent, in their order."""

    operations: list[Op]


class _EncodedOps(msgspec.Struct, frozen=True, tag="O", array_like=True):
    operations: list[msgspec.Raw]


class Confirm(msgspec.Struct, frozen=True, tag="c", array_like=True, forbid_unknown_fields=True):
    """From a backup to the live node: these operations are done and will not be reversed."""

    term: Number
    numbers: list[Number]


class Lead(msgspec.Struct, frozen=True, tag="l", array_like=True, forbid_unknown_fields=True):
    """The sender is the live node, to all. ``digest``: of its objects' counters when its term began. ``last``: the newest operation
    that it has sent since."""

    term: Number
    last: Number
    digest: bytes
    anew: bool = False
    """To one backup: ask for a new snapshot."""


class Here(msgspec.Struct, frozen=True, tag="h", array_like=True, forbid_unknown_fields=True):
    """From a backup to the live node after a change of the view: I still follow you."""

    term: Number


class Gone(msgspec.Struct, frozen=True, tag="g", array_like=True, forbid_unknown_fields=True):
    """To all: the sender was live in this term and no longer is."""

    term: Number


class Standing(msgspec.Struct, frozen=True, tag="s", array_like=True, forbid_unknown_fields=True):
    """To all, from each member of a view without a live node. Fields as in ``roles.Stand``."""

    view: Number
    term: Number
    complete: bool
    was_live: bool
    confirmed: Number = 0


class Join(msgspec.Struct, frozen=True, tag="j", array_like=True, forbid_unknown_fields=True):
    """To the live node: send me a snapshot with the number ``ask``. A newer ask replaces an older one. ``since``: only
    objects changed by this operation of the term or a later one; 0: all."""

    term: Number
    ask: Number
    since: Number = 0


class Part(msgspec.Struct, frozen=True, tag="p", array_like=True, forbid_unknown_fields=True):
    """A part of a snapshot: key, counter and state of some objects; key and counter of objects that were removed. ``snapshot``: the number of the
    ask that it answers."""

    term: Number
    snapshot: Number
    objects: list[tuple[Key, Number, Any]]
    removed: list[tuple[Key, Number]] = []


class Whole(msgspec.Struct, frozen=True, tag="w", array_like=True, forbid_unknown_fields=True):
    """The end of a snapshot: its number of objects, removed ones included. It contains the operations up to ``last``.
    ``since``: as in the answered Join, or 0: all objects came."""

    term: Number
    snapshot: Number
    objects: Number
    last: Number
    since: Number = 0


class Ready(msgspec.Struct, frozen=True, tag="r", array_like=True, forbid_unknown_fields=True):
    """From a backup to the live node: I have the snapshot and confirm from now on."""

    term: Number
    last: Number


Message = Op | Ops | Confirm | Lead | Here | Gone | Standing | Join | Part | Whole | Ready

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Message]] = msgspec.msgpack.Decoder(Message)

_decode_any: Final = msgspec.msgpack.Decoder().decode

_new: Final = tuple.__new__
"""Make a named tuple in half of the time."""
encode = _encoder.encode
"""Encode a message, or the state of one object to know its size. Values without an encoding raise one of NOT_PLAIN."""
NOT_PLAIN: Final = (TypeError, OverflowError, ValueError, RecursionError)
"""A type that is not known; a number of more than 64 bits; half of a character; data that contain themselves or are
nested too deep."""


def together(operations: list[bytes]) -> bytes:
    """Join encoded operations into one message."""
    if len(operations) == 1:
        return operations[0]
    return encode(_EncodedOps([msgspec.Raw(one) for one in operations]))


def checksum_of(state: Any) -> bytes:
    """Return a checksum, equal for equal plain data; the order of a dictionary counts. TypeError: no plain data."""
    return blake2b(_encoded(state), digest_size=8).digest()


class BadMessage(ValueError):
    """Bytes that are no message."""


def decode(data: bytes | bytearray | memoryview) -> Message:
    """Decode a message. Raises BadMessage."""
    if len(data) > MESSAGE_MAX:
        raise BadMessage(f"{len(data)} bytes, at most {MESSAGE_MAX} are taken")
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadMessage(str(error)[:200]) from None


class OperationArguments(NamedTuple):
    """The arguments of an operation: encoded for the backups, and as the operation gets them. The operation may change
    its lists; the backups get them as they were."""

    encoded: msgspec.Raw
    values: list[Any]


def given(arguments: Sequence[Any]) -> OperationArguments:
    """Return the arguments of an operation. TypeError as ``plain``."""
    try:
        data = encode(arguments)
    except NOT_PLAIN as error:
        raise TypeError(str(error)) from error
    if len(data) > ARGUMENTS_MAX:
        raise TypeError(f"arguments of {len(data):,} bytes; at most {ARGUMENTS_MAX:,} are taken")
    return _new(OperationArguments, (msgspec.Raw(data), _decode_any(data)))


def plain(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments as their receiver gets them. TypeError: no plain data, or more than ARGUMENTS_MAX."""
    return given(arguments).values


def _encoded(value: Any) -> bytes:
    """Encode a value. TypeError: it is no plain data."""
    try:
        return encode(value)
    except NOT_PLAIN as error:
        raise TypeError(str(error)) from error
