"""The bytes of a TCP connection around packets: the length before a frame, the handshake, the graceful close.

Source: WIRE.md sections 8 and 9; JGroups TcpConnection.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from jgroups_py.values.address import IpAddress
from jgroups_py.wire.primitives import Reader, Writer

_LENGTH: Final = Struct(">i")

COOKIE: Final = b"bela"
GRACEFUL_CLOSE: Final = _LENGTH.pack(-5)
"""This number in the place of a frame's length says that the peer is going to close on purpose (5.5.3 and later)."""
HANDSHAKE_HEAD: Final = 8
"""Bytes at the start of a handshake that tell its size."""


def encode_frame(packet: bytes) -> bytes:
    """Return ``i32`` length and packet."""
    return _LENGTH.pack(len(packet)) + packet


def encode_handshake(version: int, listening: IpAddress) -> bytes:
    """Return the first bytes of the connecting side: its address and its version."""
    body = Writer(version)
    body.ip_body(listening)
    writer = Writer(version)
    writer.raw(COOKIE)
    writer.u16(version)
    writer.u16(len(body.data))
    writer.raw(body.data)
    return writer.done()


def handshake_size(head: bytes) -> int:
    """Return the whole size of the handshake that starts with these HANDSHAKE_HEAD bytes."""
    r = Reader(head)
    _read_handshake_head(r)
    size = r.u16()
    if size not in (3, 7, 23):
        r.fail(f"a handshake with an address of {size} bytes", 6)
    return HANDSHAKE_HEAD + size


def decode_handshake(data: bytes) -> tuple[int, IpAddress]:
    """Return version and listening address of the connecting side. The version is for the caller to
    compare (``same_minor``)."""
    size = handshake_size(data)
    r = Reader(data)
    version = _read_handshake_head(r)
    r.u16()
    address = r.ip_body()
    if r.pos != size:
        r.fail("a handshake whose address has another size than announced", 6)
    r.expect_end()
    return version, address


def _read_handshake_head(r: Reader) -> int:
    cookie = r.take(4)
    if cookie != COOKIE:
        r.fail(f"a handshake with the cookie {cookie.hex()}", 0)
    return r.u16()
