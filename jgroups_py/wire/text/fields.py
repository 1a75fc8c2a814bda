"""Values of the wire as JSON ("fields"), and back.

The form is that of the test vectors: bytes are ``{"b": hex}``, an address is an object with ``t``.
``x_out`` makes JSON, ``x_in`` reads it. A value that is missing, of the wrong type or out of range
raises KeyError, TypeError, ValueError or LocalProtocolError. kinds.py makes one error of these.
Headers are in header_fields.py, messages in messages.py.

Source: WIRE.md section 16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jgroups_py.errors import LocalProtocolError
from jgroups_py.values.address import (
    UUID,
    Address,
    ExtendedUUID,
    FlagsUUID,
    IpAddress,
    MillisAddress,
    SiteMaster,
    SiteUUID,
)
from jgroups_py.values.payloads import (
    JoinRsp,
    MergeId,
    PingData,
    SeqnoList,
    Streamable,
    Typed,
    ViewDigest,
)
from jgroups_py.values.view import DeltaView, Digest, MergeView, View, ViewId
from jgroups_py.wire.objects import (
    MERGE_ID_CLASS,
    MethodCall,
    RemoteException,
    StackElement,
)
from jgroups_py.wire.values import view_digest_flags

Json = Any
MAX_SEQNOS: Final = 1 << 20
"""The widest range of a seqno list that is read from JSON."""


# Scalars


def integer(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"a number was expected, got {value!r}")
    return value


def boolean(value: Json) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"true or false was expected, got {value!r}")
    return value


def text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string was expected, got {value!r}")
    return value


def opt_text(value: Json) -> str | None:
    return None if value is None else text(value)


def items(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise TypeError(f"a list was expected, got {value!r}")
    return value


def bytes_out(data: bytes | memoryview | None) -> Json:
    return None if data is None else {"b": data.hex()}


def opt_bytes_in(value: Json) -> bytes | None:
    return None if value is None else bytes_in(value)


def bytes_in(value: Json) -> bytes:
    if not isinstance(value, dict):
        raise TypeError(f'bytes ({{"b": hex}}) were expected, got {value!r}')
    return bytes.fromhex(value["b"])


# Addresses

_UUID_KINDS: Final[tuple[tuple[str, type[UUID]], ...]] = (
    ("site_master", SiteMaster),
    ("site_uuid", SiteUUID),
    ("ext_uuid", ExtendedUUID),
    ("flags_uuid", FlagsUUID),
    ("uuid", UUID),
)


def address_out(address: Address | None) -> Json:
    if address is None:
        return None
    if isinstance(address, IpAddress):
        return _ip_out(address)
    if isinstance(address, MillisAddress):
        return {"t": "millis", "millis": address.millis}
    kind = next(name for name, cls in _UUID_KINDS if isinstance(address, cls))
    out: dict[str, Json] = {"t": kind, "id": address.hex()}
    if isinstance(address, FlagsUUID):
        out["flags"] = address.flags
    if isinstance(address, ExtendedUUID):
        out["kv"] = [[key.hex(), None if v is None else v.hex()] for key, v in address.kv]
    if isinstance(address, SiteUUID):
        out["site"], out["name"] = address.site, address.name
    return out


def _ip_out(address: IpAddress) -> Json:
    packed = address.packed_host
    if len(packed) == 16:
        host = f"v6:{packed.hex()}"
        return {"t": "ip", "host": host, "port": address.port, "scope": address.scope}
    return {"t": "ip", "host": address.host, "port": address.port}


def address_in(value: Json) -> Address:
    kind = value["t"]
    if kind == "ip":
        return ip_in(value)
    if kind == "millis":
        return MillisAddress(integer(value["millis"]))
    raw = bytes.fromhex(value["id"])
    if kind == "uuid":
        return UUID(raw)
    flags = integer(value["flags"])
    if kind == "flags_uuid":
        return FlagsUUID(raw, flags)
    kv = [(bytes.fromhex(key), None if v is None else bytes.fromhex(v)) for key, v in value["kv"]]
    if kind == "ext_uuid":
        return ExtendedUUID(raw, flags, kv)
    for name, cls in (("site_uuid", SiteUUID), ("site_master", SiteMaster)):
        if kind == name:
            return cls(raw, opt_text(value["site"]), opt_text(value["name"]), flags, kv)
    raise ValueError(f"no kind of address is {kind!r}")


def ip_in(value: Json) -> IpAddress:
    if value["t"] != "ip":
        raise ValueError(f"an IP address was expected, got {value!r}")
    host = value["host"]
    if host is not None and host.startswith("v6:"):
        groups = [host[i : i + 4] for i in range(3, len(host), 4)]
        return IpAddress(":".join(groups), integer(value["port"]), integer(value["scope"]))
    return IpAddress(host, integer(value["port"]))


def opt_address_in(value: Json) -> Address | None:
    return None if value is None else address_in(value)


def addresses_out(addresses: tuple[Address | None, ...] | None) -> Json:
    return None if addresses is None else [address_out(address) for address in addresses]


def addresses_in(value: Json) -> tuple[Address | None, ...]:
    return tuple([opt_address_in(part) for part in items(value)])


def opt_addresses_in(value: Json) -> tuple[Address | None, ...] | None:
    return None if value is None else addresses_in(value)


def members_in(value: Json) -> tuple[Address, ...]:
    return tuple([address_in(part) for part in items(value)])


# Views and digests


def view_id_out(view_id: ViewId) -> Json:
    return {"creator": address_out(view_id.creator), "id": view_id.id}


def view_id_in(value: Json) -> ViewId:
    return ViewId(address_in(value["creator"]), integer(value["id"]))


def view_out(view: View) -> Json:
    out = {"view_id": view_id_out(view.view_id), "members": addresses_out(view.members)}
    if isinstance(view, MergeView):
        out["subgroups"] = [view_out(group) for group in view.subgroups]
    return out


def view_in(value: Json) -> View:
    view_id, members = view_id_in(value["view_id"]), members_in(value["members"])
    if "subgroups" in value:
        groups = tuple([view_in(group) for group in items(value["subgroups"])])
        return MergeView(view_id, members, groups)
    return View(view_id, members)


def delta_view_out(view: DeltaView) -> Json:
    return {
        "view_id": view_id_out(view.view_id),
        "ref_view_id": view_id_out(view.reference),
        "left": addresses_out(view.left),
        "new": addresses_out(view.joined),
    }


def delta_view_in(value: Json) -> DeltaView:
    return DeltaView(
        view_id_in(value["view_id"]),
        view_id_in(value["ref_view_id"]),
        members_in(value["left"]),
        members_in(value["new"]),
    )


def util_view_out(view: View) -> Json:
    return {"merge": isinstance(view, MergeView), "view": view_out(view)}


def util_view_in(value: Json) -> View:
    view = view_in(value["view"])
    if boolean(value["merge"]) != isinstance(view, MergeView):
        raise ValueError("merge does not say what the view is")
    return view


def seqnos_out(seqnos: list[tuple[int, int]]) -> Json:
    return {"seqnos": [list(pair) for pair in seqnos]}


def seqnos_in(value: Json) -> list[tuple[int, int]]:
    return [(integer(low), integer(high)) for low, high in items(value["seqnos"])]


def digest_out(digest: Digest) -> Json:
    return {
        "members": addresses_out(tuple(digest.seqnos)),
        **seqnos_out(list(digest.seqnos.values())),
    }


def digest_in(value: Json) -> Digest:
    return Digest(dict(zip(members_in(value["members"]), seqnos_in(value), strict=True)))


def view_digest_out(value: ViewDigest) -> Json:
    view = value.view
    if view is None:
        kind, out = None, None
    elif isinstance(view, DeltaView):
        kind, out = "delta", delta_view_out(view)
    else:
        kind, out = ("merge" if isinstance(view, MergeView) else "view"), view_out(view)
    digest = None if value.digest is None else digest_out(value.digest)
    return {"flags": view_digest_flags(value), "view_kind": kind, "view": out, "digest": digest}


def view_digest_in(value: Json) -> ViewDigest:
    kind, view = value["view_kind"], value["view"]
    digest = None if value["digest"] is None else digest_in(value["digest"])
    if kind is None:
        return ViewDigest(None, digest)
    if kind == "delta":
        return ViewDigest(delta_view_in(view), digest)
    if kind not in ("view", "merge") or ("subgroups" in view) != (kind == "merge"):
        raise ValueError(f"view_kind {kind!r} does not say what the view is")
    return ViewDigest(view_in(view), digest)


def merge_id_out(merge_id: MergeId) -> Json:
    return {"initiator": address_out(merge_id.initiator), "id": merge_id.id}


def merge_id_in(value: Json) -> MergeId:
    return MergeId(opt_address_in(value["initiator"]), integer(value["id"]))


def join_rsp_out(rsp: JoinRsp | None) -> Json:
    if rsp is None:
        return None
    digest = None if rsp.digest is None else seqnos_out(list(rsp.digest.seqnos.values()))
    view = None if rsp.view is None else view_out(rsp.view)
    return {"view": view, "digest": digest, "fail_reason": rsp.fail_reason}


def join_rsp_in(value: Json) -> JoinRsp | None:
    if value is None:
        return None
    view = None if value["view"] is None else view_in(value["view"])
    digest: Digest | None = None
    if value["digest"] is not None:
        if view is None:
            raise ValueError("a digest without members needs a view")
        digest = Digest(dict(zip(view.members, seqnos_in(value["digest"]), strict=True)))
    return JoinRsp(view, digest, opt_text(value["fail_reason"]))


def ping_data_out(data: PingData) -> Json:
    return {
        "address": address_out(data.address),
        "flags": data.flags,
        "name": data.name,
        "physical": address_out(data.physical),
        "members": addresses_out(data.members),
    }


def ping_data_in(value: Json) -> PingData:
    return PingData(
        opt_address_in(value["address"]),
        integer(value["flags"]),
        opt_text(value["name"]),
        opt_address_in(value["physical"]),
        opt_addresses_in(value["members"]),
    )


def seqno_list_out(seqnos: SeqnoList) -> Json:
    return {"size": seqnos.size, "offset": seqnos.offset, "seqnos": list(seqnos)}


def seqno_list_in(value: Json) -> SeqnoList:
    size, offset = integer(value["size"]), integer(value["offset"])
    if not 0 <= size <= MAX_SEQNOS:
        raise ValueError(f"the size of a seqno list is 0..{MAX_SEQNOS}, not {size}")
    bits = 0
    for seqno in items(value["seqnos"]):
        index = integer(seqno) - offset
        if not 0 <= index < size:
            raise ValueError(f"seqno {seqno} is not within {offset}..{offset + size - 1}")
        bits |= 1 << index
    return SeqnoList(offset, size, bits)


# Objects


def typed_out(typed: Typed) -> Json:
    value = typed.value
    if typed.code == 50:
        value = streamable_out(value)
    elif isinstance(value, bytes):
        value = bytes_out(value)
    return {"code": typed.code, "value": value}


def typed_in(value: Json) -> Typed:
    code, content = integer(value["code"]), value["value"]
    if code == 50:
        return Typed(code, streamable_in(content))
    if code in (18, 51):
        return Typed(code, bytes_in(content))
    if code == 0:
        return Typed(code, None)
    if code in (1, 2):
        return Typed(code, boolean(content))
    if code == 17:
        return Typed(code, text(content))
    if code in (7, 8, 9, 10):
        return Typed(code, float(content))
    return Typed(code, integer(content))


def types_in(value: Json) -> tuple[Typed, ...]:
    return tuple([typed_in(part) for part in items(value)])


def method_call_out(call: MethodCall) -> Json:
    return {
        "use_ids": call.method_id is not None,
        "method_id": call.method_id,
        "name": call.name,
        "types": None if call.types is None else [typed_out(t) for t in call.types],
        "args": [typed_out(t) for t in call.args],
    }


def method_call_in(value: Json) -> MethodCall:
    args = types_in(value["args"])
    if boolean(value["use_ids"]):
        return MethodCall(None, None, args, integer(value["method_id"]))
    return MethodCall(opt_text(value["name"]), types_in(value["types"]), args)


def exception_out(error: RemoteException | None) -> Json:
    if error is None:
        return {"null": True}
    return {
        "null": False,
        "invocation_target": error.invocation_target,
        "class": error.class_name,
        "message": error.message,
        "stack": [
            {"class": e.class_name, "method": e.method, "file": e.file, "line": e.line}
            for e in error.stack
        ],
        "cause": None if error.cause is None else exception_out(error.cause),
    }


def exception_in(value: Json) -> RemoteException | None:
    if boolean(value["null"]):
        return None
    stack = tuple(
        [
            StackElement(
                opt_text(e["class"]), opt_text(e["method"]), opt_text(e["file"]), integer(e["line"])
            )
            for e in items(value["stack"])
        ]
    )
    cause = None if value["cause"] is None else exception_in(value["cause"])
    return RemoteException(
        opt_text(value["class"]),
        opt_text(value["message"]),
        stack,
        cause,
        boolean(value["invocation_target"]),
    )


Converter = tuple[Callable[[Any], Json], Callable[[Json], Any]]


def optional(converter: Converter) -> Converter:
    """Return the same, with null."""
    out, back = converter
    return (
        lambda value: None if value is None else out(value),
        lambda value: None if value is None else back(value),
    )


ADDRESS: Final[Converter] = (address_out, address_in)
DIGEST: Final[Converter] = (digest_out, digest_in)
TYPED: Final[Converter] = (typed_out, typed_in)

_STREAMABLES: Final[dict[int, Converter]] = {
    **{magic: ADDRESS for magic in (1, 11, 12, 13, 14, 19, 22)},
    4: (view_out, view_in),
    5: (view_id_out, view_id_in),
    6: (view_out, view_in),
    7: (ping_data_out, ping_data_in),
    8: (join_rsp_out, join_rsp_in),
    9: DIGEST,
    10: DIGEST,
    15: (seqno_list_out, seqno_list_in),
    16: (lambda token: {"token": token}, lambda value: opt_text(value["token"])),
    17: (lambda data: {"encrypted": bytes_out(data)}, lambda v: opt_bytes_in(v["encrypted"])),
    18: (method_call_out, method_call_in),
    20: optional(TYPED),
    21: TYPED,
}


def streamable_out(value: Streamable | None) -> Json:
    if value is None:
        return None
    if value.magic == -1:
        content = merge_id_out(value.value) if value.class_name == MERGE_ID_CLASS else {}
    else:
        content = _STREAMABLES[value.magic][0](value.value)
    return {"magic": value.magic, "class": value.class_name, "value": content}


def streamable_in(value: Json) -> Streamable | None:
    if value is None:
        return None
    magic, content = integer(value["magic"]), value["value"]
    if magic == -1:
        name = text(value["class"])
        return Streamable(magic, merge_id_in(content) if name == MERGE_ID_CLASS else None, name)
    if magic not in _STREAMABLES:
        raise LocalProtocolError(f"no class has the magic number {magic}")
    return Streamable(magic, _STREAMABLES[magic][1](content))
