"""Reading and writing bytes: primitives and addresses. Views, digests and the like: values.py.

A Reader never reads outside its buffer and never allocates for a count that the buffer cannot hold. It raises
RemoteProtocolError with the offset for any mistake in the bytes. A Writer raises LocalProtocolError for a value that
has no encoding.

Source: WIRE.md sections 1-3; JGroups Util, Bits, the addresses' writeTo/readFrom.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeVar

from jgroups_py.errors import LocalProtocolError, RemoteProtocolError
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
from jgroups_py.values.native import mypyc_attr

T = TypeVar("T")
Buffer = bytes | memoryview

MAX_DEPTH: Final = 24
"""The deepest nesting of structures (messages in messages, causes of exceptions)."""

_I16: Final = struct.Struct(">h")
_U16: Final = struct.Struct(">H")
_I32: Final = struct.Struct(">i")
_U32: Final = struct.Struct(">I")
_I64: Final = struct.Struct(">q")
_F32: Final = struct.Struct(">f")
_F64: Final = struct.Struct(">d")


def make_version(major: int, minor: int, micro: int = 0) -> int:
    """Return the 16-bit version number of the wire."""
    if not (0 <= major < 32 and 0 <= minor < 32 and 0 <= micro < 64):
        raise ValueError(f"no such version: {major}.{minor}.{micro}")
    return major << 11 | minor << 6 | micro


def parse_version(text: str) -> int:
    """Return ``"5.5"`` or ``"5.5.6"`` as a number. ValueError: the text is not a version."""
    parts = text.strip().split(".")
    if not 2 <= len(parts) <= 3 or not all(part.isdecimal() for part in parts):
        raise ValueError(f"not a version: {text!r} (5.5 or 5.5.6 would be)")
    return make_version(*[int(part) for part in parts])


def format_version(version: int) -> str:
    return f"{version >> 11}.{version >> 6 & 31}.{version & 63}"


def same_minor(a: int, b: int) -> bool:
    """Return whether members of these versions understand each other. JGroups' rule: major and minor are equal."""
    return a >> 6 == b >> 6


DEFAULT_VERSION: Final = make_version(5, 5, 6)
V5_3_8: Final = make_version(5, 3, 8)
V5_4: Final = make_version(5, 4)
V5_6: Final = make_version(5, 6)


