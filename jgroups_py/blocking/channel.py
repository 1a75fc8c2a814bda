"""A channel for threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self, TypedDict, TypeVar, Unpack

import trio

from jgroups_py.blocking.bulk_channel import items_together, one_item
from jgroups_py.blocking.call import ThreadCall
from jgroups_py.blocking.handle import Handle
from jgroups_py.blocking.looks import ChannelLooks
from jgroups_py.channel import channel as async_channel
from jgroups_py.channel.channel import Item
from jgroups_py.channel.given import check_function
from jgroups_py.channel.open import open_channel as open_async
from jgroups_py.channel.outbox import Payload
from jgroups_py.channel.state import StateProvider
from jgroups_py.channel.values import ChannelLimits, ChannelStatistics
from jgroups_py.channel.watch import WAIT_SECONDS
from jgroups_py.driver import Transport
from jgroups_py.errors import ChannelClosed
from jgroups_py.rpc import Rpc as AsyncRpc
from jgroups_py.stack.machine import Trace
from jgroups_py.values.address import Address
from jgroups_py.values.turned_away import TurnedAway
from jgroups_py.values.view import View

R = TypeVar("R", async_channel.Channel, AsyncRpc)

ChunksOfState = Callable[[], Iterable[bytes]]
"""A function that returns this member's state in chunks. It runs in a thread of its own."""


class ChannelOptions(TypedDict, total=False):
    """Options of ``jgroups_py.open_channel``, with the same meaning."""

    name: str | None
    bind_addr: str | None
    get_state: bool
    attributes: Mapping[str, str] | None
    properties: Mapping[str, str] | None
    seed: int | None
    transport: Transport | None
    limits: ChannelLimits | None
    join_timeout: float
    slow_reader_timeout: float | None
    trace: Trace | None
    turned_away: Callable[[TurnedAway], None] | None
    health_file: str | Path | None
    metrics: int | str | None
    flight_file: str | Path | None


def open_channel(
    stack: str | Path,
    *,
    cluster: str,
    state: ChunksOfState | None = None,
    timeout: float | None = None,
    **options: Unpack[ChannelOptions],
) -> Channel:
    """Open a member of ``cluster``. Use it with ``with``, or call ``close``.

    Args:
        state: a function that returns this member's state in chunks, for a member that asks. It runs in a thread of its own
            when the reader reaches the request.
        timeout: seconds for joining, beside ``join_timeout``.
        options: as ``jgroups_py.open_channel``.

    Raises:
        ConfigError, JoinError, StateTransferError, TimeoutError: no socket or task stays open.
    """
    check_function("state", state, "a function that gives chunks")
    provider = None if state is None else _in_a_thread(state)
    return Channel(
        partial(open_async, stack, cluster=cluster, state=provider, **options), cluster, timeout
    )


class ItemReader(Handle[R]):
    """A stream of views and messages. One thread at a time may read it."""

    _kept: deque[list[Item]]
    _reading: Any  # an RLock: a thread that was interrupted while reading may read again

    def receive(self, timeout: float | None = None) -> Item:
        """Return the next View, Message, Excluded or State.

        Raises:
            ChannelClosed, Expelled: the channel has ended, and all earlier items were delivered.
            TimeoutError: no item came; no item is lost.
            trio.BusyResourceError: another thread is reading.
        """
        (item,) = self._read(one_item, timeout)
        return item

    def receive_many(self, timeout: float | None = None) -> list[Item]:
        """Return the next view, or all messages of one sender that came together (at most a packet or so), with one crossing
        between threads. It raises like ``receive``."""
        return self._read(items_together, timeout)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        return self.receive()

    def _read(self, how: Callable[[R], Any], timeout: float | None) -> list[Item]:
        if not self._reading.acquire(blocking=False):
            raise trio.BusyResourceError("another thread is reading this channel")
        try:
            if self._kept:
                return self._take_kept(how)
            if self._closed:
                raise self._block.why_over()
            call = ThreadCall(self._block, how, (self._value,))
            try:
                items: list[Item] = call.wait(timeout)
            except BaseException:
                if call.value is not None:
                    # The interrupt came when the item was there. It must not be lost.
                    self._kept.append(call.value)
                raise
            return items
        finally:
            self._reading.release()

    def _take_kept(self, how: Callable[[R], Any]) -> list[Item]:
        items = self._kept.popleft()
        if how is one_item and len(items) > 1:
            self._kept.appendleft(items[1:])
            return items[:1]
        return items


class Channel(ItemReader[async_channel.Channel], ChannelLooks):
    """A member of a group. Made by ``open_channel``."""

    def __init__(self, opener: Callable[[], Any], cluster: str, timeout: float | None) -> None:
        self._kept = deque()
        self._reading = threading.RLock()
        super().__init__(f"channel of {cluster}", opener, _closed, timeout)
        self._what = f"channel {self.name} of {cluster}"

    def wait_view(
        self, wanted: int | Callable[[View], bool], *, timeout: float | None = WAIT_SECONDS
    ) -> View:
        """Wait until the newest view is as ``wanted``, and return it. Arguments and errors as
        ``jgroups_py.Channel.wait_view``. A function is called in another thread and must not wait."""
        view: View = self._call(partial(self._value.wait_view, wanted, timeout=timeout))
        return view

    def wait_members(
        self, wanted: int | Iterable[str], *, timeout: float | None = WAIT_SECONDS
    ) -> View:
        """Wait until at least the ``wanted`` members are in the view, and return the view. Arguments and errors as
        ``jgroups_py.Channel.wait_members``."""
        view: View = self._call(partial(self._value.wait_members, wanted, timeout=timeout))
        return view

    def statistics(self) -> ChannelStatistics:
        """Return the counters as they are now."""
        statistics: ChannelStatistics = self._look(self._value.statistics)
        return statistics

    def send(
        self,
        payload: Payload,
        to: Address | None = None,
        *,
        flags: int = 0,
        loopback: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Send to the group, or to one member. The call waits for credit. It returns when the payload has room, not when it
        has arrived.

        Raises:
            ChannelClosed, Expelled, LocalProtocolError, TimeoutError: nothing was sent.
        """
        send = partial(self._value.send, flags=flags, loopback=loopback)
        self._call(send, payload, to, timeout=timeout)

    def send_many(
        self,
        payloads: Iterable[Payload],
        to: Address | None = None,
        *,
        flags: int = 0,
        loopback: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Send all payloads, in order, with one crossing between threads. When it raises, a part of them may have been
        sent."""
        send = partial(self._value.send_many, flags=flags, loopback=loopback)
        self._call(send, list(payloads), to, timeout=timeout)

    def fetch_state(self, frm: Address | None = None, *, timeout: float = 60.0) -> bytes:
        """Return the state of ``frm``; None asks the coordinator, or the member after it. Unread multicasts that the state
        contains are dropped from the stream.

        Raises:
            StateTransferError: the state did not come; the channel still works, without the state.
        """

        async def fetch() -> bytes:
            chunks = self._value.fetch_state(frm, timeout=timeout)
            return b"".join([chunk async for chunk in chunks])

        state: bytes = self._call(fetch)
        return state


def _closed() -> ChannelClosed:
    return ChannelClosed("the channel is closed")


def _in_a_thread(state: ChunksOfState) -> StateProvider:
    async def provide() -> AsyncIterator[bytes]:
        chunks: Iterator[Any] = iter(await trio.to_thread.run_sync(state))
        end: Any = object()
        while (chunk := await trio.to_thread.run_sync(next, chunks, end)) is not end:
            yield chunk

    return provide
