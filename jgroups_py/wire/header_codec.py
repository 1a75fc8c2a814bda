"""Header bodies as bytes: a reader and a writer for every class of headers.py.

A header has no length on the wire; an unknown magic id or an unknown type therefore ends the
packet that holds it (RemoteProtocolError).

Source: WIRE.md section 10.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, TypeVar

from jgroups_py.errors import LocalProtocolError
from jgroups_py.values.address import IpAddress
from jgroups_py.values.counted_iv import SIZE as IV_COUNT
from jgroups_py.values.counted_iv import place_of_count
from jgroups_py.values.header import Header
from jgroups_py.wire import headers as h
from jgroups_py.wire import values as s
from jgroups_py.wire.objects import read_streamable, write_streamable
from jgroups_py.wire.primitives import DEFAULT_VERSION, V5_3_8, V5_4, Reader, Writer, lz_bytes

E = TypeVar("E", bound=IntEnum)

MAX_HEADERS: Final = 64
"""The most headers that one message can have."""

_IDS: Final = struct.Struct(">hh")
_NUMBERED: Final = struct.Struct(">hhbB")  # protocol id, magic id, type, bytes of the number
_CONNECTION: Final = struct.Struct(">h?")  # its id, and whether this is its first message
_ACKED: Final = struct.Struct(">hB")  # id of the connection, bytes of the timestamp
_SHORT: Final = struct.Struct(">h")
_NUMBER_MAX: Final = 1 << 63
_TIMESTAMP_MAX: Final = 1 << 31
_XMIT_REQ: Final = h.NakAckType.XMIT_REQ
_DATA: Final = h.UnicastType.DATA
_ACK: Final = h.UnicastType.ACK

_SINCE_5_4: Final = (99, 100, 101)
"""Magic ids unknown before 5.4 (WIRE.md section 15)."""


def read_header(r: Reader) -> tuple[int, Header]:
    """Read protocol id and header."""
    if r.marks is not None:
        r.marks.append(r.pos)
    protocol_id = r.i16()
    start = r.pos
    magic = r.i16()
    read = _READ.get(magic)
    if read is None or (r.version < V5_4 and magic in _SINCE_5_4):
        r.fail(f"a header with the unknown magic id {magic} (protocol id {protocol_id})", start)
    return protocol_id, read(r)


def write_header(w: Writer, protocol_id: int, header: Header) -> None:
    magic = header.magic_id
    write = _WRITE.get(magic)
    if write is None:
        raise LocalProtocolError(f"{type(header).__name__} has no encoding: register_header")
    try:
        w.data += _IDS.pack(protocol_id, magic)
    except struct.error:
        raise LocalProtocolError(f"{protocol_id!r} does not fit into 16 bits") from None
    write(w, header)


def read_headers(r: Reader) -> list[tuple[int, Header]]:
    """Read the number of headers, and each header."""
    start = r.pos
    count = r.count(r.i16(), 4, "headers")
    if count > MAX_HEADERS:
        r.fail(f"{count} headers on one message", start)
    return [read_header(r) for _ in range(count)]


_NAKACKS: Final = (h.NakAckHeader2, h.NakAckHeader)
_UNICASTS: Final = (h.UnicastHeader3, h.UnicastHeader)


def sequence_offset(header: Header) -> int | None:
    """Return the place in the body of the number that advances within a run: a byte that is not 0, then the low byte.
    None: the header has no such number on the wire."""
    if isinstance(header, _NAKACKS):
        return None if header.type == h.NakAckType.XMIT_REQ else 1
    if isinstance(header, _UNICASTS):
        return 1 if header.type in (h.UnicastType.DATA, h.UnicastType.ACK) else None
    if isinstance(header, h.CorrelatorHeader):  # also MultiDestinationHeader
        return 1 if header.request_id else None
    if isinstance(header, h.EncryptHeader):
        return _count_of_iv(header)
    if isinstance(header, h.FragHeader):
        return 0
    return 0 if header.sequence is not None and header.magic_id in _OWN else None


def sequence_size(header: Header, first: int) -> int:
    """Return the count of the number's bytes after its first byte, which has the length of a compressed number."""
    return IV_COUNT if isinstance(header, h.EncryptHeader) else first


def _count_of_iv(header: h.EncryptHeader) -> int | None:
    """Return the place before the count of an IV. Key and IV are behind a mark and a length of four bytes each."""
    iv, key = header.iv, header.version
    if iv is None or key is None or header.server is not None:
        return None
    place = place_of_count(iv)
    return None if place is None else 2 + 5 + len(key) + 1 + 5 + place - 1