@mypyc_attr(allow_interpreted_subclasses=True)
class Reader:
    """A position in a buffer. ``version`` decides where releases of JGroups differ. ``marks``, when
    it is a list, gets the position of every header read."""

    __slots__ = ("data", "depth", "end", "marks", "pos", "version")

    def __init__(self, data: Buffer, pos: int = 0, version: int = DEFAULT_VERSION) -> None:
        self.data = data
        self.pos = pos
        self.end = len(data)
        self.version = version
        self.depth = 0
        self.marks: list[int] | None = None

    def fail(self, problem: str, offset: int | None = None) -> NoReturn:
        raise RemoteProtocolError(problem, self.pos if offset is None else offset)

    @property
    def left(self) -> int:
        return self.end - self.pos

    def expect_end(self) -> None:
        """Raise RemoteProtocolError if bytes are left over."""
        if self.pos != self.end:
            self.fail(f"{self.end - self.pos} bytes left over")

    def enter(self) -> None:
        """Go one level deeper; ``leave`` goes back."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"nested deeper than {MAX_DEPTH}")

    def leave(self) -> None:
        self.depth -= 1

    # Bytes

    def skip(self, size: int) -> int:
        """Advance over ``size`` bytes and return their start."""
        pos = self.pos
        if size < 0:
            self.fail(f"negative length {size}")
        if size > self.end - pos:
            self.fail(f"{size} bytes wanted, {self.end - pos} left")
        self.pos = pos + size
        return pos

    def take(self, size: int) -> bytes:
        """Return a copy of the next ``size`` bytes."""
        pos = self.skip(size)
        return bytes(self.data[pos : pos + size])

    def view(self, size: int) -> memoryview:
        """Return a read-only view of the next ``size`` bytes."""
        pos = self.skip(size)
        return memoryview(self.data)[pos : pos + size].toreadonly()

    def rest(self) -> memoryview:
        """Return a read-only view of all remaining bytes."""
        return self.view(self.end - self.pos)

    def count(self, count: int, at_least: int, what: str) -> int:
        """Check that ``count`` elements of ``at_least`` bytes each fit into the rest."""
        if count < 0:
            self.fail(f"negative number of {what}: {count}")
        if count * at_least > self.end - self.pos:
            self.fail(f"{count} {what} cannot fit into {self.end - self.pos} bytes")
        return count

    # Numbers

    def u8(self) -> int:
        return self.data[self.skip(1)]

    def i8(self) -> int:
        value = self.data[self.skip(1)]
        return value - 256 if value > 127 else value

    def flag(self) -> bool:
        return self.data[self.skip(1)] != 0

    def i16(self) -> int:
        value: int = _I16.unpack_from(self.data, self.skip(2))[0]
        return value

    def u16(self) -> int:
        value: int = _U16.unpack_from(self.data, self.skip(2))[0]
        return value

    def i32(self) -> int:
        value: int = _I32.unpack_from(self.data, self.skip(4))[0]
        return value

    def u32(self) -> int:
        value: int = _U32.unpack_from(self.data, self.skip(4))[0]
        return value

    def i64(self) -> int:
        value: int = _I64.unpack_from(self.data, self.skip(8))[0]
        return value

    def f32(self) -> float:
        value: float = _F32.unpack_from(self.data, self.skip(4))[0]
        return value

    def f64(self) -> float:
        value: float = _F64.unpack_from(self.data, self.skip(8))[0]
        return value

    def lz64(self) -> int:
        """Read a compressed 64-bit number."""
        size = self.u8()
        if size == 0:
            return 0
        if size > 8:
            self.fail(f"compressed long of {size} bytes", self.pos - 1)
        pos = self.skip(size)
        return int.from_bytes(self.data[pos : pos + size], "little", signed=size == 8)

    def lz32(self) -> int:
        """Read a compressed 32-bit number."""
        size = self.u8()
        if size == 0:
            return 0
        if size > 4:
            self.fail(f"compressed int of {size} bytes", self.pos - 1)
        pos = self.skip(size)
        return int.from_bytes(self.data[pos : pos + size], "little", signed=size == 4)

    def seq(self) -> tuple[int, int]:
        """Read the highest delivered and the highest received seqno."""
        start = self.pos
        sizes = self.u8()
        first, second = sizes >> 4, sizes & 15
        if first > 8 or second > 8:
            self.fail(f"seqno pair of {first} and {second} bytes", start)
        pos = self.skip(first + second)
        delivered = int.from_bytes(self.data[pos : pos + first], "little")
        received = delivered + int.from_bytes(
            self.data[pos + first : pos + first + second], "little"
        )
        if received >> 63:
            self.fail("seqno pair above 63 bits", start)
        return delivered, received

    # Strings

    def mutf(self) -> str:
        """Read Java's modified UTF-8."""
        start = self.pos
        raw = self.take(self.u16())
        if raw.isascii():
            return raw.decode("ascii")
        return self._decode_mutf(raw, start)

    def _decode_mutf(self, raw: bytes, start: int) -> str:
        # Plain UTF-8 refuses C0 80 (U+0000) and surrogates of three bytes each.
        try:
            units = raw.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
            if not raw.isascii() and any(ord(char) > 0xFFFF for char in units):
                self.fail("a string is not modified UTF-8", start)
            text = units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
        except UnicodeError:
            self.fail("a string is not modified UTF-8", start)
        return text

    def ostr(self) -> str | None:
        """Read an optional string."""
        return self.mutf() if self.present() else None

    def present(self) -> bool:
        """Read the byte before something optional: 0 or 1."""
        value = self.u8()
        if value > 1:
            self.fail(f"presence byte {value}, neither 0 nor 1", self.pos - 1)
        return value == 1

    def ustr(self) -> str:
        """Read JGroups' own string form: ASCII with a long length, else modified UTF-8."""
        if not self.flag():
            return self.mutf()
        start = self.pos
        raw = self.take(self.i32())
        if not raw.isascii():
            self.fail("an ASCII string is not ASCII", start)
        return raw.decode("ascii")

    def astr(self) -> str | None:
        """Read a text with one byte per character; length -1 stands for None."""
        size = self.i16()
        return None if size == -1 else self.take(size).decode("latin-1")

    def obytes(self) -> bytes | None:
        """Read an optional byte array."""
        return self.take(self.i32()) if self.present() else None

    def sized(self) -> bytes:
        """Read an i32 length and bytes."""
        return self.take(self.i32())

    # Addresses

    def addr(self) -> Address | None:
        start = self.pos
        flag = self.u8()
        if flag == 2:
            return UUID(self._uuid())
        if flag == 16:
            return self.ip_body()
        if flag == 1:
            return None
        if flag in (4, 8):
            raw, flags, kv = self._extended()
            cls = SiteUUID if flag == 4 else SiteMaster
            return cls(raw, self.ostr(), self.ostr(), flags, kv)
        if flag == 0:
            return self.addr_body(self.i16())
        self.fail(f"address flag {flag:#04x}", start)

    def addr_body(self, magic: int) -> Address:
        """Return the body of the address class with that magic number."""
        start = self.pos
        if magic == 11:
            return UUID(self._uuid())
        if magic == 1:
            return self.ip_body()
        if magic == 19:
            return FlagsUUID(self._uuid(), self.lz32())
        if magic == 12:
            return ExtendedUUID(*self._extended())
        if magic in (13, 14):
            raw, flags, kv = self._extended()
            cls = SiteUUID if magic == 13 else SiteMaster
            return cls(raw, self.ostr(), self.ostr(), flags, kv)
        if magic == 22:
            return MillisAddress(self.i64())
        self.fail(f"no address class has the magic number {magic}", start)

    def known_addr(self, what: str) -> Address:
        """Return an address that may not be null."""
        start = self.pos
        address = self.addr()
        if address is None:
            self.fail(f"{what} is null", start)
        return address

    def _uuid(self) -> bytes:
        raw = self.take(16)
        return raw[8:] + raw[:8]

    def _extended(self) -> tuple[bytes, int, list[tuple[bytes, bytes | None]]]:
        raw = self._uuid()
        flags = self.lz32()
        pairs: list[tuple[bytes, bytes | None]] = []
        for _ in range(self.count(self.u8(), 2, "key/value pairs")):
            key = self.take(self.u8())
            size = self.u8()
            pairs.append((key, self.take(size) if size else None))
        return raw, flags, pairs

    def ip_body(self) -> IpAddress:
        start = self.pos
        size = self.i8()
        if size not in (0, 4, 16):
            self.fail(f"IP address of {size} bytes", start)
        host = str(ipaddress.ip_address(self.take(size))) if size else None
        scope = self.u32() if size == 16 else 0
        return IpAddress(host, self.u16(), scope)

    def addrs(self) -> tuple[Address | None, ...] | None:
        """Read an address list; None where a null list was written."""
        count = self.i16()
        if count == -1:
            return None
        self.count(count, 1, "addresses")
        return tuple([self.addr() for _ in range(count)])

    def members(self) -> tuple[Address, ...]:
        """Return an address list that is not null and has no null in it."""
        count = self.count(self.i16(), 1, "addresses")
        return tuple([self.known_addr("a member") for _ in range(count)])


