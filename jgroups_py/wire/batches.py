"""Batches of one message, and WireMessages: what a message is in the stack, and what it is on the wire.

The payload of a COMPOSITE message is a tuple of batches of one message each, that of a BATCH message a pair (original
sender, such a tuple).
"""

from __future__ import annotations

from typing import Any

from jgroups_py.errors import LocalProtocolError
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch, measure_with
from jgroups_py.values.message import MessageType
from jgroups_py.wire.headers import TP_ID
from jgroups_py.wire.message import BatchPayload, NioPayload, WireMessage, write_payload
from jgroups_py.wire.objects import payload_length
from jgroups_py.wire.primitives import DEFAULT_VERSION, V5_4, Writer


def wire_message(batch: Batch, version: int) -> WireMessage:
    """Return a batch of one message as message.py needs it."""
    if len(batch) != 1:
        raise LocalProtocolError(f"one message was expected, the batch holds {len(batch)}")
    payload = wire_payload(batch, batch.payloads[0], version)
    headers = tuple(batch.headers.items())
    return WireMessage(batch.type, batch.flags, batch.dest, batch.src, headers, payload)


def wire_payload(batch: Batch, payload: Any, version: int) -> Any:
    """Return a batch's payload as message.py needs it."""
    if batch.type == MessageType.NIO:
        return NioPayload(False, payload)
    if batch.type == MessageType.COMPOSITE:
        return tuple([_part(part, batch.src, version) for part in payload])
    if batch.type == MessageType.BATCH:
        original, parts = payload
        implied = original if original == batch.src else None
        return BatchPayload(original, tuple([_part(part, implied, version) for part in parts]))
    return payload


def _part(part: Batch, implied: Address | None, version: int) -> WireMessage:
    """Return a message inside another: without addresses, as far as the outer one implies them."""
    m = wire_message(part, version)
    if version < V5_4:
        return m
    src = None if m.src == implied else m.src
    return WireMessage(m.type, m.flags, None, src, m.headers, m.payload)


def batch_of(
    message: WireMessage,
    dest: Address | None,
    src: Address | None,
    payloads: list[Any] | None = None,
) -> Batch:
    """Return a message, or a run that it is the first of, as a batch without TpHeader. ``dest`` and
    ``src``: of the enclosing frame."""
    dest = message.dest if message.dest is not None else dest
    src = message.src if message.src is not None else src
    headers = {key: header for key, header in message.headers if key != TP_ID}
    if payloads is None:
        payloads = [message.payload]
    if message.type == MessageType.NIO:
        payloads = [payload.data for payload in payloads]
    elif message.type == MessageType.COMPOSITE:
        payloads = [tuple([batch_of(part, dest, src) for part in parts]) for parts in payloads]
    elif message.type == MessageType.BATCH:
        payloads = [
            (p.original_src, tuple([batch_of(part, dest, p.original_src) for part in p.messages]))
            for p in payloads
        ]
    return Batch(dest, payloads, headers, src, message.flags, 0, message.type)


def encode_payload(batch: Batch, payload: Any, version: int = DEFAULT_VERSION) -> bytes:
    """Return one payload of the batch, of any type, as it stands behind the headers."""
    writer = Writer(version)
    write_payload(writer, batch.type, wire_payload(batch, payload, version))
    return bytes(writer.data)


class _Payloads:
    """Implements ``OnTheWire``."""

    def length(self, type: int, payload: Any) -> int:
        return payload_length(type, payload)

    def encode(self, batch: Batch, payload: Any) -> bytes:
        return encode_payload(batch, payload)


measure_with(_Payloads())
