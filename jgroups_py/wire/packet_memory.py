"""Decoding packets that resemble an earlier one of the same sender.

A call, its answer, an acknowledgement travel alone, and from one to the next only sequence numbers, the
payload and its length differ. So the bytes before the payload are remembered without their numbers. The next packet is
compared with them, and only its numbers are read. A packet that differs takes the general way (``decode_packet``), with
the same result.

Lists begin alike, too. If a list begins with a long run, the bytes before its first payload are remembered. The other
messages of a run are predicted anyway (packet.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch, Headers
from jgroups_py.values.header import Header
from jgroups_py.values.message import MessageType
from jgroups_py.wire.header_codec import sequence_offset, sequence_size
from jgroups_py.wire.headers import TP_ID, UnicastHeader3, UnicastType
from jgroups_py.wire.message import MIN_MESSAGE, WireMessage
from jgroups_py.wire.packet import (
    LIST,
    MULTICAST,
    Packet,
    continue_list,
    decode_packet,
    header_marks,
    list_start,
)
from jgroups_py.wire.strides import payloads_of

_SENDER_ENDS: Final = 42
"""Version, flags, type, leading, flags of a message, and two UUIDs with a byte before each."""
_KEY: Final = _SENDER_ENDS + 7
"""The same with the number of headers, and protocol, class and type of the first one."""
_KEYS: Final = {bytes([MULTICAST]): _KEY - 17, bytes([LIST]): 37, bytes([LIST | MULTICAST]): 21}
"""The same for other packets, by their flags: a multicast has one UUID less. A list has version, flags, and one UUID,
or two, with a byte before each; None is one byte."""
_LONG_RUN: Final = 4
"""A list is remembered if its first run has at least this many messages. A sender whose packets often begin with another address
costs more than it saves."""
_REMEMBERED: Final = 256
"""The most shapes that are remembered. Beyond, all are forgotten."""


class _Number(NamedTuple):
    """A sequence number: the place of its bytes, its header (by protocol id, or by place), and its value."""

    start: int
    stop: int
    name: int
    header: Header
    value: int


@dataclass(frozen=True, slots=True)
class _Shape:
    """A packet up to its payload's length at ``size``. ``fixed``: the bytes between the numbers, each with
    its place."""

    size: int
    fixed: tuple[tuple[int, int, bytes], ...]
    numbers: tuple[_Number, ...]
    version: int
    packet_flags: int
    cluster: str | None
    dest: Address | None
    src: Address
    headers: Headers
    flags: int

    def read(self, data: bytes) -> Packet | None:
        """Return the packet, if it has this shape."""
        for start, stop, fixed in self.fixed:
            if data[start:stop] != fixed:
                return None
        size = self.size
        body = size + 4
        if int.from_bytes(data[size:body], "big") != len(data) - body:
            return None
        headers = self.headers.copy()
        for start, stop, protocol_id, header, value in self.numbers:
            number = int.from_bytes(data[start:stop], "little")
            headers[protocol_id] = header.at(number - value)
        batch = Batch(self.dest, [memoryview(data)[body:]], headers, self.src, self.flags)
        return Packet(self.version, self.packet_flags, self.dest, self.src, self.cluster, [batch])


@dataclass(frozen=True, slots=True)
class _AckShape:
    """A packet that is an acknowledgement of unicasts. ``seqno`` and ``timestamp``: the places of its numbers. ``fixed``: as in
    _Shape."""

    fixed: tuple[tuple[int, int, bytes], ...]
    size: int
    seqno: tuple[int, int]
    timestamp: tuple[int, int]
    protocol_id: int
    conn_id: int
    version: int
    packet_flags: int
    cluster: str | None
    dest: Address | None
    src: Address
    type: int
    flags: int

    def read(self, data: bytes) -> Packet | None:
        """Return the packet, if it has this shape."""
        if len(data) != self.size:
            return None
        for start, stop, fixed in self.fixed:
            if data[start:stop] != fixed:
                return None
        start, stop = self.seqno
        seqno = int.from_bytes(data[start:stop], "little")
        start, stop = self.timestamp
        timestamp = int.from_bytes(data[start:stop], "little")
        ack = UnicastHeader3(UnicastType.ACK, seqno, self.conn_id, False, timestamp)
        batch = Batch(
            self.dest, [None], {self.protocol_id: ack}, self.src, self.flags, 0, self.type
        )
        return Packet(self.version, self.packet_flags, self.dest, self.src, self.cluster, [batch])


@dataclass(frozen=True, slots=True)
class _ListShape:
    """A list up to the length of its first message's payload at ``size``. ``fixed``: the bytes between its numbers and the number
    of messages at ``count_at``. In ``numbers`` a header is named by its place in ``headers``."""

    size: int
    fixed: tuple[tuple[int, int, bytes], ...]
    numbers: tuple[_Number, ...]
    count_at: int
    start: int
    marks: tuple[int, ...]
    version: int
    packet_flags: int
    cluster: str | None
    dest: Address | None
    src: Address
    headers: tuple[tuple[int, Header], ...]
    flags: int
    spots: tuple[tuple[int, int], ...] | None
    """The place of a number within a message, and its bytes. None: a number has no bytes, so the next message is
    longer."""

    def read(self, data: bytes) -> Packet | None:
        """Return the packet, if it begins like this. RemoteProtocolError if the rest is malformed."""
        for start, stop, fixed in self.fixed:
            if data[start:stop] != fixed:
                return None
        body, messages_at = self.size + 4, self.count_at + 4
        left = int.from_bytes(data[self.count_at : messages_at], "big", signed=True)
        length = int.from_bytes(data[self.size : body], "big", signed=True)
        if not 0 < left <= (len(data) - messages_at) // MIN_MESSAGE:
            return None
        if not 0 <= length <= len(data) - body:
            return None
        headers = list(self.headers)
        for start, stop, place, header, value in self.numbers:
            number = int.from_bytes(data[start:stop], "little")
            headers[place] = headers[place][0], header.at(number - value)
        packet = Packet(self.version, self.packet_flags, self.dest, self.src, self.cluster, [])
        start, spots = self.start, self.spots
        head = body - start
        if spots is not None and left * (head + length) == len(data) - start:
            # All messages have one size, it seems.
            payloads = payloads_of(data, start, head, length, left, spots)
            if payloads is not None:
                run = {key: header for key, header in headers if key != TP_ID}
                batch = Batch(self.dest, payloads, run, self.src, self.flags)
                batch.sizes_are(left * length, length)
                packet.batches.append(batch)
                return packet
        stop = body + length
        payload = memoryview(data)[body:stop]
        first = WireMessage(MessageType.BYTES, self.flags, None, None, tuple(headers), payload)
        return continue_list(data, packet, left, first, start, self.marks, stop)


class PacketReader:
    """Decodes packets as ``decode_packet`` does. Payloads are views into ``data``."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, _Shape | _AckShape | _ListShape] = {}
        self.general: Callable[[bytes], Packet] = decode_packet
        """The function that decodes a packet that resembles no remembered one."""

    def decode(self, data: bytes) -> Packet:
        """Decode a packet. RemoteProtocolError for malformed bytes."""
        key = data[: _KEYS.get(data[2:3], _KEY)]
        shape = self._shapes.get(key)
        if shape is not None and (packet := shape.read(data)) is not None:
            return packet
        packet = self.general(data)
        if not packet.flags & LIST:
            self._remember(key, _shape_of(data, packet))
        elif packet.batches and len(packet.batches[0]) >= _LONG_RUN:
            self._remember(key, _list_shape_of(data, packet))
        return packet

    def _remember(self, key: bytes, shape: _Shape | _AckShape | _ListShape | None) -> None:
        if shape is None:
            return
        if len(self._shapes) >= _REMEMBERED:
            self._shapes.clear()
        self._shapes[key] = shape

    def forget(self) -> None:
        """Forget all: some senders may have gone, and the others are soon known again."""
        self._shapes.clear()

    def __len__(self) -> int:
        """Count the remembered shapes."""
        return len(self._shapes)


