"""Handle: the asyncio user's object for a block in the trio loop. ``forward`` makes each of its calls in one line.

``forward`` takes a method of the async API and returns one with the same signature and docstring that awaits it
across the threads. So type checkers see every argument, and nothing is written twice.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from jgroups_py.aio.call import AsyncioCall, tell
from jgroups_py.blocking.block import OpenBlock
from jgroups_py.driver.needs_trio import check_asyncio
from jgroups_py.errors import LocalProtocolError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def forward(
    function: Callable[Concatenate[Any, P], Awaitable[R]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return a method that calls ``function`` with ``self._value``, in the trio loop."""

    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        value: R = await self._call(partial(function, self._value, *args, **kwargs))
        return value

    return _named(function, call)


def note(
    function: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """Return a method that calls ``function`` with ``self._value`` in this thread. ``function`` only reads or notes a value."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(self._value, *args, **kwargs)

    return _named(function, call)


def _named(function: Any, call: R) -> R:
    wraps(function)(call)  # type: ignore[arg-type]
    return call


class Handle(Generic[T]):
    """Use it with ``async with``, once, in the tasks of one asyncio loop."""

    _opened_with: str
    """The name of the public function that makes it."""

    def __init__(
        self,
        what: str,
        opener: Callable[[], AbstractAsyncContextManager[T]],
        closed: Callable[[], Exception],
        inside: Handle[Any] | None = None,
    ) -> None:
        self._what = what
        self._opener = opener
        self._over = closed
        self._inside = inside
        self._block: OpenBlock[T] | None = None
        self._closed = False
        self._loop: asyncio.AbstractEventLoop
        self._changed: asyncio.Event

    async def __aenter__(self) -> Self:
        """Open the block. A cancelled call returns when all its parts have ended."""
        if self._block is not None:
            raise LocalProtocolError(f"{self._what} was opened before: open another one")
        check_asyncio(self._opened_with)
        outer = None if self._inside is None else self._inside._opened
        self._loop = loop = asyncio.get_running_loop()
        self._changed = changed = asyncio.Event()
        block = OpenBlock(self._opener, self._over, outer, lambda: tell(loop, changed.set))
        self._block = block
        block.begin()
        try:
            await self._until(lambda: block.is_open or block.is_over)
        except asyncio.CancelledError:
            await self._leave(block)
            raise
        if block.is_over:
            await self._leave(block)
            raise block.error or self._over()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.aclose()
        except BaseException as other:
            if other is not error:  # otherwise a call has raised it already
                raise

    async def aclose(self) -> None:
        """Leave the block as the async API does, within its time limits. Closing again does nothing. Calls under way in other
        tasks end with ChannelClosed or CacheClosed. A cancelled call closes the block first.

        Raises:
            Others: errors of the async API at the end of its block.
        """
        block = self._opened
        first, self._closed = not self._closed, True
        await self._leave(block)
        if first and block.error is not None:
            raise block.error

    async def _leave(self, block: OpenBlock[T]) -> None:
        """End the block, also when this task is cancelled, so that no task of it stays in the other thread."""
        block.abandon() if not block.is_open else block.leave()
        cancelled: asyncio.CancelledError | None = None
        while not block.is_over:
            try:
                await self._until(lambda: block.is_over)
            except asyncio.CancelledError as error:
                cancelled = error
        # The loop has nothing left to run when this was its last user, so the wait is short.
        block.join()
        if cancelled is not None:
            raise cancelled

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            if not condition():
                await self._changed.wait()

    @property
    def closed(self) -> bool:
        """True when it was closed or has ended by itself."""
        return self._closed or (self._block is not None and self._block.is_over)

    def __repr__(self) -> str:
        state = " (not opened)" if self._block is None else " (closed)" if self.closed else ""
        return f"<asyncio {self._what}{state}>"

    def __del__(self) -> None:
        block = getattr(self, "_block", None)
        if block is None or self._closed or block.is_over or not block.is_of_this_process:
            return
        block.leave()
        warnings.warn(f"{self._what} was not closed", ResourceWarning, source=self, stacklevel=2)

    async def _call(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Run ``await function(*args)`` in the trio loop."""
        block = self._opened
        if self._closed:
            raise block.why_over()
        return await self._task(block, function, args).wait()

    def _task(
        self, block: OpenBlock[T], function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> AsyncioCall:
        if asyncio.get_running_loop() is not self._loop:
            raise LocalProtocolError(f"{self._what} belongs to the asyncio loop it was opened in")
        return AsyncioCall(block, function, args)

    async def _look(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run ``function(*args)`` in the trio loop."""

        async def look() -> Any:
            return function(*args)

        return await self._call(look)

    @property
    def _opened(self) -> OpenBlock[T]:
        if self._block is None:
            raise LocalProtocolError(f'{self._what} is not open: use "async with"')
        return self._block

    @property
    def _value(self) -> T:
        """The object of the block. Without the loop, read only its parts that never change in place."""
        return self._opened.value
