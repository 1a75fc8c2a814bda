"""A member that counts, in a process of its own: the README's counter, as an outsider writes it.

Arguments: cache file, name, how ("batch", "update", ...), members, tasks, increments of each task.
Prints "ready" when all members are there, waits for a line, counts, prints how many batches met a
conflict, waits for a line, prints what it reads.
"""

from __future__ import annotations

import sys
import time

import trio

from jgroups_py.cache import TreeCache, open_tree_cache
from jgroups_py.errors import BatchConflict

PATH, KEY = "/users/7", "visits"


async def by_batch(cache: TreeCache) -> int:
    conflicts = 0
    while True:
        try:
            async with cache.batch() as batch:
                visits = await batch.get(PATH, KEY, 0)
                batch.put(PATH, KEY, visits + 1)
            return conflicts
        except BatchConflict:
            conflicts += 1


HOW = {"batch": by_batch}


async def main(file: str, name: str, how: str, members: int, tasks: int, times: int) -> None:
    conflicts = 0

    async def task(cache: TreeCache) -> None:
        nonlocal conflicts
        for _ in range(times):
            conflicts += await HOW[how](cache)

    async def line() -> None:
        await trio.to_thread.run_sync(sys.stdin.readline)

    async with open_tree_cache(file, name=name) as cache:
        while len(cache.members) < members:  # noqa: ASYNC110
            await trio.sleep(0.05)
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
    trio.run(main, file, name, how, *map(int, numbers))
