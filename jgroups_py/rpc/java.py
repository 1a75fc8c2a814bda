"""The form of calls with Java members: a MethodCall in an object message, as RpcDispatcher sends it.

    request   ObjectWrapperSerializable(MethodCall), flag SERIALIZED
    value     null; ObjectWrapperPrimitive, flag SERIALIZED; or a streamable as it is
    error     ObjectWrapperSerializable(a serialized Throwable), flag SERIALIZED

Python values become Java values: None null, bool Boolean, int Integer or Long (by size), float Double, str
String, bytes byte[]; addresses and views stay as they are. Java's other numbers arrive as int or float, a char as
str, a Java-serialized object as JavaObject, unread. ``Arg`` gives a value another Java type.

Java finds a method by its exact parameter types. Without ``Arg`` they are those of the primitives
(boolean, int or long, double) and String, byte[], org.jgroups.Address. A method named ``#7`` is
called by the number 7 (Java's MethodLookup).

Source: WIRE.md 11.9; JGroups RpcDispatcher, MethodCall, RequestCorrelator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.errors import CallError, JGroupsError, LocalProtocolError, RemoteError
from jgroups_py.rpc.form import TEXT_MAX, Encoded, Unreadable
from jgroups_py.values.address import Address
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.payloads import Streamable, Typed
from jgroups_py.wire import objects as o
from jgroups_py.wire.java_stream import read_throwable, write_class, write_runtime_exception
from jgroups_py.wire.objects import MethodCall, payload_length

ARGS_MAX: Final = 127
"""The most arguments of one call."""

_CODES: Final = {
    "boolean": 1,
    "java.lang.Boolean": 2,
    "byte": 3,
    "java.lang.Byte": 4,
    "char": 5,
    "java.lang.Character": 6,
    "double": 7,
    "java.lang.Double": 8,
    "float": 9,
    "java.lang.Float": 10,
    "int": 11,
    "java.lang.Integer": 12,
    "long": 13,
    "java.lang.Long": 14,
    "short": 15,
    "java.lang.Short": 16,
    "java.lang.String": 17,
    "byte[]": 18,
}


class Arg:
    """A value for a parameter of a Java type: ``Arg(5, "long")``, ``Arg(5, "java.lang.Integer")``,
    ``Arg(None, "java.lang.String")``, ``Arg("x", "java.lang.Object")``. A member of ours gets the value (with the
    default codec). Other types than those of java.lang named above are interfaces and classes that are not
    Serializable."""

    __slots__ = ("type", "value")  # no dataclass: msgspec would write it as a map

    def __init__(self, value: Any, type: str) -> None:
        self.value = value
        self.type = type

    def __repr__(self) -> str:
        return f"Arg({self.value!r}, {self.type!r})"


@dataclass(frozen=True, slots=True)
class JavaObject:
    """An object of a class that only Java knows, in its serialized form."""

    serialized: bytes


class JavaForm:
    """See the module's docstring and form.py."""

    def write_request(self, method: str, args: Sequence[Any]) -> Encoded:
        if len(args) > ARGS_MAX:
            raise LocalProtocolError(f"{len(args)} arguments; Java takes at most {ARGS_MAX}")
        values = tuple([_to_java(arg) for arg in args])
        if method[:1] == "#" and method[1:].isdecimal():
            call = MethodCall(None, None, values, int(method[1:]))
        else:
            types = tuple([_class_of(arg, v) for arg, v in zip(args, values, strict=True)])
            call = MethodCall(method, types, values)
        wrapped = Typed(o.STREAMABLE, Streamable(o.METHOD_CALL, call))
        return _encoded(Streamable(o.SERIALIZABLE_WRAPPER, wrapped), Flag.SERIALIZED)

    def read_request(self, payload: Any) -> tuple[str, Sequence[Any]]:
        call = _unwrapped(payload)
        if not isinstance(call, MethodCall):
            raise Unreadable(f"a {type(call).__name__} is no method call")
        name = call.name if call.method_id is None else f"#{call.method_id}"
        if not name:
            raise Unreadable("a method without a name")
        return name, [_from_java(typed) for typed in call.args]

    def write_value(self, value: Any) -> Encoded:
        if value is None:
            return _encoded(None, 0)
        typed = _to_java(value)
        if typed.code == o.STREAMABLE:
            return _encoded(typed.value, 0)
        return _encoded(Streamable(o.PRIMITIVE_WRAPPER, typed), Flag.SERIALIZED)

    def read_value(self, payload: Any) -> Any:
        return _unwrapped(payload)

    def write_error(self, type: str, text: str, *, refused: bool) -> Encoded:
        said = (f"{type}: {text}" if text else type)[:TEXT_MAX]
        error = Typed(o.SERIALIZED, write_runtime_exception(said))
        return _encoded(Streamable(o.SERIALIZABLE_WRAPPER, error), Flag.SERIALIZED)

    def read_error(self, payload: Any, member: Address) -> CallError:
        value = _unwrapped(payload)
        found = read_throwable(value.serialized) if isinstance(value, JavaObject) else None
        if found is None:
            raise Unreadable("an error that is no exception")
        return RemoteError(found[0], found[1][:TEXT_MAX], member)


