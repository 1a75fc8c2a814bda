"""Messages with their headers and payloads as JSON ("fields"), and back.

Source: WIRE.md section 16.
"""

from __future__ import annotations

from typing import Any

from jgroups_py.errors import LocalProtocolError
from jgroups_py.values.message import MessageType
from jgroups_py.wire.message import BatchPayload, NioPayload, WireMessage
from jgroups_py.wire.text import fields as f
from jgroups_py.wire.text.header_fields import headers_in, headers_out

Json = Any


def message_out(message: WireMessage) -> Json:
    return {
        "type": message.type,
        "flags": message.flags,
        "dest": f.address_out(message.dest),
        "src": f.address_out(message.src),
        "headers": headers_out(message.headers),
        "payload": _payload_out(message.type, message.payload),
    }


def message_in(value: Json) -> WireMessage:
    kind = f.integer(value["type"])
    return WireMessage(
        kind,
        f.integer(value["flags"]),
        f.opt_address_in(value["dest"]),
        f.opt_address_in(value["src"]),
        headers_in(value["headers"]),
        _payload_in(kind, value["payload"]),
    )


def _payload_out(kind: int, payload: Any) -> Json:
    if kind == MessageType.NIO:
        return {"direct": payload.direct, "data": f.bytes_out(payload.data)}
    if kind == MessageType.OBJECT:
        return f.streamable_out(payload)
    if kind == MessageType.LONG:
        return payload
    if kind == MessageType.COMPOSITE:
        return [message_out(part) for part in payload]
    if kind == MessageType.BATCH:
        return {
            "orig_src": f.address_out(payload.original_src),
            "messages": [message_out(part) for part in payload.messages],
        }
    return f.bytes_out(payload)


def _payload_in(kind: int, value: Json) -> Any:
    if kind == MessageType.BYTES:
        return f.opt_bytes_in(value)
    if kind == MessageType.FRAGMENT:
        return f.bytes_in(value)
    if kind == MessageType.EMPTY:
        if value is not None:
            raise ValueError("an EmptyMessage has no payload")
        return None
    if kind == MessageType.NIO:
        return NioPayload(f.boolean(value["direct"]), f.opt_bytes_in(value["data"]))
    if kind == MessageType.OBJECT:
        return f.streamable_in(value)
    if kind == MessageType.LONG:
        return f.integer(value)
    if kind == MessageType.COMPOSITE:
        return tuple([message_in(part) for part in f.items(value)])
    if kind == MessageType.BATCH:
        parts = tuple([message_in(part) for part in f.items(value["messages"])])
        return BatchPayload(f.opt_address_in(value["orig_src"]), parts)
    raise LocalProtocolError(f"no message has the type {kind}")