def _list_shape_of(data: bytes, packet: Packet) -> _ListShape | None:
    """Return the shape of a list. None: lists of that kind are not remembered."""
    if type(packet.src) is not UUID or type(packet.dest) not in (UUID, type(None)):
        return None  # the key would have another length
    start = list_start(data)
    first, marks = start.first, start.marks
    if first.type != MessageType.BYTES or first.payload is None or len(marks) != len(first.headers):
        return None  # other counts: headers within headers
    if first.src is not None or first.dest is not None:
        return None
    headers = [header for _, header in first.headers]
    numbers = _numbers_of(data, zip(marks, enumerate(headers), strict=True))
    if numbers is None:
        return None
    size = start.stop - 4 - len(first.payload)
    holes = [(start.count_at, start.count_at + 4), *[number[:2] for number in numbers]]
    return _ListShape(
        size,
        _fixed(data, holes, size),
        numbers,
        start.count_at,
        start.message_at,
        marks,
        packet.version,
        packet.flags,
        packet.cluster,
        packet.dest,
        packet.src,
        first.headers,
        first.flags,
        _spots(numbers, start.message_at),
    )


def _spots(numbers: Sequence[_Number], start: int) -> tuple[tuple[int, int], ...] | None:
    """Return ``_ListShape.spots`` of a message that begins at ``start``."""
    if any(number.start == number.stop for number in numbers):
        return None
    return tuple((number.start - start, number.stop - number.start) for number in numbers)


