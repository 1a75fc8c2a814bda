"""Eviction and passivation of owned nodes: ownership and copies stay, and the values are found."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import trio
from cache_group import Group, counter, group, settings, total
from counters import Counters
from faulty_store import Fault, FaultyStore
from split_network import SplitNetwork

from jgroups_py import MemoryNetwork
from jgroups_py.cache import (
    CacheSettings,
    EvictionConfig,
    Fqn,
    LoaderConfig,
    RegionConfig,
    Row,
    StoreConfig,
    TreeCache,
    open_tree_cache,
    parse_cache_settings,
)
from jgroups_py.errors import CacheError, CacheRefused, ConfigError, StoreError

ROOM = 5


def small(buddies: int = 1, *, passivation: bool = True, **more: Any) -> CacheSettings:
    """Memory for few nodes; the others are in the store."""
    return settings(
        buddies,
        eviction_policy_config=EvictionConfig(regions=(RegionConfig(name="/", max_nodes=ROOM),)),
        cache_loader_configuration=LoaderConfig(
            cacheloader=StoreConfig(), passivation=passivation, purge_on_startup=passivation
        ),
        **more,
    )


async def start(g: Group, names: str, config: CacheSettings) -> list[TreeCache]:
    for name in names:
        g.stores.setdefault(name, FaultyStore())
    return await g.start(names, config)


async def fill(cache: TreeCache, count: int = 20) -> None:
    for n in range(count):
        await cache.put_node(f"/n/{n}", {"k": n, "more": "x" * n})


async def parted(g: Group) -> list[TreeCache]:
    """Return caches A, B, C and D after a cut between B and C. A owns ten nodes from the time before it."""
    g.network = SplitNetwork()
    caches = await start(g, "ABCD", small())
    await fill(caches[0], 10)
    await g.cut("C", "D")
    return caches


@pytest.mark.seed("B26")
@pytest.mark.parametrize("passivation", [True, False])
async def test_nodes_that_left_memory_are_still_owned_and_their_copies_stay(
    passivation: bool, autojump_clock: Any
) -> None:
    async with group() as g:
        a, b, _ = await start(g, "ABC", small(passivation=passivation))
        await fill(a)
        assert a.statistics().nodes <= ROOM and counter(a, "passive_nodes") >= 15
        assert counter(b, "backup_nodes") == 20  # more than its limit: never evicted
        (kept,) = await b.children("/_buddy_backup_")
        with pytest.raises(CacheRefused, match="cannot be evicted"):
            await b.evict(f"/_buddy_backup_/{kept}/n/0")
        claims = total([a, b], "buddy_claims")
        assert len(await a.children("/n")) == 20
        for n in range(20):
            assert await a.get("/n/" + str(n), "k") == n
        await a.put("/n/3", "k", "changed")  # the other attribute is not lost
        assert await a.get_node("/n/3") == {"k": "changed", "more": "xxx"}
        assert await a.remove_node("/n/4") and not await a.exists("/n/4")
        assert a.statistics().nodes <= ROOM
        assert total([a, b], "buddy_claims") == claims
        assert await a.evict("/n/3") and not await a.evict("/n/3")
        assert await a.remove_tree("/n") == 19 and await a.children("/n") == ()
        assert counter(a, "passive_nodes") == counter(b, "backup_nodes") == 0
        await trio.sleep(10)
        assert g.stores["A"].rows == {}  # type: ignore[attr-defined]


@pytest.mark.seed("B22")
async def test_gravitation_finds_passive_nodes(autojump_clock: Any) -> None:
    async with group() as g:
        a, b, c = caches = await start(g, "ABC", small())
        await fill(a)
        assert await c.get_node("/n/0") == {"k": 0, "more": ""}
        await c.put("/n/1", "k", "c")
        assert await a.get("/n/1", "k") == "c"
        assert len(await b.children("/n", gravitation=True)) == 20  # all its attributes at once
        await g.protected()
        assert [x.statistics().nodes + counter(x, "passive_nodes") for x in caches] == [0, 20, 0]
        await trio.sleep(6)  # the evictor's task
        assert b.statistics().nodes <= ROOM
        assert [await b.get(f"/n/{n}", "k") for n in range(20)] == [0, "c", *range(2, 20)]
        await trio.sleep(10)
        assert g.stores["A"].rows == {}  # type: ignore[attr-defined]


async def test_the_owner_dies_and_nothing_is_lost(autojump_clock: Any) -> None:
    async with group() as g:
        a, b, c = await start(g, "ABC", small())
        await fill(a)
        await g.kill("A")
        await g.protected()
        assert b.statistics().nodes + counter(b, "passive_nodes") == 20
        await b.put("/more", "k", 1)
        assert b.statistics().nodes <= ROOM
        await g.kill("B")  # its copies are whole, though most left its memory
        await g.protected()
        assert [await c.get(f"/n/{n}", "k") for n in range(20)] == [*range(20)]


@pytest.mark.parametrize("how", ["join", "leave", "buddy dies"])
async def test_others_get_values_that_left_memory(how: str, autojump_clock: Any) -> None:
    async with group() as g:
        a, b = await start(g, "AB", small())
        count = 30 if how == "leave" else 110  # more than one message of the push
        await fill(a, count)
        assert counter(a, "passive_nodes") >= count - ROOM
        (c,) = await start(g, "C", small())
        if how == "leave":
            await g.close("A")
            assert total([b, c], "nodes_adopted") == 0
        else:
            if how == "buddy dies":
                await g.kill("B")
                await g.protected()
                assert counter(c, "backup_nodes") == count
                assert a.statistics().nodes <= ROOM
            await g.kill("A")
        await g.protected()
        reader = g.caches["C"]
        assert [await reader.get(f"/n/{n}", "k") for n in range(count)] == [*range(count)]


async def test_a_store_that_fails_makes_others_wait_and_loses_nothing(autojump_clock: Any) -> None:
    fault: Fault = ""
    async with group() as g:
        g.stores["A"] = FaultyStore(lambda: fault)
        a, b = await start(g, "AB", small(sync_repl_timeout=3))
        await fill(a)
        fault = "before"
        with pytest.raises(CacheError) as caught:
            await b.get("/n/0", "k")
        assert caught.value.definite and counter(a, "activation_failures") > 1
        with pytest.raises(StoreError):
            await a.get("/n/1", "k")
        await a.put("/n/19", "k", "in memory")
        fault = ""
        assert await b.get("/n/0", "k") == 0
        await g.protected()
        # A deleted row is reported as missing; the copy is safe.
        store = g.stores["A"]
        assert isinstance(store, FaultyStore)
        gone = next(
            p for p in store.rows if p != Fqn.parse("/n/0") and a.buddies.entries[tuple(p)].passive
        )
        row = store.rows.pop(gone)
        with pytest.raises(StoreError, match=f"no row of {gone}, which was passivated"):
            await a.get(gone, "k")
        with pytest.raises(CacheError):
            await b.get(gone, "k")
        others = [p for p in store.rows if a.buddies.entries[tuple(p)].passive][:3]
        for other in others:  # those calls need not wait for it
            assert await b.get(other, "k") == int(other.name)
        store.rows[gone] = row
        assert await b.get(gone, "k") == int(gone.name)


async def test_a_merge_drops_passive_nodes_from_the_store_too(autojump_clock: Any) -> None:
    async with group() as g:
        a, _, _, d = caches = await parted(g)
        for n in range(10):
            await a.put(f"/n/{n}", "k", f"a{n}")
            for time in range(3):
                await d.put(f"/n/{n}", "k", f"d{n}-{time}")
        await g.cut()
        assert sum(x.statistics().nodes + counter(x, "passive_nodes") for x in caches) == 10
        seen = [[await x.get(f"/n/{n}", "k") for n in range(10)] for x in caches]
        assert seen[0] == seen[1] == seen[2] == seen[3]
        await trio.sleep(10)
        rows = [g.stores[x].rows for x in "ABCD"]  # type: ignore[attr-defined]
        assert sum(map(len, rows)) <= 10


async def test_a_winner_of_a_merge_that_left_memory_keeps_whole_copies(autojump_clock: Any) -> None:
    async with group() as g:
        a, _, c, d = await parted(g)
        for n in range(10):
            await c.put(f"/n/{n}", "k", f"c{n}")
        await g.cut()
        assert counter(c, "passive_nodes") >= 5 and counter(d, "backup_nodes") == 10
        await g.kill("C")
        await g.protected()
        assert [await a.get(f"/n/{n}", "k") for n in range(10)] == [f"c{n}" for n in range(10)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
async def test_counters_that_leave_memory_and_move_lose_no_increment(
    seed: int, autojump_clock: Any
) -> None:
    chance = random.Random(seed)
    counters = Counters(20, rate=50)
    async with group() as g:
        await start(g, "ABC", small(2))
        victim = chance.choice("ABC")
        async with trio.open_nursery() as writers:
            counters.start(writers, g, chance)
            await trio.sleep(0.4)
            g.work[victim].cancel()
            await g.kill(victim)
            await trio.sleep(0.2)
            counters.stop = True
        await g.protected()
        caches = list(g.caches.values())
        assert total(caches, "buddy_activated") > 30 < total(caches, "buddy_gravitations")
        assert all(cache.statistics().nodes <= ROOM for cache in caches)
        await counters.check(caches[0])
        assert sum(counters.done) > 50


class Slow(FaultyStore):
    """A store whose writes wait for the event ``go_on``, if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.there = trio.Event()
        self.go_on: trio.Event | None = None

    async def apply(self, rows: Sequence[Row]) -> None:
        if self.go_on is not None:
            self.there.set()
            await self.go_on.wait()
        await super().apply(rows)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("passivation", [True, False])
