"""Reads every named kind of byte string as JSON fields and writes it again.

``decode(kind, data)`` and ``encode(kind, fields)`` serve the command line; leftover bytes are an error. ``interpret``
reads a message's payload with the help of its headers.

Source: WIRE.md section 16.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from jgroups_py.errors import LocalProtocolError, RemoteProtocolError
from jgroups_py.values.header import Header
from jgroups_py.values.message import MessageType
from jgroups_py.wire import header_codec as hc
from jgroups_py.wire import headers as h
from jgroups_py.wire import message as m
from jgroups_py.wire import objects as o
from jgroups_py.wire import values as s
from jgroups_py.wire.connection import COOKIE
from jgroups_py.wire.gossip import GossipRecord, GossipType, read_gossip, write_gossip
from jgroups_py.wire.packet import LIST
from jgroups_py.wire.primitives import (
    DEFAULT_VERSION,
    Reader,
    Writer,
    decode_whole,
    encode_whole,
    format_version,
    make_version,
    parse_version,
)
from jgroups_py.wire.text import fields as f
from jgroups_py.wire.text.header_fields import header_in, header_out
from jgroups_py.wire.text.messages import message_in, message_out

Json = Any
Read = Callable[[Reader], Json]
Write = Callable[[Writer, Json], None]


def _kind(
    read: Callable[[Reader], Any],
    write: Callable[[Writer, Any], None],
    converter: f.Converter = (lambda value: value, lambda value: value),
    *,
    wrapped: bool = True,
) -> tuple[Read, Write]:
    """Return a kind made of a codec and a JSON converter; ``wrapped``: fields are ``{"value": ...}``."""
    out, back = converter
    if wrapped:
        return (
            lambda r: {"value": out(read(r))},
            lambda w, fields: write(w, back(fields["value"])),
        )
    return (lambda r: out(read(r))), (lambda w, fields: write(w, back(fields)))


def _read_seq(r: Reader) -> Json:
    delivered, received = r.seq()
    return {"hd": delivered, "hr": received}


def _write_seq(w: Writer, value: Json) -> None:
    w.seq(f.integer(value["hd"]), f.integer(value["hr"]))


def _read_version(r: Reader) -> Json:
    return {"value": format_version(r.u16())}


def _write_version(w: Writer, value: Json) -> None:
    w.u16(parse_version(value["value"]))


def _read_packet(r: Reader) -> Json:
    r.version = r.u16()
    flags = r.u8()
    start: dict[str, Json] = {"version": format_version(r.version), "flags": flags}
    if not flags & LIST:
        return {**start, "message": message_out(m.read_typed_message(r))}
    dest, src, cluster = r.addr(), r.addr(), r.astr()
    count = r.count(r.i32(), m.MIN_MESSAGE, "messages")
    messages = [message_out(m.read_typed_message(r)) for _ in range(count)]
    return {
        **start,
        "dest": f.address_out(dest),
        "src": f.address_out(src),
        "cluster": cluster,
        "messages": messages,
    }


def _write_packet(w: Writer, value: Json) -> None:
    w.version = parse_version(value["version"])
    flags = f.integer(value["flags"])
    w.u16(w.version)
    w.u8(flags)
    if not flags & LIST:
        m.write_typed_message(w, message_in(value["message"]))
        return
    w.addr(f.opt_address_in(value["dest"]))
    w.addr(f.opt_address_in(value["src"]))
    w.astr(f.opt_text(value["cluster"]))
    messages = f.items(value["messages"])
    w.i32(len(messages))
    for message in messages:
        m.write_typed_message(w, message_in(message))


def _read_tcp_connect(r: Reader) -> Json:
    cookie = r.take(4)
    if cookie != COOKIE:
        r.fail(f"a handshake with the cookie {cookie.hex()}", 0)
    version, size = r.u16(), r.u16()
    start = r.pos
    address = r.ip_body()
    if r.pos - start != size:
        r.fail(f"an address of {r.pos - start} bytes where {size} are announced", start)
    return {
        "cookie": cookie.decode("ascii"),
        "version": format_version(version),
        "addr_len": size,
        "addr": f.address_out(address),
    }


def _write_tcp_connect(w: Writer, value: Json) -> None:
    w.raw(value["cookie"].encode("ascii"))
    w.u16(parse_version(value["version"]))
    w.u16(f.integer(value["addr_len"]))
    w.ip_body(f.ip_in(value["addr"]))


def _read_fd_frame(r: Reader) -> Json:
    return {"length": None, "message": message_out(m.read_message(r, MessageType.EMPTY))}


def _write_fd_frame(w: Writer, value: Json) -> None:
    m.write_message(w, message_in(value["message"]))


def _read_frame(r: Reader) -> Json:
    size = r.i32()
    if size != r.left:
        r.fail(f"a frame of {size} bytes, {r.left} are there", 0)
    return _read_packet(r)


def _write_frame(w: Writer, value: Json) -> None:
    inner = Writer(w.version)
    _write_packet(inner, value)
    w.sized(inner.done())


def _write_view_digest(w: Writer, value: Json) -> None:
    s.write_view_digest(w, f.view_digest_in(value), f.integer(value["flags"]))


def _write_join_rsp_as(version: int) -> Write:
    def write(w: Writer, value: Json) -> None:
        w.version = version
        s.write_join_rsp(w, f.join_rsp_in(value))

    return write


def _gossip_out(record: GossipRecord) -> Json:
    fields: dict[str, Json] = {
        "type": record.kind,
        "group": record.group,
        "addr": f.address_out(record.address),
        "sender": f.address_out(record.sender),
    }
    if record.kind != GossipType.MESSAGE:
        fields["name"] = record.name
        fields["ping_data"] = [f.ping_data_out(member) for member in record.members]
        fields["physical"] = f.address_out(record.physical)
    fields["buffer"] = f.bytes_out(record.buffer)
    return fields


def _gossip_in(value: Json) -> GossipRecord:
    kind = f.integer(value["type"])
    plain = kind == GossipType.MESSAGE
    return GossipRecord(
        kind,
        f.opt_text(value["group"]),
        f.opt_address_in(value["addr"]),
        f.opt_address_in(value["sender"]),
        None if plain else f.opt_text(value["name"]),
        () if plain else tuple(f.ping_data_in(member) for member in f.items(value["ping_data"])),
        None if plain else f.opt_address_in(value["physical"]),
        f.bytes_in(value["buffer"]),
    )


_VIEW: Final[f.Converter] = (f.view_out, f.view_in)
_VIEW_ID: Final[f.Converter] = (f.view_id_out, f.view_id_in)
_MESSAGE: Final[f.Converter] = (message_out, message_in)
_JOIN_RSP: Final[f.Converter] = (f.join_rsp_out, f.join_rsp_in)
_ADDRESS: Final[f.Converter] = f.optional(f.ADDRESS)
_NUMBER: Final[f.Converter] = (lambda value: value, f.integer)
_TEXT: Final[f.Converter] = (lambda value: value, f.text)
_OPT_TEXT: Final[f.Converter] = (lambda value: value, f.opt_text)
_LIST: Final[f.Converter] = (
    lambda members: [f.ping_data_out(member) for member in members],
    lambda value: [f.ping_data_in(member) for member in f.items(value)],
)


def _write_header(w: Writer, header: tuple[int, Header]) -> None:
    hc.write_header(w, *header)


KINDS: Final[dict[str, tuple[Read, Write]]] = {
    "long_compressed": _kind(Reader.lz64, Writer.lz64, _NUMBER),
    "int_compressed": _kind(Reader.lz32, Writer.lz32, _NUMBER),
    "long_sequence": (_read_seq, _write_seq),
    "bits_string": _kind(Reader.ostr, Writer.ostr, _OPT_TEXT),
    "utf": _kind(Reader.mutf, Writer.mutf, _TEXT),
    "util_string": _kind(Reader.ustr, Writer.ustr, _TEXT),
    "ascii_string": _kind(Reader.astr, Writer.astr, _OPT_TEXT),
    "byte_buffer": _kind(Reader.obytes, Writer.obytes, (f.bytes_out, f.opt_bytes_in)),
    "version": (_read_version, _write_version),
    "address": _kind(Reader.addr, Writer.addr, _ADDRESS),
    "address_list": _kind(Reader.addrs, Writer.addrs, (f.addresses_out, f.opt_addresses_in)),
    "uuid_body": _kind(lambda r: r.addr_body(11), Writer.addr_body, f.ADDRESS),
    "ip_body": _kind(Reader.ip_body, Writer.ip_body, (f.address_out, f.ip_in)),
    "view_id": _kind(s.read_view_id, s.write_view_id, _VIEW_ID, wrapped=False),
    "opt_view_id": _kind(s.read_opt_view_id, s.write_opt_view_id, f.optional(_VIEW_ID)),
    "view": _kind(s.read_view, s.write_view, _VIEW, wrapped=False),
    "merge_view": _kind(s.read_merge_view, s.write_merge_view, _VIEW, wrapped=False),
    "delta_view": _kind(
        s.read_delta_view, s.write_delta_view, (f.delta_view_out, f.delta_view_in), wrapped=False
    ),
    "util_view": _kind(
        s.read_util_view, s.write_util_view, f.optional((f.util_view_out, f.util_view_in))
    ),
    "opt_view": _kind(s.read_opt_view, s.write_opt_view, f.optional(_VIEW)),
    "digest": _kind(s.read_digest, s.write_digest, f.DIGEST, wrapped=False),
    "digest_no_members": _kind(
        s.read_seqnos, s.write_seqnos, (f.seqnos_out, f.seqnos_in), wrapped=False
    ),
    "merge_id": _kind(
        s.read_merge_id, s.write_merge_id, (f.merge_id_out, f.merge_id_in), wrapped=False
    ),
    "join_rsp": _kind(s.read_join_rsp, s.write_join_rsp, _JOIN_RSP, wrapped=False),
    "join_rsp_merge_5_5": (
        _kind(s.read_join_rsp, s.write_join_rsp, _JOIN_RSP, wrapped=False)[0],
        _write_join_rsp_as(make_version(5, 5, 6)),
    ),
    "join_rsp_merge_5_6": (
        _kind(s.read_join_rsp, s.write_join_rsp, _JOIN_RSP, wrapped=False)[0],
        _write_join_rsp_as(make_version(5, 6)),
    ),
    "gms_view_digest": (lambda r: f.view_digest_out(s.read_view_digest(r)), _write_view_digest),
    "ping_data_list": _kind(s.read_ping_data_list, s.write_ping_data_list, _LIST),
    "seqno_list": _kind(
        s.read_seqno_list, s.write_seqno_list, (f.seqno_list_out, f.seqno_list_in), wrapped=False
    ),
    "method_call": _kind(
        o.read_method_call,
        o.write_method_call,
        (f.method_call_out, f.method_call_in),
        wrapped=False,
    ),
    "exception": _kind(
        o.read_exception, o.write_exception, (f.exception_out, f.exception_in), wrapped=False
    ),
    "object_buffer": _kind(o.read_buffer_object, o.write_buffer_object, f.TYPED),
    "object_stream": _kind(o.read_object, o.write_object, f.TYPED),
    "generic_streamable": _kind(
        o.read_streamable, o.write_streamable, (f.streamable_out, f.streamable_in)
    ),
    "header": _kind(
        hc.read_header,
        _write_header,
        (lambda header: header_out(*header), header_in),
        wrapped=False,
    ),
    "message": _kind(m.read_typed_message, m.write_typed_message, _MESSAGE, wrapped=False),
    "packet": (_read_packet, _write_packet),
    "tcp_connect": (_read_tcp_connect, _write_tcp_connect),
    "tcp_frame": (_read_frame, _write_frame),
    "mping_packet": _kind(
        lambda r: m.read_message(r, MessageType.BYTES), m.write_message, _MESSAGE, wrapped=False
    ),
    "fd_sock2_frame": (_read_fd_frame, _write_fd_frame),
    "gossip": _kind(read_gossip, write_gossip, (_gossip_out, _gossip_in), wrapped=False),
}


def _known(kind: str) -> tuple[Read, Write]:
    try:
        return KINDS[kind]
    except KeyError:
        raise LocalProtocolError(f"no kind is called {kind!r}") from None


def decode(kind: str, data: bytes | memoryview, version: int = DEFAULT_VERSION) -> Json:
    """Return the fields of ``data``. RemoteProtocolError for malformed bytes, LocalProtocolError for an
    unknown kind."""
    return decode_whole(_known(kind)[0], data, version)


def encode(kind: str, fields: Json, version: int = DEFAULT_VERSION) -> bytes:
    """Return the bytes of ``fields``. LocalProtocolError when they do not describe that kind."""
    write = _known(kind)[1]
    try:
        return encode_whole(write, fields, version)
    except KeyError as error:
        raise LocalProtocolError(f"the field {error} is missing") from None
    except (
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        OverflowError,
        struct.error,
    ) as error:
        raise LocalProtocolError(f"the fields are not those of {kind}: {error}") from None
    except RecursionError:
        raise LocalProtocolError("the fields nest too deep") from None


# Payloads

_GMS_PAYLOADS: Final = {
    h.GmsType.JOIN_RSP: "join_rsp",
    h.GmsType.VIEW: "gms_view_digest",
    h.GmsType.MERGE_RSP: "gms_view_digest",
    h.GmsType.INSTALL_MERGE_VIEW: "gms_view_digest",
    h.GmsType.GET_DIGEST_RSP: "gms_view_digest",
    h.GmsType.INSTALL_DIGEST: "gms_view_digest",
    h.GmsType.MERGE_REQ: "address_list",
    h.GmsType.GET_CURRENT_VIEW: "opt_view_id",
}


def payload_kind(message: m.WireMessage) -> str | None:
    """Return the kind of a message's payload by its headers. None: the headers do not tell it, or the payload is
    encrypted, compressed or a fragment."""
    headers = [header for _, header in message.headers]
    transformed = (h.EncryptHeader, h.CompressHeader, h.FragHeader, h.Frag3Header)
    if message.type != MessageType.BYTES or message.payload is None:
        return None
    if any(isinstance(header, transformed) for header in headers):
        return None
    for header in headers:
        match header:
            case h.PingHeader():
                return "ping_data_list"
            case h.GmsHeader():
                return _GMS_PAYLOADS.get(header.type)
            case h.MergeHeader(type=h.MergeType.VIEW_RSP):
                return "opt_view"
            case h.StateHeader(type=h.StateType.STATE_EX):
                return "exception"
            case h.SequencerHeader() if header.type != h.SequencerType.BCAST:
                return "message"
    return None


def interpret(message: m.WireMessage, version: int = DEFAULT_VERSION) -> Json:
    """Return ``{"kind", "value"}`` of a message's payload, None where it means nothing to JGroups."""
    kind = payload_kind(message)
    if kind is None:
        return None
    return {"kind": kind, "value": decode(kind, message.payload, version)}


def interpret_fields(fields: Json, version: int = DEFAULT_VERSION) -> list[Json]:
    """Return ``interpret`` of every message in the fields of a packet, frame or MPING datagram."""
    if "messages" in fields:
        messages = fields["messages"]
    else:
        messages = [fields.get("message", fields)]
    return [interpret(message_in(message), version) for message in messages]


def decode_event(event: Json) -> Json:
    """Return the fields of one event of a recorded conversation; None where no bytes were recorded.

    Frames stand in a conversation with their length (WIRE.md section 16).
    """
    kind, data = event["kind"], bytes.fromhex(event["hex"])
    if not data:
        return None
    if kind == "tcp_graceful_close":
        if data != b"\xff\xff\xff\xfb":
            raise RemoteProtocolError("not a graceful close", 0)
        return {"length": -5}
    if event.get("transport") in ("gossip", "fd_sock2") and kind != "tcp_connect":
        r = Reader(data)
        size = r.i32()
        if size != r.left:
            r.fail(f"a frame of {size} bytes, {r.left} are there", 0)
        return decode(kind, data[4:])
    return decode(kind, data)
