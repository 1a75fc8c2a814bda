"""Calls between members, for asyncio programs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from jgroups_py.aio.bridge import AsyncioHome, methods_at
from jgroups_py.aio.channel import Channel, ItemReader
from jgroups_py.aio.handle import forward
from jgroups_py.blocking import bulk_channel
from jgroups_py.errors import ChannelClosed
from jgroups_py.rpc import Codec, Reply, RpcLimits, RpcStatistics
from jgroups_py.rpc import Replies as AsyncReplies
from jgroups_py.rpc import Rpc as AsyncRpc
from jgroups_py.rpc import open_rpc as open_async
from jgroups_py.values.address import Address
from jgroups_py.values.view import View


def open_rpc(
    channel: Channel,
    target: object = None,
    *,
    codec: Codec | None = None,
    limits: RpcLimits | None = None,
    in_order: bool = False,
) -> Rpc:
    """Call methods of other members, and let them call the methods of ``target``, for as long as the ``async with``
    lasts. The methods run in this asyncio loop, async ones as tasks of it, side by side.

    Meanwhile the channel still sends, but the RPC reads it. Closing the channel closes the RPC first.

    Args:
        codec, limits, in_order: as ``jgroups_py.open_rpc``.

    Raises:
        LocalProtocolError: ``target`` cannot be called. Entering the block raises it when an RPC is open on this
            channel already.
    """
    methods = None if target is None else methods_at(AsyncioHome("open_rpc"), target)
    return Rpc(channel, methods, codec=codec, limits=limits, in_order=in_order)


class Rpc(ItemReader[AsyncRpc]):
    """Made by ``open_rpc``. Any number of tasks may call; one may iterate."""

    _opened_with = "open_rpc"

    def __init__(self, channel: Channel, target: object, **options: Any) -> None:
        def opener() -> Any:
            return open_async(channel._value, target, **options)

        super().__init__(f"RPC on {channel._what}", opener, _closed, channel)
        self._kept = deque()
        self._reading = False
        self._channel = channel

    call = forward(AsyncRpc.call)
    call_first = forward(AsyncRpc.call_first)
    call_many = forward(bulk_channel.call_many)
    cast = forward(AsyncRpc.cast)

    def call_all(
        self,
        method: str,
        *args: Any,
        dests: Iterable[Address] | Address | None = None,
        exclude: Iterable[Address] | Address = (),
        flags: int = 0,
    ) -> Replies:
        """Call a method at all members of the view, or at ``dests``, without ``exclude``:

            async for reply in rpc.call_all("add", 1, 2): ...

        One reply comes from each member, in the order of arrival. The call is sent when the first reply is asked for.
        You may stop early.
        """
        make = partial(
            self._value.call_all, method, *args, dests=dests, exclude=exclude, flags=flags
        )
        return Replies(self, make)

    async def statistics(self) -> RpcStatistics:
        """Return the counters as they are now."""
        statistics: RpcStatistics = await self._look(self._value.statistics)
        return statistics

    @property
    def channel(self) -> Channel:
        """The channel that the calls use. Send messages on it, but do not read it."""
        return self._channel

    @property
    def view(self) -> View:
        """The view in which the request that is served now arrived."""
        return self._value.view


class Replies:
    """The replies of ``Rpc.call_all``. Iterate once, in one task."""

    def __init__(self, rpc: Rpc, make: Callable[[], AsyncReplies]) -> None:
        self._rpc = rpc
        self._make = make
        self._replies: AsyncReplies | None = None
        self._kept: Reply | None = None
        """The reply that came for a reader that was cancelled."""

    def __aiter__(self) -> Replies:
        return self

    async def __anext__(self) -> Reply:
        """Return the next reply."""
        if self._kept is None:
            await self._rpc._call(self._take)
        reply, self._kept = self._kept, None
        if reply is None:
            raise StopAsyncIteration
        return reply

    async def _take(self) -> None:
        if self._replies is None:
            self._replies = self._make()
        self._kept = await anext(self._replies, None)

    def close(self) -> None:
        """Forget the call. The same happens when this object is freed."""
        replies, block = self._replies, self._rpc._block
        if replies is not None and block is not None and block.is_of_this_process:
            block.post_always(replies.close)  # errors of the loop are not for this thread

    __del__ = close


def _closed() -> ChannelClosed:
    return ChannelClosed("the RPC is closed")
