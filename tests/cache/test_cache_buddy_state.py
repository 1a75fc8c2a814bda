"""New buddies get state, and so do joiners of the other modes; pools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio
from cache_group import counter, group, settings

from jgroups_py.cache import CacheSettings


@pytest.mark.seed("B36")
async def test_a_nominated_buddy_is_filled_in_the_background(autojump_clock: Any) -> None:
    async with group() as g:
        a, _, c = await g.start("ABC", settings())
        async with a.batch(new=True) as batch:
            for n in range(1000):
                batch.put(f"/n/{n}", "k", n)
        await g.kill("B")  # C is nominated
        with trio.fail_after(60):
            while not a.buddies.machine.buddies.pushing:
                await trio.lowlevel.checkpoint()
        kept = counter(c, "backup_nodes")
        # No call waits for the push: calls go on while one piece at a time leaves.
        await a.put("/n/999", "k", "changed", sync=False)
        assert await a.get("/n/998", "k") == 998
        assert kept < 1000 and a.buddies.machine.buddies.pushing
        await g.protected()
        assert a.buddies.machine.statistics["sent_Chunk"] >= 1000 / 100
        root = f"/_buddy_backup_/{a.buddies.group.name}"
        assert counter(c, "backup_nodes") == 1000
        assert await c.get(f"{root}/n/0", "k") == 0
        assert await c.get(f"{root}/n/999", "k") == "changed"


@pytest.mark.seed("B38")
async def test_state_is_stored_below_a_root_of_its_own_or_at_the_trees(autojump_clock: Any) -> None:
    """A buddy's copy is below ``/_buddy_backup_/<group>``; a full copy is at the root, as before."""
    full = CacheSettings(cache_mode="REPL_SYNC", stack="sim.xml", cluster_name="full")
    async with group() as g:
        (a,), (v,) = await g.start("A", settings()), await g.start("V", full)
        for cache in (a, v):
            await cache.put("/x/y", "k", 1)
        (b,), (w,) = await g.start("B", settings()), await g.start("W", full)
        assert await w.children("/") == ("x",) and await w.get("/x/y", "k") == 1
        assert await b.children("/") == ()
        assert await b.get("/x/y", "k", gravitation=False) is None
        root = f"/_buddy_backup_/{a.buddies.group.name}"
        assert await b.children(root) == ("x",) and await b.get(f"{root}/x/y", "k") == 1


@pytest.mark.seed("B20")
async def test_members_of_one_pool_are_buddies_of_each_other(autojump_clock: Any) -> None:
    async with group() as g:
        for name, pool in zip("ABCD", ["red", "blue", "red", "blue"], strict=True):
            config = settings()
            assert config.buddy_replication_config is not None
            buddies = replace(config.buddy_replication_config, buddy_pool_name=pool)
            await g.start(name, replace(config, buddy_replication_config=buddies))
        for name, other in ("AC", "BD", "CA", "DB"):
            kept = [group.name[0] for group in g.caches[name].buddies.groups]
            assert kept == [other]
    async with group() as g:  # without names all members are in one pool, and none is announced
        caches = await g.start("ABCD", settings())
        assert [cache.buddies.groups[0].name[0] for cache in caches] == ["D", "A", "B", "C"]
        assert not any(counter(cache, "buddy_sent_Pool") for cache in caches)


async def test_writes_that_come_together_are_acknowledged_together(autojump_clock: Any) -> None:
    async with group() as g:
        a, b = await g.start("AB", settings())
        for n in range(40):
            await a.put(f"/n/{n}", "k", 0)
        sent = [cache.buddies.channel.statistics().sent for cache in (a, b)]
        async with trio.open_nursery() as nursery:
            for n in range(40):
                nursery.start_soon(a.put, f"/n/{n}", "k", 1)
        ops, acks = [
            cache.buddies.channel.statistics().sent - before
            for cache, before in zip((a, b), sent, strict=True)
        ]
        assert ops == 40 and 1 <= acks <= 8
