"""Gathering: small messages become one while others are under way.

A message costs both sides more than an operation does. While the other side is busy and clients wait for objects
anyway, sending at once gains nothing. So a message waits for more of its kind, as bytes of a TCP connection do with
Nagle's algorithm (RFC 896). The wait ends when the other side has answered or has nothing to do any more (``hurry``),
and after ``GATHER_SECONDS`` in any case.

The live node knows whether clients wait for objects. A backup sees it in its input: several operations in one message.
"""

from __future__ import annotations

from typing import Final

import trio

GATHER_SECONDS: Final = 0.001
"""The longest wait. It is short beside the time for which clients wait for an object that many of them change."""
GATHER_FROM: Final = 4
"""No message waits while fewer operations are under way, or while fewer wait for objects: the answer would come later
without a gain."""


class Gathering:
    """The delay of one sender's messages."""

    def __init__(self) -> None:
        self._ended: trio.Event | None = None

    async def rest(self, under_way: int, *, gains: bool = True) -> None:
        """Wait for more messages, if enough operations are under way and a larger message ``gains`` something. One
        caller at a time."""
        if under_way < GATHER_FROM or not gains:
            return
        self._ended = trio.Event()
        with trio.move_on_after(GATHER_SECONDS):
            await self._ended.wait()
        self._ended = None

    def hurry(self) -> None:
        """End the wait: it gains nothing any more."""
        if self._ended is not None:
            self._ended.set()
