"""Channels, calls and tree caches for asyncio programs.

    from jgroups_py import aio

    async with aio.open_channel("udp.xml", cluster="demo") as channel:
        await channel.send(b"hello everyone")
        async for item in channel: ...

The API is the async one, awaited in a running asyncio loop. One trio loop in a background thread runs open channels
and caches; ``jgroups_py.blocking`` shares it. A call that is cancelled (``task.cancel``, ``asyncio.timeout``) is
cancelled in that thread, too, and has ended when CancelledError comes. A cancelled write may have happened. Other
errors are those of the async API. Each object belongs to the asyncio loop in which it was opened. See design/aio.md.

May import: channel, rpc, cache, export, maps, livebackup, buckets, blocking.
Imported by: users only.
"""

from __future__ import annotations

import typing

from jgroups_py.lazy import on_first_use

if typing.TYPE_CHECKING:
    from jgroups_py.aio.buckets import open_buckets
    from jgroups_py.aio.cache import CacheBatch, Changes, Retried, TreeCache, open_tree_cache
    from jgroups_py.aio.channel import Channel, open_channel
    from jgroups_py.aio.maps import Map, open_map
    from jgroups_py.aio.rpc import Replies, Rpc, open_rpc

__all__ = [
    "CacheBatch",
    "Changes",
    "Channel",
    "Map",
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

_PLACES = {
    "buckets": "open_buckets",
    "cache": "CacheBatch Changes Retried TreeCache open_tree_cache",
    "channel": "Channel open_channel",
    "maps": "Map open_map",
    "rpc": "Replies Rpc open_rpc",
}
"""Names that are imported on first use, by module. A map needs no stack, and maps and buckets need extras."""

if not typing.TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _PLACES)
