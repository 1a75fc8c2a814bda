"""A member that counts, in a process of its own: the README's counter, as an outsider writes it.

Arguments: cache file, name, how ("batch", "update", ...), members, tasks, increments of each task.
It prints "ready" when all members are present, waits for a line, counts, prints how many batches
met a conflict, waits for a line, and prints the value that it reads.
"""

from __future__ import annotations

import sys
import time

import trio
from counting import HOW, KEY, PATH

from jgroups_py.cache import TreeCache, open_tree_cache


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
        await cache.wait_members(members, timeout=90)
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
