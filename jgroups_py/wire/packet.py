"""Packets: makes the content of a UDP datagram or a TCP frame from batches, and batches from it.

This is the hot path. Messages of a run differ in a few bytes only: the low byte of each sequence number, and the payload.
Encoding writes the bytes before the payload once as a template and patches a run of equal-sized messages column by column.
Decoding predicts the bytes before the next payload and compares. Bytes that differ from the prediction take the general
path, with the same result.

Payloads of a decoded batch are read-only views into the packet, or bytes where a list has small ones (strides.py). A COMPOSITE payload is a tuple of
batches of one message each, a BATCH payload a pair (original sender, such a tuple).

Source: WIRE.md sections 6 to 9; JGroups Util.writeMessageList, TpHeader, TcpConnection, FD_SOCK2,
MPING.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from struct import Struct, pack
from typing import Any, Final

from jgroups_py.errors import LocalProtocolError, RemoteProtocolError
from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.batch import Batch, measure_with
from jgroups_py.values.header import Header
from jgroups_py.values.message import MessageType
from jgroups_py.wire.header_codec import (
    IN_ONE_STEP,
    encode_header,
    sequence_offset,
    sequence_size,
    write_header,
)
from jgroups_py.wire.headers import TP_ID, FdHeader, TpHeader
from jgroups_py.wire.message import (
    DEST_SET,
    MIN_MESSAGE,
    SRC_SET,
    BatchPayload,
    NioPayload,
    WireMessage,
    read_message,
    read_typed_message,
    write_message,
    write_payload,
    write_typed_message,
)
from jgroups_py.wire.objects import payload_length
from jgroups_py.wire.primitives import (
    DEFAULT_VERSION,
    V5_4,
    Reader,
    Writer,
    format_version,
    same_minor,
)
from jgroups_py.wire.strides import AT_ONCE, COPIED_MAX, advance, cut, heads_from, room_in, split

LIST, MULTICAST = 1, 2
"""Flags of a packet."""

MAX_SIZE: Final = 64_000
"""Default limit of a packet's messages in bytes (JGroups' bundler.max_size). A datagram takes at most 65507."""

_LENGTH: Final = Struct(">i")
_COUNT: Final = Struct(">h")
_MESSAGE_START: Final = Struct(">hbhh")  # type, leading, flags, number of headers
_ALONE_START: Final = Struct(">HBhBh")  # version, flags of the packet, type, leading, flags
_NO_SENDER: Final = "a batch without sender cannot be sent"
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


# Encoding


@dataclass(slots=True)
class _Template:
    """The bytes of a message before its payload's length, for one place in a run.

    ``numbers``: where sequence numbers are, low byte first, and their bytes. ``room``: how many messages, this one included,
    differ in the low bytes only.
    """

    prefix: bytearray
    numbers: list[tuple[int, int]]
    room: int

    def after(self, count: int) -> _Template | None:
        """Return the template of the message that is ``count`` further on, at most ``room``. None: it has another
        length."""
        if not self.numbers:
            return self if self.room > 1 else None
        prefix = self.prefix.copy()
        if not advance(prefix, self.numbers, count):
            return None
        return _Template(prefix, self.numbers, room_in(prefix, self.numbers))


def _template(batch: Batch, index: int, tp: bytes) -> _Template:
    out = bytearray(_MESSAGE_START.pack(batch.type, 0, batch.flags, len(batch.headers) + bool(tp)))
    numbers: list[tuple[int, int]] = []
    unpatched = False
    for protocol_id, first in batch.headers.items():
        header = first.at(index) if index else first
        offset = sequence_offset(header)
        start = len(out)
        out += encode_header(protocol_id, header)
        if offset is not None:
            place = start + 4 + offset + 1
            width = sequence_size(header, out[place - 1])
            unpatched = unpatched or not width  # zero has no byte that could be patched
            numbers.append((place, width))
    out += tp
    if unpatched:
        return _Template(out, [], 1)
    return _Template(out, numbers, room_in(out, numbers))


def _pieces(
    template: _Template, payloads: Sequence[Any], size: int, sizes: Sequence[int]
) -> list[Any]:
    """Return the messages of a run, to be joined: the bytes before each payload, and the payload. At most ``AT_ONCE``.
    ``size`` is that of each, unless there are ``sizes``."""
    count = len(payloads)
    spots = [place for place, _ in template.numbers]
    heads = heads_from(template.prefix + _LENGTH.pack(size), count, spots)
    stride = len(template.prefix) + 4
    if sizes:
        lengths = pack(f">{count}I", *sizes)
        for column in range(4):
            heads[stride - 4 + column :: stride] = lengths[column::4]
    pieces: list[Any] = [None] * (2 * count)
    pieces[::2] = cut(heads, stride, count)
    pieces[1::2] = payloads
    return pieces


@functools.lru_cache(maxsize=16)
def _tp(cluster: str, version: int) -> bytes:
    return encode_header(TP_ID, TpHeader(cluster), version)


def _alone(batch: Batch, cluster: str, version: int, framed: bool) -> bytes:
    """Return a packet of one message, in a frame if ``framed``."""
    dest, src = batch.dest, batch.src
    if src is None:
        raise LocalProtocolError(_NO_SENDER)
    payload = batch.payloads[0]
    writer = Writer(version)
    data = writer.data
    data += _alone_start(version, batch.type, batch.flags, dest, src)
    data += _COUNT.pack(len(batch.headers) + 1)
    for protocol_id, header in batch.headers.items():
        in_one = IN_ONE_STEP.get(type(header))
        written = None if in_one is None else in_one(protocol_id, header)
        if written is None:
            write_header(writer, protocol_id, header)
        else:
            data += written
    data += _tp(cluster, version)
    if type(payload) is bytes and batch.type == MessageType.BYTES:
        data += _LENGTH.pack(len(payload))
        if framed:
            return b"".join((_LENGTH.pack(len(data) + len(payload)), data, payload))
        return b"".join((data, payload))  # the payload is copied once
    write_payload(writer, batch.type, _wire_payload(batch, payload, version))
    return encode_frame(writer.done()) if framed else writer.done()


@functools.lru_cache(maxsize=64)
def _alone_start(version: int, type: int, flags: int, dest: Address | None, src: Address) -> bytes:
    """Return a packet of one message as far as its headers."""
    writer = Writer(version)
    leading = SRC_SET if dest is None else SRC_SET | DEST_SET
    packet_flags = MULTICAST if dest is None else 0
    writer.data += _ALONE_START.pack(version, packet_flags, type, leading, flags)
    if dest is not None:
        writer.addr(dest)
    writer.addr(src)
    return writer.done()


@functools.lru_cache(maxsize=64)
def _list_start(version: int, dest: Address | None, src: Address, cluster: str) -> bytes:
    """Return a packet of several messages as far as their number."""
    writer = Writer(version)
    writer.u16(version)
    writer.u8(LIST | (MULTICAST if dest is None else 0))
    writer.addr(dest)
    writer.addr(src)
    writer.astr(cluster)
    return writer.done()


class _Packer:
    """Collects encoded messages (in the form without addresses) into packets."""

    def __init__(
        self, first: Batch, cluster: str, version: int, max_size: int, framed: bool
    ) -> None:
        if first.src is None:
            raise LocalProtocolError(_NO_SENDER)
        self.dest, self.src = first.dest, first.src
        self.version = version
        self.max_size = max_size
        self.framed = framed
        self.tp = _tp(cluster, version)
        self.list_start = _list_start(version, self.dest, self.src, cluster)
        self.packets: list[bytes] = []
        self.parts: list[Any] = []
        """The bytes of the messages, to be joined."""
        self.count = 0
        self.size = 0

    def flush(self) -> None:
        if self.count == 1:
            packet = self._single(b"".join(self.parts))
            self.packets.append(encode_frame(packet) if self.framed else packet)
        elif self.count:
            # The only copy of payloads here.
            start = self.list_start + _LENGTH.pack(self.count)
            frame = _LENGTH.pack(len(start) + self.size) if self.framed else b""
            self.packets.append(b"".join((frame, start, *self.parts)))
        self.parts = []
        self.count = self.size = 0

    def _single(self, message: bytes) -> bytes:
        writer = Writer(self.version)
        writer.u16(self.version)
        writer.u8(MULTICAST if self.dest is None else 0)
        writer.raw(message[:2])
        writer.u8(SRC_SET | (DEST_SET if self.dest is not None else 0))
        writer.raw(message[3:5])
        if self.dest is not None:
            writer.addr(self.dest)
        writer.addr(self.src)
        writer.raw(message[5:])
        return writer.done()

    def run(self, batch: Batch, size: int, sizes: Sequence[int]) -> None:
        """Add messages of type BYTES, of ``size`` bytes each, unless there are ``sizes``."""
        payloads = batch.payloads
        start, total = 0, len(payloads)
        template: _Template | None = None
        while start < total:
            template = template or _template(batch, start, self.tp)
            stop = min(total, start + template.room)
            overhead = len(template.prefix) + 4
            left = self.max_size - self.size
            if sizes:
                ends = list(accumulate([size + overhead for size in sizes[start:stop]]))
                fit = bisect_right(ends, left)
            else:
                fit = max(0, left) // (overhead + size)
            if fit <= 0:
                if self.count:
                    self.flush()
                    continue
                fit = 1  # it is larger than a packet, so it is sent alone
            stop = min(stop, start + fit)
            count, part = stop - start, sizes[start:stop]
            self.parts += _pieces(template, payloads[start:stop], size, part)
            self.count += count
            self.size += overhead * count + (sum(part) if sizes else size * count)
            start = stop
            template = template.after(count) if start < total else None

    def others(self, batch: Batch) -> None:
        """Add messages of any kind, one by one."""
        for index, payload in enumerate(batch.payloads):
            writer = Writer(self.version)
            writer.raw(_template(batch, index, self.tp).prefix)
            write_payload(writer, batch.type, _wire_payload(batch, payload, self.version))
            if self.count and len(writer.data) > self.max_size - self.size:
                self.flush()
            self.parts.append(writer.data)
            self.count += 1
            self.size += len(writer.data)


def encode_packets(
    batches: Iterable[Batch],
    cluster: str,
    version: int = DEFAULT_VERSION,
    max_size: int = MAX_SIZE,
    *,
    framed: bool = False,
) -> list[bytes]:
    """Return packets for batches of one sender to one destination, order kept. ``framed``: each as a frame of a TCP
    connection, which costs no further copy.

    No packet holds more than ``max_size`` bytes of messages, unless it is a single larger one.
    LocalProtocolError: a batch cannot be encoded, or has another sender or destination.
    """
    packer: _Packer | None = None
    queue = list(batches)
    if len(queue) == 1 and len(queue[0].payloads) == 1:
        return [_alone(queue[0], cluster, version, framed)]
    for batch in queue if len(queue) == 1 else _joined(queue):
        if packer is None:
            packer = _Packer(batch, cluster, version, max_size, framed)
        elif batch.dest != packer.dest or batch.src != packer.src:
            raise LocalProtocolError("batches of several senders or destinations in one packet")
        if not batch.payloads:
            continue
        size = batch.size_of_each
        sizes: list[int] | None = [] if size >= 0 else _sizes(batch)
        if sizes is None:
            packer.others(batch)
        elif sizes and sizes.count(sizes[0]) < len(sizes):
            packer.run(batch, 0, sizes)
        else:
            packer.run(batch, sizes[0] if sizes else size, ())
    if packer is None:
        return []
    packer.flush()
    return packer.packets


def _sizes(batch: Batch) -> list[int] | None:
    """Return the sizes of the payloads. None: a payload is not bytes, or is null."""
    if batch.type != MessageType.BYTES:
        return None
    try:
        return list(map(len, batch.payloads))
    except TypeError:
        return None


def _joined(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Return the batches, and join those that continue each other: one template serves them all."""
    last: Batch | None = None
    payloads: list[Any] = []
    for batch in batches:
        if last is not None:
            if (
                batch.type == MessageType.BYTES == last.type
                and batch.flags == last.flags
                and batch.dest == last.dest
                and batch.src == last.src
                and list(batch.headers) == list(last.headers)
                and all(
                    header.is_followed_by(batch.headers[key], len(payloads))
                    for key, header in last.headers.items()
                )
            ):
                payloads += batch.payloads
                continue
            yield last if len(payloads) == len(last) else replace(last, payloads=payloads)
        last, payloads = batch, list(batch.payloads)
    if last is not None:
        yield last if len(payloads) == len(last) else replace(last, payloads=payloads)


