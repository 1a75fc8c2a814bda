"""Large messages between members with different credits: unread bytes have a limit, and nothing waits for ever.

Credits and requests get lost, too, as in a merge.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jgroups_py.protocols.flow.mfc import MFC
from jgroups_py.protocols.flow.ufc import UFC
from jgroups_py.protocols.frag2 import FRAG2
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Consumed, ViewChange
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import PROTOCOL_IDS, FcHeader

MEMBERS = (make_address(1), make_address(2))
FLOW_IDS = (PROTOCOL_IDS["MFC"], PROTOCOL_IDS["UFC"])
WHO = st.sampled_from(MEMBERS)
CREDITS = st.sampled_from([1_000, 2_000, 20_000, 400_000, 4_000_000])
PIECES = st.sampled_from([300, 500, 600, 999, 1_000, 1_500, 60_000])
SIZES = [1, 299, 600, 601, 1_001, 1_999, 5_000, 30_000, 600_000]
PIECES_MAX = 60
"""A message of more fragments would take too long here."""
Way = tuple[Address, Address, bool]
"""Sender, receiver, multicast."""


class LargeMessages(RuleBasedStateMachine):
    """Messages arrive in order; credits and requests overtake them, or get lost."""

    @initialize(credits=st.tuples(CREDITS, CREDITS), pieces=st.tuples(PIECES, PIECES))
    def begin(self, credits: tuple[int, int], pieces: tuple[int, int]) -> None:
        self.stacks: dict[Address, FakeStack] = {}
        self.most: dict[Address, int] = {}
        """The bytes that a member may have under way to another one: its credits, or one fragment that is larger."""
        self.piece: dict[Address, int] = {}
        for member, credit, piece in zip(MEMBERS, credits, pieces, strict=True):
            self.piece[member] = piece
            self.most[member] = max(credit, piece)
            self.stacks[member] = FakeStack(
                MFC(max_credits=credit),
                UFC(max_credits=credit),
                FRAG2(frag_size=piece),
                address=member,
            )
        for stack in self.stacks.values():
            stack.event_up(ViewChange(View(ViewId(MEMBERS[0], 1), MEMBERS), None))
        ways = [(a, b) for a in MEMBERS for b in MEMBERS]
        self.messages: dict[tuple[Address, Address], deque[Batch]] = {way: deque() for way in ways}
        self.controls: dict[tuple[Address, Address], deque[Batch]] = {way: deque() for way in ways}
        self.unread: dict[Address, deque[Batch]] = {member: deque() for member in MEMBERS}
        self.held: dict[Way, int] = defaultdict(int)
        """Bytes that arrived and were not read, including those of incomplete messages."""
        self.largest: dict[tuple[Address, bool], int] = defaultdict(int)
        """The largest fragmented message of each sender."""
        self.sent = self.came = 0
        self.losses = 0

    def collect(self) -> None:
        for member, stack in self.stacks.items():
            for batch in stack.take_down():
                for dest in MEMBERS if batch.dest is None else [batch.dest]:
                    control = any(number in batch.headers for number in FLOW_IDS)
                    (self.controls if control else self.messages)[member, dest].append(batch)
            for batch in stack.take_up():
                self.came += 1
                self.unread[member].append(batch)
            stack.take_up_events()

    def transmit(self, queue: deque[Batch], a: Address, b: Address) -> None:
        batch = queue.popleft()
        if queue is self.messages[a, b]:
            self.held[a, b, batch.dest is None] += batch.length
        copy = Batch(batch.dest, batch.payloads, batch.headers, a, batch.flags, 0, batch.type)
        self.stacks[b].up(copy)
        self.collect()

    def settle(self) -> None:
        while any(self.messages.values()) or any(self.controls.values()):
            for links in (self.messages, self.controls):
                for (a, b), queue in links.items():
                    while queue:
                        self.transmit(queue, a, b)

    # --- rules

    @rule(a=WHO, to=st.none() | WHO, size=st.sampled_from(SIZES), count=st.integers(1, 6))
    def send(self, a: Address, to: Address | None, size: int, count: int) -> None:
        size = min(size, PIECES_MAX * self.piece[a])
        if size > self.piece[a]:
            self.largest[a, to is None] = max(self.largest[a, to is None], size)
        for _ in range(count):
            self.sent += len(MEMBERS) if to is None else 1
            self.stacks[a].down(Batch(to, [bytes(size)], {}))
        self.collect()

    @rule(a=WHO, b=WHO, count=st.sampled_from([1, 2, 3, 50]))
    def arrive(self, a: Address, b: Address, count: int) -> None:
        queue = self.messages[a, b]
        for _ in range(min(count, len(queue))):
            self.transmit(queue, a, b)

    @rule(a=WHO, b=WHO, lost=st.sampled_from([False, False, False, True]))
    def control(self, a: Address, b: Address, lost: bool) -> None:
        queue = self.controls[a, b]
        if not queue:
            return
        if lost:
            assert any(type(header) is FcHeader for header in queue[0].headers.values())
            queue.popleft()
            self.losses += 1
        else:
            self.transmit(queue, a, b)

    @rule(b=WHO, count=st.sampled_from([1, 2, 1000]))
    def read(self, b: Address, count: int) -> None:
        unread = self.unread[b]
        for _ in range(min(count, len(unread))):
            batch = unread.popleft()
            for credit in batch.credits:
                self.held[credit.sender, b, credit.multicast] -= credit.amount
            if batch.credits:
                self.stacks[b].event_down(Consumed(batch.credits))
        self.collect()

    @rule(seconds=st.sampled_from([0.05, 0.2, 5.0, 61.0]))
    def wait(self, seconds: float) -> None:
        if seconds > 1:
            self.settle()  # no link is as slow as that; otherwise a late credit counts as lost
        for stack in self.stacks.values():
            stack.advance(seconds)
        self.collect()

    # --- invariants

    @invariant()
    def unread_bytes_are_limited_by_the_credits_and_one_large_message(self) -> None:
        for (a, b, multicast), held in self.held.items():
            most = self.most[a] + self.largest[a, multicast]
            assert 0 <= held <= most, (a, b, multicast, held, most)

    def teardown(self) -> None:
        if not hasattr(self, "stacks"):
            return
        waits = 0
        while self.sent != self.came or any(self.unread.values()):
            self.settle()
            while any(self.unread.values()):
                for member in MEMBERS:
                    self.read(member, 1000)
                self.settle()
            if self.sent != self.came:
                waits += 1
                assert waits < (3 if not self.losses else 100), "it waits for ever"
                self.wait(5.0)
        assert not any(self.held.values()), "all is read"
        for stack in self.stacks.values():
            numbers = stack.stack.statistics()
            assert not numbers["FRAG2"]["incomplete"]
            for name in ("MFC", "UFC"):
                assert not numbers[name]["queued"]
                assert self.losses or not numbers[name]["leaks_repaired"], "nothing was lost"


TestLargeMessages: Any = LargeMessages.TestCase
TestLargeMessages.settings = settings(
    max_examples=30,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
