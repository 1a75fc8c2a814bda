"""Two UNICAST3 over a network that loses, repeats and reorders packets: every message comes once, in order."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jgroups_py.protocols.reliable.unicast3.protocol import UNICAST3
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import ViewChange
from jgroups_py.values.message import Flag
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import UnicastHeader3

MEMBERS = tuple(make_address(n) for n in (1, 2))
VIEW = View(ViewId(MEMBERS[0], 1), MEMBERS)
TIMES = [0.0, 0.01, 0.02, 0.1, 0.5, 1.0, 2.0]
WHO = st.integers(0, 1)


class Lossy(RuleBasedStateMachine):
    @initialize(threshold=st.sampled_from([1, 3, 100]), request=st.integers(1, 5))
    def begin(self, threshold: int, request: int) -> None:
        self.flying: list[tuple[Address, Batch]] = []
        self.sent: dict[Address, list[bytes]] = defaultdict(list)
        self.oob: dict[Address, list[bytes]] = defaultdict(list)
        self.got: dict[Address, list[bytes]] = defaultdict(list)
        self.stacks: dict[Address, FakeStack] = {}
        self.lossless = False
        for member in MEMBERS:
            protocol = UNICAST3(
                xmit_interval=0.5,
                ack_threshold=threshold,
                max_xmit_req_size=request,
                conn_expiry_timeout=5.0,
                conn_close_timeout=5.0,
                max_cached=3,
            )
            stack = FakeStack(protocol, address=UUID(member))
            stack.event_down(ViewChange(VIEW, None))
            self.stacks[member] = stack

    def collect(self) -> None:
        for stack in self.stacks.values():
            for batch in stack.take_down():
                assert batch.dest is not None
                self.flying.append((batch.dest, batch))
            for batch in stack.take_up():
                assert batch.src is not None
                self.got[batch.src] += [bytes(p) for p in batch.payloads]

    def receive(self, to: Address, batch: Batch) -> None:
        copy = Batch(
            batch.dest, list(batch.payloads), batch.headers, batch.src, batch.flags, 0, batch.type
        )
        self.stacks[to].up(copy)
        self.collect()

    @rule(who=WHO, size=st.integers(1, 5), oob=st.sampled_from([False, False, True]))
    def send(self, who: int, size: int, oob: bool) -> None:
        member = MEMBERS[who]
        start = len(self.sent[member])
        payloads = [b"%d:%d" % (who, n) for n in range(start, start + size)]
        self.sent[member] += payloads
        if oob:
            self.oob[member] += payloads
        batch = Batch(MEMBERS[1 - who], payloads, {}, flags=Flag.OOB if oob else 0)
        self.stacks[member].down(batch)
        self.collect()

    @precondition(lambda self: self.flying)
    @rule(at=st.floats(0, 1, exclude_max=True), fate=st.sampled_from(["", "", "", "lost", "twice"]))
    def deliver(self, at: float, fate: str) -> None:
        index = int(at * len(self.flying))
        header = self.flying[index][1].header(48, UnicastHeader3)
        assert header is not None
        to, batch = self.flying.pop(index)
        if fate == "lost":
            return
        if fate == "twice":
            self.receive(to, batch)
        self.receive(to, batch)

    @rule(seconds=st.sampled_from(TIMES))
    def wait(self, seconds: float) -> None:
        for stack in self.stacks.values():
            stack.advance(seconds)
        self.collect()

    @precondition(lambda self: not self.flying and self.done())
    @rule()
    def expire(self) -> None:
        """Let enough time pass without messages that the connections are closed."""
        for _ in range(60):
            self.wait(0.5)
            while self.flying:
                self.receive(*self.flying.pop(0))
        for stack in self.stacks.values():
            assert stack.protocol.statistics()["connections_out"] == 0

    @invariant()
    def in_order_without_gaps_once(self) -> None:
        for sender in MEMBERS:
            got = self.got[sender]
            regular = [m for m in got if m not in self.oob[sender]]
            expected = [m for m in self.sent[sender] if m not in self.oob[sender]]
            assert regular == expected[: len(regular)]
            assert len(set(got)) == len(got), "delivered twice"

    def done(self) -> bool:
        return all(set(self.got[m]) == set(self.sent[m]) for m in MEMBERS)

    def teardown(self) -> None:
        if not hasattr(self, "stacks"):
            return
        for _ in range(600):
            if self.flying:
                self.receive(*self.flying.pop(0))
            elif self.done():
                break
            else:
                self.wait(0.5)
        assert self.done(), "something never came"
        self.in_order_without_gaps_once()
        for _ in range(20):
            self.wait(0.5)
            while self.flying:
                self.receive(*self.flying.pop(0))
        for stack in self.stacks.values():
            assert stack.protocol.statistics()["unacked"] == 0
            assert not stack.down_batches


TestLossy: Any = Lossy.TestCase
TestLossy.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