def _wire_payload(batch: Batch, payload: Any, version: int) -> Any:
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
    m = _wire_message(part, version)
    if version < V5_4:
        return m
    src = None if m.src == implied else m.src
    return WireMessage(m.type, m.flags, None, src, m.headers, m.payload)


def _wire_message(batch: Batch, version: int) -> WireMessage:
    if len(batch) != 1:
        raise LocalProtocolError(f"one message was expected, the batch holds {len(batch)}")
    payload = _wire_payload(batch, batch.payloads[0], version)
    headers = tuple(batch.headers.items())
    return WireMessage(batch.type, batch.flags, batch.dest, batch.src, headers, payload)


# Decoding


def packet_version(data: bytes) -> int:
    """Return the version a packet leads with."""
    return Reader(data).u16()


def decode_packet(data: bytes, *, version: int | None = None, fast: bool = True) -> Packet:
    """Return the content of a packet. ``version``: refuse packets of another minor; None: take any.

    ``fast`` False takes the general path only (for tests). RemoteProtocolError for malformed bytes.
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
    batch = _batch_of(message, None, None)
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
    packet.batches = [_batch_of(run.first, packet.dest, packet.src, run.payloads) for run in runs]
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


def _batch_of(
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
        payloads = [tuple([_batch_of(part, dest, src) for part in parts]) for parts in payloads]
    elif message.type == MessageType.BATCH:
        payloads = [
            (p.original_src, tuple([_batch_of(part, dest, p.original_src) for part in p.messages]))
            for p in payloads
        ]
    return Batch(dest, payloads, headers, src, message.flags, 0, message.type)


# Single messages in other places


def encode_payload(batch: Batch, payload: Any, version: int = DEFAULT_VERSION) -> bytes:
    """Return one payload of the batch, of any type, as it stands behind the headers."""
    writer = Writer(version)
    write_payload(writer, batch.type, _wire_payload(batch, payload, version))
    return bytes(writer.data)


def encode_nested(batch: Batch, version: int = DEFAULT_VERSION) -> bytes:
    """Return ``i16`` type and message, as they stand inside a payload (FRAG2, COMPRESS, SEQUENCER)."""
    writer = Writer(version)
    write_typed_message(writer, _wire_message(batch, version))
    return writer.done()


def decode_nested(data: bytes | memoryview, version: int = DEFAULT_VERSION) -> Batch:
    """Return the message that encode_nested wrote; nothing may follow it."""
    r = Reader(data, 0, version)
    message = read_typed_message(r)
    r.expect_end()
    return _batch_of(message, None, None)


def _encode_bare(batch: Batch, version: int) -> bytes:
    writer = Writer(version)
    write_message(writer, _wire_message(batch, version))
    return writer.done()


def _decode_bare(data: bytes | memoryview, type: int, version: int) -> Batch:
    r = Reader(data, 0, version)
    message = read_message(r, type)
    r.expect_end()
    batch = _batch_of(message, None, None)
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


# TCP

COOKIE: Final = b"bela"
GRACEFUL_CLOSE: Final = _LENGTH.pack(-5)
"""This number in the place of a frame's length says that the peer is going to close on purpose (5.5.3 and later)."""
HANDSHAKE_HEAD: Final = 8
"""Bytes at the start of a handshake that tell its size."""


