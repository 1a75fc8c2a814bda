"""Packets that no member sends are refused with the place of the fault; messages that cannot be sent are refused before
they leave."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.errors import LocalProtocolError, RemoteProtocolError
from jgroups_py.testing import make_address
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import MessageType
from jgroups_py.wire.headers import FdHeader, FdType
from jgroups_py.wire.message import WireMessage, write_typed_message
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import DEFAULT_VERSION, Reader, Writer, make_version
from jgroups_py.wire.single import decode_fd_frame, decode_mping, encode_fd_frame, encode_mping

A, B = make_address(1), make_address(2)
FLAGS = (0, 1, 2, 4, 8, 16)
MAGIC = (1, 11, 12, 13, 14, 19, 22)


def test_a_flag_of_an_address_that_nobody_knows_is_named() -> None:
    for flag in (flag for flag in range(256) if flag not in FLAGS):
        for rest in (b"", bytes(60), b"\x00\x0b" + bytes(58)):
            with pytest.raises(RemoteProtocolError, match=f"address flag {flag:#04x}"):
                Reader(bytes([flag]) + rest).addr()


def test_an_address_of_a_class_that_nobody_knows_is_named() -> None:
    for magic in (magic for magic in range(64) if magic not in MAGIC):
        with pytest.raises(RemoteProtocolError, match=f"the magic number {magic}"):
            Reader(magic.to_bytes(2, "big") + bytes(60)).addr_body(
                int.from_bytes(magic.to_bytes(2, "big"), "big")
            )


@pytest.mark.parametrize("sizes", [0x90, 0xF0, 0x09, 0x0F, 0x99])
def test_a_pair_of_numbers_has_eight_bytes_each_at_most(sizes: int) -> None:
    with pytest.raises(RemoteProtocolError, match="seqno pair of"):
        Reader(bytes([sizes]) + bytes(40)).seq()
    assert Reader(b"\x88\x05" + bytes(7) + b"\x02" + bytes(7)).seq() == (5, 7)


def test_a_pair_of_numbers_ends_with_63_bits() -> None:
    high = (2**63 - 1).to_bytes(8, "little")
    assert Reader(b"\x80" + high).seq() == (2**63 - 1, 2**63 - 1)
    for data in (b"\x80" + bytes(7) + b"\x80", b"\x81" + high + b"\x01"):
        with pytest.raises(RemoteProtocolError, match="seqno pair above 63 bits"):
            Reader(data).seq()


@pytest.mark.parametrize(
    "parts", [(32, 0, 0), (-1, 0, 0), (5, 32, 0), (5, -1, 0), (5, 5, 64), (5, 5, -1)]
)
def test_a_version_that_the_wire_has_no_room_for_is_refused(parts: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="no such version"):
        make_version(*parts)
    assert make_version(31, 31, 63) == 0xFFFF


@pytest.mark.parametrize(("write", "bits"), [(Writer.lz64, 64), (Writer.lz32, 32)])
def test_a_compressed_number_has_as_many_bits_as_there_is_room_for(write: Any, bits: int) -> None:
    for number in (2 ** (bits - 1) - 1, -(2 ** (bits - 1))):
        w = Writer()
        write(w, number)
        read = Reader(w.done())
        assert (read.lz64() if bits == 64 else read.lz32()) == number
    for number in (2 ** (bits - 1), -(2 ** (bits - 1)) - 1):
        with pytest.raises(LocalProtocolError, match=f"does not fit into {bits} bits"):
            write(Writer(), number)


@pytest.mark.parametrize("kind", ["mping", "fd_sock2"])
def test_bytes_behind_a_message_that_fills_its_datagram_or_frame_are_refused(kind: str) -> None:
    read: Any
    if kind == "mping":
        read, data = decode_mping, encode_mping(Batch(None, (b"x",), {}, A))
    else:
        read, data = decode_fd_frame, encode_fd_frame(A, FdHeader(FdType.SUSPECT, (B,)))
    read(data)
    for more in (b"\x00", data):
        with pytest.raises(RemoteProtocolError, match="left over"):
            read(data + more)


def one(payload: Any = b"x", **more: Any) -> Batch:
    return Batch(None, (payload,), {}, A, **more)


@pytest.mark.parametrize("parts", [(b"x", b"y"), ()])
@pytest.mark.parametrize("type", [MessageType.COMPOSITE, MessageType.BATCH])
def test_messages_inside_a_message_are_single_messages(parts: tuple[bytes, ...], type: int) -> None:
    inner = (one(), Batch(None, parts, {}, A))
    payload: Any = inner if type == MessageType.COMPOSITE else (B, inner)
    with pytest.raises(LocalProtocolError, match=f"the batch holds {len(parts)}"):
        list(encode_packets([one(payload, type=type)], "cluster"))
    good: Any = inner[:1] if type == MessageType.COMPOSITE else (B, inner[:1])
    assert list(encode_packets([one(good, type=type)], "cluster"))


def test_a_message_that_goes_alone_and_names_no_sender_is_refused() -> None:
    for src, wanted in ((A, A), (None, None)):
        writer = Writer()
        writer.u16(DEFAULT_VERSION)
        writer.u8(0)
        write_typed_message(writer, WireMessage(MessageType.BYTES, 0, None, src, (), b"x"))
        if wanted is not None:
            assert decode_packet(writer.done()).src == wanted
            continue
        with pytest.raises(RemoteProtocolError, match="a message without sender"):
            decode_packet(writer.done())
