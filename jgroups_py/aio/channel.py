"""A channel for asyncio programs."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

from jgroups_py.aio.bridge import AsyncioHome, state_at
from jgroups_py.aio.handle import Handle, forward
from jgroups_py.blocking.bulk_channel import items_together, one_item
from jgroups_py.blocking.channel import ChannelOptions
from jgroups_py.blocking.looks import ChannelLooks
from jgroups_py.channel.channel import Channel as AsyncChannel
from jgroups_py.channel.channel import Item
from jgroups_py.channel.given import check_function
from jgroups_py.channel.open import open_channel as open_async
from jgroups_py.channel.state import StateProvider
from jgroups_py.channel.values import ChannelStatistics
from jgroups_py.errors import ChannelClosed, LocalProtocolError
from jgroups_py.rpc import Rpc as AsyncRpc
from jgroups_py.values.address import Address

R = TypeVar("R", AsyncChannel, AsyncRpc)


def open_channel(
    stack: str | Path,
    *,
    cluster: str,
    state: StateProvider | None = None,
    **options: Unpack[ChannelOptions],
) -> Channel:
    """Open a member of ``cluster`` for as long as the ``async with`` lasts.

    Args:
        state: an async generator function that yields this member's state in chunks. It runs in the asyncio loop.
        options: as ``jgroups_py.open_channel``.

    Entering the block raises:
        ConfigError, JoinError, StateTransferError: no socket or task stays open.
    """
    check_function("state", state, "an async generator function")
    provider = None if state is None else state_at(AsyncioHome("open_channel"), state)
    opener = partial(open_async, stack, cluster=cluster, state=provider, **options)
    return Channel(f"channel of {cluster}", opener, _closed)


class ItemReader(Handle[R]):
    """A stream of views and messages. One task at a time may read it."""

    _kept: deque[Item]
    _reading: bool

    async def receive(self) -> Item:
        """Return the next View, Message, Excluded or State. An item that comes while the call is cancelled is kept for the
        next call.

        Raises:
            ChannelClosed, Expelled: the channel has ended, and all earlier items were delivered.
            LocalProtocolError: another task is reading.
        """
        if not self._kept:
            await self._read(one_item)
        return self._kept.popleft()

    async def receive_many(self) -> list[Item]:
        """Return the next view, or all messages of one sender that came together (at most a packet or so), with one crossing
        between threads. It raises like ``receive``."""
        if not self._kept:
            await self._read(items_together)
        items = list(self._kept)
        self._kept.clear()
        return items

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        return await self.receive()

    async def _read(self, how: Callable[[R], Awaitable[list[Item]]]) -> None:
        if self._reading:
            raise LocalProtocolError(f"another task is reading this {self._what}")
        block = self._opened
        if self._closed:
            raise block.why_over()
        call = self._task(block, how, (block.value,))
        self._reading = True
        try:
            await call.wait()
        finally:
            self._reading = False
            if call.value is not None:  # also when it came while this task was cancelled
                self._kept.extend(call.value)


class Channel(ItemReader[AsyncChannel], ChannelLooks):
    """A member of a group. Made by ``open_channel``."""

    _opened_with = "open_channel"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._kept = deque()
        self._reading = False

    send = forward(AsyncChannel.send)
    send_many = forward(AsyncChannel.send_many)
    wait_view = forward(AsyncChannel.wait_view)  # a function is called in the trio thread
    wait_members = forward(AsyncChannel.wait_members)

    async def fetch_state(self, frm: Address | None = None, *, timeout: float = 60.0) -> bytes:
        """Return the state of ``frm``; None asks the coordinator, or the member after it. Unread multicasts that the state
        contains are dropped from the stream.

        Raises:
            StateTransferError: the state did not come; the channel still works, without the state.
        """

        async def fetch() -> bytes:
            chunks = self._value.fetch_state(frm, timeout=timeout)
            return b"".join([chunk async for chunk in chunks])

        state: bytes = await self._call(fetch)
        return state

    async def statistics(self) -> ChannelStatistics:
        """Return the counters as they are now."""
        statistics: ChannelStatistics = await self._look(self._value.statistics)
        return statistics


def _closed() -> ChannelClosed:
    return ChannelClosed("the channel is closed")
