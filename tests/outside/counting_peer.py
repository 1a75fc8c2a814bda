"""A member that counts, in a process of its own: the README's counter, as an outsider writes it.

Arguments: cache file, name, how ("batch", "update", ...), members, tasks, increments of each task.
Prints "ready" when all members are there, waits for a line, counts, prints how many batches met a
conflict, waits for a line, prints what it reads.
"""

from __future__ import annotations

import sys
import time

import trio

from jgroups_py.cache import CacheBatch, TreeCache, open_tree_cache
from jgroups_py.errors import BatchConflict

PATH, KEY = "/users/7", "visits"


async def by_batch(cache: TreeCache) -> int:
    """Says how often it met a conflict."""
    conflicts = 0
    while True:
        try:
            async with cache.batch() as batch:
                visits = await batch.get(PATH, KEY, 0)
                batch.put(PATH, KEY, visits + 1)
            return conflicts
        except BatchConflict:
            conflicts += 1


async def by_update(cache: TreeCache) -> int:
    tries = 0

    def add(visits: int) -> int:
        nonlocal tries
        tries += 1
        return visits + 1

    await cache.update(PATH, KEY, add, default=0)
    return tries - 1


async def by_increment(cache: TreeCache) -> int:
    await cache.increment(PATH, KEY)
    return 0


async def by_comparing(cache: TreeCache) -> int:
    tries = 0
    while True:
        tries += 1
        value = await cache.get(PATH, KEY)
        if await cache.compare_and_set(PATH, KEY, value, (value or 0) + 1):
            return tries - 1


async def by_retried_batch(cache: TreeCache) -> int:
    tries = 0

    @cache.batch(retries=100)
    async def count(batch: CacheBatch) -> None:
        nonlocal tries
        tries += 1
        batch.put(PATH, KEY, await batch.get(PATH, KEY, 0) + 1)

    await count()
    return tries - 1


HOW = {
    "batch": by_batch,
    "update": by_update,
    "increment": by_increment,
    "compare": by_comparing,
    "retried": by_retried_batch,
}


async def main(file: str, name: str, how: str, members: int, tasks: int, times: int) -> None:
    conflicts = 0

    async def task(cache: TreeCache) -> None:
        nonlocal conflicts
        for _ in range(times):
            met = await HOW[how](cache)
            conflicts += met

    async def line() -> None:
        await trio.to_thread.run_sync(sys.stdin.readline)

    async with open_tree_cache(file, name=name) as cache:
        await cache.wait_members(members)
        print("ready", flush=True)
        await line()
        began = time.monotonic()
        async with trio.open_nursery() as nursery:
            for _ in range(tasks):
                nursery.start_soon(task, cache)
        print(conflicts, f"{time.monotonic() - began:.2f}", flush=True)
        await line()
        print(await cache.get(PATH, KEY), flush=True)
        await line()


if __name__ == "__main__":
    file, name, how, *numbers = sys.argv[1:]
    members, tasks, times = map(int, numbers)
    trio.run(main, file, name, how, members, tasks, times)