def _enum(r: Reader, cls: type[E], value: int) -> E:
    try:
        return cls(value)
    except ValueError:
        r.fail(f"no {cls.__name__} is {value}", r.pos - 1)


def _type(r: Reader, cls: type[E]) -> E:
    return _enum(r, cls, r.i8())


# One pair of functions per class, in the order of the catalogue.


def _read_tp(r: Reader) -> Header:
    cluster = r.astr()
    if r.version < V5_3_8:
        return h.TpHeader(cluster)
    flag = r.i8()
    return h.TpHeader(cluster, flag, r.i32() if flag > 0 else None)


def _write_tp(w: Writer, x: h.TpHeader) -> None:
    w.astr(x.cluster)
    if w.version < V5_3_8:
        return
    w.i8(x.flag)
    if x.flag > 0:
        w.i32(x.index or 0)


def _read_ping(r: Reader) -> Header:
    return h.PingHeader(_type(r, h.PingType), r.ostr(), r.flag())


def _write_ping(w: Writer, x: h.PingHeader) -> None:
    w.i8(x.type)
    w.ostr(x.cluster)
    w.flag(x.initial_discovery)


_HAS_MERGE_ID, _REJECTED = 4, 16


def _read_gms(r: Reader) -> Header:
    kind = _type(r, h.GmsType)
    flags = r.i16()
    member = r.addr()
    merge_id = s.read_merge_id(r) if flags & _HAS_MERGE_ID else None
    rejected = bool(flags & _REJECTED)
    return h.GmsHeader(kind, member, merge_id, rejected, flags & ~(_HAS_MERGE_ID | _REJECTED))


def gms_flags(x: h.GmsHeader) -> int:
    """Return the flags of a GmsHeader as on the wire."""
    flags = x.other_flags
    if x.merge_id is not None:
        flags |= _HAS_MERGE_ID
    return flags | _REJECTED if x.rejected else flags


def _write_gms(w: Writer, x: h.GmsHeader) -> None:
    w.i8(x.type)
    w.i16(gms_flags(x))
    w.addr(x.member)
    if x.merge_id is not None:
        s.write_merge_id(w, x.merge_id)


def _read_nak(cls: Callable[..., Header], last: h.NakAckType) -> Callable[[Reader], Header]:
    def read(r: Reader) -> Header:
        kind = _type(r, h.NakAckType)
        if kind > last:
            r.fail(f"no type of this header is {kind}", r.pos - 1)
        if kind == h.NakAckType.XMIT_REQ:
            return cls(kind, 0, r.addr())
        return cls(kind, r.lz64())

    return read


def _write_nak(w: Writer, x: h.NakAckHeader2) -> None:
    w.i8(x.type)
    if x.type == _XMIT_REQ:
        w.addr(x.sender)
    else:
        w.data += lz_bytes(x.seqno, 8)


def _read_unicast(cls: Callable[..., Header]) -> Callable[[Reader], Header]:
    def read(r: Reader) -> Header:
        kind = _type(r, h.UnicastType)
        match kind:
            case h.UnicastType.DATA:
                return cls(kind, r.lz64(), r.i16(), r.flag())
            case h.UnicastType.ACK:
                return cls(kind, r.lz64(), r.i16(), False, r.lz32())
            case h.UnicastType.SEND_FIRST_SEQNO:
                return cls(kind, timestamp=r.lz32())
            case h.UnicastType.XMIT_REQ:
                return cls(kind)
            case h.UnicastType.CLOSE:
                return cls(kind, conn_id=r.i16())

    return read


def _write_unicast(w: Writer, x: h.UnicastHeader3) -> None:
    kind = x.type
    w.i8(kind)
    if kind == _DATA:
        w.data += lz_bytes(x.seqno, 8)
        w.i16(x.conn_id)
        w.data.append(1 if x.first else 0)
    elif kind == h.UnicastType.ACK:
        w.lz64(x.seqno)
        w.i16(x.conn_id)
        w.lz32(x.timestamp)
    elif kind == h.UnicastType.CLOSE:
        w.i16(x.conn_id)
    elif kind == h.UnicastType.SEND_FIRST_SEQNO:
        w.lz32(x.timestamp)


def _read_stable(r: Reader) -> Header:
    return h.StableHeader(_type(r, h.StableType), s.read_opt_view_id(r))


