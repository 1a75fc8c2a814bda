"""Addresses: who a member is (UUIDs), and where it can be reached (IpAddress).

An address *is* the bytes that identify it: a ``bytes`` subclass, so hashing and comparing run in C.
Two UUIDs are equal when their 128 bits are, whatever the subclass (JGroups' rule); a SiteUUID also
compares its site.

UUIDs made here carry ``TAG`` in their lowest 32 bits. That is how members of ours know each other
without a handshake: extra exchanges that a Java member would not understand go only to those.

Source: WIRE.md section 3; JGroups UUID, FlagsUUID, ExtendedUUID, SiteUUID, SiteMaster, IpAddress.
"""

from __future__ import annotations

import ipaddress
import random as _random_module
from collections.abc import Sequence
from typing import Final, Self

TAG: Final = b"jgpy"
"""Lowest four bytes of every UUID made by this library; the other 96 bits are random."""

_SIGN = 1 << 63


class Address(bytes):
    """Base of all addresses. Compare for identity with ``==``; order UUIDs with ``order_key``."""

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
        """A fresh address, recognisable as ours by ``is_ours``."""
        return cls(random.getrandbits(96).to_bytes(12, "big") + TAG)

    @property
    def is_ours(self) -> bool:
        """True when a member of this library made it (wrong once in 2**32 for a foreign one)."""
        return self[12:16] == TAG

    @property
    def order_key(self) -> tuple[int, int]:
        """Sorts as JGroups sorts: both halves as signed 64-bit numbers, the upper one first."""
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
    """A FlagsUUID with key/value pairs. ``kv``: ordered (key, value or None), bytes both."""

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
        return f"{self.name or super().__str__()}:{self.site}"


class SiteMaster(SiteUUID):
    """Whoever is site master of ``site`` (None: of every site). The UUID is zero."""


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
        """Sorts as JGroups sorts: by Java's hash code of the host, then by the port. Two IPv6 hosts may have one hash
        code; then by their bytes."""
        packed = self.packed_host
        if len(packed) <= 4:
            return (int.from_bytes(packed, "big", signed=True), self.port, packed)
        total = 0
        for start in range(0, 16, 4):
            word = 0
            for byte in packed[start : start + 4]:
                word = (word << 8) + (
                    byte - 256 if byte > 127 else byte
                )  # Java's bytes have a sign
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