async def test_a_node_that_moves_away_and_back_during_eviction_differs_from_its_old_row(
    passivation: bool, fails: bool, autojump_clock: Any
) -> None:
    async with group() as g:
        store = g.stores["A"] = Slow()
        a, b = await start(g, "AB", small(passivation=passivation))
        await b.put("/x", "k", 1)
        assert await a.get("/x", "k", gravitation=True) == 1
        await g.protected()
        store.go_on = trio.Event()

        async def evict() -> None:
            try:
                assert not await a.evict("/x")
            except StoreError:
                assert fails

        async with trio.open_nursery() as evicting:
            evicting.start_soon(evict)
            await store.there.wait()
            await b.put("/x", "k", 2)
            await g.protected()
            await g.close("B")  # A hands the node over
            assert a.buddies.entries[("x",)].value is not None
            if fails:
                store.fault = lambda: "after"
            store.go_on.set()
        store.fault = lambda: ""
        assert await a.get("/x", "k") == 2
        await trio.sleep(10)  # the evictor's task
        assert await a.evict("/x") and counter(a, "passive_nodes") == 1
        assert await a.get("/x", "k") == 2


async def test_a_row_that_is_deleted_while_its_node_comes_back_ends_nothing(
    autojump_clock: Any,
) -> None:
    async with group() as g:
        store = g.stores["A"] = Slow()
        a, b = await start(g, "AB", small())
        await a.put("/x", "k", 1)
        assert await a.evict("/x") and await b.get("/x", "k") == 1
        await g.protected()
        store.go_on = trio.Event()
        await store.there.wait()  # the evictor's task deletes it
        await g.close("B")
        store.go_on.set()
        await trio.sleep(10)
        assert await a.get("/x", "k") == 1 and await a.evict("/x")
        assert await a.get("/x", "k") == 1


