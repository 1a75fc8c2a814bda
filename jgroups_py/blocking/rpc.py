"""Calls between members, for threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any

import trio

from jgroups_py.blocking import bulk_channel
from jgroups_py.blocking.channel import Channel, ItemReader
from jgroups_py.errors import ChannelClosed
from jgroups_py.rpc import Answer, Codec, Methods, Reply, RpcLimits, RpcStatistics
from jgroups_py.rpc import Rpc as AsyncRpc
from jgroups_py.rpc import open_rpc as open_async
from jgroups_py.rpc.methods import Method, methods_of
from jgroups_py.values.address import Address
from jgroups_py.values.view import View

WORKERS = 8
"""The most threads in which the methods of one target run at once."""


def open_rpc(
    channel: Channel,
    target: object = None,
    *,
    codec: Codec | None = None,
    limits: RpcLimits | None = None,
    in_order: bool = False,
    workers: int = WORKERS,
    timeout: float | None = None,
) -> Rpc:
    """Call methods of other members, and let them call the methods of ``target``, until it is closed.

        with blocking.open_channel("udp.xml", cluster="demo") as channel:
            with blocking.open_rpc(channel, Calculator()) as rpc:
                print(rpc.call(channel.view.coordinator, "add", 1, 2, timeout=5))

    Meanwhile the channel still sends, but the RPC reads it. Closing the channel closes the RPC first.

    Args:
        workers: threads in which methods run that are not async. They run side by side, in no order, and may block and
            call. With 0 they run in the loop's thread, as in the async API: faster and in order, but they must neither
            block nor use this API. The API refuses such calls.
        codec, limits, in_order: as ``jgroups_py.open_rpc``.

    Raises:
        LocalProtocolError: an RPC is open on this channel already, or ``target`` cannot be called.
        ValueError: ``workers`` is less than 0.
    """
    if workers < 0:
        raise ValueError(f"workers must be >= 0, got {workers}")
    methods = _in_threads(target, workers) if workers else target
    return Rpc(channel, methods, timeout, codec=codec, limits=limits, in_order=in_order)


class Rpc(ItemReader[AsyncRpc]):
    """Made by ``open_rpc``. Any number of threads may call; one may iterate."""

    def __init__(
        self, channel: Channel, target: object, timeout: float | None, **options: Any
    ) -> None:
        self._kept = deque()
        self._reading = threading.RLock()
        self._channel = channel
        opener = partial(open_async, channel._value, target, **options)
        super().__init__(f"RPC on {channel._what}", opener, _closed, timeout, channel)

    @property
    def channel(self) -> Channel:
        """The channel that the calls use. Send messages on it, but do not read it."""
        return self._channel

    @property
    def view(self) -> View:
        """The view in which the request that is served now arrived."""
        return self._value.view

    def statistics(self) -> RpcStatistics:
        """Return the counters as they are now."""
        statistics: RpcStatistics = self._look(self._value.statistics)
        return statistics

    def call(
        self,
        dest: Address,
        method: str,
        *args: Any,
        flags: int = 0,
        timeout: float | None = None,
    ) -> Any:
        """Call a method at one member and return its value. Errors are those of ``jgroups_py.Rpc.call``.

        Raises:
            TimeoutError: no answer came in time; the method may have run, or may run later.
        """
        return self._call(
            partial(self._value.call, dest, method, *args, flags=flags), timeout=timeout
        )

    def call_many(
        self,
        calls: Iterable[tuple[Any, ...]],
        *,
        flags: int = 0,
        timeout: float | None = None,
    ) -> list[Reply]:
        """Make many calls ``(dest, method, *args)`` side by side, in no order, with one crossing between threads. Return one
        reply for each, in the order of ``calls``. See ``jgroups_py.rpc.replies``.

        Raises:
            TimeoutError: not all have answered; any of them may have run.
            ChannelClosed, Expelled, LocalProtocolError: any of them may have run.
        """
        wanted = [tuple(call) for call in calls]
        replies: list[Reply] = self._call(
            partial(bulk_channel.call_many, self._value, wanted, flags=flags), timeout=timeout
        )
        return replies

    def call_all(
        self,
        method: str,
        *args: Any,
        dests: Iterable[Address] | Address | None = None,
        exclude: Iterable[Address] | Address = (),
        flags: int = 0,
        timeout: float | None = None,
    ) -> Replies:
        """Call a method at all members of the view, or at ``dests``, without ``exclude``:

            for reply in rpc.call_all("add", 1, 2, timeout=5): ...

        One reply comes from each member, in the order of arrival. The call is sent when the first reply is asked for.
        ``timeout`` runs from then on; TimeoutError comes after the replies that came in time. You may stop early.
        """
        make = partial(
            self._value.call_all, method, *args, dests=dests, exclude=exclude, flags=flags
        )
        return Replies(self, make, timeout)

    def call_first(
        self,
        method: str,
        *args: Any,
        dests: Iterable[Address] | Address | None = None,
        exclude: Iterable[Address] | Address = (),
        flags: int = 0,
        timeout: float | None = None,
    ) -> Answer:
        """Call like ``call_all``, and return the first value.

        Raises:
            NoAnswer: every member raised, left, or was not there.
            TimeoutError: no value came in time; the method may have run.
        """
        call = partial(
            self._value.call_first, method, *args, dests=dests, exclude=exclude, flags=flags
        )
        answer: Answer = self._call(call, timeout=timeout)
        return answer

    def cast(
        self,
        method: str,
        *args: Any,
        dests: Iterable[Address] | Address | None = None,
        exclude: Iterable[Address] | Address = (),
        flags: int = 0,
        timeout: float | None = None,
    ) -> None:
        """Call like ``call_all``, but without replies. Return when the call has room."""
        cast = partial(self._value.cast, method, *args, dests=dests, exclude=exclude, flags=flags)
        self._call(cast, timeout=timeout)


class Replies:
    """The replies of ``Rpc.call_all``. Iterate once, in one thread."""

    def __init__(self, rpc: Rpc, make: Any, timeout: float | None) -> None:
        self._rpc = rpc
        self._make = make
        self._timeout = timeout
        self._end: float | None = None
        self._replies: Any = None

    def __iter__(self) -> Replies:
        return self

    def __next__(self) -> Reply:
        """Return the next reply. Raise TimeoutError when the time for all of them is over."""
        left = self._timeout
        if left is not None:
            now = time.monotonic()
            if self._end is None:
                self._end = now + left
            left = max(self._end - now, 0.001)
        reply: Reply | None = self._rpc._call(self._next, timeout=left)
        if reply is None:
            raise StopIteration
        return reply

    async def _next(self) -> Reply | None:
        if self._replies is None:
            self._replies = self._make()
        reply: Reply | None = await anext(self._replies, None)
        return reply

    def close(self) -> None:
        """Forget the call. The same happens when this object is freed."""
        replies = self._replies
        if replies is not None and self._rpc._block.is_of_this_process:
            # Errors of the loop are not for this thread.
            self._rpc._block.post_always(replies.close)

    __del__ = close


def _closed() -> ChannelClosed:
    return ChannelClosed("the RPC is closed")


def _in_threads(target: object, workers: int) -> Methods:
    """Return the methods of a target. Those that are not async are moved into threads."""
    limiter = trio.CapacityLimiter(workers)
    found = Methods()
    for name, method in methods_of(target).items():
        found.add(name)(method.function if method.is_async else _in_thread(method, limiter))
    return found


def _in_thread(method: Method, limiter: trio.CapacityLimiter) -> Any:
    async def run(*args: Any) -> Any:
        # Closing does not wait for a method that hangs. Its thread goes on alone.
        return await trio.to_thread.run_sync(
            method.function, *args, limiter=limiter, abandon_on_cancel=True
        )

    run.__rpc_with_caller__ = method.with_caller  # type: ignore[attr-defined]
    return run
