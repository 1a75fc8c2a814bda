"""Channels, calls and tree caches for asyncio programs.

    from jgroups_py import aio

    async with aio.open_channel("udp.xml", cluster="demo") as channel:
        await channel.send(b"hello everyone")
        async for item in channel: ...

The API is the async one, awaited in a running asyncio loop; what is opened is kept by one trio loop in a
background thread, shared with ``jgroups_py.blocking``. A call that is cancelled (``task.cancel``,
``asyncio.timeout``) is cancelled there, too, and has ended when CancelledError comes; a write may have
happened. Everything else is raised as by the async API. Each object belongs to the asyncio loop it was
opened in. See design/aio.md.
"""

from __future__ import annotations

from jgroups_py.aio.cache import Batch, Changes, Retried, TreeCache, open_tree_cache
from jgroups_py.aio.channel import Channel, open_channel
from jgroups_py.aio.rpc import Replies, Rpc, open_rpc

__all__ = [
    "Batch",
    "Changes",
    "Channel",
    "Replies",
    "Retried",
    "Rpc",
    "TreeCache",
    "open_channel",
    "open_rpc",
    "open_tree_cache",
]