def _write_stable(w: Writer, x: h.StableHeader) -> None:
    w.i8(x.type)
    s.write_opt_view_id(w, x.view_id)


def _read_fd(r: Reader) -> Header:
    kind = _type(r, h.FdType)
    count = r.count(r.i32(), 1, "addresses")
    return h.FdHeader(kind, tuple([r.addr() for _ in range(count)]), r.ostr(), r.addr())


def _write_fd(w: Writer, x: h.FdHeader) -> None:
    w.i8(x.type)
    w.i32(len(x.members))
    for member in x.members:
        w.addr(member)
    w.ostr(x.cluster)
    w.addr(x.server)


def _read_verify(cls: Callable[..., Header]) -> Callable[[Reader], Header]:
    return lambda r: cls(_enum(r, h.VerifyType, r.i16()), r.addr())


def _write_verify(w: Writer, x: h.VerifyHeader2) -> None:
    w.i16(x.type)
    w.addr(x.sender)


def _read_merge(r: Reader) -> Header:
    return h.MergeHeader(_type(r, h.MergeType), s.read_opt_view_id(r), r.ostr(), r.addr())


def _write_merge(w: Writer, x: h.MergeHeader) -> None:
    w.i8(x.type)
    s.write_opt_view_id(w, x.view_id)
    w.ostr(x.name)
    w.addr(x.physical)


def _read_frag(r: Reader) -> Header:
    return h.FragHeader(r.lz64(), r.lz32(), r.lz32(), r.flag(), r.i16())


def _write_frag(w: Writer, x: h.FragHeader) -> None:
    w.lz64(x.id)
    w.lz32(x.index)
    w.lz32(x.count)
    w.flag(x.needs_deserialization)
    w.i16(x.original_type)


def _read_frag3(r: Reader) -> Header:
    return h.Frag3Header(r.lz32(), r.lz32(), r.lz32(), r.lz32(), r.lz32(), r.flag())


def _write_frag3(w: Writer, x: h.Frag3Header) -> None:
    for number in (x.id, x.index, x.count, x.original_length, x.offset):
        w.lz32(number)
    w.flag(x.needs_deserialization)


def _read_state(r: Reader) -> Header:
    return h.StateHeader(_type(r, h.StateType), s.read_digest(r) if r.present() else None)


def _write_state(w: Writer, x: h.StateHeader) -> None:
    w.i8(x.type)
    w.flag(x.digest is not None)
    if x.digest is not None:
        s.write_digest(w, x.digest)


def _read_streaming(r: Reader) -> Header:
    kind = _type(r, h.StreamingStateType)
    digest = s.read_digest(r) if r.present() else None
    address: IpAddress | None = r.ip_body() if r.present() else None
    return h.StreamingStateHeader(kind, digest, address)


def _write_streaming(w: Writer, x: h.StreamingStateHeader) -> None:
    w.i8(x.type)
    w.flag(x.digest is not None)
    if x.digest is not None:
        s.write_digest(w, x.digest)
    w.flag(x.bind_address is not None)
    if x.bind_address is not None:
        w.ip_body(x.bind_address)


def _read_rsvp(r: Reader) -> Header:
    return h.RsvpHeader(_type(r, h.RsvpType), r.i16())


def _write_rsvp(w: Writer, x: h.RsvpHeader) -> None:
    w.i8(x.type)
    w.i16(x.id)


def _read_sequencer(r: Reader) -> Header:
    return h.SequencerHeader(_type(r, h.SequencerType), r.lz64(), r.flag())


def _write_sequencer(w: Writer, x: h.SequencerHeader) -> None:
    w.i8(x.type)
    w.lz64(x.seqno)
    w.flag(x.flush_ack)


def _read_correlator(r: Reader) -> Header:
    return h.CorrelatorHeader(_type(r, h.CorrelatorType), r.lz64(), r.i16())


def _write_correlator(w: Writer, x: h.CorrelatorHeader) -> None:
    w.i8(x.type)
    w.data += lz_bytes(x.request_id, 8)
    w.i16(x.correlator_id)


def _read_multi(r: Reader) -> Header:
    kind = _type(r, h.CorrelatorType)
    return h.MultiDestinationHeader(kind, r.lz64(), r.i16(), r.addrs())


def _write_multi(w: Writer, x: h.MultiDestinationHeader) -> None:
    _write_correlator(w, x)
    w.addrs(x.excluded)


def _read_auth(r: Reader) -> Header:
    return h.AuthHeader(read_streamable(r))


