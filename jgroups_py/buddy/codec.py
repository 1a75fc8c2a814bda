"""Messages as bytes: MessagePack with every field's type checked on the way in.

Values of nodes have the types of MessagePack: None, numbers, text, bytes, lists, maps. Users turn values of other
types into bytes first.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import msgspec

from jgroups_py.buddy import messages as m
from jgroups_py.buddy.site_messages import AnySiteMessage
from jgroups_py.buddy.values import ViewKey
from jgroups_py.errors import RemoteProtocolError
from jgroups_py.values.address import UUID, Address

AnyMessage = (
    m.Assign
    | m.Chunk
    | m.Filled
    | m.FillAck
    | m.Dismiss
    | m.DismissAck
    | m.Pool
    | m.Part
    | m.Op
    | m.OpAck
    | m.ClaimRequest
    | m.Claim
    | m.Answer
    | m.Taken
    | m.Done
    | m.Inventory
    | m.AskAll
    | m.Settle
    | m.Adopted
    | m.Leaving
    | m.TakeMine
    | m.Clean
    | m.Merged
    | m.ToSite
    | m.FromSite
    | m.SiteTold
    | m.SiteAsk
)


class BuddyEnvelope(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message and the key of its sender's view."""

    tag: ViewKey
    message: AnyMessage


_uuid: Final = functools.lru_cache(maxsize=1024)(UUID)
"""The addresses of members come again with each message."""


def _decode(type_: type, value: Any) -> Any:
    if not (isinstance(value, bytes) and issubclass(type_, Address)):
        raise TypeError(f"{type_.__name__} is written as bytes")
    return _uuid(value) if len(value) == 16 else Address(value)


def _encode(value: Any) -> bytes:
    if isinstance(value, Address):
        return bytes(value)
    raise TypeError(f"a {type(value).__name__} has no bytes")


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_encode)
_DECODER: Final = msgspec.msgpack.Decoder(BuddyEnvelope, dec_hook=_decode)
_SITE_DECODER: Final[msgspec.msgpack.Decoder[AnySiteMessage]] = msgspec.msgpack.Decoder(
    AnySiteMessage, dec_hook=_decode
)


def encode(tag: ViewKey, message: m.Message) -> bytes:
    """Return the bytes of a message. Raises TypeError for a value that has no bytes."""
    return _ENCODER.encode(BuddyEnvelope(tag, message))  # type: ignore[arg-type]


def encode_site(message: AnySiteMessage) -> bytes:
    """Return the bytes of a message between two relays. Raises TypeError for a value that has no bytes."""
    return _ENCODER.encode(message)


def decode_site(data: bytes) -> AnySiteMessage:
    """Return a message between two relays. Raises RemoteProtocolError for bytes that ``encode_site`` never writes."""
    try:
        return _SITE_DECODER.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"no message of another site: {error}") from None


def decode(data: bytes) -> tuple[ViewKey, m.Message]:
    """Return a message and its sender's view. Raises RemoteProtocolError for bytes that ``encode`` never writes."""
    try:
        envelope = _DECODER.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"no message of buddy replication: {error}") from None
    return envelope.tag, envelope.message
