"""Packets of a connection: a stream of bytes becomes frames, and frames become writes."""

from __future__ import annotations

import pytest
from tcp_stack import (
    V55,
    A,
    message,
)

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.transport.frames import WRITE_SIZE, FrameReader, joined, writes_of
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import MessageType
from jgroups_py.wire.connection import GRACEFUL_CLOSE, encode_frame
from jgroups_py.wire.packing import encode_packets


def test_a_stream_may_be_cut_anywhere() -> None:
    packets = [b"x" * size for size in (3, 0, 1, 70_000, 5)]
    data = b"".join(encode_frame(packet) for packet in packets) + GRACEFUL_CLOSE
    for step in (1, 2, 3, 7, 1000, 65536, len(data)):
        reader = FrameReader(100_000)
        got: list[bytes | None] = []
        for start in range(0, len(data), step):
            got += reader.feed(data[start : start + step])
        assert got == [*packets, None] and len(reader) == 0


@pytest.mark.parametrize("length", [-1, -6, 100_001, 2**31 - 1, -(2**31)])
def test_a_length_that_cannot_be_ends_the_stream(length: int) -> None:
    with pytest.raises(RemoteProtocolError, match="frame of"):
        list(FrameReader(100_000).feed(length.to_bytes(4, "big", signed=True)))


def test_joining_keeps_every_byte() -> None:
    pieces = [b"a" * 200_000, b"b" * 100_000, b"c" * 10, b"d" * 300_000]
    assert b"".join(joined(pieces)) == b"".join(pieces)
    assert len(joined(pieces)) == 3


def test_frames_become_writes_of_bounded_size_and_none_is_cut() -> None:
    small = [encode_frame(bytes([number]) * 10_000) for number in range(60)]
    large = [encode_frame(bytes([number]) * 60_000) for number in range(4)]
    pieces = writes_of(small)
    assert b"".join(pieces) == b"".join(small)
    assert len(pieces) == 3 and all(len(piece) <= WRITE_SIZE for piece in pieces)
    assert [type(found) for piece in pieces for found in FrameReader(WRITE_SIZE).feed(piece)] == [
        bytes
    ] * 60
    assert writes_of(large) is large  # no bytes are copied
    mixed = [*large, small[0], encode_frame(bytes(2 * WRITE_SIZE))]
    assert [len(piece) > WRITE_SIZE for piece in writes_of(mixed)] == [False, True]
    assert b"".join(writes_of(mixed)) == b"".join(mixed)
    assert list(writes_of([])) == []


def test_a_frame_is_the_packet_with_its_length() -> None:
    """The packets have one message or many, of bytes and of other kinds, in several packets."""
    many = message(None, *[bytes([n]) * (n % 7) for n in range(200)], src=A)
    large = message(None, *[bytes(3_000)] * 50, src=A)
    empty = Batch(None, [None], {}, A, type=MessageType.EMPTY)
    number = Batch(None, [77], {}, A, type=MessageType.LONG)
    for batches in (
        [many],
        [large],
        [many, large, empty],
        [empty],
        [many, number],
        [number],
        [message(A, b"x", src=A)],
    ):
        packets = encode_packets(batches, "test", V55, 20_000)
        frames = encode_packets(batches, "test", V55, 20_000, framed=True)
        assert frames == [encode_frame(packet) for packet in packets]


def test_the_rest_of_a_frame_keeps_little_more_than_its_bytes() -> None:
    """This holds for any sizes of the pieces: a view of a read keeps the whole read, and an object for
    each byte takes forty bytes."""
    reader = FrameReader(1_000_000)
    head = (500_000).to_bytes(4, "big")
    whole = encode_frame(b"x" * 90_000)
    assert len(list(reader.feed(whole + head + bytes(10_000)))) == 1
    kept = reader._parts[0]
    assert type(kept) is bytes and len(kept) == 10_000
    for _ in range(5_000):
        assert list(reader.feed(b"1")) == []
    assert len(reader._parts) == 2 and len(reader) == 15_004
    assert list(reader.feed(bytes(100_000))) == []
    assert type(reader._parts[2]) is memoryview
    (frame,) = reader.feed(bytes(385_000))
    assert frame is not None and len(frame) == 500_000 and frame[10_000:15_000] == b"1" * 5_000
    assert len(reader) == 0 and reader._parts == []


def test_a_frame_that_comes_alone_is_taken_at_once() -> None:
    frame = (3).to_bytes(4, "big") + b"abc"
    reader = FrameReader(100)
    assert reader.only(frame) == b"abc"
    for other in (
        frame[:6],
        frame + b"\0",
        frame + frame,
        bytes(4),
        b"",
        (101).to_bytes(4, "big") + bytes(101),
    ):
        assert reader.only(other) is None, other
    for begun in (frame[:2], frame[:6]):
        reader = FrameReader(100)
        assert list(reader.feed(begun)) == []
        assert reader.only(frame) is None, "a part of another frame came before"
