"""Members with ASYM_ENCRYPT whose packets tests carry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from jgroups_py.protocols.security.asym_encrypt import ASYM_ENCRYPT
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import PrepareView, ViewChange
from jgroups_py.values.message import MessageType
from jgroups_py.values.payloads import JoinRsp, ViewDigest
from jgroups_py.values.view import DeltaView, Digest, View, ViewId
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    GmsHeader,
    GmsType,
    NakAckHeader2,
    NakAckType,
)
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_join_rsp, write_view_digest

A, B, C, D = (make_address(n) for n in range(1, 5))
GMS, ID, NAKACK = (PROTOCOL_IDS[name] for name in ("GMS", "ASYM_ENCRYPT", "NAKACK2"))
CONVERSATION = Path(__file__).parents[1] / "wire/vectors/conversation_udp_asym_encrypt.json"


class Group:
    """Members whose packets a test routes."""

    def __init__(self, *members: UUID, **settings: Any) -> None:
        self.settings = {"change_key_on_leave": True, **settings}
        self.fakes: dict[Address, FakeStack] = {}
        self.view: View | None = None
        for member in members:
            self.add(member)

    def add(self, member: UUID) -> FakeStack:
        fake = FakeStack(ASYM_ENCRYPT(**self.settings), address=member, seed=int.from_bytes(member))
        self.fakes[member] = fake
        return fake

    def __getitem__(self, member: UUID) -> FakeStack:
        return self.fakes[member]

    def protocol(self, member: UUID) -> ASYM_ENCRYPT:
        found = self.fakes[member].protocol
        assert isinstance(found, ASYM_ENCRYPT)
        return found

    def carry(self, source: UUID, *to: UUID) -> None:
        """Deliver the messages of ``source`` to ``to``, or to their own destinations."""
        for batch in wire(self.fakes[source].take_down()):
            reached = (batch.dest,) if batch.dest is not None else tuple(self.fakes)
            for member in reached:
                if member in self.fakes and member != source and (not to or member in to):
                    self.fakes[member].up(batch)

    def found(self, member: UUID) -> None:
        """Let ``member`` make a group of its own."""
        self.view = View(ViewId(member, 0), (member,))
        self[member].event_down(PrepareView(self.view))
        self[member].event_down(ViewChange(self.view, None))

    def join(self, joiner: UUID) -> None:
        """A whole join: request, view, answer."""
        assert self.view is not None
        old, leader = self.view, self.view.coordinator
        assert isinstance(leader, UUID)
        self[joiner].down(join_request(joiner, leader))
        self.carry(joiner, leader)
        (request,) = self[leader].take_up()
        assert request == replace(join_request(joiner, leader), src=joiner)
        self.announce(leader, View(ViewId(leader, old.id + 1), (*old.members, joiner)), joiner)

    def announce(self, leader: UUID, view: View, joiner: UUID | None = None) -> None:
        """``leader`` sends a view, and an answer to a joiner, and all install it."""
        old, self.view = self.view, view
        self[leader].event_down(PrepareView(view))
        self[leader].down(view_message(view, leader))
        self.carry(leader, *[m for m in view.members if m != joiner and isinstance(m, UUID)])
        if joiner is not None:
            self[joiner].take_up()
            self[leader].down(answer(joiner, leader, view))
            self.carry(leader, joiner)
        for member in view.members:
            self.fakes[member].event_down(ViewChange(view, old))

    def key(self, member: UUID) -> bytes:
        current = self.protocol(member)._current
        assert current is not None
        return current.key


def wire(batches: list[Batch]) -> list[Batch]:
    return [b for p in encode_packets(batches, "test") for b in decode_packet(p).batches]


def gms(type: GmsType, dest: Address | None, src: Address, payload: bytes | None = None) -> Batch:
    kind = MessageType.EMPTY if payload is None else MessageType.BYTES
    return replace(Batch.of(dest, GMS, GmsHeader(type), payload=payload, type=kind), src=src)


def join_request(joiner: Address, leader: Address) -> Batch:
    header = GmsHeader(GmsType.JOIN_REQ, joiner)
    return replace(Batch.of(leader, GMS, header, type=MessageType.BYTES), src=joiner)


def view_message(view: View | DeltaView, src: Address, dest: Address | None = None) -> Batch:
    return gms(GmsType.VIEW, dest, src, encode_whole(write_view_digest, ViewDigest(view)))


def answer(joiner: Address, src: Address, view: View | None) -> Batch:
    digest = None if view is None else Digest(dict.fromkeys(view.members, (0, 0)))
    reason = "no" if view is None else None
    payload = encode_whole(write_join_rsp, JoinRsp(view, digest, reason))
    return gms(GmsType.JOIN_RSP, joiner, src, payload)


def data(text: bytes, src: Address, seqno: int = 1) -> Batch:
    return Batch(None, (text,), {NAKACK: NakAckHeader2(NakAckType.MSG, seqno)}, src)


def payloads(fake: FakeStack) -> list[Any]:
    return [None if p is None else bytes(p) for batch in fake.take_up() for p in batch.payloads]


def counters(fake: FakeStack) -> dict[str, int | float]:
    found = fake.protocol.statistics()
    return {k: v for k, v in found.items() if v and k.startswith("turned_away")}


def three(**settings: Any) -> Group:
    """A, B and C in one group; A is coordinator."""
    group = Group(A, B, C, **settings)
    group.found(A)
    group.join(B)
    group.join(C)
    for member in (A, B, C):
        group[member].take_up()
        assert not counters(group[member])
    return group
