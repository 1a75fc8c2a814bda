"""A message and its deliveries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Message:
    """A message that a client sent. ``expires``: seconds since 1970, 0 for never."""

    headers: tuple[tuple[str, str], ...]
    body: bytes
    expires: float = 0.0

    def save(self) -> Any:
        return [list(map(list, self.headers)), self.body, self.expires]

    @staticmethod
    def load(saved: Any) -> Message:
        headers, body, expires = saved
        return Message(tuple((name, value) for name, value in headers), body, expires)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message for a subscription. ``turn``: the number of this delivery among those of its subscription.
    Clients get deliveries in the order of turns."""

    subscription: str
    turn: int
    number: int
    """The message's number in its queue."""
    born: int
    """The ``Contents.born`` of its queue."""
    message: Message
    redelivered: bool


@dataclass(slots=True)
class Subscription:
    """A subscriber of a queue, with its unacknowledged messages."""

    prefetch: int
    """The most messages that it may have unacknowledged."""
    turns: int = 0
    flying: dict[int, int] = field(default_factory=dict)
    """Turn -> number of the message, oldest first."""

    @property
    def has_room(self) -> bool:
        return len(self.flying) < self.prefetch

    def save(self) -> Any:
        return [self.prefetch, self.turns, list(self.flying.items())]

    @staticmethod
    def load(saved: Any) -> Subscription:
        prefetch, turns, flying = saved
        return Subscription(prefetch, turns, {turn: number for turn, number in flying})
