"""Packets: the content of a UDP datagram or of a TCP frame, read as batches. packing.py makes packets.

This is the hot path. Messages of a run differ in a few bytes only: the low byte of each sequence number, and the payload.
The bytes before the next payload are predicted and compared. Bytes that differ from the prediction take the general path,
with the same result.

Payloads of a decoded batch are read-only views into the packet, or bytes where a list has small ones (strides.py). For
COMPOSITE and BATCH see batches.py.

Source: WIRE.md sections 6 to 9; JGroups Util.writeMessageList, TpHeader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.header import Header
from jgroups_py.values.message import MessageType
from jgroups_py.wire.batches import batch_of
from jgroups_py.wire.header_codec import sequence_offset
from jgroups_py.wire.headers import TP_ID, TpHeader
from jgroups_py.wire.message import MIN_MESSAGE, WireMessage, read_typed_message
from jgroups_py.wire.primitives import Reader, format_version, same_minor
from jgroups_py.wire.strides import AT_ONCE, COPIED_MAX, heads_from, split

LIST, MULTICAST = 1, 2
"""Flags of a packet."""

_PROBE: Final = 8
"""Messages compared at once after a prediction failed; doubled while predictions hold."""


@dataclass(slots=True)
class Packet:
    """A decoded packet. ``cluster`` None: a single message that names none (accepted by all)."""

    version: int
    flags: int
    dest: Address | None
    src: Address
    cluster: str | None
    batches: list[Batch]

    @property
    def multicast(self) -> bool:
        return bool(self.flags & MULTICAST)

    def is_for(self, cluster: str) -> bool:
        """Return False if another cluster's name is on the packet."""
        return self.cluster is None or self.cluster == cluster


def packet_version(data: bytes) -> int:
    """Return the version a packet leads with."""
    return Reader(data).u16()


def decode_packet(data: bytes, *, version: int | None = None, fast: bool = True) -> Packet:
    """Return the content of a packet. ``version``: refuse packets of another minor; None: take any.

    ``fast`` False takes the general path only (for tests). RemoteProtocolError for anything wrong.
    """
    data = bytes(data)
    r = Reader(data)
    r.version = r.u16()
    if version is not None and not same_minor(r.version, version):
        r.fail(f"version {format_version(r.version)}, ours is {format_version(version)}", 0)
    flags = r.u8()
    if flags & LIST:
        return _decode_list(r, data, flags, fast)
    message = read_typed_message(r)
    r.expect_end()
    cluster: str | None = None
    for protocol_id, header in message.headers:
        if protocol_id == TP_ID and isinstance(header, TpHeader):
            cluster = header.cluster or ""
    batch = batch_of(message, None, None)
    if batch.src is None:
        r.fail("a message without sender")
    return Packet(r.version, flags, batch.dest, batch.src, cluster, [batch])


def header_marks(data: bytes) -> list[int]:
    """Return the places where the headers of a packet of one message begin. RemoteProtocolError as
    ``decode_packet``."""
    r = Reader(data)
    r.version = r.u16()
    r.u8()
    r.marks = []
    read_typed_message(r)
    return r.marks


def _decode_list(r: Reader, data: bytes, flags: int, fast: bool) -> Packet:
    dest = r.addr()
    src = r.known_addr("the sender of a packet")
    cluster = r.astr() or ""
    left = r.count(r.i32(), MIN_MESSAGE, "messages")
    r.marks = []
    return _read_list(r, data, Packet(r.version, flags, dest, src, cluster, []), left, fast)


def continue_list(
    data: bytes,
    packet: Packet,
    left: int,
    first: WireMessage,
    start: int,
    marks: Sequence[int],
    stop: int,
) -> Packet:
    """Read the rest of a list of ``left`` messages, of which all before ``stop`` was read already: ``packet`` without
    batches, and the first message, which begins at ``start`` and has its headers at ``marks``. RemoteProtocolError as
    ``decode_packet``."""
    r = Reader(data, stop, packet.version)
    r.marks = list(marks)
    return _read_list(r, data, packet, left, True, first, start)


@dataclass(frozen=True, slots=True)
class ListStart:
    """The beginning of a list: the places of its number of messages, of its first message (to ``stop``) and of the
    headers of that message."""

    count_at: int
    message_at: int
    marks: tuple[int, ...]
    first: WireMessage
    stop: int


def list_start(data: bytes) -> ListStart:
    """Return the first message of a list and its places. RemoteProtocolError as ``decode_packet``."""
    r = Reader(data)
    r.version = r.u16()
    r.u8()
    r.addr()
    r.addr()
    r.astr()
    count_at = r.pos
    r.i32()
    message_at = r.pos
    r.marks = []
    message = read_typed_message(r)
    return ListStart(count_at, message_at, tuple(r.marks), message, r.pos)


