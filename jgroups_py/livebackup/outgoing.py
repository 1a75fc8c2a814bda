"""Outgoing: the messages that a node has to send, in order.

Operations are bounded by the lag that the live node allows. A confirmation is as rare as the operation it answers.
Other messages are answers, and a member may repeat its question: while an answer waits, the same answer to the same
member is not queued again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar, cast

import trio

from jgroups_py.livebackup.gathering import GATHER_FROM, GATHER_MANY, Gathering
from jgroups_py.livebackup.messages import together

A = TypeVar("A", bound=Hashable)
TOGETHER_BYTES: Final = 30_000
"""The most bytes of operations that leave as one message. More would be cut into fragments."""


class Crowd(NamedTuple):
    """The operations of a live node."""

    open: int = 0
    """Number of operations that are not answered. Some of these may wait to be sent."""
    in_line: int = 0
    """Number of operations that wait for an object."""


class _Waiting(NamedTuple, Generic[A]):
    data: bytes
    to: A | None
    once: Hashable


class _Operations(list[bytes]):
    """Operations that wait between two other messages. They leave together."""


class Outgoing(Generic[A]):
    """A queue and the task that empties it."""

    def __init__(
        self,
        send: Callable[[bytes, A | None], Awaitable[None]],
        on_sent: Callable[[], None],
        send_operations: Callable[[bytes], Awaitable[None]],
        crowd: Callable[[], Crowd] = Crowd,
        at_once: Callable[[bytes, A | None, bool], bool] | None = None,
    ) -> None:
        """``on_sent`` is called when an operation was sent. ``send_operations`` sends to all others.
        ``crowd`` tells whether many operations wait for each other. ``at_once`` sends in the caller's step, with True to
        all others; it returns False if the message would have to wait."""
        self._send, self._on_sent = send, on_sent
        self._send_to_others = send_operations
        self._queue: deque[_Waiting[A] | _Operations] = deque()
        self._newest: _Operations | None = None
        """The operations at the end of the queue. None: another message is there."""
        self._answers: dict[tuple[Hashable, A | None], None] = {}
        self._filled: trio.Event | None = None
        """The queue is empty until this event. None: nobody waits for it."""
        self._crowd, self._at_once = crowd, at_once
        self._is_sending = False
        """Is a message on its way to the channel that the queue does not hold any more?"""
        self._gathering = Gathering()
        self.operations = 0
        """Operations that wait to be sent."""
        self.bytes = 0
        """Bytes of those operations."""

    @property
    def messages(self) -> int:
        """Count the waiting messages, operations included."""
        return sum(len(one) if type(one) is _Operations else 1 for one in self._queue)

    def operation(self, data: bytes) -> None:
        """Queue an operation for all."""
        self.operations += 1
        self.bytes += len(data)
        if self._newest is None:
            self._newest = _Operations()
            self._add(self._newest)
        self._newest.append(data)
        if self.bytes >= TOGETHER_BYTES:
            self.hurry()
        if self.operations >= GATHER_MANY and not self._leave():
            self.hurry()

    def _leave(self) -> bool:
        """Send the waiting operations now, in the caller's step. So the backups have them before the other tasks of this turn
        of the loop have run. Return False if they must wait for messages before them, or are more than one message."""
        waiting = self._newest
        if self._at_once is None or self._is_sending or waiting is None:
            return False
        if waiting is not self._queue[0] or self.bytes > TOGETHER_BYTES:
            return False
        if not self._at_once(together(waiting), None, True):
            return False
        self._queue.clear()
        self._newest = None
        self.operations = self.bytes = 0
        self._gathering.renew()
        self._on_sent()
        return True

    def say(
        self, data: bytes, to: A | None = None, *, once: Hashable = None, at_once: bool = False
    ) -> bool:
        """Queue a message. ``once``: a key of its content. False: not queued, because a message with that key already
        waits for that receiver. ``at_once``: send it in the caller's step, if no other message waits."""
        if at_once and self._at_once is not None and not (self._queue or self._is_sending):
            if self._at_once(data, to, False):
                return True
        if once is not None:
            if (once, to) in self._answers:
                return False
            self._answers[once, to] = None
        self._newest = None
        self._add(_Waiting(data, to, once))
        self.hurry()
        return True

    def hurry(self) -> None:
        """Send waiting operations now, without waiting for more of them."""
        self._gathering.hurry()

    def _add(self, one: _Waiting[A] | _Operations) -> None:
        self._queue.append(one)
        if self._filled is not None:
            self._filled.set()

    async def run(self) -> None:
        """Send for ever, one message after the other."""
        while True:
            while not self._queue:
                self._filled = trio.Event()
                await self._filled.wait()
                self._filled = None
            one = self._queue[0]
            if type(one) is _Operations:
                await self._send_operations()
            else:
                one = cast("_Waiting[A]", self._queue.popleft())
                self._answers.pop((one.once, one.to), None)
                self._is_sending = True
                await self._send(one.data, one.to)
                self._is_sending = False

    async def _send_operations(self) -> None:
        """Send the waiting operations, and those that come in a short wait while many others are under way. Operations
        that come during the sending are left."""
        if self.bytes < TOGETHER_BYTES:
            crowd = self._crowd()
            await self._gathering.rest(
                crowd.open - self.operations,
                self.operations,
                gains=crowd.in_line >= GATHER_FROM,
                until_idle=crowd.in_line < GATHER_FROM,
            )
        left = self.operations
        while left > 0 and type(self._queue[0]) is _Operations:
            left -= await self._send_together(self._queue[0])

    async def _send_together(self, waiting: _Operations) -> int:
        """Send the first of these operations in one message, as many as it takes. Return their number."""
        number, size = len(waiting), self.bytes
        if size > TOGETHER_BYTES or number < self.operations:
            number, size = _fitting(waiting)
        together_now = waiting[:number]
        if number < len(waiting):
            del waiting[:number]
        else:
            self._queue.popleft()
            self._newest = None if self._newest is waiting else self._newest
        self._is_sending = True
        await self._send_to_others(together(together_now))
        self._is_sending = False
        self.operations -= number
        self.bytes -= size
        self._on_sent()
        return number


def _fitting(operations: _Operations) -> tuple[int, int]:
    """Return how many operations one message takes, and their bytes."""
    number = size = 0
    while number < len(operations) and size < TOGETHER_BYTES:
        size += len(operations[number])
        number += 1
    return number, size
