"""A cache with buddies on channels: the full stack of sim.xml, on a network in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from jgroups_py import MemoryNetwork
from jgroups_py.cache import (
    BuddyReplicationConfig,
    CacheSettings,
    TreeCache,
    open_tree_cache,
)


def settings(buddies: int = 1, *, auto: bool = True, **more: Any) -> CacheSettings:
    return CacheSettings(
        cache_mode=more.pop("cache_mode", "REPL_SYNC"),
        stack="sim.xml",
        cluster_name="test",
        buddy_replication_config=BuddyReplicationConfig(
            buddy_replication_enabled=True,
            buddy_locator_properties={"numBuddies": str(buddies)},
            auto_data_gravitation=auto,
        ),
        **more,
    )


class Group:
    """Caches on one network; each can be killed, which is a crash for the others, or closed."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.network = MemoryNetwork()
        self.caches: dict[str, TreeCache] = {}
        self.scopes: dict[str, trio.CancelScope] = {}
        self.closing: dict[str, trio.Event] = {}
        self.gone: dict[str, trio.Event] = {}

    async def start(self, names: str, config: CacheSettings) -> list[TreeCache]:
        for name in names:
            await self.nursery.start(self._run, name, config)
        await self.protected()
        return [self.caches[name] for name in names]

    async def _run(
        self, name: str, config: CacheSettings, task_status: trio.TaskStatus[None]
    ) -> None:
        self.gone[name] = trio.Event()
        with trio.CancelScope() as self.scopes[name]:
            async with open_tree_cache(config, name=name, transport=self.network) as cache:
                self.caches[name] = cache
                self.closing[name] = trio.Event()
                task_status.started()
                await self.closing[name].wait()
        del self.caches[name]
        self.gone[name].set()

    async def kill(self, name: str) -> None:
        self.scopes[name].cancel()
        await self.gone[name].wait()

    async def close(self, name: str) -> None:
        self.closing[name].set()
        await self.gone[name].wait()

    async def protected(self) -> None:
        with trio.fail_after(60):
            while not all(c.buddies.protected for c in self.caches.values()):  # noqa: ASYNC110
                await trio.sleep(0.01)


@asynccontextmanager
async def group() -> AsyncIterator[Group]:
    async with trio.open_nursery() as nursery:
        yield Group(nursery)
        nursery.cancel_scope.cancel()


@pytest.mark.seed("B7")
async def test_a_dead_owners_node_comes_to_who_asks_first(autojump_clock: Any) -> None:
    async with group() as g:
        a, b, c = await g.start("ABC", settings())
        await a.put("/x", "k", 1)
        assert b.statistics().counters["backup_nodes"] == 1
        assert c.statistics().counters["backup_nodes"] == 0
        await g.kill("A")
        await g.protected()
        assert await c.get("/x", "k") == 1
        assert c.statistics().nodes == 1 and b.statistics().nodes == 0
