"""Flow control while members come, leave, and read slowly or not at all: no credit is lost or invented."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jgroups_py.protocols.flow.mfc import MFC
from jgroups_py.protocols.flow.ufc import UFC
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Consumed, FlowBlocked, FlowOpened, ViewChange
from jgroups_py.values.message import Flag
from jgroups_py.values.view import View, ViewId

EVERYBODY = tuple(UUID(make_address(n)) for n in (1, 2, 3, 4))
CREDITS = 100
WHO = st.integers(0, 3)
SIZES = [0, 1, 10, 39, 40, 41, 60, 61, 99, 100, 101, 150]


class Churn(RuleBasedStateMachine):
    """Reliable FIFO links with delays; views change everywhere at once."""

    @initialize()
    def begin(self) -> None:
        self.stacks: dict[Address, FakeStack] = {}
        self.links: dict[tuple[Address, Address], deque[Batch]] = {}
        self.unread: dict[Address, deque[Batch]] = {}
        self.blocked: dict[tuple[Address, str, Address | None], None] = {}
        self.view: View | None = None
        self.number = 0
        self.install(EVERYBODY[:2])

    def install(self, members: tuple[UUID, ...]) -> None:
        """Install a view like the layers below: members that stay have got all messages of the old view."""
        self.settle()
        old = self.view
        self.number += 1
        self.view = View(ViewId(members[0], self.number), members)
        for member in list(self.stacks):
            if member not in members:
                del self.stacks[member], self.unread[member]
                self.blocked = {k: None for k in self.blocked if k[0] != member}
        # A returning member is a new one: unread messages of its former life do not count.
        for member, unread in self.unread.items():
            self.unread[member] = deque(b for b in unread if b.src in self.stacks)
        for member in members:
            known = old
            if member not in self.stacks:
                self.stacks[member] = FakeStack(
                    MFC(max_credits=CREDITS, max_block_time=5.0),
                    UFC(max_credits=CREDITS, max_block_time=5.0),
                    address=member,
                )
                self.unread[member] = deque()
                known = None
            self.stacks[member].event_up(ViewChange(self.view, known))
        self.links = {(a, b): self.links.get((a, b), deque()) for a in members for b in members}
        self.collect()

    def settle(self) -> None:
        while any(self.links.values()):
            for a, b in list(self.links):
                self.transmit(a, b)

    def collect(self) -> None:
        for member, stack in self.stacks.items():
            for batch in stack.take_down():
                for dest in self.stacks if batch.dest is None else [batch.dest]:
                    if (member, dest) in self.links:
                        self.links[member, dest].append(batch)
            self.unread[member] += stack.take_up()
            for event in stack.take_up_events():
                if isinstance(event, FlowBlocked):
                    key = (member, event.source, event.dest)
                    assert key not in self.blocked, "told twice"
                    self.blocked[key] = None
                elif isinstance(event, FlowOpened):
                    del self.blocked[member, event.source, event.dest]

    def transmit(self, a: Address, b: Address) -> None:
        link = self.links.get((a, b))
        if link:
            batch = link.popleft()
            copy = Batch(
                batch.dest, list(batch.payloads), batch.headers, a, batch.flags, 0, batch.type
            )
            self.stacks[b].up(copy)
            self.collect()

    # --- rules

    @rule(
        who=WHO,
        to=st.none() | WHO,
        sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=4),
        exempt=st.sampled_from([False, False, False, True]),
    )
    def send(self, who: int, to: int | None, sizes: list[int], exempt: bool) -> None:
        member = EVERYBODY[who]
        dest = None if to is None else EVERYBODY[to]
        if member not in self.stacks or not (dest is None or dest in self.stacks):
            return
        batch = Batch(dest, [bytes(n) for n in sizes], {}, flags=Flag.NO_FC if exempt else 0)
        self.stacks[member].down(batch)
        self.collect()

    @rule(a=WHO, b=WHO)
    def arrive(self, a: int, b: int) -> None:
        self.transmit(EVERYBODY[a], EVERYBODY[b])

    @rule(who=WHO, count=st.integers(1, 5))
    def read(self, who: int, count: int) -> None:
        unread = self.unread.get(EVERYBODY[who])
        while unread and count:
            batch = unread.popleft()
            count -= 1
            if batch.credits:
                self.stacks[EVERYBODY[who]].event_down(Consumed(batch.credits))
        self.collect()

    @rule(seconds=st.sampled_from([0.1, 2.5, 5.0, 10.0]))
    def wait(self, seconds: float) -> None:
        if seconds > 1:
            self.settle()  # no link is slower; otherwise a late REPLENISH would count as lost
        for stack in self.stacks.values():
            stack.advance(seconds)
        self.collect()

    @precondition(lambda self: len(self.stacks) < 4)
    @rule()
    def join(self) -> None:
        assert self.view is not None
        new = next(m for m in EVERYBODY if m not in self.stacks)
        members = tuple(m for m in EVERYBODY if m in self.stacks or m == new)
        self.install(members)

    @precondition(lambda self: len(self.stacks) > 1)
    @rule(who=WHO)
    def leave(self, who: int) -> None:
        if EVERYBODY[who] in self.stacks:
            self.install(tuple(m for m in EVERYBODY if m in self.stacks and m != EVERYBODY[who]))

    # --- invariants

    @invariant()
    def nobody_has_more_unread_than_the_credits(self) -> None:
        """For each sender and kind of message: max_credits, or one message that is larger."""
        for unread in self.unread.values():
            held: dict[tuple[Address, bool], list[int]] = {}
            for batch in unread:
                for credit in batch.credits:
                    key = (credit.sender, credit.multicast)
                    held.setdefault(key, []).extend(len(p) for p in batch.payloads)
            for lengths in held.values():
                positive = [n for n in lengths if n]
                assert sum(positive) <= CREDITS or len(positive) == 1, positive

    def teardown(self) -> None:
        if not hasattr(self, "stacks"):
            return
        for _ in range(300):
            self.settle()
            for who in range(4):
                self.read(who, 1000)
            self.settle()
            if not any(
                stack.stack.statistics()[name]["queued"]
                for stack in self.stacks.values()
                for name in ("MFC", "UFC")
            ):
                break
            self.wait(5.0)
        for stack in self.stacks.values():
            for name, numbers in stack.stack.statistics().items():
                assert not numbers.get("queued"), (name, "something waits for ever")
                assert not numbers.get("leaks_repaired"), "a credit was lost"
        assert not self.blocked, "nobody said that it goes on"


TestChurn: Any = Churn.TestCase
TestChurn.settings = settings(
    max_examples=40,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
