"""Gathering: small messages become one while others are under way.

A message costs both sides more than an operation does. While the other side has enough to do, nobody gains by one more message at once: so what is to be
sent waits for more of its kind, as Nagle's algorithm lets the bytes of a TCP connection wait (RFC 896). It ends when the other side has answered or has
nothing to do any more (``hurry``), and after ``GATHER_SECONDS`` in any case.
"""

from __future__ import annotations

from typing import Final

import trio

GATHER_SECONDS: Final = 0.001
"""For so long what is to be sent waits for more, at most. Far less than operations wait for each other when there are many."""
GATHER_FROM: Final = 4
"""Operations under way, at least. A few clients have their answers sooner when nothing waits."""


class Gathering:
    """Of one sender."""

    def __init__(self) -> None:
        self._ended: trio.Event | None = None

    async def rest(self, under_way: int) -> None:
        """Let more come, when so many operations are under way. One caller at a time."""
        if under_way < GATHER_FROM:
            return
        self._ended = trio.Event()
        with trio.move_on_after(GATHER_SECONDS):
            await self._ended.wait()
        self._ended = None

    def hurry(self) -> None:
        """Nothing is gained by waiting any more."""
        if self._ended is not None:
            self._ended.set()