class Writer:
    """Appends to ``data``. ``version`` as in Reader."""

    __slots__ = ("data", "version")

    def __init__(self, version: int = DEFAULT_VERSION) -> None:
        self.data = bytearray()
        self.version = version

    def done(self) -> bytes:
        return bytes(self.data)

    # Bytes and numbers

    def raw(self, data: Buffer | bytearray) -> None:
        self.data += data

    def _pack(self, layout: struct.Struct, value: Any) -> None:
        try:
            self.data += layout.pack(value)
        except (struct.error, OverflowError) as error:
            raise LocalProtocolError(f"{value!r}: {error}") from None

    def u8(self, value: int) -> None:
        if not 0 <= value <= 255:
            raise LocalProtocolError(f"{value!r} is not within 0..255")
        self.data.append(value)

    def i8(self, value: int) -> None:
        if not -128 <= value <= 127:
            raise LocalProtocolError(f"{value!r} is not within -128..127")
        self.data.append(value & 255)

    def flag(self, value: bool) -> None:
        self.data.append(1 if value else 0)

    def i16(self, value: int) -> None:
        if not -0x8000 <= value <= 0x7FFF:
            raise LocalProtocolError(f"{value!r} does not fit into 16 bits")
        self.data += _I16.pack(value)

    def u16(self, value: int) -> None:
        self._pack(_U16, value)

    def i32(self, value: int) -> None:
        self._pack(_I32, value)

    def u32(self, value: int) -> None:
        self._pack(_U32, value)

    def i64(self, value: int) -> None:
        self._pack(_I64, value)

    def f32(self, value: float) -> None:
        self._pack(_F32, value)

    def f64(self, value: float) -> None:
        self._pack(_F64, value)

    def lz64(self, value: int) -> None:
        self.data += lz_bytes(value, 8)

    def lz32(self, value: int) -> None:
        self.data += lz_bytes(value, 4)

    def seq(self, delivered: int, received: int) -> None:
        if not 0 <= delivered <= received < 1 << 63:
            raise LocalProtocolError(f"no seqno pair: {delivered}, {received}")
        if received == 0:
            self.data.append(0)
            return
        delta = received - delivered
        first = max(1, (delivered.bit_length() + 7) >> 3)
        second = max(1, (delta.bit_length() + 7) >> 3)
        self.data.append(first << 4 | second)
        self.data += delivered.to_bytes(first, "little") + delta.to_bytes(second, "little")

    # Strings

    def mutf(self, text: str) -> None:
        if text.isascii() and "\0" not in text:
            raw = text.encode("ascii")
        else:
            raw = _encode_mutf(text)
        if len(raw) > 0xFFFF:
            raise LocalProtocolError(f"a string of {len(raw)} bytes is too long (65535)")
        self.u16(len(raw))
        self.data += raw

    def ostr(self, text: str | None) -> None:
        if text is None:
            self.data.append(0)
        else:
            self.data.append(1)
            self.mutf(text)

    def ustr(self, text: str) -> None:
        self.flag(text.isascii())
        if text.isascii():
            self.sized(text.encode("ascii"))
        else:
            self.mutf(text)

    def astr(self, text: str | None) -> None:
        if text is None:
            self.i16(-1)
            return
        try:
            raw = text.encode("latin-1")
        except UnicodeEncodeError:
            raise LocalProtocolError(f"{text!r} has characters above 255") from None
        self.i16(len(raw))
        self.data += raw

    def obytes(self, data: Buffer | None) -> None:
        if data is None:
            self.data.append(0)
        else:
            self.data.append(1)
            self.sized(data)

    def sized(self, data: Buffer) -> None:
        self.i32(len(data))
        self.data += data

    # Addresses

    def addr(self, address: Address | None) -> None:
        if type(address) is UUID:
            self.data += b"\x02" + address[8:] + address[:8]
        elif address is None:
            self.data.append(1)
        elif isinstance(address, IpAddress):
            self.data.append(16)
            self.ip_body(address)
        elif isinstance(address, SiteUUID):
            self.data.append(8 if isinstance(address, SiteMaster) else 4)
            self.addr_body(address)
        elif isinstance(address, FlagsUUID | MillisAddress):
            self.data.append(0)
            self.i16(address_magic(address))
            self.addr_body(address)
        elif isinstance(address, UUID):
            self.data += b"\x02" + address[8:] + address[:8]
        else:
            raise LocalProtocolError(f"{address!r} has no encoding")

    def addr_body(self, address: Address) -> None:
        """Write the address without flag byte or magic number."""
        if isinstance(address, IpAddress):
            self.ip_body(address)
        elif isinstance(address, MillisAddress):
            self.i64(address.millis)
        elif isinstance(address, UUID):
            self.data += address[8:] + address[:8]
            if isinstance(address, FlagsUUID):
                self.lz32(address.flags)
            if isinstance(address, ExtendedUUID):
                self._pairs(address.kv)
            if isinstance(address, SiteUUID):
                self.ostr(address.site)
                self.ostr(address.name)
        else:
            raise LocalProtocolError(f"{address!r} has no encoding")

    def _pairs(self, pairs: Sequence[tuple[bytes, bytes | None]]) -> None:
        self.u8(len(pairs))
        for key, value in pairs:
            self.u8(len(key))
            self.data += key
            self.u8(len(value or b""))
            self.data += value or b""

    def ip_body(self, address: IpAddress) -> None:
        packed = address.packed_host
        self.u8(len(packed))
        self.data += packed
        if len(packed) == 16:
            self.u32(address.scope)
        self.u16(address.port)

    def addrs(self, addresses: Sequence[Address | None] | None) -> None:
        if addresses is None:
            self.i16(-1)
            return
        self.i16(len(addresses))
        for address in addresses:
            self.addr(address)


