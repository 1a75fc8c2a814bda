"""Total order: random schedules of deliveries, joins, leaves and crashes; one sequence for all.

The world keeps the promises of the stack: each sender's unicasts and multicasts come in order, and
survivors agree on a coordinator's stream before they install the view without it. Otherwise views
come at any time.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from jgroups_py.cache.total_order import (
    EARLY_MAX,
    KEEP_VIEWS,
    AppliedHere,
    Ordered,
    Propose,
    Said,
    TotalOrder,
)
from jgroups_py.errors import ReplicationError

Applied = tuple[bytes, int]


@dataclass
class View:
    """``first``: (a coordinator that is gone, the number of its stream's items before this view)."""

    number: int
    members: list[bytes]
    first: tuple[bytes, int] | None = None


@dataclass
class Node:
    order: TotalOrder
    history: list[Applied] = field(default_factory=list)
    views: deque[View] = field(default_factory=deque)
    read: dict[bytes, int] = field(default_factory=dict)  # of each coordinator's stream
    finished: int = 0


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.alive: list[bytes] = []
        self.nodes: dict[bytes, Node] = {}
        self.streams: dict[bytes, list[Ordered]] = {}
        self.unicasts: dict[tuple[bytes, bytes], deque[Said]] = {}
        self.number = 0
        self.join()

    def join(self) -> None:
        me = bytes([len(self.nodes) + 1])
        node = self.nodes[me] = Node(TotalOrder(me))
        self.streams[me] = []
        if self.alive:  # the coordinator is asked; its stream holds later items, and they come, too
            provider = self.nodes[self.alive[0]]
            while provider.views:
                self.install(self.alive[0])
            node.order.begin(provider.order.applied)
            node.history, node.read = list(provider.history), dict(provider.read)
        self.alive.append(me)
        self.new_view(None)

    def new_view(self, first: tuple[bytes, int] | None) -> None:
        self.number += 1
        for member in self.alive:
            self.nodes[member].views.append(View(self.number, list(self.alive), first))

    def crash(self) -> None:
        gone = self.rng.choice(self.alive[:2])
        self.alive.remove(gone)
        stream = self.streams[gone]
        furthest = max(self.nodes[m].read.get(gone, 0) for m in self.alive)
        cut = self.rng.randint(furthest, len(stream))
        del stream[cut:]
        self.new_view((gone, cut))

    def install(self, m: bytes) -> None:
        node = self.nodes[m]
        view = node.views.popleft()
        if view.first is not None:
            gone, cut = view.first
            while node.read.get(gone, 0) < cut:
                self.read(gone, m)
        node.order.install(view.number, view.members, ready=True)
        self.flush(m)

    def read(self, sender: bytes, m: bytes) -> None:
        node = self.nodes[m]
        at = node.read.get(sender, 0)
        node.read[sender] = at + 1
        node.order.receive(sender, self.streams[sender][at])
        self.flush(m)

    def deliver(self) -> bool:
        """Deliver one message, any that could come next."""
        possible: list[tuple[bytes, bytes, bool]] = []
        for m in self.alive:
            for sender, stream in self.streams.items():
                if self.nodes[m].read.get(sender, 0) < len(stream) and sender in self.alive:
                    possible.append((sender, m, True))
        for (sender, m), queue in self.unicasts.items():
            if queue and m in self.alive:
                possible.append((sender, m, False))
        if not possible:
            return False
        sender, m, multicast = self.rng.choice(possible)
        if multicast:
            self.read(sender, m)
        else:
            self.nodes[m].order.receive(sender, self.unicasts[(sender, m)].popleft())
            self.flush(m)
        return True

    def flush(self, m: bytes) -> None:
        order = self.nodes[m].order
        while order.to_apply:
            ordered = order.to_apply.pop(0)
            self.nodes[m].history.append((ordered.origin, ordered.number))
            order.applied_now(ordered)
        for to, said in order.to_send:
            if to is None:
                assert isinstance(said, Ordered)
                self.streams[m].append(said)
            else:
                self.unicasts.setdefault((m, to), deque()).append(said)
        order.to_send.clear()
        for number in order.finished:
            for other in order.members:
                if other in self.alive:
                    assert (m, number) in self.nodes[other].history, "finished, but not everywhere"
        self.nodes[m].finished += len(order.finished)
        order.finished.clear()

    def step(self) -> None:
        (kind,) = self.rng.choices(
            ["deliver", "propose", "view", "join", "crash"], [60, 20, 9, 1, 1]
        )
        m = self.rng.choice(self.alive)
        if kind == "deliver":
            self.deliver()
        elif kind == "propose" and self.nodes[m].order.members:
            self.nodes[m].order.propose(b"body")
            self.flush(m)
        elif kind == "view" and self.nodes[m].views:
            self.install(m)
        elif kind == "join" and len(self.alive) < 5:
            self.join()
        elif kind == "crash" and len(self.alive) > 1:
            self.crash()
        self.check()

    def check(self) -> None:
        longest = max((self.nodes[m].history for m in self.alive), key=len)
        for m in self.alive:
            mine = self.nodes[m].history
            assert mine == longest[: len(mine)], "two members apply in different orders"
        assert len(set(longest)) == len(longest), "applied twice"

    def rest(self) -> None:
        while any(self.nodes[m].views for m in self.alive) or self.deliver():
            for m in self.alive:
                if self.nodes[m].views:
                    self.install(m)
        self.check()
        for m in self.alive:
            node = self.nodes[m]
            assert len(node.history) == len(self.nodes[self.alive[0]].history)
            assert node.order.outstanding == 0 and node.finished == node.order._last


def play(seed: int) -> None:
    world = World(seed)
    for _ in range(300):
        world.step()
    world.rest()


@pytest.mark.parametrize("seed", range(60))
def test_all_members_apply_all_proposals_once_in_one_order(seed: int) -> None:
    play(seed)


@pytest.mark.slow
def test_members_order_changes_alike_in_thousands_of_schedules() -> None:
    for seed in range(60, 5000):
        play(seed)


def test_a_proposal_of_an_older_view_is_not_ordered_twice() -> None:
    a, b = b"a", b"b"
    order = TotalOrder(a)
    order.install(1, [a, b], ready=True)
    order.receive(b, Propose(0, 1, b"old"))
    assert not order.to_send
    order.receive(b, Propose(1, 1, b"x"))
    order.receive(b, Propose(1, 1, b"x"))
    order.receive(b, Propose(2, 2, b"early"))
    assert order.to_send == [(None, Ordered(1, b, 1, b"x"))]
    order.to_send.clear()
    order.applied[b] = 1
    order.install(2, [a, b], ready=True)
    assert order.to_send == [(None, Ordered(2, b, 2, b"early"))]


def test_only_the_coordinator_orders() -> None:
    a, b, c = b"a", b"b", b"c"
    order = TotalOrder(c)
    order.install(1, [a, b, c], ready=True)
    order.receive(b, Ordered(1, b, 1, b""))
    order.receive(b, Propose(1, 1, b""))
    assert not order.to_apply and not order.to_send


def test_a_member_that_is_gone_is_not_waited_for_and_not_remembered() -> None:
    a, b = b"a", b"b"
    order = TotalOrder(a)
    order.install(1, [a, b], ready=True)
    order.propose(b"x")
    order.receive(a, Ordered(1, a, 1, b"x"))
    order.applied_now(order.to_apply.pop())
    order.receive(a, Ordered(1, b, 1, b"y"))
    order.applied_now(order.to_apply.pop())
    assert order.finished == []
    order.install(2, [a], ready=True)
    assert order.finished == [1] and order.applied == {a: 1, b: 1}
    for view in range(3, 2 + KEEP_VIEWS):
        assert b in order.applied
        order.install(view, [a], ready=True)
    order.install(2 + KEEP_VIEWS, [a], ready=True)
    assert order.applied == {a: 1}


def test_a_joiner_confirms_to_an_origin_that_does_not_know_it_yet() -> None:
    play(2189)


def test_messages_in_a_state_are_confirmed_to_origins_that_joined_later_than_its_taker() -> None:
    a, b, c = b"a", b"b", b"c"
    order = TotalOrder(b)
    order.begin({c: 4})  # the provider was a view ahead
    order.install(2, [a, b], ready=True)
    assert order.to_send == []
    order.install(3, [a, b, c], ready=True)
    assert order.to_send == [(c, AppliedHere(3, 4))]


def test_a_member_that_never_gets_its_views_is_told_so() -> None:
    a, b = b"a", b"b"
    order = TotalOrder(a)
    order.install(1, [b, a], ready=True)
    for number in range(EARLY_MAX + 1):
        order.receive(b, Ordered(9, b, number, b""))
    with pytest.raises(ReplicationError, match="of views this member does not have"):
        order.receive(b, Ordered(9, b, 0, b""))


def test_orders_of_a_coordinator_on_a_side_that_has_ended_are_void() -> None:
    """The orders were multicast before the merge and arrive after it: their coordinator has adopted the other side's
    tree by then."""
    a, b, c = b"a", b"b", b"c"
    order = TotalOrder(b)
    order.install(5, [b, c], ready=True)
    order.install(7, [a, b, c], ready=True, anew=True)
    order.receive(a, Ordered(6, a, 9, b"of its side"))
    assert not order.to_apply
    order.receive(a, Ordered(7, a, 10, b"of all"))
    assert [ordered.number for ordered in order.to_apply] == [10]
    order.install(8, [a, b], ready=True)
    order.receive(a, Ordered(7, a, 11, b"late, of all"))
    assert [ordered.number for ordered in order.to_apply] == [10, 11]


def test_a_member_without_its_state_applies_and_orders_nothing() -> None:
    a, b = b"a", b"b"
    order = TotalOrder(a)
    order.install(3, [a, b], ready=False)
    order.propose(b"mine")
    order.receive(a, Ordered(3, b, 1, b""))
    assert not order.to_apply and not order.to_send
    order.receive(b, Propose(3, 8, b"y"))
    order.begin({b: 7})
    assert order.to_send == [
        (b, AppliedHere(3, 7)),
        (a, Propose(3, 1, b"mine")),
        (None, Ordered(3, b, 8, b"y")),
    ]
    order.receive(a, Ordered(3, b, 7, b"in the state already"))
    assert not order.to_apply


def test_after_a_merge_a_whole_view_keeps_its_state_and_a_part_only_at_its_first_member() -> None:
    a, b, c = b"a", b"b", b"c"
    orders = {me: TotalOrder(me) for me in (a, b, c)}
    for order in orders.values():
        order.install(5, [a, b, c], ready=True)

    def keep(view: int, *winners: bytes) -> list[bytes]:
        return [me for me, order in orders.items() if order.keeps(view, winners, winners[0])]

    assert keep(5, c, b, a) == [a, b, c]
    assert keep(5, c, b) == [c]
    assert keep(5, a) == [a]
    assert keep(6, b, a, c) == [b]  # they have not had that view