def _write_auth(w: Writer, x: h.AuthHeader) -> None:
    write_streamable(w, x.token)


def _read_encrypt(r: Reader) -> Header:
    kind = _type(r, h.EncryptType)
    return h.EncryptHeader(kind, r.flag(), r.obytes(), r.addr(), r.obytes())


def _write_encrypt(w: Writer, x: h.EncryptHeader) -> None:
    w.i8(x.type)
    w.flag(x.needs_deserialization)
    w.obytes(x.version)
    w.addr(x.server)
    w.obytes(x.iv)


def _read_dh(r: Reader) -> Header:
    kind = _type(r, h.DhType)
    if kind == h.DhType.SECRET_KEY_REQ:
        return h.DhHeader(kind, r.sized())
    return h.DhHeader(kind, r.sized(), r.sized(), r.sized())


def _write_dh(w: Writer, x: h.DhHeader) -> None:
    w.i8(x.type)
    w.sized(x.dh_key)
    if x.type == h.DhType.SECRET_KEY_RSP:
        w.sized(x.encrypted_secret_key)
        w.sized(x.secret_key_version)


def _read_compress(r: Reader) -> Header:
    return h.CompressHeader(r.i32(), r.flag())


def _write_compress(w: Writer, x: h.CompressHeader) -> None:
    w.i32(x.original_size)
    w.flag(x.needs_deserialization)


def _read_relay(r: Reader) -> Header:
    r.enter()
    kind = _type(r, h.RelayType)
    cache, dest, sender = r.flag(), r.addr(), r.addr()
    sites = tuple([r.ostr() for _ in range(r.count(r.i32(), 1, "sites"))])
    visited = tuple([r.ostr() for _ in range(r.count(r.i32(), 1, "visited sites"))])
    header = h.RelayHeader(
        kind, cache, dest, sender, sites, visited, tuple(read_headers(r)), r.i16()
    )
    r.leave()
    return header


def _write_relay(w: Writer, x: h.RelayHeader) -> None:
    w.i8(x.type)
    w.flag(x.return_entire_cache)
    w.addr(x.final_dest)
    w.addr(x.original_sender)
    for names in (x.sites, x.visited):
        w.i32(len(names))
        for name in names:
            w.ostr(name)
    w.i16(len(x.original_headers))
    for protocol_id, header in x.original_headers:
        write_header(w, protocol_id, header)
    w.i16(x.original_flags)


def _read_fork(r: Reader) -> Header:
    return h.ForkHeader(r.ostr(), r.ostr())


def _write_fork(w: Writer, x: h.ForkHeader) -> None:
    w.ostr(x.stack_id)
    w.ostr(x.channel_id)


def _read_info(r: Reader) -> Header:
    count = r.count(r.i32(), 2, "key/value pairs")
    return h.InfoHeader(tuple([(r.ostr(), r.ostr()) for _ in range(count)]))


def _write_info(w: Writer, x: h.InfoHeader) -> None:
    w.i32(len(x.info))
    for key, value in x.info:
        w.ostr(key)
        w.ostr(value)


def _write_nothing(w: Writer, x: Header) -> None:
    pass


def _read_fc(r: Reader) -> Header:
    return h.FcHeader(_type(r, h.FcType))


def _write_fc(w: Writer, x: h.FcHeader) -> None:
    w.i8(x.type)


# The two headers of each call are written in one step.


def _unicast_in_one_step(protocol_id: int, x: h.UnicastHeader3) -> bytes | None:
    seqno = x.seqno
    kind = x.type
    if (kind != _DATA and kind != _ACK) or not 0 <= seqno < _NUMBER_MAX:
        return None
    size = (seqno.bit_length() + 7) >> 3
    try:
        rest = _CONNECTION.pack(x.conn_id, x.first) if kind == _DATA else _rest_of_ack(x)
        return b"".join(
            (
                _NUMBERED.pack(protocol_id, x.magic_id, kind, size),
                seqno.to_bytes(size, "little"),
                rest,
            )
        )
    except struct.error:
        return None


def _rest_of_ack(x: h.UnicastHeader3) -> bytes:
    """Return what follows the number in an ACK. struct.error: a number does not fit."""
    timestamp = x.timestamp
    size = (timestamp.bit_length() + 7) >> 3
    if not 0 <= timestamp < _TIMESTAMP_MAX:
        raise struct.error
    return _ACKED.pack(x.conn_id, size) + timestamp.to_bytes(size, "little")