def lz_bytes(value: int, width: int) -> bytes:
    """Return ``value`` as a compressed number of at most ``width`` bytes, with its length byte."""
    bits = width * 8
    if not -1 << bits - 1 <= value < 1 << bits - 1:
        raise LocalProtocolError(f"{value!r} does not fit into {bits} bits")
    if value < 0:
        value += 1 << bits
    size = (value.bit_length() + 7) >> 3
    return bytes((size,)) + value.to_bytes(size, "little")


def address_magic(address: Address) -> int:
    """Return the magic number of the address's class."""
    for cls, magic in (
        (SiteMaster, 14),
        (SiteUUID, 13),
        (ExtendedUUID, 12),
        (FlagsUUID, 19),
        (UUID, 11),
        (IpAddress, 1),
        (MillisAddress, 22),
    ):
        if isinstance(address, cls):
            return magic
    raise LocalProtocolError(f"{address!r} has no encoding")


def _encode_mutf(text: str) -> bytes:
    try:
        units = text.encode("utf-16-be")
    except UnicodeEncodeError:
        raise LocalProtocolError(f"{text!r} has half a surrogate pair") from None
    out = bytearray()
    for (unit,) in struct.iter_unpack(">H", units):
        if 0 < unit < 0x80:
            out.append(unit)
        elif unit < 0x800:
            out += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            out += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return bytes(out)


def decode_whole(read: Callable[[Reader], T], data: Buffer, version: int = DEFAULT_VERSION) -> T:
    """Return the value that ``read`` makes of ``data``. Leftover bytes are an error, and so is a payload that is not
    bytes, which a peer may have sent."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise RemoteProtocolError(f"{type(data).__name__} instead of bytes", 0)
    reader = Reader(data, 0, version)
    value = read(reader)
    reader.expect_end()
    return value


def encode_whole(
    write: Callable[[Writer, T], None], value: T, version: int = DEFAULT_VERSION
) -> bytes:
    """Return the bytes that ``write`` makes of ``value``."""
    writer = Writer(version)
    write(writer, value)
    return writer.done()
