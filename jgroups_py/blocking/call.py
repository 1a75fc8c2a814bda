"""One call from a thread into the loop: posted, run as a task, waited for, cancelled."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import trio

from jgroups_py.unwrap import leaves

if TYPE_CHECKING:
    from jgroups_py.blocking.block import Block


def checked_timeout(timeout: float | None) -> float:
    """As locks want it. ValueError for what is no time."""
    if timeout is None:
        return -1.0
    if not timeout > 0:
        raise ValueError(f"timeout must be > 0 seconds or None, got {timeout}")
    return min(timeout, threading.TIMEOUT_MAX)


def unwrapped(error: BaseException) -> BaseException:
    """The one error in a group, or the group. Cancellation does not count beside a real error."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    found = leaves(error)
    real = [leaf for leaf in found if not isinstance(leaf, trio.Cancelled)] or found[:1]
    return real[0] if len(real) == 1 else error


class Call:
    """``function(*args)`` in the loop, for one thread that waits for it."""

    __slots__ = (
        "_args",
        "_block",
        "_done",
        "_ended",
        "_function",
        "_scope",
        "_started",
        "cancelled",
        "error",
        "value",
    )

    def __init__(
        self, block: Block[Any], function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> None:
        self._block = block
        self._function = function
        self._args = args
        self._scope = trio.CancelScope()
        self._done = threading.Lock()  # a lock is the cheapest thing to wait on: one waiter, once
        self._done.acquire()
        self._started = self._ended = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.cancelled = False

    def wait(self, timeout: float | None) -> Any:
        """Its value, or what it raised. What interrupts the waiting (KeyboardInterrupt) cancels it.

        Raises:
            TimeoutError: it took longer than ``timeout`` and was cancelled. It may have had effect.
        """
        limit = checked_timeout(timeout)
        try:
            self._block.post(self._start)
            in_time = self._done.acquire(timeout=limit)
        except BaseException:
            self._give_up()
            raise
        if not in_time:
            self._give_up()
            if self.cancelled:
                raise TimeoutError(f"not done within {timeout:g} s")
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # else its traceback and we keep each other
        return self.value

    def _give_up(self) -> None:
        """Cancels it and waits until it has ended: it may be done all the same. An interrupt may have
        come before it was posted, or after it was waited for."""
        self._block.post(self._cancel)
        if not self._ended:
            self._done.acquire()

    # --- in the loop

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
            self.error = self._block.why_over()  # not by us: what it works on has ended
            raise
        except BaseException as error:
            self.error = unwrapped(error)
        finally:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._done.release()
