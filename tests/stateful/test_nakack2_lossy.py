"""Three NAKACK2 over a network that loses, repeats and reorders packets: every member gets every message once."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Fetch,
    Fetched,
    Freeze,
    GetDigest,
    Release,
    SetDigest,
    Stable,
    Thaw,
    ViewChange,
)
from jgroups_py.values.message import Flag, Transient
from jgroups_py.values.view import Digest, View, ViewId
from jgroups_py.wire.headers import NakAckHeader2

MEMBERS = tuple(make_address(n) for n in (1, 2, 3))
TIMES = [0.0, 0.01, 0.02, 0.1, 0.5, 1.0]
WHO = st.integers(0, 2)


class Lossy(RuleBasedStateMachine):
    @initialize(
        unicast_answers=st.booleans(), window=st.sampled_from([12, 1000]), request=st.integers(1, 5)
    )
    def begin(self, unicast_answers: bool, window: int, request: int) -> None:
        self.view = View(ViewId(MEMBERS[0], 1), MEMBERS)
        self.stacks: dict[Address, FakeStack] = {}
        self.flying: list[tuple[Address, Batch]] = []
        self.sent: dict[Address, list[bytes]] = defaultdict(list)
        self.oob: dict[Address, list[bytes]] = defaultdict(list)
        self.hidden: dict[Address, list[bytes]] = defaultdict(list)
        self.got: dict[tuple[Address, Address], list[bytes]] = defaultdict(list)
        self.alive = list(MEMBERS)
        for member in MEMBERS:
            protocol = NAKACK2(
                xmit_interval=0.5,
                use_mcast_xmit=not unicast_answers,
                max_window=window,
                max_xmit_req_size=request,
            )
            stack = FakeStack(protocol, address=UUID(member))
            stack.event_down(SetDigest(Digest({m: (0, 0) for m in MEMBERS})))
            stack.event_down(ViewChange(self.view, None))
            self.stacks[member] = stack

    # --- the network

    def collect(self) -> None:
        """Put the sent messages on their way; a member's own multicasts come back at once."""
        more = True
        while more:
            more = False
            for member, stack in self.stacks.items():
                for batch in stack.take_down():
                    more = True
                    if batch.dest is None:
                        self.flying += [(to, batch) for to in self.stacks if to != member]
                        if not batch.transient & Transient.DONT_LOOPBACK:
                            stack.up(batch)
                    elif batch.dest in self.stacks:
                        self.flying.append((batch.dest, batch))
        for member, stack in self.stacks.items():
            for batch in stack.take_up():
                assert batch.src is not None
                header = batch.header(41, NakAckHeader2)
                assert header is not None
                first = self.sent[batch.src].index(batch.payloads[0]) + 1
                assert header.seqno == first, "a run with the wrong seqno"
                self.got[member, batch.src] += [bytes(p) for p in batch.payloads]

    def arrive(self, index: int) -> None:
        self.receive(*self.flying.pop(index))

    def receive(self, to: Address, batch: Batch) -> None:
        copy = Batch(
            batch.dest, list(batch.payloads), batch.headers, batch.src, batch.flags, 0, batch.type
        )
        if to in self.stacks:
            self.stacks[to].up(copy)
            self.collect()

    # --- rules

    @rule(who=WHO, size=st.integers(1, 5), kind=st.sampled_from(["", "", "", "oob", "hidden"]))
    def send(self, who: int, size: int, kind: str) -> None:
        member = MEMBERS[who]
        if member not in self.alive:
            return
        start = len(self.sent[member])
        payloads = [b"%d:%d" % (who, n) for n in range(start, start + size)]
        self.sent[member] += payloads
        batch = Batch(None, payloads, {}, flags=Flag.OOB if kind == "oob" else 0)
        if kind == "oob":
            self.oob[member] += payloads
        if kind == "hidden":
            self.hidden[member] += payloads
            batch.transient = Transient.DONT_LOOPBACK
        self.stacks[member].down(batch)
        self.collect()

    @precondition(lambda self: self.flying)
    @rule(at=st.floats(0, 1, exclude_max=True), fate=st.sampled_from(["", "", "", "lost", "twice"]))
    def deliver(self, at: float, fate: str) -> None:
        index = int(at * len(self.flying))
        if fate == "lost":
            self.flying.pop(index)
            return
        if fate == "twice":
            self.receive(*self.flying[index])
        self.arrive(index)

    @rule(seconds=st.sampled_from(TIMES))
    def wait(self, seconds: float) -> None:
        for stack in self.stacks.values():
            stack.advance(seconds)
        self.collect()

    @rule()
    def stabilise(self) -> None:
        digests = [s.protocol.answer(GetDigest(self.view.members)) for s in self.stacks.values()]
        if len(self.stacks) < len(self.view.members):
            return
        stable = Digest(
            {
                m: (min(d.delivered(m) for d in digests), max(d.received(m) for d in digests))
                for m in self.view.members
            }
        )
        for stack in self.stacks.values():
            stack.event_down(Stable(stable))
        self.collect()

    @rule(who=WHO)
    def freeze_and_thaw(self, who: int) -> None:
        """A round that is given up at once."""
        for stack in self.stacks.values():
            if stack.address != MEMBERS[who]:
                stack.event_down(Freeze((MEMBERS[who],)))
                stack.event_down(Thaw((MEMBERS[who],)))
                stack.event_down(Release())
        self.collect()

    @precondition(lambda self: len(self.stacks) == 3)
    @rule(who=WHO)
    def crash(self, who: int) -> None:
        """A member dies; the survivors agree on its messages and install a view without it."""
        gone = MEMBERS[who]
        del self.stacks[gone]
        self.alive.remove(gone)
        for stack in self.stacks.values():
            stack.event_down(Freeze((gone,)))
        goals: dict[Address, tuple[int, Address]] = {}
        for member, stack in self.stacks.items():
            for sender, (delivered, _) in stack.protocol.answer(GetDigest(MEMBERS)).seqnos.items():
                goals[sender] = max(goals.get(sender, (-1, member)), (delivered, member))
        goal = goals[gone][0]
        waiting = []
        for stack in self.stacks.values():
            stack.take_up_events()
            stack.event_down(Fetch(goals))
            waiting.append(stack)
        self.collect()
        for _ in range(400):
            waiting = [s for s in waiting if Fetched() not in s.take_up_events()]
            if not waiting:
                break
            if self.flying:
                self.arrive(0)
            else:
                self.wait(0.5)
        assert not waiting, "the round does not end"
        for stack in self.stacks.values():
            for sender, (delivered, _) in stack.protocol.answer(GetDigest(MEMBERS)).seqnos.items():
                assert delivered == goals[sender][0], "survivors differ in the old view"
        old, self.view = self.view, View(ViewId(self.alive[0], 2), tuple(self.alive))
        for stack in self.stacks.values():
            stack.event_down(ViewChange(self.view, old))
        self.collect()
        for member in self.alive:
            assert self.in_order(member, gone) == self.regular(gone)[: self.count(gone, goal)]

    def count(self, sender: Address, seqno: int) -> int:
        """Return how many of the first ``seqno`` messages are not out of band."""
        return sum(m not in self.oob[sender] for m in self.sent[sender][:seqno])

    def regular(self, sender: Address) -> list[bytes]:
        return [m for m in self.sent[sender] if m not in self.oob[sender]]

    def in_order(self, member: Address, sender: Address) -> list[bytes]:
        return [m for m in self.got[member, sender] if m not in self.oob[sender]]

    # --- invariants

    @invariant()
    def in_order_without_gaps_once(self) -> None:
        for member in MEMBERS:
            for sender in MEMBERS:
                expected = self.regular(sender)
                if member == sender:
                    expected = [m for m in expected if m not in self.hidden[sender]]
                got = self.in_order(member, sender)
                assert got == expected[: len(got)]
                everything = self.got[member, sender]
                assert len(set(everything)) == len(everything), "delivered twice"

    def teardown(self) -> None:
        if not hasattr(self, "stacks"):
            return
        # From here on no packet is lost.
        for _ in range(600):
            if self.flying:
                self.arrive(0)
            else:
                self.wait(0.5)
            if not self.flying and self.done():
                break
        assert self.done(), "something never came"
        self.in_order_without_gaps_once()

    def done(self) -> bool:
        for member in self.alive:
            for sender in self.alive:
                want = set(self.sent[sender])
                if member == sender:
                    want -= set(self.hidden[sender])
                if set(self.got[member, sender]) != want:
                    return False
        return True


TestLossy: Any = Lossy.TestCase
TestLossy.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
