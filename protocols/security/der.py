"""DER: reads the few elements of ASN.1 in a PKCS#12 keystore, bounded by the given bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

INTEGER: Final = 0x02
OCTETS: Final = 0x04
OID: Final = 0x06
SEQUENCE: Final = 0x30
SET: Final = 0x31
TEXT_16: Final = 0x1E
"""A text in UTF-16, big-endian (BMPString)."""


class BadDer(Exception):
    """The bytes are no DER of the expected form."""


class DerElement(NamedTuple):
    """One element: its tag and its content."""

    tag: int
    content: bytes

    def children(self) -> list[DerElement]:
        """The elements inside."""
        return list(elements(self.content))

    def child(self, index: int, tag: int | None = None) -> DerElement:
        """Return one element inside, which must have ``tag``."""
        found = self.children()
        if index >= len(found) or (tag is not None and found[index].tag != tag):
            raise BadDer
        return found[index]

    @property
    def number(self) -> int:
        """The value of an INTEGER."""
        return int.from_bytes(self.content, "big", signed=True)

    @property
    def oid(self) -> str:
        """The value of an OBJECT IDENTIFIER, with dots."""
        if self.tag != OID or not self.content:
            raise BadDer
        parts: list[int] = []
        part = 0
        for byte in self.content:
            part = part << 7 | byte & 0x7F
            if not byte & 0x80:
                parts.append(part)
                part = 0
        first = min(parts[0] // 40, 2)
        return ".".join(map(str, (first, parts[0] - 40 * first, *parts[1:])))


def elements(data: bytes) -> Iterator[DerElement]:
    """Yield the elements of ``data``.

    Raises:
        BadDer: the bytes end too early, or a length has a form that DER does not use.
    """
    at = 0
    while at < len(data):
        if at + 2 > len(data):
            raise BadDer
        tag, size = data[at], data[at + 1]
        at += 2
        if size & 0x80:
            count = size & 0x7F
            if not 1 <= count <= 4 or at + count > len(data):
                raise BadDer
            size = int.from_bytes(data[at : at + count], "big")
            at += count
        if at + size > len(data):
            raise BadDer
        yield DerElement(tag, data[at : at + size])
        at += size


def whole(data: bytes) -> DerElement:
    """Return the single element in ``data``."""
    found = list(elements(data))
    if len(found) != 1:
        raise BadDer
    return found[0]
