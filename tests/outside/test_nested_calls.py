"""A call of the cache inside a batch that runs again, for nodes that the batch has read, is refused at once with a
clear error."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import trio

from jgroups_py import aio, blocking
from jgroups_py.cache import CacheBatch, CacheRefused, TreeCache, open_tree_cache

WHY = r"/a .*inside a batch.*batch\.put"
AT_ONCE = 9.0
"""Seconds. A call that waits for a lock gives up after 10."""
CALLS: dict[str, Any] = {
    "increment": lambda cache: cache.increment("/a", "k"),
    "update": lambda cache: cache.update("/a", "k", lambda value: value),
    "update_node": lambda cache: cache.update_node("/a", {"k": 5}),
    "move": lambda cache: cache.move("/a", "/c"),
    "batch": lambda cache: cache.batch(retries=1).run(reads_a),
}


async def reads_a(batch: CacheBatch) -> Any:
    return await batch.get("/a", "k")


@pytest.mark.parametrize("what", CALLS)
async def test_a_call_that_would_wait_for_its_own_batch_is_refused(what: str) -> None:
    async with open_tree_cache("local.xml") as cache:
        await cache.put("/a", "k", 1)

        @cache.batch(retries=5)
        async def work(batch: CacheBatch) -> None:
            await batch.get("/a", "k")
            await CALLS[what](cache)

        began = time.monotonic()
        with pytest.raises(CacheRefused, match=WHY):
            await work()
        assert time.monotonic() - began < AT_ONCE
        assert await cache.get("/a", "k") == 1
        assert await CALLS[what](cache) is not None or what == "batch"  # afterwards it is allowed


async def test_tasks_that_the_function_waits_for_are_inside_too() -> None:
    async with open_tree_cache("local.xml") as cache:

        async def task() -> None:
            with pytest.raises(CacheRefused, match=WHY):
                await cache.increment("/a", "k")

        @cache.batch(retries=5)
        async def work(batch: CacheBatch) -> None:
            await batch.get("/a", "k")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(task)

        with trio.fail_after(AT_ONCE):
            await work()


async def test_a_call_that_waits_for_nobody_goes_on() -> None:
    async def elsewhere(cache: TreeCache) -> None:
        await cache.increment("/a", "k")

    async with open_tree_cache("local.xml") as cache, open_tree_cache("local.xml") as other:

        @cache.batch(retries=5)
        async def work(batch: CacheBatch) -> None:
            await cache.increment("/a", "before")  # no node has been read yet
            await batch.get("/a", "k")
            await cache.increment("/b", "k")
            await cache.increment("/a/below", "k")
            await other.increment("/a", "k")
            batch.put("/a", "done", True)

        await work()
        assert await cache.get_node("/a") == {"before": 1, "done": True}
        assert await cache.get("/b", "k") == 1 and await cache.get("/a/below", "k") == 1
        async with trio.open_nursery() as nursery:
            for _ in range(5):  # others wait, as before
                nursery.start_soon(work)
                nursery.start_soon(elsewhere, cache)
        assert await cache.get("/a", "k") == 5


def test_threads_are_told_too() -> None:
    with blocking.open_tree_cache("local.xml") as cache:

        @cache.batch(retries=5)
        def work(batch: blocking.CacheBatch) -> None:
            batch.get("/a", "k")
            cache.increment("/b", "k")
            cache.increment("/a", "k")

        began = time.monotonic()
        with pytest.raises(CacheRefused, match=WHY):
            work()
        assert time.monotonic() - began < AT_ONCE
        assert cache.increment("/a", "k") == 1


def test_tasks_of_asyncio_are_told_too() -> None:
    async def main() -> None:
        async with aio.open_tree_cache("local.xml") as cache:

            @cache.batch(retries=5)
            async def work(batch: aio.CacheBatch) -> None:
                await batch.get("/a", "k")
                await cache.increment("/b", "k")
                await cache.increment("/a", "k")

            began = time.monotonic()
            with pytest.raises(CacheRefused, match=WHY):
                await work()
            assert time.monotonic() - began < AT_ONCE
            assert await cache.increment("/a", "k") == 1

    asyncio.run(main())
