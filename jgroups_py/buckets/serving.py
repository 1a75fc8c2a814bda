"""serve_items: opens the doors for clients of memcached and of HTTP at one member."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import trio

from jgroups_py.buckets.door import DoorLimits
from jgroups_py.buckets.items.bucket_items import BucketItems
from jgroups_py.buckets.memcached import MemcachedServer
from jgroups_py.buckets.node import BucketNode
from jgroups_py.driver.http_port import open_port, place_of
from jgroups_py.errors import ConfigError


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
        task_status: gets their addresses: {"memcached": (host, port)}.

    Raises:
        ConfigError: a port cannot be opened, or HTTP lacks its extra.
    """
    store = BucketItems(node)
    places: dict[str, tuple[str, int]] = {}
    wanted = {"memcached": memcached, "http": http}
    servers = {name: _server(name, store, limits) for name in wanted if wanted[name] is not None}
    async with trio.open_nursery() as nursery:
        for name, serve in servers.items():
            listener = open_port(name, str(wanted[name]))
            places[name] = place_of(listener)
            nursery.start_soon(serve, [listener])
        task_status.started(places)


def _server(
    name: str, store: BucketItems, limits: DoorLimits | None
) -> Callable[[list[trio.SocketListener]], Awaitable[None]]:
    if name == "memcached":
        return MemcachedServer(store, limits=limits).serve
    try:
        from jgroups_py.buckets.http import HttpServer
    except ImportError as error:
        raise ConfigError("HTTP needs h11: pip install 'jgroups_py[http]'") from error
    return HttpServer(store, limits=limits).serve
