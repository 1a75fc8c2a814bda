"""One call from a thread into the loop: posted, waited for, cancelled."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

from jgroups_py.blocking.block import OpenBlock, checked_timeout
from jgroups_py.blocking.task import LoopTask


class ThreadCall(LoopTask):
    """``function(*args)`` in the loop. One thread waits for it."""

    __slots__ = ("_done",)

    def __init__(
        self, block: OpenBlock[Any], function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> None:
        super().__init__(block, function, args)
        self._done = threading.Lock()  # a lock is the cheapest thing for one waiter that waits once
        self._done.acquire()

    def wait(self, timeout: float | None) -> Any:
        """Return the call's value, or raise its error. KeyboardInterrupt cancels the call.

        Raises:
            TimeoutError: the call took longer than ``timeout`` and was cancelled. It may have had effect.
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
        """Cancel the call and wait for its end. The call may be done all the same. An interrupt may have
        come before the call was posted, or after its end."""
        self._block.post(self._cancel)
        if not self._ended:
            self._done.acquire()

    def _tell(self) -> None:
        self._done.release()
