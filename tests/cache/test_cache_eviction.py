"""Eviction: the nodes that leave memory, the time of that, and the nodes that never leave."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from faulty_store import FaultyStore

from jgroups_py.cache import (
    CacheSettings,
    EvictionConfig,
    Fqn,
    LoaderConfig,
    RegionConfig,
    StoreConfig,
    TreeCache,
    open_tree_cache,
    parse_cache_settings,
)
from jgroups_py.cache.changes import NodeChange
from jgroups_py.cache.container import MemoryTree
from jgroups_py.cache.eviction import Region
from jgroups_py.cache.node import Node
from jgroups_py.cache.policies import LeastRecentlyUsed
from jgroups_py.errors import CacheRefused, ConfigError, StoreError


def settings(*regions: RegionConfig, store: bool = False) -> CacheSettings:
    loader = LoaderConfig(cacheloader=StoreConfig(), passivation=True)
    return CacheSettings(
        eviction_policy_config=EvictionConfig(regions=regions),
        cache_loader_configuration=loader if store else None,
    )


async def test_least_recently_used_nodes_leave_first() -> None:
    async with open_tree_cache(settings(RegionConfig(name="/", max_nodes=3))) as cache:
        for n in range(3):
            await cache.put(f"/{n}", "x", n)
        await cache.get("/0", "x")
        await cache.put("/3", "x", 3)
        assert await cache.children("/") == ("0", "2", "3")
        await cache.remove_node("/2")
        await cache.put("/4", "x", 4)
        assert await cache.children("/") == ("0", "3", "4")
        assert cache.statistics().counters["evicted"] == 1


async def test_bytes_are_a_limit_too() -> None:
    async with open_tree_cache(settings(RegionConfig(name="/", max_bytes=100))) as cache:
        for n in range(10):
            await cache.put(f"/{n}", "x", bytes(30))  # 33 bytes each
        assert cache.statistics().bytes <= 100
        assert await cache.children("/") == ("7", "8", "9")[-cache.statistics().nodes :]
        await cache.put("/9", "x", b"")
        await cache.put("/large", "x", bytes(200))  # larger than all its allowed memory
        assert cache.statistics().bytes == 0
        assert cache.statistics().counters["regions_over_limit"] == 0


async def test_a_twentieth_is_evicted_in_one_transaction() -> None:
    store = FaultyStore()
    region = RegionConfig(name="/", max_nodes=100)
    async with open_tree_cache(settings(region, store=True), store=store) as cache:
        for n in range(101):
            await cache.put(f"/{n}", "x", n)
        assert cache.statistics().nodes == 95
        assert store.calls.count("apply") == 1 and len(store.rows) == 6


async def test_the_longest_region_counts() -> None:
    regions = (RegionConfig(name="/_default_", max_nodes=1), RegionConfig(name="/big", max_nodes=3))
    async with open_tree_cache(settings(*regions)) as cache:
        for n in range(4):
            await cache.put(f"/big/{n}", "x", n)
            await cache.put(f"/small/{n}", "x", n)
        assert await cache.children("/big") == ("1", "2", "3")
        assert await cache.children("/small") == ("3",)


async def test_nodes_leave_after_their_time(autojump_clock: Any) -> None:
    regions = (
        RegionConfig(name="/idle", time_to_live=10),
        RegionConfig(name="/age", max_age=10),
        RegionConfig(name="/both", max_nodes=2, time_to_live=10),
    )
    async with open_tree_cache(settings(*regions)) as cache:
        for name in ("idle", "age", "both"):
            await cache.put(f"/{name}/used", "x", 1)
            await cache.put(f"/{name}/left", "x", 1)
        await cache.put("/both/third", "x", 1)
        assert await cache.children("/both") == ("left", "third")
        await trio.sleep(7)
        for name in ("idle", "age"):
            await cache.get(f"/{name}/used", "x")
        await trio.sleep(
            9
        )  # checked every 5 s: at 15 s its time was over; that of the used one was not
        assert await cache.children("/idle") == ("used",)
        assert await cache.children("/age") == ()
        assert await cache.children("/both") == ()


async def test_a_node_in_use_stays(autojump_clock: Any) -> None:
    store = FaultyStore()
    await store.open()
    region = RegionConfig(name="/", max_nodes=1)
    async with open_tree_cache(settings(region, store=True), store=store) as cache:
        await cache.put("/a", "x", 1)
        await cache.evict("/a")
        store.slow = 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cache.get, "/a", "x")
            await trio.sleep(0.1)
            assert await cache.evict("/a") is False
            await cache.put("/b", "x", 1)
        assert cache.statistics().nodes == 1
        assert await cache.get("/a", "x") == await cache.get("/b", "x") == 1


async def test_nodes_that_the_store_does_not_take_stay_in_memory_and_writes_are_refused(
    autojump_clock: Any,
) -> None:
    store = FaultyStore()
    region = RegionConfig(name="/", max_nodes=2)
    async with open_tree_cache(settings(region, store=True), store=store) as cache:
        for n in range(3):
            await cache.put(f"/{n}", "x", n)
        store.fault = lambda: "before" if store.calls[-1] == "apply" else ""
        await cache.put("/3", "x", 3)  # done; only now it shows that no node can leave
        with pytest.raises(StoreError, match=r"more than eviction allows.*nothing was changed"):
            await cache.put("/4", "x", 4)
        assert cache.statistics().nodes == 3
        assert cache.statistics().counters["eviction_failures"] >= 1
        assert cache.statistics().counters["regions_over_limit"] == 1
        assert [await cache.get(f"/{n}", "x") for n in range(4)] == [0, 1, 2, 3]
        assert cache.statistics().nodes == 3  # a node that can be loaded again may leave
        store.fault = lambda: ""
        await trio.sleep(2)
        await cache.put("/4", "x", 4)
        assert cache.statistics().nodes == 2
        assert [await cache.get(f"/{n}", "x") for n in range(5)] == [0, 1, 2, 3, 4]


@pytest.mark.seed("B26")
@pytest.mark.parametrize("name", ["/_buddy_backup_", "/_buddy_backup_/A-1"])
def test_a_policy_for_backups_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"name {name} cannot be evicted: /_buddy_backup_ holds"):
        RegionConfig(name=name, max_nodes=5)
    with pytest.raises(CacheRefused, match=f"{name} cannot be evicted: /_buddy_backup_ holds"):
        Region(Fqn.parse(name), LeastRecentlyUsed(5))
    text = f"""<cache>
    <EvictionPolicyConfig><region name="{name}">
        <attribute name="maxNodes">5</attribute></region></EvictionPolicyConfig></cache>"""
    with pytest.raises(ConfigError, match=r"c\.xml:2:35: region\.name: .* cannot be evicted"):
        parse_cache_settings(text, language="xml", source="c.xml")


@pytest.mark.seed("B26")
async def test_eviction_passes_by_backups(autojump_clock: Any) -> None:
    tree = MemoryTree()
    backup = Fqn(("_buddy_backup_", "B-1", "x"))
    tree.apply((NodeChange(backup, None, Node({"k": b"\xc5\x01\xf4" + bytes(500)})),))
    cache = TreeCache(container=tree, regions=[Region(Fqn(), LeastRecentlyUsed(2, 100))])
    for n in range(5):
        await cache.put(f"/{n}", "x", n)
        await cache.get(backup, "k")
    assert tree.get(backup) is not None and len(tree) == 3
    with pytest.raises(CacheRefused, match="cannot be evicted"):
        await cache.evict(backup)
    assert await cache.remove_tree("/") == 2  # an application's root does not have them, either
    assert tree.get(backup) is not None
