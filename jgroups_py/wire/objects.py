"""Typed objects: payloads of OBJECT messages, arguments of calls, exceptions, tokens.

The value of an OBJECT message is a ``Streamable`` (class magic and value) or None. ``value`` by
magic: 1, 11-14, 19, 22 an address; 4 View; 5 ViewId; 6 MergeView; 7 PingData; 8 JoinRsp; 9, 10
Digest; 15 SeqnoList; 16 str or None; 17 bytes or None; 18 MethodCall; 20 a Typed in buffer form or
None; 21 a Typed in stream form. Classes without a magic number: MergeId, RegexMembership.

A Java-serialized object (code 51) stays bytes. No object is ever made of its bytes.

Source: WIRE.md sections 4, 5, 6; JGroups Util.objectToStream, objectToByteBuffer,
writeGenericStreamable, MethodCall, Util.exceptionToStream, ObjectWrapper*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.errors import LocalProtocolError
from jgroups_py.values.address import Address
from jgroups_py.values.message import MessageType
from jgroups_py.values.payloads import JoinRsp, MergeId, PingData, SeqnoList, Streamable, Typed
from jgroups_py.values.view import Digest, MergeView, View, ViewId
from jgroups_py.wire import values as s
from jgroups_py.wire.java_stream import read_serialized
from jgroups_py.wire.primitives import Reader, Writer, address_magic, lz_bytes

SEQNO_LIST: Final = 15
METHOD_CALL: Final = 18
SERIALIZABLE_WRAPPER: Final = 20
PRIMITIVE_WRAPPER: Final = 21

NULL, BOOL, BYTE, CHAR, DOUBLE, FLOAT, INT, LONG, SHORT = 0, 2, 4, 6, 8, 10, 12, 14, 16
STRING, BYTES, CLASS, STREAMABLE, SERIALIZED = 17, 18, 19, 50, 51
"""Type codes of boxed values; the unboxed one is lower by one."""


@dataclass(frozen=True, slots=True)
class MethodCall:
    """A remote call: by ``name`` with parameter ``types``, or by ``method_id``."""

    name: str | None
    types: tuple[Typed, ...] | None
    args: tuple[Typed, ...]
    method_id: int | None = None


@dataclass(frozen=True, slots=True)
class StackElement:
    class_name: str | None
    method: str | None
    file: str | None
    line: int


@dataclass(frozen=True, slots=True)
class RemoteException:
    """An exception of a Java member. ``invocation_target``: it was wrapped in an
    InvocationTargetException, which was removed."""

    class_name: str | None
    message: str | None
    stack: tuple[StackElement, ...] = ()
    cause: RemoteException | None = None
    invocation_target: bool = False


def streamable(value: object) -> Streamable:
    """Return ``value`` with the magic number of its class. A Digest becomes a MutableDigest, as STABLE
    sends it. LocalProtocolError: the class has none."""
    if isinstance(value, Address):
        return Streamable(address_magic(value), value)
    for cls, magic in _MAGIC_OF:
        if isinstance(value, cls):
            return Streamable(magic, value)
    if isinstance(value, MergeId):
        return Streamable(-1, value, MERGE_ID_CLASS)
    raise LocalProtocolError(f"{type(value).__name__} has no magic number")


_MAGIC_OF: Final[tuple[tuple[type, int], ...]] = (
    (SeqnoList, SEQNO_LIST),
    (Digest, 10),
    (MergeView, 6),
    (View, 4),
    (ViewId, 5),
    (PingData, 7),
    (JoinRsp, 8),
    (MethodCall, METHOD_CALL),
)


# Objects with a type code


def read_object(r: Reader) -> Typed:
    """Read the stream form."""
    return _read_object(r, stream=True)


def read_buffer_object(r: Reader) -> Typed:
    """Read the buffer form: some types go to the end of the buffer."""
    return _read_object(r, stream=False)


def _read_object(r: Reader, *, stream: bool) -> Typed:
    start = r.pos
    code = r.u8()
    r.enter()
    boxed = code + (code & 1) if 0 < code < 17 else code
    value: Any
    if boxed == NULL:
        value = None
    elif boxed == BOOL:
        value = r.flag()
    elif boxed == BYTE:
        value = r.i8()
    elif boxed == CHAR:
        value = r.u16()
    elif boxed == DOUBLE:
        value = r.f64()
    elif boxed == FLOAT:
        value = r.f32()
    elif boxed == INT:
        value = r.i32() if stream else r.lz32()
    elif boxed == LONG:
        value = r.i64() if stream else r.lz64()
    elif boxed == SHORT:
        value = r.i16()
    elif boxed == STRING:
        value = r.ustr()
    elif boxed == BYTES:
        value = r.sized() if stream else bytes(r.rest())
    elif boxed == CLASS:
        value = r.i8()
    elif boxed == STREAMABLE:
        value = read_streamable(r)
    elif boxed == SERIALIZED:
        value = read_serialized(r) if stream else bytes(r.rest())
    else:
        r.fail(f"type code {code}", start)
    r.leave()
    return Typed(code, value)


def write_object(w: Writer, typed: Typed) -> None:
    """Write the stream form."""
    _write_object(w, typed, stream=True)


def write_buffer_object(w: Writer, typed: Typed) -> None:
    """Write the buffer form."""
    _write_object(w, typed, stream=False)


def _write_object(w: Writer, typed: Typed, *, stream: bool) -> None:
    code, value = typed.code, typed.value
    w.u8(code)
    boxed = code + (code & 1) if 0 < code < 17 else code
    if boxed == NULL:
        pass
    elif boxed == BOOL:
        w.flag(value)
    elif boxed in (BYTE, CLASS):
        w.i8(value)
    elif boxed == CHAR:
        w.u16(value)
    elif boxed == DOUBLE:
        w.f64(value)
    elif boxed == FLOAT:
        w.f32(value)
    elif boxed == INT:
        (w.i32 if stream else w.lz32)(value)
    elif boxed == LONG:
        (w.i64 if stream else w.lz64)(value)
    elif boxed == SHORT:
        w.i16(value)
    elif boxed == STRING:
        w.ustr(value)
    elif boxed == BYTES:
        (w.sized if stream else w.raw)(value)
    elif boxed == STREAMABLE:
        write_streamable(w, value)
    elif boxed == SERIALIZED:
        w.raw(value)
    else:
        raise LocalProtocolError(f"no type has the code {code}")


# Streamables

MERGE_ID_CLASS: Final = "org.jgroups.util.MergeId"
REGEX_MEMBERSHIP_CLASS: Final = "org.jgroups.auth.RegexMembership"


def read_streamable(r: Reader) -> Streamable | None:
    if not r.present():
        return None
    start = r.pos
    magic = r.i16()
    r.enter()
    if magic == -1:
        name = r.mutf()
        if name == MERGE_ID_CLASS:
            result = Streamable(magic, s.read_merge_id(r), name)
        elif name == REGEX_MEMBERSHIP_CLASS:
            result = Streamable(magic, None, name)
        else:
            r.fail(f"an object of the unknown class {name[:100]!r}", start)
    else:
        body = _BODIES.get(magic)
        if body is None:
            r.fail(f"an object with the unknown magic number {magic}", start)
        result = Streamable(magic, body[0](r))
    r.leave()
    return result


def write_streamable(w: Writer, value: Streamable | None) -> None:
    w.flag(value is not None)
    if value is None:
        return
    w.i16(value.magic)
    if value.magic == -1:
        w.mutf(value.class_name or "")
        if value.class_name == MERGE_ID_CLASS:
            s.write_merge_id(w, value.value)
        elif value.class_name != REGEX_MEMBERSHIP_CLASS:
            raise LocalProtocolError(f"the class {value.class_name!r} is unknown")
        return
    body = _BODIES.get(value.magic)
    if body is None:
        raise LocalProtocolError(f"no class has the magic number {value.magic}")
    body[1](w, value.value)


def _read_wrapped(r: Reader) -> Typed | None:
    size = r.i32()
    if size == -1:
        return None
    inner = Reader(r.data, r.skip(size), r.version)
    inner.end = inner.pos + size
    inner.depth = r.depth
    value = read_buffer_object(inner)
    inner.expect_end()
    return value


def _write_wrapped(w: Writer, value: Typed | None) -> None:
    if value is None:
        w.i32(-1)
        return
    inner = Writer(w.version)
    write_buffer_object(inner, value)
    w.sized(inner.done())


def _read_primitive(r: Reader) -> Typed:
    start = r.pos
    value = read_object(r)
    if value.code > CLASS:
        r.fail(f"type code {value.code} where a primitive should be", start)
    return value


def read_method_call(r: Reader) -> MethodCall:
    method_id: int | None = None
    name: str | None = None
    types: tuple[Typed, ...] | None = None
    if r.flag():
        method_id = r.i16()
    else:
        name = r.ostr()
        types = tuple([read_object(r) for _ in range(r.count(r.u8(), 1, "types"))])
    args = tuple([read_object(r) for _ in range(r.count(r.i8(), 1, "arguments"))])
    return MethodCall(name, types, args, method_id)


def write_method_call(w: Writer, call: MethodCall) -> None:
    w.flag(call.method_id is not None)
    if call.method_id is not None:
        w.i16(call.method_id)
    else:
        w.ostr(call.name)
        types = call.types or ()
        w.u8(len(types))
        for typed in types:
            write_object(w, typed)
    w.i8(len(call.args))
    for typed in call.args:
        write_object(w, typed)


def read_exception(r: Reader) -> RemoteException | None:
    if r.present():
        return None
    r.enter()
    target = r.flag()
    class_name, message = r.ostr(), r.ostr()
    stack = tuple(
        [
            StackElement(r.ostr(), r.ostr(), r.ostr(), r.lz32())
            for _ in range(r.count(r.i16(), 4, "stack elements"))
        ]
    )
    cause = read_exception(r) if r.present() else None
    r.leave()
    return RemoteException(class_name, message, stack, cause, target)


def write_exception(w: Writer, error: RemoteException | None) -> None:
    w.flag(error is None)
    if error is None:
        return
    w.flag(error.invocation_target)
    w.ostr(error.class_name)
    w.ostr(error.message)
    w.i16(len(error.stack))
    for element in error.stack:
        w.ostr(element.class_name)
        w.ostr(element.method)
        w.ostr(element.file)
        w.lz32(element.line)
    w.flag(error.cause is not None)
    if error.cause is not None:
        write_exception(w, error.cause)


Body = tuple[Callable[[Reader], Any], Callable[[Writer, Any], None]]


def _address(magic: int) -> Body:
    return (lambda r: r.addr_body(magic)), Writer.addr_body


_BODIES: Final[dict[int, Body]] = {
    **{magic: _address(magic) for magic in (1, 11, 12, 13, 14, 19, 22)},
    4: (s.read_view, s.write_view),
    5: (s.read_view_id, s.write_view_id),
    6: (s.read_merge_view, s.write_merge_view),
    7: (s.read_ping_data, s.write_ping_data),
    8: (s.read_join_rsp_body, s.write_join_rsp_body),
    9: (s.read_digest, s.write_digest),
    10: (s.read_digest, s.write_digest),
    SEQNO_LIST: (s.read_seqno_list, s.write_seqno_list),
    16: (Reader.ostr, Writer.ostr),
    17: (Reader.obytes, Writer.obytes),
    METHOD_CALL: (read_method_call, write_method_call),
    SERIALIZABLE_WRAPPER: (_read_wrapped, _write_wrapped),
    PRIMITIVE_WRAPPER: (_read_primitive, write_object),
}


def payload_length(type: int, payload: Any) -> int:
    """Return the payload's bytes as flow control counts them (WIRE.md section 6)."""
    if payload is None:
        return 1 if type == MessageType.OBJECT else 0
    if type == MessageType.LONG:
        return len(lz_bytes(payload, 8))
    if type == MessageType.OBJECT:
        writer = Writer()
        write_streamable(writer, payload)
        return len(writer.data)
    if type == MessageType.COMPOSITE:
        return sum(part.length for part in payload)
    if type == MessageType.BATCH:
        return sum(part.length for part in payload[1])
    return len(payload)
