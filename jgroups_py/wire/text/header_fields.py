"""Headers as JSON ("fields"), and back.

Source: WIRE.md sections 10 and 16: the fields of a header's body in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from jgroups_py.errors import LocalProtocolError
from jgroups_py.values.header import Header
from jgroups_py.wire import headers as h
from jgroups_py.wire.header_codec import HEADER_CLASSES, gms_flags
from jgroups_py.wire.text import fields as f

Json = Any

NUMBER: Final[f.Converter] = (lambda value: value, f.integer)
FLAG: Final[f.Converter] = (lambda value: value, f.boolean)
TEXT: Final[f.Converter] = (lambda value: value, f.opt_text)
BYTES: Final[f.Converter] = (f.bytes_out, f.bytes_in)
ADDRESS: Final[f.Converter] = f.optional(f.ADDRESS)
ADDRESSES: Final[f.Converter] = (f.addresses_out, f.addresses_in)
DIGEST: Final[f.Converter] = f.optional(f.DIGEST)
VIEW_ID: Final[f.Converter] = f.optional((f.view_id_out, f.view_id_in))
TEXTS: Final[f.Converter] = (list, lambda value: tuple([f.opt_text(t) for t in f.items(value)]))


def _enum(cls: type[IntEnum]) -> f.Converter:
    return int, lambda value: cls(f.integer(value))


def headers_out(headers: Sequence[tuple[int, Header]]) -> Json:
    return [header_out(protocol_id, header) for protocol_id, header in headers]


def headers_in(value: Json) -> tuple[tuple[int, Header], ...]:
    return tuple([header_in(part) for part in f.items(value)])


Fields = list[tuple[str, str, f.Converter]]
"""Name in JSON, attribute, converter."""

_CONN: Final = ("conn_id", "conn_id", NUMBER)
_SEQNO: Final = ("seqno", "seqno", NUMBER)
_TIMESTAMP: Final = ("timestamp", "timestamp", NUMBER)
_UNICAST_FIELDS: Final[dict[int, Fields]] = {
    h.UnicastType.DATA: [_SEQNO, _CONN, ("first", "first", FLAG)],
    h.UnicastType.ACK: [_SEQNO, _CONN, _TIMESTAMP],
    h.UnicastType.SEND_FIRST_SEQNO: [_TIMESTAMP],
    h.UnicastType.XMIT_REQ: [],
    h.UnicastType.CLOSE: [_CONN],
}
_DESERIALIZE: Final = ("needs_deserialization", "needs_deserialization", FLAG)
_CORRELATOR: Final[Fields] = [
    ("req_id", "request_id", NUMBER),
    ("corr_id", "correlator_id", NUMBER),
]
_VERIFY: Final[Fields] = [("from", "sender", ADDRESS)]

TYPES: Final[dict[int, type[IntEnum]]] = {
    53: h.PingType,
    55: h.GmsType,
    78: h.NakAckType,
    99: h.NakAckType,
    82: h.UnicastType,
    100: h.UnicastType,
    56: h.StableType,
    93: h.FdType,
    94: h.VerifyType,
    54: h.VerifyType,
    75: h.MergeType,
    59: h.FcType,
    57: h.StateType,
    65: h.StreamingStateType,
    76: h.RsvpType,
    61: h.SequencerType,
    67: h.CorrelatorType,
    68: h.CorrelatorType,
    88: h.EncryptType,
    92: h.DhType,
    80: h.RelayType,
}
"""Enumeration of the field ``type``, for the headers that have one."""

_FIELDS: Final[dict[int, Fields]] = {
    60: [
        ("cluster", "cluster", TEXT),
        ("flag", "flag", NUMBER),
        ("index", "index", f.optional(NUMBER)),
    ],
    53: [("cluster", "cluster", TEXT), ("initial_discovery", "initial_discovery", FLAG)],
    56: [("view_id", "view_id", VIEW_ID)],
    93: [
        ("mbrs", "members", ADDRESSES),
        ("cluster", "cluster", TEXT),
        ("srv", "server", ADDRESS),
    ],
    62: [],
    94: _VERIFY,
    54: _VERIFY,
    75: [
        ("view_id", "view_id", VIEW_ID),
        ("name", "name", TEXT),
        ("physical", "physical", ADDRESS),
    ],
    59: [],
    52: [
        ("id", "id", NUMBER),
        ("frag_id", "index", NUMBER),
        ("num_frags", "count", NUMBER),
        _DESERIALIZE,
        ("original_type", "original_type", NUMBER),
    ],
    91: [
        ("id", "id", NUMBER),
        ("frag_id", "index", NUMBER),
        ("num_frags", "count", NUMBER),
        ("original_length", "original_length", NUMBER),
        ("offset", "offset", NUMBER),
        _DESERIALIZE,
    ],
    57: [("digest", "digest", DIGEST)],
    65: [
        ("digest", "digest", DIGEST),
        ("bind_addr", "bind_address", f.optional((f.address_out, f.ip_in))),
    ],
    76: [("id", "id", NUMBER)],
    61: [_SEQNO, ("flush_ack", "flush_ack", FLAG)],
    67: _CORRELATOR,
    68: [
        *_CORRELATOR,
        ("exclusion", "excluded", (f.addresses_out, f.opt_addresses_in)),
    ],
    66: [("token", "token", (f.streamable_out, f.streamable_in))],
    88: [
        _DESERIALIZE,
        ("version", "version", f.optional(BYTES)),
        ("server", "server", ADDRESS),
        ("iv", "iv", f.optional(BYTES)),
    ],
    58: [("original_size", "original_size", NUMBER), _DESERIALIZE],
    80: [
        ("return_entire_cache", "return_entire_cache", FLAG),
        ("final_dest", "final_dest", ADDRESS),
        ("original_sender", "original_sender", ADDRESS),
        ("sites", "sites", TEXTS),
        ("visited", "visited", TEXTS),
        ("original_hdrs", "original_headers", (headers_out, headers_in)),
        ("original_flags", "original_flags", NUMBER),
    ],
    83: [("stack", "stack_id", TEXT), ("channel", "channel_id", TEXT)],
    96: [],
    101: [
        (
            "info",
            "info",
            (
                lambda pairs: [list(pair) for pair in pairs],
                lambda value: tuple([(f.opt_text(k), f.opt_text(v)) for k, v in f.items(value)]),
            ),
        )
    ],
}
"""Fields after ``type``, by magic id."""


def _fields(magic: int, kind: int) -> Fields:
    """Return the fields a header of that class and type has on the wire."""
    if magic in (78, 99):
        return [("sender", "sender", ADDRESS)] if kind == h.NakAckType.XMIT_REQ else [_SEQNO]
    if magic in (82, 100):
        return _UNICAST_FIELDS[kind]
    if magic == 92:
        names = ["dh_key", "encrypted_secret_key", "secret_key_version"]
        return [(n, n, BYTES) for n in names[: 1 if kind == h.DhType.SECRET_KEY_REQ else 3]]
    return _FIELDS[magic]


def header_out(protocol_id: int, header: Header) -> Json:
    magic = header.magic_id
    if isinstance(header, h.GmsHeader):
        body = _gms_out(header)
    else:
        kind = getattr(header, "type", 0) if magic in TYPES else 0
        body = {"type": int(kind)} if magic in TYPES else {}
        for name, attribute, (out, _) in _fields(magic, kind):
            body[name] = out(getattr(header, attribute))
    return {"prot_id": protocol_id, "magic": magic, "hdr": body}


def header_in(value: Json) -> tuple[int, Header]:
    protocol_id, magic, body = f.integer(value["prot_id"]), f.integer(value["magic"]), value["hdr"]
    cls = HEADER_CLASSES.get(magic)
    if cls is None:
        raise LocalProtocolError(f"no header has the magic id {magic}")
    if cls is h.GmsHeader:
        return protocol_id, _gms_in(body)
    arguments: dict[str, Any] = {}
    kind = 0
    if magic in TYPES:
        arguments["type"] = kind = _enum(TYPES[magic])[1](body["type"])
    for name, attribute, (_, back) in _fields(magic, kind):
        arguments[attribute] = back(body[name])
    return protocol_id, cls(**arguments)


def _gms_out(header: h.GmsHeader) -> dict[str, Json]:
    merge_id = None if header.merge_id is None else f.merge_id_out(header.merge_id)
    return {
        "type": int(header.type),
        "flags": gms_flags(header),
        "mbr": f.address_out(header.member),
        "merge_id": merge_id,
    }


def _gms_in(body: Json) -> h.GmsHeader:
    flags = f.integer(body["flags"])
    merge_id = None if body["merge_id"] is None else f.merge_id_in(body["merge_id"])
    header = h.GmsHeader(
        h.GmsType(f.integer(body["type"])),
        f.opt_address_in(body["mbr"]),
        merge_id,
        bool(flags & 16),
        flags & ~20,
    )
    if gms_flags(header) != flags:
        raise ValueError(f"flags {flags} do not say whether there is a merge id")
    return header
