"""Messages between hosts, in msgpack. See replica.py for their use."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

VERSION: Final = 3
MESSAGE_MAX: Final = 16 * 1024 * 1024
"""The most bytes of one message."""

VECTOR_MAX: Final = 65_536
"""The most pairs of a vector."""
SURVEY_NUMBERS: Final = 1000
"""The most numbers of one MapSurvey."""

Number = Annotated[int, msgspec.Meta(ge=0)]
Pairs = Annotated[list[tuple[Number, Number]], msgspec.Meta(max_length=VECTOR_MAX)]
ShortText = Annotated[str, msgspec.Meta(max_length=255)]


class Hello(msgspec.Struct, frozen=True, tag="h", array_like=True, forbid_unknown_fields=True):
    """The first message on a link. ``origin``: of the sender's changes. ``file``: a random number of its file.
    ``key``, ``value``: the names of the codecs."""

    version: int
    map: ShortText
    node: Number
    origin: Number
    file: Annotated[bytes, msgspec.Meta(max_length=64)]
    rule: ShortText
    key: ShortText
    value: ShortText
    name: ShortText


class Have(msgspec.Struct, frozen=True, tag="v", array_like=True, forbid_unknown_fields=True):
    """The sender's changes: pairs of origin and number. ``clock``: its time, in ticks. ``sum``: over the contents of
    its map (sums.py).
    ``lacking``: removals were forgotten that a host may lack."""

    vector: Pairs
    clock: Number
    sum: Number | None = None
    lacking: bool = False


class Got(msgspec.Struct, frozen=True, tag="g", array_like=True, forbid_unknown_fields=True):
    """Changes have arrived: pairs of origin and number, of some origins only."""

    vector: Pairs


class OriginChanges(
    msgspec.Struct, frozen=True, tag="c", array_like=True, forbid_unknown_fields=True
):
    """All changes of ``origin`` above ``after`` and up to ``to`` that newer ones have not replaced: key and encoded entry."""

    origin: Number
    after: Number
    to: Number
    entries: list[tuple[bytes, bytes]]


class Want(msgspec.Struct, frozen=True, tag="w", array_like=True, forbid_unknown_fields=True):
    """Send me changes above ``after`` of an origin that does not send them itself."""

    origin: Number
    after: Number


class Refused(msgspec.Struct, frozen=True, tag="r", array_like=True, forbid_unknown_fields=True):
    """The last message on a link, with the reason as text."""

    reason: str


class MapSurvey(msgspec.Struct, frozen=True, tag="s", array_like=True, forbid_unknown_fields=True):
    """The sender has seen all changes of ``origin`` above ``after`` and up to ``to``, and only ``numbers`` are still in
    its map. The others were replaced or removed."""

    origin: Number
    after: Number
    to: Number
    numbers: Annotated[list[Number], msgspec.Meta(max_length=SURVEY_NUMBERS)]


Message = Hello | Have | Got | OriginChanges | Want | Refused | MapSurvey

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Message]] = msgspec.msgpack.Decoder(Message)

encode = _encoder.encode


class BadMessage(ValueError):
    """Bytes that are no message."""


def decode(data: bytes) -> Message:
    """Decode a message. Raises BadMessage."""
    if len(data) > MESSAGE_MAX:
        raise BadMessage(f"{len(data)} bytes, at most {MESSAGE_MAX} are taken")
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadMessage(str(error)[:200]) from None
