"""The kinds of objects: Queue, Session, PostOffice (the seed's Q, S and P).

A method of a queue returns a Change: its ``answer`` is for the operation, and its steps can be undone.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final

from examples.broker.bodies import Bodies
from examples.broker.changes import (
    Add,
    Change,
    Contents,
    Fly,
    GiveBack,
    Land,
    Remove,
    Subscribe,
    Unsubscribe,
    WaitNoMore,
)
from examples.broker.message import Delivery, Message, Subscription
from jgroups_py.livebackup import Stateful, only_reads, undone_by

DEPTH_MAX: Final = 1_000_000
"""Messages of a queue."""
QUEUES_MAX: Final = 5_000
EXPIRE_MAX: Final = 1_000
"""The most messages of a queue that expire in one operation. Further ones expire in the next operation."""


class Refused(Exception):
    """A client asks for something impossible. Nothing was changed."""


class Queue(Stateful):
    """Messages in the order in which they came. Each message goes to one subscription, and is removed when the
    subscription has acknowledged it."""

    def __init__(self) -> None:
        self._contents = Contents()

    # --- changes

    @only_reads
    def look(self) -> tuple[int, bool]:
        """Return the number of messages, and whether no client has sent to the queue before."""
        return len(self._contents.bodies), self._contents.next == 1

    @only_reads
    def is_used(self) -> bool:
        """Return whether there are messages or subscriptions."""
        return bool(self._contents.bodies) or bool(self._contents.subscriptions)

    @only_reads
    def is_subscribed(self) -> bool:
        return bool(self._contents.subscriptions)

    @undone_by("undo")
    def put(self, message: Message, now: float) -> Change:
        """Return the resulting deliveries."""
        change = self._change()
        change.do(Add(message, now))
        return self._assigned(change, now)

    @undone_by("undo")
    def offer(self, message: Message, now: float) -> Change:
        """Put a message unless the queue is full or has no subscribers."""
        if self._contents.subscriptions and len(self._contents.bodies) < DEPTH_MAX:
            return self.put(message, now)
        return Change(self._contents, answer=[])

    @undone_by("undo")
    def subscribe(self, key: str, prefetch: int, now: float) -> Change:
        """Return deliveries."""
        change = self._change()
        change.do(Subscribe(key, prefetch))
        return self._assigned(change, now)

    @undone_by("undo")
    def unsubscribe(self, key: str, now: float) -> Change:
        """Let the subscription's unacknowledged messages wait again, before later ones. Return deliveries to others.
        Do nothing if there is no such subscription."""
        change = Change(self._contents)
        if key in self._contents.subscriptions:
            for turn, number in list(self._contents.subscriptions[key].flying.items()):
                change.do(Land(key, turn))
                change.do(GiveBack(number))
            change.do(Unsubscribe(key))
        return self._assigned(change, now)

    @undone_by("undo")
    def acknowledge(self, key: str, turns: list[int], now: float) -> Change:
        """Remove acknowledged messages. Return deliveries."""
        change = Change(self._contents)
        for number in self._landed(change, key, turns):
            change.do(Remove(number))
        return self._assigned(change, now)

    @undone_by("undo")
    def refuse(self, key: str, turns: list[int], now: float) -> Change:
        """Remove messages that the client refused. Return them, and deliveries."""
        change = Change(self._contents)
        refused: list[Message] = []
        for number in self._landed(change, key, turns):
            refused.append(self._contents.bodies[number])
            change.do(Remove(number))
        change = self._assigned(change, now)
        change.answer = (refused, change.answer)
        return change

    @undone_by("undo")
    def expire(self, now: float) -> Change:
        """Remove waiting messages that have expired. Return the number of removed messages, and whether the queue is
        still in use."""
        change = Change(self._contents)
        contents = self._contents
        old = [
            n for n in contents.expiring if n in contents.waiting and contents.is_expired(n, now)
        ]
        for number in old[:EXPIRE_MAX]:
            change.do(WaitNoMore(number))
            change.do(Remove(number))
        change.answer = len(old[:EXPIRE_MAX]), self.is_used()
        return change

    def undo(self, change: Change, *_arguments: Any) -> None:
        change.undo()

    def _change(self) -> Change:
        is_first = self._contents.next == 1 and not self._contents.subscriptions
        return Change(self._contents, is_first=is_first)

    def _landed(self, change: Change, key: str, turns: list[int]) -> list[int]:
        subscription = self._contents.subscriptions.get(key)
        if subscription is None:
            return []
        there = [turn for turn in dict.fromkeys(turns) if turn in subscription.flying]
        numbers = [subscription.flying[turn] for turn in there]
        for turn in there:
            change.do(Land(key, turn))
        return numbers

    def _assigned(self, change: Change, now: float) -> Change:
        """Hand waiting messages to subscribers with room, the oldest first."""
        contents = self._contents
        deliveries: list[Delivery] = []
        while True:
            key = next((k for k, s in contents.subscriptions.items() if s.has_room), None)
            number = contents.first()
            if key is None or number is None:
                change.answer = deliveries
                return change
            change.do(WaitNoMore(number))
            if contents.is_expired(number, now):
                change.do(Remove(number))
                continue
            message, again = contents.bodies[number], number in contents.again
            change.do(Fly(key, number))
            turn = contents.subscriptions[key].turns
            deliveries.append(Delivery(key, turn, number, contents.born, message, again))

    # --- snapshots

    def save(self) -> Any:
        """The state is the same at all nodes, although they have different messages in memory."""
        contents = self._contents
        return [
            contents.next,
            contents.born,
            [
                [number, message.save()]
                for number, message in sorted(contents.bodies, key=itemgetter(0))
            ],
            sorted(contents.waiting),
            sorted(contents.again),
            [[key, one.save()] for key, one in contents.subscriptions.items()],
        ]

    def load(self, state: Any) -> None:
        next_number, born, messages, waiting, again, subscriptions = state
        self._contents.bodies.clear()
        contents = self._contents = Contents(Bodies(), next=next_number, born=born)
        for number, saved in messages:
            message = contents.bodies[number] = Message.load(saved)
            if message.expires:
                contents.expiring[number] = message.expires
        contents.waiting, contents.order = set(waiting), sorted(waiting)
        contents.again = set(again)
        contents.subscriptions = {key: Subscription.load(saved) for key, saved in subscriptions}


class Session(Stateful):
    """A client's subscriptions: key -> name of the queue, and the topic if the queue is the subscription's own."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, tuple[str, str]] = {}

    def subscribed(self, key: str, queue: str, address: str) -> None:
        self.subscriptions[key] = (queue, address)

    def unsubscribed(self, key: str) -> tuple[str, str] | None:
        found = self.subscriptions.pop(key, None)
        return None if found is None else (found[0], found[1])

    def closed(self) -> dict[str, tuple[str, str]]:
        """End the session. Return its unacknowledged messages."""
        found, self.subscriptions = self.subscriptions, {}
        return {key: (queue, address) for key, (queue, address) in found.items()}


