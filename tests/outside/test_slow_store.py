"""Buddies and a slow store: a node that moves away and comes back during the write of its row keeps its last value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from jgroups_py import MemoryNetwork
from jgroups_py.cache import (
    BuddyReplicationConfig,
    CacheSettings,
    Fqn,
    Row,
    Store,
    TreeCache,
    open_tree_cache,
)


class SlowStore(Store):
    """A store in a dict, whose writes are durable after ``pause`` seconds."""

    pause = 0.0

    def __init__(self) -> None:
        self.rows: dict[Fqn, Any] = {}

    async def open(self) -> None:
        pass

    async def aclose(self) -> None:
        pass

    async def load(self, path: Fqn) -> Any:
        return self.rows.get(path)

    async def load_within(self, path: Fqn, limit: int) -> Sequence[tuple[Fqn, Any]]:
        return [(at, node) for at, node in self.rows.items() if at.is_within(path)][:limit]

    async def names(self, path: Fqn) -> Sequence[str]:
        return [at[len(path)] for at in self.rows if at.is_within(path) and len(at) > len(path)]

    async def apply(self, rows: Sequence[Row]) -> None:
        await trio.sleep(self.pause)
        for path, node in rows:
            if node is None:
                self.rows.pop(path, None)
            else:
                self.rows[path] = node

    async def purge(self) -> None:
        self.rows.clear()


SETTINGS = CacheSettings(
    cache_mode="REPL_SYNC",
    stack="sim.xml",
    cluster_name="shop",
    buddy_replication_config=BuddyReplicationConfig(
        buddy_replication_enabled=True, auto_data_gravitation=True
    ),
)


async def test_a_node_that_comes_back_while_its_row_is_written_is_not_taken_for_saved(
    autojump_clock: Any,
) -> None:
    network, store = MemoryNetwork(), SlowStore()

    def opened(name: str, **options: Any) -> Any:
        return open_tree_cache(SETTINGS, name=name, transport=network, **options)

    async def change_elsewhere(a: TreeCache, b: TreeCache) -> None:
        await b.put("/a/b", "x", "B's")
        await a.put("/a", "x", 1)  # the node and all nodes below it belong to A again

    async with opened("A", store=store) as a, opened("B") as b, opened("C"):
        await trio.sleep(5)
        await a.put("/a/b", "x", "first")
        store.pause = 1.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.put, "/a/b", "x", "A's")
            await trio.sleep(0.5)
            store.pause = 0.0
            await change_elsewhere(a, b)
        assert await a.get("/a/b", "x") == "B's"
        await trio.sleep(20)  # rows that the store lacks are written
        await a.evict("/a/b")
        assert await a.get("/a/b", "x") == "B's"
        assert await b.get("/a/b", "x") == "B's"
