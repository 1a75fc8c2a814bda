"""A TCP transport alone on a fake stack, its peers, and bytes of its connections."""

from __future__ import annotations

from typing import Any

from jgroups_py.protocols.transport.frames import FrameReader
from jgroups_py.protocols.transport.tcp import TCP
from jgroups_py.stack.ports import (
    Accepted,
    Bound,
    Received,
    Write,
)
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Connect as ConnectEvent,
)
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.connection import encode_frame, encode_handshake
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import make_version

A, B, C = make_address(1), make_address(2), make_address(3)
HERE = ("127.0.0.1", 7801)
LOWER = IpAddress("127.0.0.1", 7800)
HIGHER = IpAddress("127.0.0.1", 7802)
V55 = make_version(5, 5, 6)


def opened(**attributes: Any) -> tuple[FakeStack, TCP]:
    """Return a stack that listens (handle 1) on 127.0.0.1:7801."""
    tcp = TCP(**attributes)
    stack = FakeStack(tcp, address=A)
    stack.event_down(ConnectEvent("test"))
    stack.take_outgoing()
    stack.handle(Bound(1, HERE))
    stack.take_up_events()
    return stack, tcp


def message(dest: Any, *payloads: bytes, src: Any = None) -> Batch:
    return Batch(dest, payloads, {}, src)


def frame_of(batch: Batch) -> bytes:
    (packet,) = encode_packets([batch], "test", V55)
    return encode_frame(packet)


def view(*members: Any) -> View:
    return View(ViewId(members[0], 1), members)


def written(stack: FakeStack, handle: int) -> bytes:
    return b"".join(
        out.data for out in stack.take_outgoing() if isinstance(out, Write) and out.handle == handle
    )


def frames(data: bytes) -> list[bytes | None]:
    return list(FrameReader(1_000_000).feed(data))


def accept(stack: FakeStack, peer: IpAddress, handle: int = -1) -> None:
    stack.handle(Accepted(1, handle, ("127.0.0.1", 55555)))
    stack.handle(Received(handle, encode_handshake(V55, peer)))


def payloads(batches: list[Batch]) -> list[bytes]:
    return [bytes(p) for b in batches for p in b.payloads]
