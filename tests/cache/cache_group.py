"""Caches with buddies on one network in memory; tests start, kill, close, split and isolate them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from split_network import SplitNetwork

from jgroups_py import MemoryNetwork
from jgroups_py.cache import (
    BuddyReplicationConfig,
    CacheSettings,
    Store,
    TreeCache,
    open_tree_cache,
)
from jgroups_py.errors import CacheError, CacheRefused

QUICK_MERGES = str(Path(__file__).parent / "quick.xml")
"""The stack of tests in real time."""


def settings(
    buddies: int = 1, *, auto: bool = True, remove_on_find: bool = True, **more: Any
) -> CacheSettings:
    return CacheSettings(
        cache_mode=more.pop("cache_mode", "REPL_SYNC"),
        stack=more.pop("stack", "sim.xml"),
        cluster_name="test",
        buddy_replication_config=BuddyReplicationConfig(
            buddy_replication_enabled=True,
            buddy_locator_properties={"numBuddies": str(buddies)},
            auto_data_gravitation=auto,
            data_gravitation_remove_on_find=remove_on_find,
        ),
        **more,
    )


class Group:
    """Caches on one network; a test can kill one, which is a crash for the others, or close it."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.network = MemoryNetwork()
        self.caches: dict[str, TreeCache] = {}
        self.scopes: dict[str, trio.CancelScope] = {}
        self.closing: dict[str, trio.Event] = {}
        self.gone: dict[str, trio.Event] = {}
        self.stores: dict[str, Store] = {}
        self.properties: dict[str, str] = {}
        self.work: dict[str, trio.CancelScope] = {}

    async def start(self, names: str, config: CacheSettings) -> list[TreeCache]:
        names_of_all = tuple(names)
        for name in names:
            await self.nursery.start(self._run, name, config)
        found = [self.caches[name] for name in names]
        for cache in found:  # on a busy machine a member may be alone at first
            await cache.wait_members(names_of_all)
        await self.protected()
        return found

    async def _run(
        self, name: str, config: CacheSettings, *, task_status: trio.TaskStatus[None]
    ) -> None:
        self.gone[name] = trio.Event()
        with trio.CancelScope() as self.scopes[name]:
            async with open_tree_cache(
                config,
                name=name,
                transport=self.network,
                store=self.stores.get(name),
                properties=self.properties,
            ) as cache:
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

    async def together(self) -> None:
        """Wait until all are in one view: on a busy machine a starting member may be alone at first, and merge
        later."""
        with trio.fail_after(90):
            while any(len(cache.members) != len(self.caches) for cache in self.caches.values()):  # noqa: ASYNC110
                await trio.sleep(0.01)
        await self.protected()

    async def cut(self, *names: str) -> None:
        """Cut the network, a ``SplitNetwork``, between these members and the others. Returns when both halves have their views
        and copies. They must be of one size."""
        assert isinstance(self.network, SplitNetwork)
        self.network.side = {id(self.caches[name].buddies._channel.driver) for name in names}
        await self._views_of(len(names) or len(self.caches))
        await self.protected()

    async def _views_of(self, members: int) -> None:
        with trio.fail_after(300):
            while any(len(c.buddies.members) != members for c in self.caches.values()):  # noqa: ASYNC110
                await trio.sleep(0.1)

    async def protected(self) -> None:
        with trio.fail_after(60):
            while not all(c.buddies.protected for c in self.caches.values() if has_buddies(c)):  # noqa: ASYNC110
                await trio.sleep(0.01)


def has_buddies(cache: TreeCache) -> bool:
    try:
        return cache.buddies is not None
    except CacheRefused:
        return False


@asynccontextmanager
async def group() -> AsyncIterator[Group]:
    async with trio.open_nursery() as nursery:
        yield Group(nursery)
        nursery.cancel_scope.cancel()


async def put_noting(cache: TreeCache, errors: list[Exception]) -> None:
    """Put a value, and note the error of the cache."""
    try:
        await cache.put("/x", "k", 1)
    except CacheError as error:
        errors.append(error)


def counter(cache: TreeCache, name: str) -> int:
    return cache.statistics().counters.get(name, 0)


def total(caches: list[TreeCache], name: str) -> int:
    return sum(counter(cache, name) for cache in caches)


def owners_backed_up_by(cache: TreeCache) -> list[str]:
    return sorted(group.name.partition("-")[0] for group in cache.buddies.groups)


class Deaf(deque[Any]):
    """An owner of no nodes that drops all messages."""

    def append(self, item: Any) -> None:
        pass
