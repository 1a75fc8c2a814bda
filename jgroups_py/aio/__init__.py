"""Channels, calls and tree caches for asyncio programs.

    from jgroups_py import aio

    async with aio.open_channel("udp.xml", cluster="demo") as channel:
        await channel.send(b"hello everyone")
        async for item in channel: ...

The API is the async one, awaited in a running asyncio loop. One trio loop in a background thread runs open channels
and caches; ``jgroups_py.blocking`` shares it. A call that is cancelled (``task.cancel``, ``asyncio.timeout``) is
cancelled there, too, and has ended when CancelledError comes. A cancelled write may have happened. Other errors are
those of the async API. Each object belongs to the asyncio loop in which it was opened. See design/aio.md.

May import: channel, rpc, cache, export, maps, livebackup, buckets, blocking.
Imported by: users only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jgroups_py.aio.cache import CacheBatch, Changes, Retried, TreeCache, open_tree_cache
from jgroups_py.aio.channel import Channel, open_channel
from jgroups_py.aio.rpc import Replies, Rpc, open_rpc

if TYPE_CHECKING:
    from jgroups_py.aio.buckets import open_buckets
    from jgroups_py.aio.maps import open_map

__all__ = [
    "CacheBatch",
    "Changes",
    "Channel",
    "Replies",
    "Retried",
    "Rpc",
    "TreeCache",
    "open_buckets",
    "open_channel",
    "open_map",
    "open_rpc",
    "open_tree_cache",
]


def __getattr__(name: str) -> Any:
    if name == "open_map":  # it needs an extra (lmdb)
        from jgroups_py.aio.maps import open_map

        return open_map
    if name == "open_buckets":
        from jgroups_py.aio.buckets import open_buckets

        return open_buckets
    raise AttributeError(f"module {__name__} has no attribute {name}")
