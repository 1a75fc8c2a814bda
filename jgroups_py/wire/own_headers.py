"""Headers of users: a frozen dataclass with a magic id of its own goes over the wire, field after field.

The type of a field says how it is written. A member in Java that has the same header uses the methods in brackets:

    int             8 bytes (writeLong); the number of ``sequence`` is compressed (Bits.writeLongCompressed)
    float           8 bytes (writeDouble)
    bool            1 byte (writeBoolean)
    str             at most 65,535 bytes (writeUTF); ``str | None``: Bits.writeString
    bytes           a length of 4 bytes, and the bytes (writeInt, write); ``bytes | None``: Util.writeByteBuffer with a length
    Address | None  Util.writeAddress

Source: ClassConfigurator of JGroups, which leaves magic ids from 1024 on to users; WIRE.md sections 3 and 10.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final, TypeVar, get_type_hints

from jgroups_py.errors import LocalProtocolError
from jgroups_py.values.address import Address
from jgroups_py.values.header import Header
from jgroups_py.wire.header_codec import add_codec, class_of
from jgroups_py.wire.primitives import Reader, Writer

H = TypeVar("H", bound=type[Header])

MAGIC_MIN: Final = 1024
MAGIC_MAX: Final = 32_767

_Read = Callable[[Reader], Any]
_Write = Callable[[Writer, Any], None]
_KINDS: Final[dict[Any, tuple[_Read, _Write]]] = {
    int: (Reader.i64, Writer.i64),
    float: (Reader.f64, Writer.f64),
    bool: (Reader.flag, Writer.flag),
    str: (Reader.mutf, Writer.mutf),
    str | None: (Reader.ostr, Writer.ostr),
    bytes: (Reader.sized, Writer.sized),
    bytes | None: (Reader.obytes, Writer.obytes),
    Address | None: (Reader.addr, Writer.addr),
}
_COMPRESSED: Final[tuple[_Read, _Write]] = (Reader.lz64, Writer.lz64)


def register_header(cls: H) -> H:
    """Let headers of this class go over the wire. A decorator above ``@dataclass``.

    The class derives from ``Header``, is a frozen dataclass, and has a ``magic_id`` from 1024 to 32,767. All members of the group
    need it: a packet with a header that a member does not know is counted and dropped there. Fields: int (8 bytes), float, bool,
    str, bytes, each of the last two also ``| None``, and ``Address | None``. With ``sequence = "number"`` the field of that name is the first
    one, an int from 0 on; message ``i`` of a run has ``number + i``, so a run is one batch also with numbers.

    A class of the same module and name may be registered again, as in a notebook. A value that does not fit its field raises
    ``LocalProtocolError`` where the packet is made, and so ends the member, as every error in a protocol does.

    Raises:
        TypeError: the class is no frozen dataclass of ``Header``, or a field has another type.
        ValueError: its magic id is not free, or ``sequence`` is not the first field.
    """
    name = cls.__name__
    if not (isinstance(cls, type) and issubclass(cls, Header)):
        raise TypeError(f"{name}: a header derives from Header")
    if "__dataclass_fields__" not in vars(cls) or not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise TypeError(f"{name}: a header is a frozen dataclass, with @dataclass(frozen=True)")
    _check_magic(cls)
    hints = get_type_hints(cls)
    codecs: list[tuple[str, _Read, _Write]] = []
    for index, field in enumerate(dataclasses.fields(cls)):
        if hasattr(Header, field.name):
            raise TypeError(f"{name}.{field.name}: Header has a method of this name")
        kind = hints[field.name]
        if kind not in _KINDS:
            raise TypeError(f"{name}.{field.name}: {_text(kind)} is none of {_accepted()}")
        if field.name == cls.sequence and index == 0 and kind is int:
            codecs.append((field.name, *_COMPRESSED))
        else:
            codecs.append((field.name, *_KINDS[kind]))
    if cls.sequence is not None and (not codecs or codecs[0][1] is not Reader.lz64):
        raise ValueError(f"{name}: sequence {cls.sequence!r} must be the first field, and an int")

    def read(r: Reader) -> Header:
        return cls(*[read_field(r) for _, read_field, _ in codecs])

    def write(w: Writer, header: Any) -> None:
        for attribute, _, write_field in codecs:
            value = getattr(header, attribute)
            try:
                write_field(w, value)
            except (AttributeError, TypeError, LocalProtocolError) as error:
                raise LocalProtocolError(f"{name}.{attribute} = {value!r}: {error}") from None

    add_codec(cls, read, write)
    return cls


def _check_magic(cls: type[Header]) -> None:
    magic = getattr(cls, "magic_id", None)
    if type(magic) is not int or not MAGIC_MIN <= magic <= MAGIC_MAX:
        raise ValueError(
            f"{cls.__name__}: magic_id is from {MAGIC_MIN} to {MAGIC_MAX}, not {magic!r}"
        )
    other = class_of(magic)
    if other is not None and _place(other) != _place(cls):
        raise ValueError(f"{cls.__name__}: {'.'.join(_place(other))} has the magic_id {magic}")


def _place(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


def _text(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _accepted() -> str:
    return ", ".join(map(_text, _KINDS))
