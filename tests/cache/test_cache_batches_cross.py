"""Batches at two members that read the same nodes in opposite orders."""

from __future__ import annotations

from typing import Any

import trio
from cache_group import counter, group, settings

from jgroups_py.cache import CacheBatch, TreeCache
from jgroups_py.cache.keeping import KEEP_TIME

ROUNDS = 20


async def test_callers_that_keep_a_node_each_do_not_wait_for_each_other(
    autojump_clock: Any,
) -> None:
    async with group() as members:
        a, b = await members.start("AB", settings())
        await a.put("/x", "n", 0)
        await b.put("/y", "n", 0)

        async def task(cache: TreeCache, *paths: str) -> None:
            async def move(batch: CacheBatch) -> None:
                found = [await batch.get(path, "n") for path in paths]
                for path, value in zip(paths, found, strict=True):
                    batch.put(path, "n", value + 1)

            for _ in range(ROUNDS):
                await cache.batch(retries=100).run(move)

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(task, a, "/x", "/y")
            nursery.start_soon(task, b, "/y", "/x")
        took = trio.current_time() - began
        assert counter(a, "kept_too_long") == counter(b, "kept_too_long") == 0
        assert await a.get("/x", "n") == await b.get("/y", "n") == 2 * ROUNDS
        assert took < KEEP_TIME
