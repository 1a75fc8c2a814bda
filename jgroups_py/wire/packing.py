"""Makes packets from batches: the content of a UDP datagram or of a TCP frame.

This is the hot path. Messages of a run differ in a few bytes only: the low byte of each sequence number, and the payload.
The bytes before the payload are written once as a template, and a run of equal-sized messages is patched column by column.

Source: WIRE.md sections 6 to 9; JGroups Util.writeMessageList, TpHeader.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from struct import Struct, pack
from typing import Any, Final

from jgroups_py.errors import LocalProtocolError
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import MessageType
from jgroups_py.wire.batches import wire_payload
from jgroups_py.wire.connection import encode_frame
from jgroups_py.wire.header_codec import (
    IN_ONE_STEP,
    encode_header,
    sequence_offset,
    sequence_size,
    write_header,
)
from jgroups_py.wire.headers import TP_ID, TpHeader
from jgroups_py.wire.message import DEST_SET, SRC_SET, write_payload
from jgroups_py.wire.packet import LIST, MULTICAST
from jgroups_py.wire.primitives import DEFAULT_VERSION, Writer
from jgroups_py.wire.strides import advance, cut, heads_from, room_in

MAX_SIZE: Final = 64_000
"""Default limit of a packet's messages in bytes (JGroups' bundler.max_size). A datagram takes at most 65507."""

_LENGTH: Final = Struct(">i")
_COUNT: Final = Struct(">h")
_MESSAGE_START: Final = Struct(">hbhh")  # type, leading, flags, number of headers
_ALONE_START: Final = Struct(">HBhBh")  # version, flags of the packet, type, leading, flags
_NO_SENDER: Final = "a batch without sender cannot be sent"


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
        return b"".join((data, payload))  # copied once
    if payload is None and batch.type == MessageType.EMPTY:
        return b"".join((_LENGTH.pack(len(data)), data)) if framed else bytes(data)
    write_payload(writer, batch.type, wire_payload(batch, payload, version))
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
                fit = 1  # larger than a packet: goes alone
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
            write_payload(writer, batch.type, wire_payload(batch, payload, self.version))
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
