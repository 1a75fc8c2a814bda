"""WireMessage: one message with exactly the fields that are on the wire.

``dest`` and ``src`` are None if they are not on the wire. batches.py turns it into a Batch, text/fields.py into JSON.

The payload by type: BYTES and FRAGMENT have bytes or a memoryview (BYTES also None); NIO has a NioPayload; EMPTY has None;
OBJECT has a Streamable or None; LONG has an int; COMPOSITE has a tuple of WireMessages; BATCH has a BatchPayload.

Source: WIRE.md section 6; JGroups BaseMessage.writeTo, MessageFactory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.errors import LocalProtocolError
from jgroups_py.values.address import Address
from jgroups_py.values.header import Header
from jgroups_py.values.light import light
from jgroups_py.values.message import MessageType
from jgroups_py.wire.header_codec import read_headers, write_header
from jgroups_py.wire.objects import read_streamable, write_streamable
from jgroups_py.wire.primitives import Reader, Writer

DEST_SET, SRC_SET = 1, 2
MIN_MESSAGE: Final = 7
"""Bytes of the smallest message with its type: type, leading, flags, no headers, no payload."""


@light
@dataclass(frozen=True, slots=True)
class WireMessage:
    type: int
    flags: int
    dest: Address | None
    src: Address | None
    headers: tuple[tuple[int, Header], ...]
    payload: Any


@dataclass(frozen=True, slots=True)
class NioPayload:
    direct: bool
    data: bytes | memoryview | None


@dataclass(frozen=True, slots=True)
class BatchPayload:
    original_src: Address | None
    messages: tuple[WireMessage, ...]


def read_typed_message(r: Reader) -> WireMessage:
    """Read an i16 type and a message."""
    return read_message(r, r.i16())


def write_typed_message(w: Writer, message: WireMessage) -> None:
    w.i16(message.type)
    write_message(w, message)


def read_message(r: Reader, type: int) -> WireMessage:
    start = r.pos
    if not 0 <= type <= MessageType.BATCH:
        r.fail(f"a message of the unknown type {type}", max(0, start - 2))
    leading = r.u8()
    if leading > 3:
        r.fail(f"a message with the leading byte {leading:#04x}", start)
    flags = r.i16()
    dest = r.addr() if leading & DEST_SET else None
    src = r.addr() if leading & SRC_SET else None
    headers = tuple(read_headers(r))
    return WireMessage(type, flags, dest, src, headers, _read_payload(r, type))


def _read_payload(r: Reader, type: int) -> Any:
    if type == MessageType.BYTES:
        return _read_nullable(r)
    if type == MessageType.EMPTY:
        return None
    if type == MessageType.OBJECT:
        return read_streamable(r)
    if type == MessageType.LONG:
        return r.lz64()
    if type == MessageType.NIO:
        return NioPayload(r.flag(), _read_nullable(r))
    if type == MessageType.FRAGMENT:
        return r.view(r.i32())
    count = r.count(r.i32(), MIN_MESSAGE, "messages")
    src = r.addr() if type == MessageType.BATCH else None
    r.enter()
    messages = tuple([read_typed_message(r) for _ in range(count)])
    r.leave()
    return messages if type == MessageType.COMPOSITE else BatchPayload(src, messages)


def _read_nullable(r: Reader) -> memoryview | None:
    size = r.i32()
    return None if size == -1 else r.view(size)


def write_message(w: Writer, message: WireMessage) -> None:
    dest, src = message.dest, message.src
    w.u8((DEST_SET if dest is not None else 0) | (SRC_SET if src is not None else 0))
    w.i16(message.flags)
    if dest is not None:
        w.addr(dest)
    if src is not None:
        w.addr(src)
    w.i16(len(message.headers))
    for protocol_id, header in message.headers:
        write_header(w, protocol_id, header)
    write_payload(w, message.type, message.payload)


def write_payload(w: Writer, type: int, payload: Any) -> None:
    if type == MessageType.BYTES:
        _write_nullable(w, payload)
    elif type == MessageType.EMPTY:
        pass
    elif type == MessageType.OBJECT:
        write_streamable(w, payload)
    elif type == MessageType.LONG:
        w.lz64(payload)
    elif type == MessageType.NIO:
        w.flag(payload.direct)
        _write_nullable(w, payload.data)
    elif type == MessageType.FRAGMENT:
        w.sized(payload)
    elif type == MessageType.COMPOSITE:
        w.i32(len(payload))
        for message in payload:
            write_typed_message(w, message)
    elif type == MessageType.BATCH:
        w.i32(len(payload.messages))
        w.addr(payload.original_src)
        for message in payload.messages:
            write_typed_message(w, message)
    else:
        raise LocalProtocolError(f"no message has the type {type}")


def _write_nullable(w: Writer, payload: bytes | memoryview | None) -> None:
    if payload is None:
        w.i32(-1)
    else:
        w.sized(payload)