def _read_list(
    r: Reader,
    data: bytes,
    packet: Packet,
    left: int,
    fast: bool,
    message: WireMessage | None = None,
    start: int = 0,
) -> Packet:
    runs: list[_MessageRun] = []
    marks = r.marks
    assert marks is not None
    while left:
        if message is None:
            start = r.pos
            marks.clear()
            message = read_typed_message(r)
        left -= 1
        payload = message.payload
        if type(payload) is memoryview and len(payload) <= COPIED_MAX:
            payload = bytes(payload)
        if runs and runs[-1].takes(message):
            run = runs[-1]
            run.payloads.append(payload)
        else:
            run = _MessageRun(message, [payload])
            runs.append(run)
        if fast and left and message.type == MessageType.BYTES and payload is not None:
            left -= _follow(r, data, start, message, run.payloads, left)
        message = None
    r.expect_end()
    packet.batches = [batch_of(run.first, packet.dest, packet.src, run.payloads) for run in runs]
    return packet


@dataclass(slots=True)
class _MessageRun:
    """Messages that follow each other: the first one, and the payloads of all."""

    first: WireMessage
    payloads: list[Any]

    def takes(self, message: WireMessage) -> bool:
        """True when ``message`` is the next one of this run."""
        first = self.first
        if (
            first.type != MessageType.BYTES
            or message.type != MessageType.BYTES
            or first.flags != message.flags
            or first.src != message.src
            or first.dest != message.dest
            or len(first.headers) != len(message.headers)
        ):
            return False
        index = len(self.payloads)
        return all(
            id_a == id_b and _continues(a, b, index)
            for (id_a, a), (id_b, b) in zip(first.headers, message.headers, strict=True)
        )


def _continues(first: Header, other: Header, distance: int) -> bool:
    """Return whether ``other`` is ``first.at(distance)``, unless its sequence number is not on the wire."""
    if sequence_offset(first) is None:
        return first == other
    return first.is_followed_by(other, distance)


def _follow(
    r: Reader, data: bytes, start: int, message: WireMessage, payloads: list[Any], left: int
) -> int:
    """Take the messages that continue the run of ``message`` (which began at ``start``) as far as
    their bytes can be predicted. Return their number."""
    pos, size = r.pos, len(message.payload)
    at = pos - size - 4 - start  # the place of the length within a message
    head = bytearray(data[start : start + at + 4])
    spots = _spots(r.marks or [], message, start, head)
    if spots is None:
        return 0
    left = min([left, *[255 - head[spot] for spot in spots]])
    view = memoryview(data)
    end, overhead, taken, probe = r.end, at + 4, 0, _PROBE
    while taken < left:
        for spot in spots:
            head[spot] += 1
        body = pos + overhead
        found = data[pos:body]
        same_size = found == head
        if not same_size:
            if found[:at] != head[:at] or body > end:
                break
            size = int.from_bytes(found[at:], "big", signed=True)
            if size < 0:
                break
            head[at:] = found[at:]
        if size > end - body:
            break
        pos = body + size
        payloads.append(data[body:pos] if size <= COPIED_MAX else view[body:pos])
        taken += 1
        if not same_size:
            continue
        # Sizes often repeat: compare several at once.
        stride = overhead + size
        count = min(probe, AT_ONCE, left - taken, (end - pos) // stride)
        if count < 2:
            continue
        following = head.copy()
        for spot in spots:
            following[spot] += 1
        expected = heads_from(following, count, spots)
        pieces, found_payloads = split(data, pos, overhead, size, count)
        if pieces == expected:
            probe *= 2
        else:
            count = _matches(pieces, expected, overhead)
            probe = _PROBE
        payloads += found_payloads[:count]
        for spot in spots:
            head[spot] += count
        taken += count
        pos += count * stride
    r.pos = pos
    return taken


def _spots(marks: list[int], message: WireMessage, start: int, head: bytearray) -> list[int] | None:
    """Return the places of the low bytes of sequence numbers in ``head``. None: that is not known, or the next number
    has one byte more."""
    if len(marks) != len(message.headers):  # headers within headers
        return None
    spots: list[int] = []
    for mark, (_, header) in zip(marks, message.headers, strict=True):
        offset = sequence_offset(header)
        if offset is not None:
            spot = mark - start + 4 + offset
            if head[spot] == 0:
                return None
            spots.append(spot + 1)
    return spots


def _matches(found: bytes, expected: bytearray, size: int) -> int:
    """Return the number of pieces of ``size`` bytes that are equal from the start."""
    for i in range(0, len(found), size):
        if found[i : i + size] != expected[i : i + size]:
            return i // size
    return len(found) // size