async def test_a_node_that_moves_away_while_it_is_evicted_leaves_no_row(
    autojump_clock: Any,
) -> None:
    async with group() as g:
        store = g.stores["A"] = Slow()
        a, b = await start(g, "AB", small())
        await a.put("/x", "k", 1)
        store.go_on = trio.Event()
        async with trio.open_nursery() as evicting:
            evicting.start_soon(a.evict, "/x")
            await store.there.wait()
            await b.put("/x", "k", 2)
            await g.protected()
            store.go_on.set()
        await trio.sleep(10)
        assert store.rows == {} and await b.get("/x", "k") == 2


BUDDIES = "BuddyReplicationConfig: {buddyReplicationEnabled: true}\n"
STORE = "cacheloader: {class: SqliteStore, properties: {location: x.db}}"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("EvictionPolicyConfig: {region: {name: /, maxNodes: 5}}", "needs a store to go to"),
        (
            f"CacheLoaderConfiguration: {{passivation: true, {STORE}}}",
            "needs purgeOnStartup = true",
        ),
    ],
)
async def test_options_that_buddies_exclude_are_refused(more: str, said: str) -> None:
    text = f"CacheMode: REPL_SYNC\nClusterName: x\nClusterConfig: sim.xml\n{BUDDIES}{more}"
    config = parse_cache_settings(text, language="yaml", source="c.yaml")
    with pytest.raises(ConfigError, match=rf"c\.yaml: .*{said}"):
        async with open_tree_cache(config, transport=MemoryNetwork()):
            pass
    if "Eviction" in more:  # a store that was given in Python is one
        config = replace(config, cluster_name="y")
        async with open_tree_cache(config, transport=MemoryNetwork(), store=FaultyStore()) as cache:
            await cache.put(Fqn(("a",)), "k", 1)
