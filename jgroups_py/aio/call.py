"""A call of an asyncio task into the trio loop. It is posted, awaited and may be cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from jgroups_py.blocking.block import OpenBlock
from jgroups_py.blocking.task import LoopTask


class AsyncioCall(LoopTask):
    """Runs ``function(*args)`` in the trio loop. One asyncio task waits for it."""

    __slots__ = ("_future", "_heard", "_loop")

    def __init__(
        self, block: OpenBlock[Any], function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> None:
        super().__init__(block, function, args)
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()
        self._heard = False

    async def wait(self) -> Any:
        """Return the call's value or raise its error. A cancelled call has ended in the trio loop before CancelledError
        is raised."""
        self._block.post(self._start)
        try:
            await self._future
        except asyncio.CancelledError:
            self._block.post_always(self._cancel)
            await self._end_of_it()
            raise
        except BaseException:  # the coroutine is thrown away because its loop has ended
            self._block.post_always(self._cancel)
            raise
        return self.outcome()

    async def _end_of_it(self) -> None:
        """Wait for the end, also when it is cancelled again: the task in the trio loop must not outlive the call."""
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
    """Run ``function`` soon in an asyncio loop. Do nothing if the loop was closed, because then no task waits."""
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:
        pass
