"""One GMS, and the messages of others to it."""

from __future__ import annotations

from typing import Any

from jgroups_py.protocols.membership.gms.protocol import GMS
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import UUID, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Connect,
    FoundMember,
    MembersFound,
    TransportReady,
)
from jgroups_py.values.payloads import JoinRsp
from jgroups_py.values.view import Digest, View, ViewId
from jgroups_py.wire.headers import GmsHeader, GmsType
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import (
    write_join_rsp,
)

A, B, C = make_address(1), make_address(2), make_address(3)
JAVA = UUID(bytes(range(16)))
READY = TransportReady(IpAddress("127.0.0.1", 1))


def found(address: Any, *, server: bool = False, coordinator: bool = False) -> FoundMember:
    return FoundMember(address, None, None, server or coordinator, coordinator)


def message(src: Any, kind: GmsType, payload: bytes | None = None, **fields: Any) -> Batch:
    batch = Batch.of(None, GMS.protocol_id, GmsHeader(kind, **fields), payload=payload)
    batch.src = src
    return batch


def kinds(fake: FakeStack) -> list[tuple[Any, GmsType]]:
    headers = [(b.dest, b.header(GMS.protocol_id, GmsHeader)) for b in fake.take_down()]
    return [(dest, header.type) for dest, header in headers if header is not None]


def joined(*members: Any, me: Any = A, **config: Any) -> FakeStack:
    """Return a member whose view is ``members``, joined at the first of them."""
    fake = FakeStack(GMS(**config), address=me)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    first = members[0]
    if first == me:
        fake.event_up(MembersFound("GMS", ()))
        assert members == (me,)
    else:
        fake.event_up(MembersFound("GMS", (found(first, coordinator=True),)))
        view = View(ViewId(first, 5), members)
        answer = JoinRsp(view, Digest({m: (3, 4) for m in members}))
        fake.up(message(first, GmsType.JOIN_RSP, encode_whole(write_join_rsp, answer)))
    fake.take_down()
    fake.take_up_events()
    fake.take_down_events()
    return fake
