"""The sans-IO parts in simulated clusters: crashes, partitions, random times, without trio.

Checks for every call: each member of the caller's view gives one outcome, and no request runs twice or at a member that
was not called.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from jgroups_py import UUID, View
from jgroups_py.rpc.correlator import Correlator, OutcomeKind, PendingCall
from jgroups_py.rpc.form import Form
from jgroups_py.rpc.java import JavaForm
from jgroups_py.rpc.limits import RpcCounters, RpcLimits
from jgroups_py.rpc.methods import methods_of
from jgroups_py.rpc.ours import Msgpack, OurForm
from jgroups_py.rpc.serving import ID, OutgoingReply, OutgoingValues, ServedCall, Server
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.testing.sim import LinkSettings, Member, World
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.wire.headers import CorrelatorHeader, CorrelatorType

KINDS = {CorrelatorType.RSP: OutcomeKind.VALUE, CorrelatorType.EXC_RSP: OutcomeKind.ERROR}


@dataclass
class Peer:
    """The trio part of rpc.py, here on a simulated member."""

    member: Member
    ran: list[int] = field(default_factory=list)
    calls: list[tuple[int, PendingCall, tuple[UUID, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counters = RpcCounters()
        self.correlator = Correlator(RpcLimits(), self.counters)
        self.form = OurForm(Msgpack())
        forms: dict[int, Form] = {MessageType.BYTES: self.form, MessageType.OBJECT: JavaForm()}
        local = self.member.address
        methods = methods_of({"run": self.run})
        limit = LogLimit(lambda: self.member.world.now)
        self.server = Server(methods, forms, local, self.counters, lambda what, _: None, limit)
        self.member.on_batch = self.on_batch
        self.member.on_view = self.on_view

    def run(self, number: int) -> int:
        self.ran.append(number)
        if number % 5 == 0:
            raise ValueError(number)
        return -number

    def call(self, number: int, dest: UUID | None) -> None:
        view = self.member.view
        if not self.member.alive or view is None or (dest is not None and dest not in view):
            return
        members: Any = view.members if dest is None else (dest,)
        pending = self.correlator.call_many(members) if dest is None else None
        pending = pending or self.correlator.call_one(members[0])
        self.calls.append((number, pending, members))
        self.send(dest, CorrelatorHeader(CorrelatorType.REQ, pending.id), number)

    def send(self, dest: Any, header: CorrelatorHeader, number: int) -> None:
        encoded = self.form.write_request("run", (number,))
        self.member.send_batch(
            Batch(dest, (encoded.payload,), {ID: header}, flags=int(Flag.NO_RELAY))
        )

    def on_view(self, member: Member, view: View) -> None:
        self.correlator.view_changed(view.members)
        self.correlator.check()

    def on_batch(self, member: Member, batch: Batch) -> None:
        header: Any = batch.headers[ID]
        kind = KINDS.get(header.type)
        if kind is not None:
            assert batch.src is not None
            self.correlator.replied(
                batch.src, kind, header.request_id, batch.payloads, batch.type, batch.length
            )
            return
        for one in self.server.serve(batch):
            assert not isinstance(one, ServedCall), "all methods are plain"
            for reply in one.one_by_one() if isinstance(one, OutgoingValues) else (one,):
                self.member.world.at(self.member.world.now, self.answer, reply)

    def answer(self, reply: OutgoingReply) -> None:
        payload = reply.encoded.payload
        if self.member.alive:
            self.member.send_batch(
                Batch(reply.dest, (payload,), {ID: reply.header}, flags=reply.flags)
            )


@pytest.mark.parametrize("seed", range(12))
def test_every_call_has_an_outcome_for_every_member(seed: int) -> None:
    chance = random.Random(seed)
    links = LinkSettings(jitter=0.001, loss=chance.choice([0.0, 0.05]), reorder=0.1)
    world = World(seed, inside=links)
    peers = [Peer(world.start(name, "sim.xml", "calls")) for name in "ABCD"]
    assert world.run_until(lambda: world.views_agree([p.member for p in peers]), limit=60)
    began = world.now
    for number in range(1, 120):
        peer = chance.choice(peers)
        dest = chance.choice([None, chance.choice(peers).member.address])
        world.at(began + chance.uniform(0, 20), peer.call, number, dest)
    victim = chance.choice(peers)
    world.at(began + chance.uniform(5, 15), victim.member.crash)
    world.run(began + 90)
    alive = [p for p in peers if p is not victim]
    for peer in alive:
        assert peer.correlator.pending == 0
        for number, pending, members in peer.calls:
            outcomes = []
            while (outcome := peer.correlator.take(pending)) is not None:
                outcomes.append(outcome)
                ran = next(p for p in peers if p.member.address == outcome.member).ran
                if outcome.kind is OutcomeKind.VALUE:
                    assert peer.form.read_value(outcome.payload) == -number
                elif outcome.kind is OutcomeKind.ERROR:
                    assert number % 5 == 0
                else:
                    assert outcome.kind is OutcomeKind.SUSPECTED
                    assert outcome.member == victim.member.address
                assert ran.count(number) == 1 or outcome.kind is OutcomeKind.SUSPECTED
            assert sorted(o.member for o in outcomes) == sorted(members)
    for peer in peers:
        assert len(peer.ran) == len(set(peer.ran))
    assert sum(len(p.calls) for p in alive) > 50
