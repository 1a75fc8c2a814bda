"""Decoding packets of one message that resemble an earlier one of the same sender.

A call, its answer, an acknowledgement travel alone, and from one to the next only sequence numbers, the
payload and its length differ. So what came before the payload is remembered, numbers left out; the next
packet is compared with that, and read by taking its numbers. A packet that differs takes the general way
(``decode_packet``), with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch, Headers
from jgroups_py.values.header import Header
from jgroups_py.values.message import MessageType
from jgroups_py.wire.header_codec import sequence_offset, sequence_size
from jgroups_py.wire.packet import Packet, decode_packet, header_marks

_SENDER_ENDS: Final = 42
"""Version, flags, type, leading, flags of a message, and two UUIDs with a byte before each."""
_KEY: Final = _SENDER_ENDS + 7
"""And the number of headers, and of the first one protocol, class and type."""
_REMEMBERED: Final = 256
"""Shapes; at more all are forgotten."""


class _Number(NamedTuple):
    """A sequence number: where its bytes are, whose header it is in, and what it was."""

    start: int
    stop: int
    protocol_id: int
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
    cluster: str | None
    dest: Address | None
    src: Address
    headers: Headers
    flags: int

    def read(self, data: bytes) -> Packet | None:
        """The packet, if it has this shape."""
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
        return Packet(self.version, 0, self.dest, self.src, self.cluster, [batch])


class PacketReader:
    """Decodes packets as ``decode_packet`` does. Payloads are views into ``data``."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, _Shape] = {}

    def decode(self, data: bytes) -> Packet:
        """RemoteProtocolError for anything wrong."""
        shape = self._shapes.get(data[:_KEY])
        if shape is not None and (packet := shape.read(data)) is not None:
            return packet
        packet = decode_packet(data)
        if packet.flags == 0:
            self._remember(data, packet)
        return packet

    def _remember(self, data: bytes, packet: Packet) -> None:
        shape = _shape_of(data, packet)
        if shape is None:
            return
        if len(self._shapes) >= _REMEMBERED:
            self._shapes.clear()
        self._shapes[data[:_KEY]] = shape

    def forget(self) -> None:
        """Some senders may have gone; those that are here are soon known again."""
        self._shapes.clear()

    def __len__(self) -> int:
        """Shapes remembered."""
        return len(self._shapes)


def _shape_of(data: bytes, packet: Packet) -> _Shape | None:
    """None: of that kind of packet there is nothing to remember."""
    batch = packet.batches[0]
    payload = batch.payloads[0]
    marks = header_marks(data)
    if batch.type != MessageType.BYTES or payload is None or len(marks) != len(batch.headers) + 1:
        return None  # one more: TpHeader; other counts: headers within headers
    numbers = []
    for mark, (protocol_id, header) in zip(marks, batch.headers.items(), strict=False):
        offset = sequence_offset(header)
        if offset is None:
            continue
        start = mark + 4 + offset + 1
        stop = start + sequence_size(header, data[start - 1])
        if stop - start >= 8:
            return None  # signed
        value = int.from_bytes(data[start:stop], "little")
        numbers.append(_Number(start, stop, protocol_id, header, value))
    size = len(data) - 4 - len(payload)
    starts = [0, *[number.stop for number in numbers]]
    stops = [*[number.start for number in numbers], size]
    fixed = tuple((a, b, data[a:b]) for a, b in zip(starts, stops, strict=True))
    return _Shape(
        size,
        fixed,
        tuple(numbers),
        packet.version,
        packet.cluster,
        packet.dest,
        packet.src,
        batch.headers,
        batch.flags,
    )
