"""One FD_SOCK2, its neighbours, and their messages to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jgroups_py.protocols.failure.fd_sock2 import FD_SOCK2
from jgroups_py.protocols.transport.frames import FrameReader
from jgroups_py.stack.ports import (
    Bound,
    Connect,
    Connected,
    ConnectFailed,
    Received,
    Write,
)
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import UUID, Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    GetPhysical,
    TransportReady,
    ViewChange,
)
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.connection import encode_frame
from jgroups_py.wire.headers import FdHeader, FdType
from jgroups_py.wire.primitives import make_version
from jgroups_py.wire.single import decode_fd_frame, encode_fd_frame

A, B, C, D, E = (make_address(n) for n in range(1, 6))
JAVA = UUID(bytes(15) + b"\x07")
V55 = make_version(5, 5, 6)
VECTORS = Path(__file__).parents[1] / "wire" / "vectors"


def at(port: int) -> IpAddress:
    return IpAddress("127.0.0.1", port)


PHYSICAL: dict[Address, IpAddress] = {
    A: at(5001),
    B: at(5011),
    C: at(5021),
    D: at(5031),
    JAVA: at(5041),
}


def view(*members: Address, number: int = 1) -> View:
    return View(ViewId(members[0], number), members)


def opened(**attributes: Any) -> FakeStack:
    """A's stack; handle 1 listens on 127.0.0.1:5101."""
    stack = FakeStack(FD_SOCK2(**attributes), address=A)
    stack.answers[GetPhysical] = lambda query: PHYSICAL.get(query.member)
    stack.event_up(TransportReady(at(5001)))
    stack.take_outgoing()
    stack.handle(Bound(1, ("127.0.0.1", 5101)))
    stack.take_up_events()
    return stack


def install(stack: FakeStack, *members: Address, number: int = 1) -> None:
    stack.event_down(ViewChange(view(*members, number=number), None))
    stack.take_down_events()


def connects(stack: FakeStack) -> list[Connect]:
    return [out for out in stack.take_outgoing() if isinstance(out, Connect)]


def frame(src: Address, header: FdHeader) -> bytes:
    return encode_frame(encode_fd_frame(src, header))


def answer(member: Address, cluster: str = "test") -> bytes:
    return frame(member, FdHeader(FdType.CONNECT_RSP, cluster=cluster, server=member))


def said(data: bytes) -> list[tuple[Address, FdHeader]]:
    return [decode_fd_frame(f) for f in FrameReader(1000).feed(data) if f is not None]


def writes(stack: FakeStack, handle: int) -> bytes:
    return b"".join(
        out.data for out in stack.take_outgoing() if isinstance(out, Write) and out.handle == handle
    )


def watching(stack: FakeStack, member: Address) -> int:
    """Let the connection to ``member`` succeed; return its handle."""
    (connect,) = connects(stack)
    stack.handle(Connected(connect.handle, ("127.0.0.1", 50000)))
    stack.take_outgoing()
    stack.handle(Received(connect.handle, answer(member)))
    return connect.handle


def refuse_all(stack: FakeStack) -> int:
    """Refuse every attempted connection; return their number."""
    count = 0
    while tried := connects(stack):
        for connect in tried:
            count += 1
            stack.handle(ConnectFailed(connect.handle, True, "refused"))
    return count


def refuse_all_but(stack: FakeStack, count: int) -> int:
    """Refuse ``count`` connections one after the other."""
    for _ in range(count):
        (connect,) = connects(stack)
        stack.handle(ConnectFailed(connect.handle, True, "refused"))
    return count


def said_by(stack: FakeStack, member: Address, header: FdHeader) -> None:
    batch = Batch.of(None, 71, header)
    batch.src = member
    stack.up(batch)
