"""open_rpc: calls on a channel for as long as a block lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from jgroups_py.channel.channel import Channel
from jgroups_py.driver.needs_trio import check_trio
from jgroups_py.driver.unwrap import reraise
from jgroups_py.errors import ChannelClosed
from jgroups_py.rpc.limits import RpcLimits
from jgroups_py.rpc.methods import methods_of
from jgroups_py.rpc.ours import Codec, Msgpack
from jgroups_py.rpc.rpc import Rpc


@asynccontextmanager
async def open_rpc(
    channel: Channel,
    target: object = None,
    *,
    codec: Codec | None = None,
    limits: RpcLimits | None = None,
    in_order: bool = False,
) -> AsyncIterator[Rpc]:
    """Calls of methods at other members, and ``target``'s for theirs, as long as the block lasts.

        async with open_channel("udp.xml", cluster="demo") as channel:
            async with open_rpc(channel, Calculator()) as rpc:
                print(await rpc.call(channel.view.coordinator, "add", 1, 2))

    Meanwhile the channel still sends, but is read here: what is not RPC comes with ``async for item
    in rpc``, in its order. Who needs none of it need not iterate.

    Args:
        target: an object, whose public methods others may call, or functions by name (a mapping,
            or ``Methods``). None: nothing can be called here.
        codec: how arguments and values become bytes between members of ours; the same at all of
            them. Default: msgpack.
        limits: sizes and times; see RpcLimits.
        in_order: a request is served only when the application has taken every view and message
            before it and come back for more. It must then iterate for ever, and not wait for calls
            while it holds an item: two members could wait for each other. Without it, requests are
            in order among themselves, as are views and messages.

    Leaving the block ends async methods that still run, and calls under way (ReplyLost).

    Raises:
        LocalProtocolError: an RPC is open on this channel already; or ``target`` cannot be called;
            or there is no trio loop here.
    """
    check_trio("open_rpc")
    rpc = Rpc(
        channel, methods_of(target), codec or Msgpack(), limits or RpcLimits(), in_order=in_order
    )
    channel.attach(rpc)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rpc._run)
            try:
                yield rpc
            finally:
                rpc.ended(ChannelClosed("the RPC is closed"))
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        reraise(group)
    finally:
        channel.detach(rpc.unread())
