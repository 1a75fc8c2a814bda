"""Bulk calls and bulk reading of a channel. Many items cross between threads at once. They run in the loop,
on objects of the async API."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import trio

from jgroups_py.channel.channel import Item
from jgroups_py.errors import CallError, Suspected, Unreachable
from jgroups_py.rpc import Answer, Raised, Reply, Rpc
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch

CALLS_AT_ONCE = 256
"""The most calls of one ``call_many`` that are under way at once."""


async def call_many(rpc: Rpc, calls: Collection[tuple[Any, ...]], *, flags: int = 0) -> list[Reply]:
    """Make many calls ``(dest, method, *args)`` side by side, in no order, with one crossing between threads. Return one
    reply for each, in the order of ``calls``. See ``jgroups_py.rpc.replies``.

    Raises:
        ChannelClosed, Expelled, LocalProtocolError: any of them may have run.
    """
    wanted = tuple(calls)
    replies: list[Any] = [None] * len(wanted)
    numbers = iter(range(len(wanted)))

    async def some() -> None:
        for number in numbers:  # shared by all tasks: each takes the next call that is not taken
            dest, *what = wanted[number]
            replies[number] = await _reply(rpc, dest, what, flags)

    async with trio.open_nursery() as nursery:
        for _ in range(min(CALLS_AT_ONCE, len(wanted))):
            nursery.start_soon(some)
    return replies


async def _reply(rpc: Rpc, dest: Address, what: list[Any], flags: int) -> Reply:
    try:
        return Answer(dest, await rpc.call(dest, *what, flags=flags))
    except (Suspected, Unreachable) as error:
        return error
    except CallError as error:
        return Raised(dest, error)


async def one_item(stream: Any) -> list[Item]:
    """Return the next item of a channel or an RPC, alone."""
    return [await anext(stream)]


async def items_together(stream: Any) -> list[Item]:
    """Return the next view, or all messages of one sender that came together (at most a packet or so)."""
    while True:
        item = await stream.next_batch()
        if not isinstance(item, Batch):
            return [item]
        if item.payloads:
            return list(item.messages())
