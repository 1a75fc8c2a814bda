"""open_rpc: makes calls possible on a channel for as long as a block lasts."""

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
    """Call methods of other members, and let them call the methods of ``target``, as long as the block lasts.

        async with open_channel("udp.xml", cluster="demo") as channel:
            async with open_rpc(channel, Calculator()) as rpc:
                print(await rpc.call(channel.view.coordinator, "add", 1, 2))

    Meanwhile the channel still sends, but the RPC reads it. Views and messages come with ``async for item in rpc``, in
    their order. An application that needs none of them need not iterate.

    Args:
        channel: the channel to call on.
        target: an object, whose public methods others may call, or functions by name (a mapping,
            or ``Methods``). With None nothing can be called here.
        codec: makes bytes of arguments and values between members of ours. All of them must use the same one. The
            default is msgpack.
        limits: sizes and times; see RpcLimits.
        in_order: serve a request only when the application has taken every view and message before it and asks for
            more. The application must then iterate for ever. It must not wait for calls while it holds an item, because
            two members could wait for each other. Without it, requests are in order among themselves, and so are
            views and messages.

    Leaving the block ends async methods that still run, and calls under way (ReplyLost).

    Raises:
        LocalProtocolError: an RPC is open on this channel already, ``target`` cannot be called, or there is no trio loop
            here.
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
