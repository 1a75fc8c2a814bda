"""Finds the end of an object in a Java serialization stream, without making an object of it.

Such an object has no length on the wire. Inside a method call it must be walked through to reach the next value. Nothing is
instantiated, and only its bytes are kept. Of an exception, class and text can be read. An exception with a text, and a
class, can be written.

Source: Java Object Serialization Specification, chapter 6; WIRE.md section 5, code 51.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.wire.primitives import Reader, Writer

MAGIC: Final = 0xACED0005
MAX_NESTING: Final = 64
"""The deepest nesting of objects and classes."""

_NULL, _REFERENCE, _CLASSDESC, _OBJECT, _STRING, _ARRAY, _CLASS = range(0x70, 0x77)
_BLOCK, _END_BLOCK, _RESET, _BLOCK_LONG, _EXCEPTION, _LONG_STRING, _PROXY, _ENUM = range(0x77, 0x7F)
_WRITE_METHOD, _SERIALIZABLE, _EXTERNALIZABLE, _BLOCK_DATA = 1, 2, 4, 8
_SIZES: Final = {
    ord(c): size
    for c, size in {"B": 1, "Z": 1, "C": 2, "S": 2, "I": 4, "F": 4, "J": 8, "D": 8}.items()
}
_FIRST_HANDLE: Final = 0x7E0000


@dataclass(slots=True)
class _Class:
    name: str
    flags: int = 0
    fields: tuple[int, ...] = ()
    """The content of each field."""
    names: tuple[str, ...] = ()
    parent: _Class | None = None


def read_serialized(r: Reader) -> bytes:
    """Return the bytes of one serialized object, from its stream header on."""
    start = r.pos
    if r.u32() != MAGIC:
        r.fail("not a Java serialization stream", start)
    _Walk(r).content()
    return bytes(r.data[start : r.pos])


class _Walk:
    def __init__(self, r: Reader) -> None:
        self.r = r
        self.handles: list[_Class | None] = []
        self.depth = 0

    def content(self) -> int:
        """Walk over one element and return its type code."""
        r = self.r
        self.enter()
        start = r.pos
        code = r.u8()
        if code in (_NULL, _END_BLOCK):
            pass
        elif code == _REFERENCE:
            self.handle()
        elif code in (_CLASSDESC, _PROXY):
            self.class_desc(code)
        elif code == _OBJECT:
            self.object()
        elif code == _STRING:
            self.handles.append(None)
            r.mutf()
        elif code == _LONG_STRING:
            self.handles.append(None)
            r.skip(r.i64())
        elif code == _ARRAY:
            self.array()
        elif code == _CLASS:
            self.read_class()
            self.handles.append(None)
        elif code == _ENUM:
            self.read_class()
            self.handles.append(None)
            self.content()
        elif code == _BLOCK:
            r.skip(r.u8())
        elif code == _BLOCK_LONG:
            r.skip(r.i32())
        else:
            r.fail(f"type code {code:#04x} in a serialized object", start)
        self.depth -= 1
        return code

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.r.fail(f"a serialized object nests deeper than {MAX_NESTING}")

    def handle(self) -> _Class | None:
        start = self.r.pos
        index = self.r.u32() - _FIRST_HANDLE
        if not 0 <= index < len(self.handles):
            self.r.fail("a reference to nothing in a serialized object", start)
        return self.handles[index]

    def read_class(self) -> _Class | None:
        r = self.r
        start = r.pos
        code = r.u8()
        if code == _NULL:
            return None
        if code == _REFERENCE:
            found = self.handle()
            if found is None:
                r.fail("a reference that should be to a class is not", start)
            return found
        if code in (_CLASSDESC, _PROXY):
            return self.class_desc(code)
        r.fail(f"type code {code:#04x} where a class should be", start)

    def class_desc(self, code: int) -> _Class:
        r = self.r
        self.enter()
        if code == _PROXY:
            found = _Class("proxy", _SERIALIZABLE)
            self.handles.append(found)
            for _ in range(r.count(r.i32(), 2, "interfaces")):
                r.mutf()
        else:
            found = _Class(r.mutf())
            r.i64()
            self.handles.append(found)
            found.flags = r.u8()
            fields = [self.field() for _ in range(r.count(r.u16(), 3, "fields"))]
            found.fields = tuple([kind for kind, _ in fields])
            found.names = tuple([name for _, name in fields])
        self.annotations()
        found.parent = self.read_class()
        self.depth -= 1
        return found

    def field(self) -> tuple[int, str]:
        kind, name = self.r.u8(), self.r.mutf()
        if kind in (ord("["), ord("L")):
            self.content()
        elif kind not in _SIZES:
            self.r.fail(f"a field of type {kind:#04x}")
        return kind, name

    def annotations(self) -> None:
        while self.content() != _END_BLOCK:
            pass

    def value(self, kind: int) -> None:
        size = _SIZES.get(kind)
        if size is None:
            self.content()
        else:
            self.r.skip(size)

    def field_value(self, part: _Class, index: int) -> None:
        self.value(part.fields[index])

    def object(self) -> None:
        cls = self.read_class()
        self.begin(cls)
        self.handles.append(None)
        chain: list[_Class] = []
        while cls is not None:
            if len(chain) > MAX_NESTING:
                self.r.fail("a serialized class with too many ancestors")
            chain.append(cls)
            cls = cls.parent
        for part in reversed(chain):
            if part.flags & _SERIALIZABLE:
                for index in range(len(part.fields)):
                    self.field_value(part, index)
                if part.flags & _WRITE_METHOD:
                    self.annotations()
            elif part.flags & _EXTERNALIZABLE:
                if not part.flags & _BLOCK_DATA:
                    self.r.fail(f"{part.name} does not tell where it ends")
                self.annotations()

    def begin(self, cls: _Class | None) -> None:
        """Note that an object of that class begins."""

    def array(self) -> None:
        r = self.r
        cls = self.read_class()
        self.handles.append(None)
        if cls is None or len(cls.name) < 2 or cls.name[0] != "[":
            r.fail("an array whose class is no array class")
        kind = ord(cls.name[1])
        size = _SIZES.get(kind)
        count = r.count(r.i32(), size or 1, "array elements")
        if size is not None:
            self.numbers(kind, count * size)
        else:
            for _ in range(count):
                self.content()

    def numbers(self, kind: int, size: int) -> None:
        """Take the content of an array of numbers of a type: ``size`` bytes."""
        self.r.skip(size)


def write_class(name: str) -> bytes:
    """Return a serialized Class object of an interface or a class that is not Serializable."""
    w = Writer()
    w.u32(MAGIC)
    w.u8(_CLASS)
    w.u8(_CLASSDESC)
    w.mutf(name)
    w.i64(0)
    w.u8(0)
    w.u16(0)
    w.u8(_END_BLOCK)
    w.u8(_NULL)
    return w.done()


# Exceptions

_THROWABLE: Final = "java.lang.Throwable"


def read_throwable(data: bytes) -> tuple[str, str] | None:
    """Return class name and text of a serialized Throwable; None for any other object, and for bytes that are no
    serialized object."""
    r = Reader(data)
    try:
        if r.u32() != MAGIC:
            return None
        walk = _ThrowableWalk(r)
        walk.content()
    except RemoteProtocolError:
        return None
    return (walk.name, walk.text or "") if walk.is_throwable else None


class _ThrowableWalk(_Walk):
    """Remembers the class of the outermost object, and the text in its Throwable part."""

    def __init__(self, r: Reader) -> None:
        super().__init__(r)
        self.name = ""
        self.text: str | None = None
        self.is_throwable = False
        self._level = 0  # objects within objects
        self._strings: dict[int, str] = {}  # by handle
        self._last: str | None = None  # the element read last, if it was a string

    def content(self) -> int:
        r = self.r
        start, handle = r.pos, len(self.handles)
        code = super().content()
        again = Reader(r.data, start + 1)
        self._last = None
        if code == _STRING:
            self._last = self._strings[handle] = again.mutf()
        elif code == _REFERENCE:
            self._last = self._strings.get(again.u32() - _FIRST_HANDLE)
        return code

    def object(self) -> None:
        self._level += 1
        super().object()
        self._level -= 1

    def begin(self, cls: _Class | None) -> None:
        if self._level == 1 and cls is not None:
            self.name = cls.name

    def field_value(self, part: _Class, index: int) -> None:
        super().field_value(part, index)
        if part.name == _THROWABLE and self._level == 1:
            self.is_throwable = True
            if part.names[index] == "detailMessage":
                self.text = self._last


def write_runtime_exception(text: str) -> bytes:
    """Return a serialized java.lang.RuntimeException with that text and no stack; every JVM has the class.

    Source: Java's Serialized Form of Throwable, Exception and RuntimeException."""
    w = Writer()
    w.u32(MAGIC)
    w.u8(_OBJECT)
    for name, number, flags in (
        ("java.lang.RuntimeException", -0x61A0F9B8F5CB7C1B, _SERIALIZABLE),
        ("java.lang.Exception", -0x2F02E0C1E5C4E33C, _SERIALIZABLE),
        (_THROWABLE, -0x2A39CAD8C6884735, _SERIALIZABLE | _WRITE_METHOD),
    ):
        w.u8(_CLASSDESC)
        w.mutf(name)
        w.i64(number)
        w.u8(flags)
        if name == _THROWABLE:
            w.u16(len(_THROWABLE_FIELDS))
            for field, kind in _THROWABLE_FIELDS:
                w.u8(ord(kind[0]))
                w.mutf(field)
                w.u8(_STRING)
                w.mutf(kind)
        else:
            w.u16(0)
        w.u8(_END_BLOCK)
    w.u8(_NULL)  # Throwable has no parent that is serialized
    w.u8(_REFERENCE)  # its cause is itself, which means none
    w.u32(_FIRST_HANDLE + 3 + len(_THROWABLE_FIELDS))
    w.u8(_STRING)
    w.mutf(text)
    w.u8(_NULL)  # the stack trace is empty
    w.u8(_NULL)  # no exception is suppressed
    w.u8(_END_BLOCK)
    return w.done()


