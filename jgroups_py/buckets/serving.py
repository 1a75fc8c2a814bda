"""serve_items: opens the doors for clients of memcached and of HTTP at one member."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import trio

from jgroups_py.buckets.door import DoorLimits
from jgroups_py.buckets.items.bucket_items import BucketItems
from jgroups_py.buckets.memcached import MemcachedServer
from jgroups_py.buckets.node import BucketNode
from jgroups_py.driver.http_port import open_port, place_of


async def serve_items(
    node: BucketNode,
    *,
    memcached: str | None = None,
    http: str | None = None,
    limits: DoorLimits | None = None,
    task_status: trio.TaskStatus[Mapping[str, tuple[str, int]]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve clients until cancelled. Every member may have ports, one without copies, too.

    Args:
        memcached, http: ``HOST:PORT``; port 0 takes a free one.
        task_status: is told where they are: {"memcached": (host, port)}.

    Raises:
        ConfigError: a port cannot be opened.
    """
    store = BucketItems(node)
    places: dict[str, tuple[str, int]] = {}
    async with trio.open_nursery() as nursery:
        for name, where in (("memcached", memcached), ("http", http)):
            if where is None:
                continue
            listener = open_port(name, where)
            places[name] = place_of(listener)
            nursery.start_soon(_server(name, store, limits), [listener])
        task_status.started(places)


def _server(
    name: str, store: BucketItems, limits: DoorLimits | None
) -> Callable[[list[trio.SocketListener]], Awaitable[None]]:
    if name == "memcached":
        return MemcachedServer(store, limits=limits).serve
    from jgroups_py.buckets.http import HttpServer  # it needs an extra (h11)

    return HttpServer(store, limits=limits).serve
