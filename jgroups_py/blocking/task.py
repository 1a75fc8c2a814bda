"""A call as a task of the loop. A thread or an asyncio task waits for the call and is notified of its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from jgroups_py.blocking.block import OpenBlock
from jgroups_py.driver.unwrap import unwrapped


class LoopTask:
    """Runs ``function(*args)`` in the loop. Post ``_start`` and ``_cancel`` in this order."""

    __slots__ = (
        "_args",
        "_block",
        "_ended",
        "_function",
        "_scope",
        "_started",
        "cancelled",
        "error",
        "value",
    )

    def __init__(
        self, block: OpenBlock[Any], function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> None:
        self._block = block
        self._function = function
        self._args = args
        self._scope = trio.CancelScope()
        self._started = self._ended = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.cancelled = False

    def outcome(self) -> Any:
        """Return the call's value or raise its error. Use it once, after the end of the call."""
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # otherwise its traceback and this object keep each other alive
        return self.value

    # --- in the loop

    def _tell(self) -> None:
        """Tell the waiting side that the task has ended."""
        raise NotImplementedError

    def _start(self) -> None:
        if not self._started:
            self._started = True
            if not self._block.start(self._run):
                self.error = self._block.why_over()
                self._end()

    def _cancel(self) -> None:
        self._scope.cancel()
        if not self._started:
            self._started = self.cancelled = True
            self._end()

    async def _run(self) -> None:
        try:
            with self._scope:
                self.value = await self._function(*self._args)
            self.cancelled = self._scope.cancelled_caught
        except trio.Cancelled:
            self.error = self._block.why_over()  # not cancelled by its caller: its block has ended
            raise
        except BaseException as error:
            self.error = unwrapped(error)
        finally:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._tell()
