"""Addresses: a UUID identifies a member, an IpAddress is the place where it can be reached.

An address *is* the bytes that identify it: a subclass of ``bytes``, so hashing and comparing run in C. Two UUIDs are
equal when their 128 bits are equal, whatever the subclass (JGroups' rule). A SiteUUID also compares its site.

UUIDs made here have ``TAG`` in their lowest 32 bits. So members of ours know each other without a handshake, and
exchanges that a Java member would not understand go only to them.

Source: WIRE.md section 3; JGroups UUID, FlagsUUID, ExtendedUUID, SiteUUID, SiteMaster, IpAddress.
"""

from __future__ import annotations

import ipaddress
import random as _random_module
from collections.abc import Sequence
from typing import Final, Self

from jgroups_py.values.shown import shown

TAG: Final = b"jgpy"
"""The lowest four bytes of every UUID made by this library. The other 96 bits are random."""

_SIGN = 1 << 63


class Address(bytes):
    """Base of all addresses. Compare addresses with ``==``; order UUIDs with ``order_key``."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def __str__(self) -> str:
        return self.hex()


class UUID(Address):
    """A member's logical address: 16 bytes, most significant half first."""

    def __new__(cls, raw: bytes) -> Self:
        if len(raw) != 16:
            raise ValueError(f"a UUID has 16 bytes, got {len(raw)}")
        return super().__new__(cls, raw)

    @classmethod
    def make(cls, random: _random_module.Random) -> UUID:
        """Return a new address, for which ``is_ours`` is true."""
        return cls(random.getrandbits(96).to_bytes(12, "big") + TAG)

    @property
    def is_ours(self) -> bool:
        """True when a member of this library made it. (It is wrong for one foreign address in 2**32.)"""
        return self[12:16] == TAG

    @property
    def order_key(self) -> tuple[int, int]:
        """The key that sorts as JGroups does: both halves as signed 64-bit numbers, the upper one first."""
        return (
            int.from_bytes(self[:8], "big", signed=True),
            int.from_bytes(self[8:16], "big", signed=True),
        )

    def __str__(self) -> str:
        h = self.hex()
        return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


class FlagsUUID(UUID):
    """A UUID with a flags word. Equal to any UUID of the same 128 bits."""

    flags: int

    def __new__(cls, raw: bytes, flags: int = 0) -> Self:
        self = super().__new__(cls, raw)
        self.flags = flags
        return self


class ExtendedUUID(FlagsUUID):
    """A FlagsUUID with key/value pairs. ``kv`` has ordered pairs (key, value or None), both bytes."""

    kv: tuple[tuple[bytes, bytes | None], ...]

    def __new__(
        cls,
        raw: bytes,
        flags: int = 0,
        kv: Sequence[tuple[bytes, bytes | None]] = (),
    ) -> Self:
        self = super().__new__(cls, raw, flags)
        self.kv = tuple(kv)
        return self


class SiteUUID(ExtendedUUID):
    """A member of a named site; prints as ``name:SITE``. The site takes part in equality."""

    site: str | None
    name: str | None

    def __new__(
        cls,
        raw: bytes,
        site: str | None,
        name: str | None = None,
        flags: int = 0,
        kv: Sequence[tuple[bytes, bytes | None]] = (),
    ) -> Self:
        self = super().__new__(cls, raw, flags, kv)
        self.site = site
        self.name = name
        return self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SiteUUID):
            return bytes.__eq__(self, other) and self.site == other.site
        return bytes.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return bytes.__hash__(self)

    def __str__(self) -> str:
        return f"{shown(self.name) if self.name else super().__str__()}:{self.site and shown(self.site)}"


class SiteMaster(SiteUUID):
    """The site master of ``site``, whichever member it is; None means of every site. The UUID is zero."""


class IpAddress(Address):
    """A physical address. The bytes are the packed host, the port and, for IPv6, the scope."""

    host: str | None
    port: int
    scope: int

    def __new__(cls, host: str | None, port: int, scope: int = 0) -> Self:
        if not 0 <= port <= 65535:
            raise ValueError(f"port {port} is not within 0..65535")
        packed = b"" if host is None else ipaddress.ip_address(host).packed
        tail = port.to_bytes(2, "big") + (scope.to_bytes(4, "big") if len(packed) == 16 else b"")
        self = super().__new__(cls, packed + tail)
        self.host = host
        self.port = port
        self.scope = scope
        return self

    @property
    def packed_host(self) -> bytes:
        return self[:16] if len(self) > 16 else self[:-2]

    @property
    def order_key(self) -> tuple[int, int, bytes]:
        """The key that sorts as JGroups sorts: Java's hash code of the host, then the port. Two IPv6 hosts may have
        the same hash code; their bytes come last."""
        packed = self.packed_host
        if len(packed) <= 4:
            return (int.from_bytes(packed, "big", signed=True), self.port, packed)
        total = 0
        for start in range(0, 16, 4):
            word = 0
            for byte in packed[start : start + 4]:
                signed = byte - 256 if byte > 127 else byte  # signed, like Java's bytes
                word = (word << 8) + signed
            total += word
        return ((total + (1 << 31)) % (1 << 32) - (1 << 31), self.port, packed)

    def __str__(self) -> str:
        if self.host is None:
            return f"<any>:{self.port}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class MillisAddress(Address):
    """A time in milliseconds used as an address (tests and demos of JGroups only)."""

    millis: int

    def __new__(cls, millis: int) -> Self:
        self = super().__new__(cls, b"millis" + millis.to_bytes(8, "big", signed=True))
        self.millis = millis
        return self


def is_numeric_host(text: str) -> bool:
    """True for an IPv4 or IPv6 address in digits, with or without a scope; no name is one."""
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True