def _encoded(payload: Streamable | None, flags: int) -> Encoded:
    try:
        size = payload_length(MessageType.OBJECT, payload)
    except JGroupsError:
        raise
    except Exception as error:  # a number out of its range, a str that is no text
        raise LocalProtocolError(f"no Java value: {error}") from error
    return Encoded(payload, size, flags, MessageType.OBJECT)


def _unwrapped(payload: Any) -> Any:
    """Return the Python value of an object message's payload."""
    if payload is None:
        return None
    if not isinstance(payload, Streamable):
        raise Unreadable("no object")
    if payload.magic in (o.PRIMITIVE_WRAPPER, o.SERIALIZABLE_WRAPPER):
        return None if payload.value is None else _from_java(payload.value)
    return payload.value


def _from_java(typed: Typed) -> Any:
    code, value = typed.code, typed.value
    if code in (o.CHAR, o.CHAR - 1):
        return chr(value)
    if code == o.STREAMABLE:
        return None if value is None else value.value
    if code == o.SERIALIZED:
        return JavaObject(bytes(value))
    if code == o.CLASS:
        return typed
    return value


def _to_java(value: Any) -> Typed:
    """Return the boxed value. Unboxed values are written only where ``Arg`` or ``Typed`` says so."""
    if value is None:
        return Typed(o.NULL, None)
    kind = type(value)
    if kind is bool:
        return Typed(o.BOOL, value)
    if kind is int:
        if -(1 << 31) <= value < 1 << 31:
            return Typed(o.INT, value)
        if -(1 << 63) <= value < 1 << 63:
            return Typed(o.LONG, value)
        raise LocalProtocolError("an int of more than 64 bits is no Java value")
    if kind is float:
        return Typed(o.DOUBLE, value)
    if kind is str:
        return Typed(o.STRING, value)
    if isinstance(value, Arg):
        return _typed(value)
    if isinstance(value, Typed):
        return value
    if isinstance(value, JavaObject):
        return Typed(o.SERIALIZED, value.serialized)
    if not isinstance(value, Address) and isinstance(value, bytes | bytearray | memoryview):
        return Typed(o.BYTES, bytes(value))
    try:
        return Typed(o.STREAMABLE, o.streamable(value))
    except LocalProtocolError:
        raise LocalProtocolError(f"a {kind.__name__} is no Java value: {value!r:.100}") from None


def _typed(arg: Arg) -> Typed:
    code = _CODES.get(arg.type)
    if code is None or arg.value is None:
        return _to_java(arg.value)
    boxed = code + (code & 1) if code < 17 else code
    if boxed == o.CHAR and isinstance(arg.value, str):
        return Typed(boxed, ord(arg.value))
    if boxed == o.BYTES:
        return Typed(boxed, bytes(arg.value))
    return Typed(boxed, arg.value)


_OBJECT: Final = Typed(o.SERIALIZED, write_class("java.lang.Object"))
_ADDRESS: Final = Typed(o.SERIALIZED, write_class("org.jgroups.Address"))


def _class_of(arg: Any, typed: Typed) -> Typed:
    """Return the parameter's type."""
    if isinstance(arg, Arg):
        code = _CODES.get(arg.type)
        if code is not None:
            return Typed(o.CLASS, code)
        return Typed(o.SERIALIZED, write_class(arg.type))
    if isinstance(arg, Typed):
        return Typed(o.CLASS, typed.code) if 0 < typed.code < o.CLASS else _OBJECT
    if isinstance(arg, Address):
        return _ADDRESS
    if 0 < typed.code < o.STRING:
        return Typed(o.CLASS, typed.code - 1)  # the class of the primitive
    return Typed(o.CLASS, typed.code) if typed.code in (o.STRING, o.BYTES) else _OBJECT
