"""Bulk calls of a cache. Many calls cross between threads at once. They run in the loop, on objects of the async API."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Unpack

import trio

from jgroups_py.cache import CallOptions, TreeCache
from jgroups_py.cache.fqn import AnyPath

TURN_NODES = 256
"""The loop's other tasks run after this many nodes of one bulk call."""

Nodes = Mapping[Any, Mapping[str, Any]] | Collection[tuple[AnyPath, Mapping[str, Any]]]


async def get_many(
    cache: TreeCache,
    paths: Collection[AnyPath],
    key: str,
    default: Any = None,
    **options: Unpack[CallOptions],
) -> list[Any]:
    """Return one attribute of many nodes, in the order of ``paths``, with one crossing between threads. The values are not
    of one moment."""
    values = []
    for number, path in enumerate(paths, 1):
        values.append(await cache.get(path, key, default, **options))
        if not number % TURN_NODES:
            await trio.lowlevel.checkpoint()
    return values


async def get_nodes(
    cache: TreeCache, paths: Collection[AnyPath], **options: Unpack[CallOptions]
) -> list[dict[str, Any] | None]:
    """Return all attributes of many nodes, like ``get_many``; None where there is no node."""
    nodes = []
    for number, path in enumerate(paths, 1):
        nodes.append(await cache.get_node(path, **options))
        if not number % TURN_NODES:
            await trio.lowlevel.checkpoint()
    return nodes


async def put_many(
    cache: TreeCache, nodes: Nodes, *, replace: bool = False, **options: Unpack[CallOptions]
) -> None:
    """Set attributes of many nodes, path by path, as one batch and with one crossing between threads. All take effect or
    none. A batch has at most ``maxCallNodes`` nodes."""
    async with cache.batch(**options) as batch:
        pairs = nodes.items() if isinstance(nodes, Mapping) else nodes
        for number, (path, attributes) in enumerate(pairs, 1):
            batch.put_node(path, attributes, replace=replace)
            if not number % TURN_NODES:
                await trio.lowlevel.checkpoint()


async def changes_together(listener: Any, items: Any, at_most: int) -> None:
    """Append the next change, and the changes that are there already. Append nothing at the end of the stream."""
    item = await anext(listener, None)
    while item is not None:
        items.append(item)
        at_most -= 1
        if not at_most:
            return
        try:
            item = listener.take_nowait()
        except trio.WouldBlock:
            return
