"""One call of an asyncio task into the trio loop: posted, awaited, cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from jgroups_py.blocking.block import OpenBlock
from jgroups_py.blocking.task import LoopTask


class AsyncioCall(LoopTask):
    """``function(*args)`` in the trio loop, for one asyncio task that waits for it."""

    __slots__ = ("_future", "_heard", "_loop")

    def __init__(
        self, block: OpenBlock[Any], function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> None:
        super().__init__(block, function, args)
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()
        self._heard = False

    async def wait(self) -> Any:
        """Its value, or what it raised. Cancelled, it has ended there when CancelledError goes on."""
        self._block.post(self._start)
        try:
            await self._future
        except asyncio.CancelledError:
            self._block.post_always(self._cancel)
            await self._end_of_it()
            raise
        except BaseException:  # the coroutine is thrown away, its loop has ended
            self._block.post_always(self._cancel)
            raise
        return self.outcome()

    async def _end_of_it(self) -> None:
        """Cancelled again and again, it still waits: what runs there must not outlive the call."""
        while not self._heard:
            self._future = self._loop.create_future()
            try:
                await self._future
            except asyncio.CancelledError:
                pass

    def _hear(self) -> None:
        self._heard = True
        if not self._future.done():
            self._future.set_result(None)

    # --- in the trio loop

    def _tell(self) -> None:
        tell(self._loop, self._hear)


def tell(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Runs ``function`` in an asyncio loop soon; not, if that was closed: then nobody waits."""
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:
        pass
