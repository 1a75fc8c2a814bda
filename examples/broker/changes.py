"""A method's changes of a queue, step by step, so that they can be undone (P13).

A queue changes its state through these steps only. A backup keeps the steps of a change until it is confirmed; that is less than a copy of the queue.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

from examples.broker.bodies import Bodies
from examples.broker.message import Message, Subscription


@dataclass
class Contents:
    """The state of a queue."""

    bodies: Bodies = field(default_factory=Bodies)
    waiting: set[int] = field(default_factory=set)
    """Numbers of the waiting messages."""
    order: list[int] = field(default_factory=list)
    """A heap of waiting numbers; it may hold some that do not wait any more."""
    again: set[int] = field(default_factory=set)
    """Numbers that a subscription had and gave back."""
    expiring: dict[int, float] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    """The subscriptions in the order in which they get the next message."""
    next: int = 1
    born: int = 0
    """The time of the first message, in milliseconds since 1970. The number starts at 1 again in a queue that
    was removed and made again."""

    def first(self) -> int | None:
        """Return the oldest message that waits."""
        while self.order:
            if self.order[0] in self.waiting:
                return self.order[0]
            heapq.heappop(self.order)
        return None

    def is_expired(self, number: int, now: float) -> bool:
        return self.expiring.get(number, now) < now


class Step:
    """One change of the contents."""

    def do(self, of: Contents) -> None:
        raise NotImplementedError

    def undo(self, of: Contents) -> None:
        raise NotImplementedError


@dataclass
class Add(Step):
    """A message comes, with the next number. It waits."""

    message: Message
    now: float

    def do(self, of: Contents) -> None:
        if of.next == 1:
            of.born = int(self.now * 1000)
        number = of.next
        of.next += 1
        of.bodies[number] = self.message
        if self.message.expires:
            of.expiring[number] = self.message.expires
        Wait(number).do(of)

    def undo(self, of: Contents) -> None:
        of.next -= 1
        Wait(of.next).undo(of)
        of.expiring.pop(of.next, None)
        del of.bodies[of.next]
        if of.next == 1:
            of.born = 0


@dataclass
class Remove(Step):
    """Remove a message that does not wait."""

    number: int
    message: Message | None = None
    was_again: bool = False

    def do(self, of: Contents) -> None:
        self.message = of.bodies[self.number]
        self.was_again = self.number in of.again
        del of.bodies[self.number]
        of.again.discard(self.number)
        of.expiring.pop(self.number, None)

    def undo(self, of: Contents) -> None:
        assert self.message is not None
        of.bodies[self.number] = self.message
        if self.was_again:
            of.again.add(self.number)
        if self.message.expires:
            of.expiring[self.number] = self.message.expires


@dataclass
class Wait(Step):
    number: int

    def do(self, of: Contents) -> None:
        of.waiting.add(self.number)
        heapq.heappush(of.order, self.number)

    def undo(self, of: Contents) -> None:
        of.waiting.discard(self.number)


@dataclass
class WaitNoMore(Step):
    number: int

    def do(self, of: Contents) -> None:
        Wait(self.number).undo(of)

    def undo(self, of: Contents) -> None:
        Wait(self.number).do(of)


@dataclass
class GiveBack(Step):
    """A subscription gives a message back; it waits again."""

    number: int
    was_again: bool = False

    def do(self, of: Contents) -> None:
        self.was_again = self.number in of.again
        of.again.add(self.number)
        Wait(self.number).do(of)

    def undo(self, of: Contents) -> None:
        Wait(self.number).undo(of)
        if not self.was_again:
            of.again.discard(self.number)


@dataclass
class Fly(Step):
    """A subscription gets a message, and becomes the last in the order for the next one."""

    key: str
    number: int
    place: int = 0

    def do(self, of: Contents) -> None:
        self.place = next(n for n, key in enumerate(of.subscriptions) if key == self.key)
        found = of.subscriptions.pop(self.key)
        of.subscriptions[self.key] = found
        found.turns += 1
        found.flying[found.turns] = self.number

    def undo(self, of: Contents) -> None:
        found = of.subscriptions.pop(self.key)
        del found.flying[found.turns]
        found.turns -= 1
        _insert(of.subscriptions, self.place, self.key, found)


@dataclass
class Land(Step):
    """A subscription no longer has a message."""

    key: str
    turn: int
    before: dict[int, int] = field(default_factory=dict)

    def do(self, of: Contents) -> None:
        found = of.subscriptions[self.key]
        self.before = dict(found.flying)
        del found.flying[self.turn]

    def undo(self, of: Contents) -> None:
        of.subscriptions[self.key].flying = self.before


@dataclass
class Subscribe(Step):
    key: str
    prefetch: int

    def do(self, of: Contents) -> None:
        of.subscriptions[self.key] = Subscription(self.prefetch)

    def undo(self, of: Contents) -> None:
        del of.subscriptions[self.key]


@dataclass
class Unsubscribe(Step):
    """A subscription that has no messages ends."""

    key: str
    place: int = 0
    was: Subscription | None = None

    def do(self, of: Contents) -> None:
        self.place = list(of.subscriptions).index(self.key)
        self.was = of.subscriptions.pop(self.key)

    def undo(self, of: Contents) -> None:
        assert self.was is not None
        _insert(of.subscriptions, self.place, self.key, self.was)


def _insert(
    into: dict[str, Subscription], place: int, key: str, subscription: Subscription
) -> None:
    items = list(into.items())
    items.insert(place, (key, subscription))
    into.clear()
    into.update(items)


@dataclass
class Change:
    """The steps of one method, and its answer."""

    contents: Contents = field(repr=False)
    steps: list[Step] = field(default_factory=list)
    answer: Any = None
    is_first: bool = False
    """Note that no client had sent to the queue or subscribed to it before."""

    def do(self, step: Step) -> None:
        step.do(self.contents)
        self.steps.append(step)

    def undo(self) -> None:
        for step in reversed(self.steps):
            step.undo(self.contents)