def _correlator_in_one_step(protocol_id: int, x: h.CorrelatorHeader) -> bytes | None:
    number = x.request_id
    if not 0 <= number < _NUMBER_MAX:
        return None
    size = (number.bit_length() + 7) >> 3
    try:
        return b"".join(
            (
                _NUMBERED.pack(protocol_id, x.magic_id, x.type, size),
                number.to_bytes(size, "little"),
                _SHORT.pack(x.correlator_id),
            )
        )
    except struct.error:
        return None


IN_ONE_STEP: Final[dict[type[Header], Callable[[int, Any], bytes | None]]] = {
    h.UnicastHeader3: _unicast_in_one_step,
    h.CorrelatorHeader: _correlator_in_one_step,
}
"""Functions that write a header like ``write_header``, or return None where they cannot."""

Codec = tuple[Callable[[Reader], Header], Callable[[Writer, Any], None]]

_CODECS: Final[dict[type[Header], Codec]] = {
    h.TpHeader: (_read_tp, _write_tp),
    h.PingHeader: (_read_ping, _write_ping),
    h.GmsHeader: (_read_gms, _write_gms),
    h.NakAckHeader2: (_read_nak(h.NakAckHeader2, h.NakAckType.HIGHEST_SEQNO), _write_nak),
    h.NakAckHeader: (_read_nak(h.NakAckHeader, h.NakAckType.ACK), _write_nak),
    h.UnicastHeader3: (_read_unicast(h.UnicastHeader3), _write_unicast),
    h.UnicastHeader: (_read_unicast(h.UnicastHeader), _write_unicast),
    h.StableHeader: (_read_stable, _write_stable),
    h.FdHeader: (_read_fd, _write_fd),
    h.HeartbeatHeader: (lambda r: h.HeartbeatHeader(), _write_nothing),
    h.VerifyHeader2: (_read_verify(h.VerifyHeader2), _write_verify),
    h.VerifyHeader: (_read_verify(h.VerifyHeader), _write_verify),
    h.MergeHeader: (_read_merge, _write_merge),
    h.FcHeader: (_read_fc, _write_fc),
    h.FragHeader: (_read_frag, _write_frag),
    h.Frag3Header: (_read_frag3, _write_frag3),
    h.StateHeader: (_read_state, _write_state),
    h.StreamingStateHeader: (_read_streaming, _write_streaming),
    h.RsvpHeader: (_read_rsvp, _write_rsvp),
    h.SequencerHeader: (_read_sequencer, _write_sequencer),
    h.CorrelatorHeader: (_read_correlator, _write_correlator),
    h.MultiDestinationHeader: (_read_multi, _write_multi),
    h.AuthHeader: (_read_auth, _write_auth),
    h.EncryptHeader: (_read_encrypt, _write_encrypt),
    h.DhHeader: (_read_dh, _write_dh),
    h.CompressHeader: (_read_compress, _write_compress),
    h.RelayHeader: (_read_relay, _write_relay),
    h.ForkHeader: (_read_fork, _write_fork),
    h.Batch2Header: (lambda r: h.Batch2Header(), _write_nothing),
    h.InfoHeader: (_read_info, _write_info),
}

HEADER_CLASSES: Final[dict[int, type[Header]]] = {cls.magic_id: cls for cls in _CODECS}
"""Header classes by magic id."""

_READ: Final = {cls.magic_id: codec[0] for cls, codec in _CODECS.items()}
_WRITE: Final = {cls.magic_id: codec[1] for cls, codec in _CODECS.items()}
_OWN: Final[dict[int, type[Header]]] = {}


def add_codec(
    cls: type[Header], read: Callable[[Reader], Header], write: Callable[[Writer, Any], None]
) -> None:
    """Add a class of headers of a user's own (own_headers.py), or replace it. Its ``sequence``, if it has one, is the first field."""
    magic = cls.magic_id
    _READ[magic], _WRITE[magic], _OWN[magic] = read, write, cls


def class_of(magic: int) -> type[Header] | None:
    """Return the class of headers with this magic id, also one of a user's."""
    return HEADER_CLASSES.get(magic) or _OWN.get(magic)


def encode_header(protocol_id: int, header: Header, version: int = DEFAULT_VERSION) -> bytes:
    """Return protocol id, magic id and body."""
    in_one = IN_ONE_STEP.get(type(header))
    written = None if in_one is None else in_one(protocol_id, header)
    if written is not None:
        return written
    writer = Writer(version)
    write_header(writer, protocol_id, header)
    return writer.done()