_THROWABLE_FIELDS: Final = (
    ("cause", "Ljava/lang/Throwable;"),
    ("detailMessage", "Ljava/lang/String;"),
    ("stackTrace", "[Ljava/lang/StackTraceElement;"),
    ("suppressedExceptions", "Ljava/util/List;"),
)


# Fields of an object


def read_fields(r: Reader) -> dict[str, bytes | str]:
    """Return the fields of one serialized object that hold byte arrays and texts, from its stream header on. Fields of
    its ancestors count, too."""
    start = r.pos
    if r.u32() != MAGIC:
        r.fail("not a Java serialization stream", start)
    walk = _FieldWalk(r)
    walk.content()
    return walk.found


class _FieldWalk(_Walk):
    """Remembers byte arrays and texts of the outermost object."""

    def __init__(self, r: Reader) -> None:
        super().__init__(r)
        self.found: dict[str, bytes | str] = {}
        self._level = 0  # objects within objects
        self._texts: dict[int, bytes | str] = {}  # by handle
        self._last: bytes | str | None = None  # the element read last
        self._array: bytes | None = None  # the array of bytes read last

    def content(self) -> int:
        r = self.r
        start, handle = r.pos, len(self.handles)
        code = super().content()
        self._last = None
        if code == _STRING:
            self._last = self._texts[handle] = Reader(r.data, start + 1).mutf()
        elif code == _REFERENCE:
            self._last = self._texts.get(Reader(r.data, start + 1).u32() - _FIRST_HANDLE)
        elif code == _ARRAY:
            self._last = self._array
        return code

    def numbers(self, kind: int, size: int) -> None:
        start = self.r.pos
        super().numbers(kind, size)
        self._array = bytes(self.r.data[start : self.r.pos]) if kind == ord("B") else None

    def object(self) -> None:
        self._level += 1
        super().object()
        self._level -= 1

    def field_value(self, part: _Class, index: int) -> None:
        super().field_value(part, index)
        if self._level == 1 and self._last is not None:
            self.found[part.names[index]] = self._last
            self._last = None
