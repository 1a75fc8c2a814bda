"""Calls functions of an asyncio program from the trio loop."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from inspect import isawaitable
from typing import Any

import trio

from jgroups_py.channel.state import StateProvider
from jgroups_py.driver.needs_trio import check_asyncio
from jgroups_py.errors import LocalProtocolError
from jgroups_py.rpc import Methods
from jgroups_py.rpc.methods import Method, methods_of

_log = logging.getLogger("jgroups_py.aio")

END_TIMEOUT = 5.0
"""Seconds in which a cancelled function must end. After that it is left to its own loop."""


class AsyncioHome:
    """The asyncio loop and the context variables of the task that opens a block."""

    def __init__(self, opener: str) -> None:
        check_asyncio(opener)
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run ``function(*args)`` as a task of the asyncio loop, awaited if it can be, and return its value. Call it in
        the trio loop. If the call is cancelled, the task is cancelled, too."""
        token = trio.lowlevel.current_trio_token()
        done = trio.Event()
        task: asyncio.Task[Any] | None = None
        cancelled = False

        def ended(_: object) -> None:
            try:
                token.run_sync_soon(done.set)
            except trio.RunFinishedError:
                pass

        async def work() -> Any:
            value = function(*args)
            return await value if isawaitable(value) else value

        def begin() -> None:
            nonlocal task
            if cancelled:
                ended(None)
                return
            task = self._loop.create_task(work(), context=self._context.copy())
            task.add_done_callback(ended)

        def cancel() -> None:
            nonlocal cancelled
            cancelled = True
            if task is not None:
                task.cancel()

        self._post(begin)
        try:
            await done.wait()
        except trio.Cancelled:
            self._post(cancel)
            with trio.CancelScope(shield=True), trio.move_on_after(END_TIMEOUT) as limit:
                await done.wait()
            if limit.cancelled_caught:
                _log.warning("%r does not end though it was cancelled", function)
            raise
        assert task is not None
        if task.cancelled():
            # The task was not cancelled from here. asyncio's own cancellation must not get into trio.
            raise LocalProtocolError(f"{function!r} was cancelled in its asyncio loop")
        return task.result()

    def _post(self, function: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(function, context=self._context)
        except RuntimeError:
            raise LocalProtocolError("the asyncio loop it was opened in has ended") from None


def methods_at(home: AsyncioHome, target: object) -> Methods:
    """Return the methods of a target, made to run in its asyncio loop."""
    found = Methods()
    for name, method in methods_of(target).items():
        found.add(name)(_method_at(home, method))
    return found


def _method_at(home: AsyncioHome, method: Method) -> Callable[..., Any]:
    async def run(*args: Any) -> Any:
        return await home.run(method.function, *args)

    run.__rpc_with_caller__ = method.with_caller  # type: ignore[attr-defined]
    return run


def state_at(home: AsyncioHome, provider: StateProvider) -> StateProvider:
    """Return an async generator function of the asyncio program in the form that the trio loop takes."""

    async def provide() -> AsyncIterator[bytes]:
        chunks = await home.run(provider)
        end = object()
        step = partial(anext, chunks, end)
        while (chunk := await home.run(step)) is not end:
            yield chunk

    return provide
