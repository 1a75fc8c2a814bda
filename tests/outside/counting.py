"""The README's counter, as an outsider writes it, in five variants. Each returns the number of its conflicts."""

from __future__ import annotations

from jgroups_py.cache import CacheBatch, TreeCache
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
