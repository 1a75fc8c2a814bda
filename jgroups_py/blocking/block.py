"""OpenBlock: one ``async with`` of the async API. A task of the loop holds it open for a handle.

Calls are tasks beside it. When the block is left, they end as in the async API: a reader of a channel gets
ChannelClosed, a cache waits for calls under way. Calls that are left after that are cancelled.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

import trio

from jgroups_py.blocking.loop import Loop, release, use
from jgroups_py.driver.unwrap import unwrapped
from jgroups_py.errors import LocalProtocolError

T = TypeVar("T")


def _nobody() -> None:
    pass


def checked_timeout(timeout: float | None) -> float:
    """Return a timeout in the form that locks take. Raise ValueError if it is not a time."""
    if timeout is None:
        return -1.0
    if not timeout > 0:
        raise ValueError(f"timeout must be > 0 seconds or None, got {timeout}")
    return min(timeout, threading.TIMEOUT_MAX)


class OpenBlock(Generic[T]):
    """``opener`` makes the context manager, in the loop. ``closed`` makes the error that calls raise after the end.
    ``inside`` is the enclosing block. It closes this block before itself. ``told`` is called in the
    loop after the block was opened, and after it has ended."""

    def __init__(
        self,
        opener: Callable[[], AbstractAsyncContextManager[T]],
        closed: Callable[[], Exception],
        inside: OpenBlock[Any] | None = None,
        told: Callable[[], None] = _nobody,
    ) -> None:
        self.value: T
        self.error: BaseException | None = None
        self._opener = opener
        self._closed = closed
        self._outer = inside
        self._told = told
        self._inner: dict[OpenBlock[Any], None] = {}
        self._is_open = False
        self._over = False
        self._opening = trio.CancelScope()
        self._leave = trio.Event()
        self._left = trio.Event()
        self._answered = threading.Event()  # set when the block is open, or will not be opened
        self._ended = threading.Event()
        self._calls: trio.Nursery
        self._loop: Loop = use()

    # --- from any thread

    def open(self, timeout: float | None) -> None:
        """Open the block. Raise the errors of opening. After TimeoutError no part of the block stays open."""
        limit = checked_timeout(timeout)
        self.begin()
        try:
            self._check_thread()
            in_time = self._answered.wait(None if limit < 0 else limit)
        except BaseException:
            self.abandon()
            raise
        if not in_time:
            self._loop.post(self._give_up_opening)
            self._answered.wait()
        if not self._is_open:
            self._finish(None)
            raise self.error or TimeoutError(f"not opened within {timeout:g} s")

    def begin(self) -> None:
        """Begin to open the block, without waiting."""
        self._loop.post(self._start)

    def abandon(self) -> None:
        """Do not open the block, or close it again, without waiting."""
        self._loop.post(self._opening.cancel)
        self.leave()

    def post(self, function: Callable[[], None]) -> None:
        """Post a function to the loop; see ``Loop.post``.

        Raises:
            LocalProtocolError: the caller is the loop's own thread, or a forked process.
        """
        self._check_thread()
        self._loop.post(function)

    def post_always(self, function: Callable[[], None]) -> None:
        """Post like ``post``, for finalizers, which run in any thread."""
        self._loop.post(function)

    def _check_thread(self) -> None:
        loop = self._loop
        if loop.pid != os.getpid():
            raise LocalProtocolError(
                f"opened by process {loop.pid}, of which this one was forked: open it anew here"
            )
        if loop.is_here:
            raise LocalProtocolError(
                "called in the loop's own thread, which would wait for itself: use the async API there"
            )

    @property
    def is_of_this_process(self) -> bool:
        return self._loop.pid == os.getpid()

    @property
    def is_open(self) -> bool:
        """True when the block was opened. It may have ended since."""
        return self._is_open

    @property
    def is_over(self) -> bool:
        return self._over

    def join(self) -> None:
        """Wait for the end of the loop, if this block was its last user. Called after the block's end."""
        if not self._loop.users:
            self._loop.join()

    def leave(self) -> None:
        """Begin to close the block, without waiting."""
        self._loop.post(self._leave.set)

    def close(self, timeout: float | None) -> None:
        """Return when the block is left, and the loop has ended if this was its last user.

        Raises:
            TimeoutError: the block goes on closing.
        """
        limit = checked_timeout(timeout)
        self._check_thread()
        self.leave()
        if not self._ended.wait(None if limit < 0 else limit):
            raise TimeoutError(f"not closed within {timeout:g} s")
        self._finish(timeout)

    def _finish(self, timeout: float | None) -> None:
        self._ended.wait()
        if not self._loop.users:
            self._loop.join(timeout)

    # --- in the loop

    def start(self, run: Callable[[], Awaitable[Any]]) -> bool:
        """Start the task of a call. Return False if it is too late."""
        if self._over:
            return False
        try:
            self._calls.start_soon(run)
        except RuntimeError:  # the nursery has closed meanwhile
            return False
        return True

    def why_over(self) -> BaseException:
        """Return the error of a call that cannot be made any more."""
        return self.error or self._closed()

    def _start(self) -> None:
        try:
            self._loop.nursery.start_soon(self._run)
        except RuntimeError as error:  # the loop has crashed
            self._end(error)

    def _give_up_opening(self) -> None:
        if not self._is_open:
            self._opening.cancel()

    async def _run(self) -> None:
        loop, outer = self._loop, self._outer
        loop.closing[self._leave.set] = None
        if outer is not None:
            outer._inner[self] = None
        try:
            async with trio.open_nursery() as self._calls:
                with self._opening:
                    async with self._opener() as self.value:
                        self._is_open = True
                        self._answered.set()
                        self._told()
                        await self._leave.wait()
                        for block in tuple(self._inner):
                            block._leave.set()
                            await block._left.wait()
                self._calls.cancel_scope.cancel()
        except BaseException as error:
            self._end(unwrapped(error))
        else:
            self._end(None)
        finally:
            loop.closing.pop(self._leave.set, None)
            if outer is not None:
                outer._inner.pop(self, None)

    def _end(self, error: BaseException | None) -> None:
        self.error = error
        self._over = True
        release(self._loop)
        self._left.set()
        self._answered.set()
        self._ended.set()
        self._told()
