"""Handle: the user's object for a block in the loop. It closes the block, also when it is lost."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from jgroups_py.blocking.block import OpenBlock, checked_timeout
from jgroups_py.blocking.call import ThreadCall
from jgroups_py.driver.needs_trio import warn_of_a_loop

T = TypeVar("T")


class Handle(Generic[T]):
    """Any thread may use it. The loop has no reference to it, so that its block is closed when the user loses it."""

    def __init__(
        self,
        what: str,
        opener: Callable[[], AbstractAsyncContextManager[T]],
        closed: Callable[[], Exception],
        timeout: float | None,
        inside: Handle[Any] | None = None,
    ) -> None:
        self._what = what
        self._closed = True  # nothing has to be closed before the block is open
        checked_timeout(timeout)
        warn_of_a_loop(what)
        self._inside = inside  # kept as long as this handle
        outer: OpenBlock[Any] | None = None if inside is None else inside._block
        self._block: OpenBlock[T] = OpenBlock(opener, closed, outer)
        self._block.open(timeout)
        self._closed = False

    def close(self, timeout: float | None = None) -> None:
        """Leave the block as the async API does, within its time limits. Closing again does nothing. Calls under way in other
        threads end with ChannelClosed or CacheClosed.

        Raises:
            TimeoutError: closing goes on in the background.
            Others: errors of the async API at the end of its block.
        """
        first, self._closed = not self._closed, True
        self._block.close(timeout)
        if first and self._block.error is not None:
            raise self._block.error

    @property
    def closed(self) -> bool:
        """True when it was closed or has ended by itself."""
        return self._closed or self._block.is_over

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except BaseException as other:
            if other is not error:  # otherwise a call has raised it already
                raise

    def __repr__(self) -> str:
        return f"<blocking {self._what}{' (closed)' if self.closed else ''}>"

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or not self._block.is_of_this_process:
            return
        if self._block.is_over:
            return  # the block around it was closed
        self._closed = True
        self._block.leave()
        warnings.warn(f"{self._what} was not closed", ResourceWarning, source=self, stacklevel=2)

    def _call(
        self,
        function: Callable[..., Awaitable[Any]],
        *args: Any,
        timeout: float | None = None,
        **options: Any,
    ) -> Any:
        """Run ``await function(*args, **options)`` in the loop."""
        if self._closed:
            raise self._block.why_over()
        if options:
            function = partial(function, **options)
        return ThreadCall(self._block, function, args).wait(timeout)

    def _look(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run ``function(*args)`` in the loop."""

        async def look() -> Any:
            return function(*args)

        return self._call(look)

    @property
    def _value(self) -> T:
        """The object of the block. Without the loop, read only its parts that never change in place."""
        return self._block.value
