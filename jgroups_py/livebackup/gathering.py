"""Gathering: small messages become one while others are under way.

A message costs both sides more than an operation does. While the other side is busy and clients wait for objects
anyway, sending at once gains nothing. So a message waits for more of its kind, as bytes of a TCP connection do with
Nagle's algorithm (RFC 896). The wait ends when the other side has answered or has nothing to do any more (``hurry``),
when ``GATHER_MANY`` wait, and after ``GATHER_SECONDS`` in any case.

The live node knows whether clients wait for objects. A backup sees it in its input: several operations in one message.
With ``CROWD_FROM`` operations under way the interpreters of both sides are busy, whether clients wait for objects or
not. Then each message takes processor time from operations. But if no client waits for an object, the wait also ends when
this node has nothing to do: its processor time costs no operation then.
"""

from __future__ import annotations

from typing import Final

import trio
import trio.testing

GATHER_SECONDS: Final = 0.001
"""The longest wait. It is short beside the time for which clients wait for an object that many of them change."""
GATHER_FROM: Final = 4
"""No message waits while fewer operations are under way, or while fewer wait for objects: the answer would come later
without a gain."""
GATHER_MANY: Final = 12
"""So many operations, or confirmations, are sent without a wait for more. It is a part of CROWD_FROM, so that a crowd
does not go to and fro between both sides as a whole."""
CROWD_FROM: Final = 32
"""While so many operations are under way, messages wait also if no client waits for an object."""


class Gathering:
    """The delay of one sender's messages."""

    def __init__(self) -> None:
        self._scope: trio.CancelScope | None = None
        """The scope of the wait. None: no message waits."""
        self._is_over = False
        self._since = 0.0
        """The oldest waiting message came at this time or later."""

    async def rest(
        self, under_way: int, waiting: int = 1, *, gains: bool = True, until_idle: bool = False
    ) -> None:
        """Wait for more messages than the ``waiting`` ones, if enough operations are under way and a larger message
        ``gains`` something, or a crowd is under way. ``until_idle``: and while this node has something to do. One caller
        at a time."""
        if under_way < GATHER_FROM or not (gains or under_way >= CROWD_FROM):
            return
        if waiting >= GATHER_MANY:
            return
        self._is_over = False
        self._since, since = trio.current_time(), -1.0
        while since != self._since and not self._is_over:
            since = self._since
            with trio.CancelScope(deadline=since + GATHER_SECONDS) as self._scope:
                if until_idle:
                    await trio.testing.wait_all_tasks_blocked()
                    self._is_over = True
                else:
                    await trio.sleep_forever()
        self._scope = None

    def renew(self) -> None:
        """Let the wait begin anew: the messages that waited have left without it."""
        if self._scope is not None:
            self._since = trio.current_time()

    def hurry(self) -> None:
        """End the wait: it gains nothing any more."""
        if self._scope is not None:
            self._is_over = True
            self._scope.cancel()
