"""One call from a thread into the loop: posted, waited for, cancelled."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from jgroups_py.blocking.task import Task

if TYPE_CHECKING:
    from jgroups_py.blocking.block import Block


def checked_timeout(timeout: float | None) -> float:
    """As locks want it. ValueError for what is no time."""
    if timeout is None:
        return -1.0
    if not timeout > 0:
        raise ValueError(f"timeout must be > 0 seconds or None, got {timeout}")
    return min(timeout, threading.TIMEOUT_MAX)


class Call(Task):
    """``function(*args)`` in the loop, for one thread that waits for it."""

    __slots__ = ("_done",)

    def __init__(
        self, block: Block[Any], function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> None:
        super().__init__(block, function, args)
        self._done = threading.Lock()  # a lock is the cheapest thing to wait on: one waiter, once
        self._done.acquire()

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
        return self.outcome()

    def _give_up(self) -> None:
        """Cancels it and waits until it has ended: it may be done all the same. An interrupt may have
        come before it was posted, or after it was waited for."""
        self._block.post(self._cancel)
        if not self._ended:
            self._done.acquire()

    def _tell(self) -> None:
        self._done.release()
