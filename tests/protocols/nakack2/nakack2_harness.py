"""NAKACK2 with a fake above and a fake below, for its tests."""

from __future__ import annotations

from typing import Any

from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    GetDigest,
    SetDigest,
    ViewChange,
)
from jgroups_py.values.message import MessageType
from jgroups_py.values.payloads import SeqnoList, Streamable
from jgroups_py.values.view import Digest, View, ViewId
from jgroups_py.wire.headers import NakAckHeader2, NakAckType

A, B, C, D = (make_address(n) for n in range(1, 5))


JAVA = UUID(bytes(range(16)))


ID = 41


def data(src: Address, first: int, last: int | None = None, flags: int = 0) -> Batch:
    payloads = [b"%d" % n for n in range(first, (last or first) + 1)]
    return Batch(None, payloads, {ID: NakAckHeader2(NakAckType.MSG, first)}, src, flags)


def highest(src: Address, seqno: int) -> Batch:
    return Batch(None, [None], {ID: NakAckHeader2(NakAckType.HIGHEST_SEQNO, seqno)}, src, 5, 0, 2)


def request(asker: Address, sender: Address | None, *seqnos: int) -> Batch:
    header = NakAckHeader2(NakAckType.XMIT_REQ, 0, sender)
    payload = Streamable(15, SeqnoList.of(seqnos))
    batch = Batch.of(A, ID, header, payload=payload, type=MessageType.OBJECT, flags=5)
    batch.src = asker
    return batch


def view_change(number: int, *members: Address, old: View | None = None) -> ViewChange:
    return ViewChange(View(ViewId(members[0], number), members), old)


def digest(**seqnos: int) -> Digest:
    names = {"a": A, "b": B, "c": C, "d": D}
    return Digest({names[name]: (seqno, seqno) for name, seqno in seqnos.items()})


def joined(*members: Address, **config: Any) -> FakeStack:
    stack = FakeStack(NAKACK2(**config), address=A)
    members = members or (A, B, C)
    stack.event_down(SetDigest(Digest({m: (0, 0) for m in members})))
    stack.event_down(view_change(1, *members))
    stack.take_down_events()
    return stack


def got(stack: FakeStack, src: Address = B) -> list[int]:
    return [int(p) for batch in stack.take_up() if batch.src == src for p in batch.payloads]


def sent(stack: FakeStack, kind: NakAckType) -> list[tuple[Address | None, Any]]:
    out: list[tuple[Address | None, Any]] = []
    for batch in stack.take_down():
        header = batch.header(ID, NakAckHeader2)
        if header is not None and header.type == kind:
            if kind == NakAckType.XMIT_REQ:
                out.append((batch.dest, (header.sender, list(batch.payloads[0].value))))
            else:
                seqnos = list(range(header.seqno, header.seqno + len(batch)))
                out.append((batch.dest, seqnos))
    return out


def asked(stack: FakeStack) -> list[tuple[Address | None, Any]]:
    return sent(stack, NakAckType.XMIT_REQ)


def delivered(stack: FakeStack, *members: Address) -> list[int]:
    answer = stack.protocol.answer(GetDigest(members))
    return [answer.delivered(m) for m in members]


def count(stack: FakeStack, name: str) -> float:
    return stack.protocol.statistics()[name]