class PostOffice(Stateful):
    """The list of queues, the subscribers' queues of each topic, and the open sessions."""

    def __init__(self) -> None:
        self.queues: dict[str, None] = {}
        self.bindings: dict[str, list[str]] = {}
        self.sessions: dict[str, None] = {}

    def opened(self, session: str) -> None:
        self.sessions[session] = None

    def closed(self, session: str) -> None:
        self.sessions.pop(session, None)

    @only_reads
    def open_sessions(self) -> list[str]:
        return list(self.sessions)

    @only_reads
    def all_queues(self) -> list[str]:
        return list(self.queues)

    def create(self, queue: str) -> None:
        """Raise Refused when there are too many."""
        if queue not in self.queues and len(self.queues) >= QUEUES_MAX:
            raise Refused(f"there are {QUEUES_MAX} queues, and no more are made")
        self.queues[queue] = None

    def add(self, queue: str) -> None:
        """Return an existing queue, even if there are more than the limit."""
        self.queues[queue] = None

    def forget(self, queue: str) -> None:
        self.queues.pop(queue, None)

    def bind(self, address: str, queue: str) -> None:
        """Messages to the address go to this queue from now on, too."""
        self.bindings.setdefault(address, []).append(queue)

    def unbind(self, address: str, queue: str) -> None:
        bound = [one for one in self.bindings.get(address, []) if one != queue]
        if bound:
            self.bindings[address] = bound
        else:
            self.bindings.pop(address, None)

    @only_reads
    def route(self, address: str) -> list[str]:
        return list(self.bindings.get(address, []))
