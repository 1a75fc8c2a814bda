"""Single messages that are not in a packet: inside the payload of another message, in a datagram of MPING, in a frame of
FD_SOCK2.

Source: WIRE.md sections 6 to 9; JGroups FD_SOCK2, MPING.
"""

from __future__ import annotations

from jgroups_py.errors import LocalProtocolError, RemoteProtocolError
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import MessageType
from jgroups_py.wire.batches import batch_of, wire_message
from jgroups_py.wire.headers import FdHeader
from jgroups_py.wire.message import (
    read_message,
    read_typed_message,
    write_message,
    write_typed_message,
)
from jgroups_py.wire.primitives import DEFAULT_VERSION, Reader, Writer


def encode_nested(batch: Batch, version: int = DEFAULT_VERSION) -> bytes:
    """Return ``i16`` type and message, as they stand inside a payload (FRAG2, COMPRESS, SEQUENCER)."""
    writer = Writer(version)
    write_typed_message(writer, wire_message(batch, version))
    return writer.done()


def decode_nested(data: bytes | memoryview, version: int = DEFAULT_VERSION) -> Batch:
    """Return the message that encode_nested wrote; nothing may follow it."""
    r = Reader(data, 0, version)
    message = read_typed_message(r)
    r.expect_end()
    return batch_of(message, None, None)


def _encode_bare(batch: Batch, version: int) -> bytes:
    writer = Writer(version)
    write_message(writer, wire_message(batch, version))
    return writer.done()


def _decode_bare(data: bytes | memoryview, type: int, version: int) -> Batch:
    r = Reader(data, 0, version)
    message = read_message(r, type)
    r.expect_end()
    batch = batch_of(message, None, None)
    if batch.src is None:
        r.fail("a message without sender")
    return batch


def encode_mping(batch: Batch, version: int = DEFAULT_VERSION) -> bytes:
    """Return MPING's datagram: one message of type BYTES, nothing before it."""
    if batch.type != MessageType.BYTES:
        raise LocalProtocolError("MPING sends messages of type BYTES only")
    return _encode_bare(batch, version)


def decode_mping(data: bytes | memoryview, version: int = DEFAULT_VERSION) -> Batch:
    return _decode_bare(data, MessageType.BYTES, version)


def encode_fd_frame(src: Address, header: FdHeader, protocol_id: int = 71) -> bytes:
    """Return a frame of FD_SOCK2's own connections, without the length before it."""
    batch = Batch(None, (None,), {protocol_id: header}, src, 0, 0, MessageType.EMPTY)
    return _encode_bare(batch, DEFAULT_VERSION)


def decode_fd_frame(data: bytes | memoryview) -> tuple[Address, FdHeader]:
    """Return sender and header of such a frame."""
    batch = _decode_bare(data, MessageType.EMPTY, DEFAULT_VERSION)
    assert batch.src is not None
    for header in batch.headers.values():
        if isinstance(header, FdHeader):
            return batch.src, header
    raise RemoteProtocolError("a frame without header of FD_SOCK2", 0)