def _shape_of(data: bytes, packet: Packet) -> _Shape | _AckShape | None:
    """Return the shape of a packet. None: its kind is not remembered."""
    batch = packet.batches[0]
    payload = batch.payloads[0]
    if payload is None:
        return _ack_shape_of(data, packet, batch)
    if batch.type != MessageType.BYTES:
        return None
    marks = header_marks(data)
    if not _are_in_order(data, marks, batch):
        return None
    numbers = _numbers_of(data, zip(marks, batch.headers.items(), strict=False))
    if numbers is None:
        return None
    size = len(data) - 4 - len(payload)
    return _Shape(
        size,
        _fixed(data, [number[:2] for number in numbers], size),
        numbers,
        packet.version,
        packet.flags,
        packet.cluster,
        packet.dest,
        packet.src,
        batch.headers,
        batch.flags,
    )


def _are_in_order(data: bytes, marks: Sequence[int], batch: Batch) -> bool:
    """Return whether the headers at ``marks`` are those of ``batch``, and TpHeader behind them. There may be headers within
    headers, or two of one protocol."""
    wanted = [*batch.headers, TP_ID]
    return wanted == [int.from_bytes(data[mark : mark + 2], "big", signed=True) for mark in marks]


def _ack_shape_of(data: bytes, packet: Packet, batch: Batch) -> _AckShape | None:
    """Return the shape of an acknowledgement without a payload. None: it is something else."""
    if len(batch.headers) != 1:
        return None
    ((protocol_id, ack),) = batch.headers.items()
    if type(ack) is not UnicastHeader3 or ack.type != UnicastType.ACK:
        return None  # before ``header_marks``, which reads the packet once more
    marks = header_marks(data)
    if not _are_in_order(data, marks, batch):
        return None
    start = marks[0] + 6  # after both ids, the type and the number's size
    seqno = start, start + data[start - 1]
    start = seqno[1] + 3  # after conn_id and the number's size
    timestamp = start, start + data[start - 1]
    if seqno[1] - seqno[0] >= 8 or timestamp[1] - timestamp[0] >= 4:
        return None  # they are signed
    return _AckShape(
        _fixed(data, [seqno, timestamp], len(data)),
        len(data),
        seqno,
        timestamp,
        protocol_id,
        ack.conn_id,
        packet.version,
        packet.flags,
        packet.cluster,
        packet.dest,
        packet.src,
        batch.type,
        batch.flags,
    )


def _numbers_of(
    data: bytes, headers: Iterable[tuple[int, tuple[int, Header]]]
) -> tuple[_Number, ...] | None:
    """Return the numbers of headers: where each begins, the name of its header, the header. None: one of them is
    signed."""
    numbers = []
    for mark, (name, header) in headers:
        offset = sequence_offset(header)
        if offset is None:
            continue
        start = mark + 4 + offset + 1
        stop = start + sequence_size(header, data[start - 1])
        if stop - start >= 8:
            return None
        value = int.from_bytes(data[start:stop], "little")
        numbers.append(_Number(start, stop, name, header, value))
    return tuple(numbers)


def _fixed(
    data: bytes, holes: Sequence[tuple[int, int]], size: int
) -> tuple[tuple[int, int, bytes], ...]:
    """Return the bytes between ``holes``, which ascend, up to ``size``."""
    starts = [0, *[stop for _, stop in holes]]
    stops = [*[start for start, _ in holes], size]
    return tuple((a, b, data[a:b]) for a, b in zip(starts, stops, strict=True))
