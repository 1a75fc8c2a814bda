"""Channels, calls and tree caches for threads and scripts: the async API without ``async``.

    from jgroups_py import blocking

    with blocking.open_channel("udp.xml", cluster="demo") as channel:
        channel.send(b"hello everyone", timeout=5)
        for item in channel: ...

Any thread may use an open channel, RPC or cache. One trio loop in one background thread runs them. The loop starts with
the first open object and ends with the last. Without ``with``, call ``close``. Times are seconds. A call that is not
done within ``timeout`` is cancelled and raises TimeoutError; with None it waits for ever. Other errors are those of the
async API. See design/blocking.md.

May import: channel, rpc, cache, export, maps, livebackup, buckets.
Imported by: aio, sessions, users.
"""

from __future__ import annotations

import typing

from jgroups_py.lazy import on_first_use

if typing.TYPE_CHECKING:
    from jgroups_py.blocking.buckets import open_buckets
    from jgroups_py.blocking.cache import CacheBatch, Changes, Retried, TreeCache, open_tree_cache
    from jgroups_py.blocking.channel import Channel, open_channel
    from jgroups_py.blocking.export import ExportPort, open_export
    from jgroups_py.blocking.maps import Map, open_map
    from jgroups_py.blocking.rpc import Replies, Rpc, open_rpc

__all__ = [
    "CacheBatch",
    "Changes",
    "Channel",
    "ExportPort",
    "Map",
    "Replies",
    "Retried",
    "Rpc",
    "TreeCache",
    "open_buckets",
    "open_channel",
    "open_export",
    "open_map",
    "open_rpc",
    "open_tree_cache",
]

_PLACES = {
    "buckets": "open_buckets",
    "cache": "CacheBatch Changes Retried TreeCache open_tree_cache",
    "channel": "Channel open_channel",
    "export": "ExportPort open_export",
    "maps": "Map open_map",
    "rpc": "Replies Rpc open_rpc",
}
"""Names that are imported on first use, by module. A map needs no stack, and maps and buckets need extras."""

if not typing.TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _PLACES)