def encode_frame(packet: bytes) -> bytes:
    """Return ``i32`` length and packet."""
    return _LENGTH.pack(len(packet)) + packet


def encode_handshake(version: int, listening: IpAddress) -> bytes:
    """Return the first bytes of the connecting side: its address and its version."""
    body = Writer(version)
    body.ip_body(listening)
    writer = Writer(version)
    writer.raw(COOKIE)
    writer.u16(version)
    writer.u16(len(body.data))
    writer.raw(body.data)
    return writer.done()


def handshake_size(head: bytes) -> int:
    """Return the whole size of the handshake that starts with these HANDSHAKE_HEAD bytes."""
    r = Reader(head)
    _read_handshake_head(r)
    size = r.u16()
    if size not in (3, 7, 23):
        r.fail(f"a handshake with an address of {size} bytes", 6)
    return HANDSHAKE_HEAD + size


def decode_handshake(data: bytes) -> tuple[int, IpAddress]:
    """Return version and listening address of the connecting side. The version is for the caller to
    compare (``same_minor``)."""
    size = handshake_size(data)
    r = Reader(data)
    version = _read_handshake_head(r)
    r.u16()
    address = r.ip_body()
    if r.pos != size:
        r.fail("a handshake whose address has another size than announced", 6)
    r.expect_end()
    return version, address


def _read_handshake_head(r: Reader) -> int:
    cookie = r.take(4)
    if cookie != COOKIE:
        r.fail(f"a handshake with the cookie {cookie.hex()}", 0)
    return r.u16()


class _Payloads:
    """Implements ``OnTheWire``."""

    def length(self, type: int, payload: Any) -> int:
        return payload_length(type, payload)

    def encode(self, batch: Batch, payload: Any) -> bytes:
        return encode_payload(batch, payload)


measure_with(_Payloads())
