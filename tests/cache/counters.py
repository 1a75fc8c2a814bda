"""Counters in caches with buddies, which a task of each member increments while members fall."""

from __future__ import annotations

import random

import trio
from cache_group import Group

from jgroups_py.cache import TreeCache
from jgroups_py.errors import BatchConflict, CacheClosed, CacheError


class Counters:
    """``done``: acknowledged increments of each counter. ``perhaps``: those of unknown outcome. ``rate``: the least number of
    attempts of a task in a second."""

    def __init__(self, count: int, rate: float) -> None:
        self.done = [0] * count
        self.perhaps = [0] * count
        self.stop = False
        self._rate = rate

    def start(self, writers: trio.Nursery, g: Group, chance: random.Random) -> None:
        """Start a task for each member. A test ends it with the scope ``g.work[name]``, or all with ``stop``."""
        self.stop = False
        for name, cache in g.caches.items():
            scope = g.work[name] = trio.CancelScope()
            writers.start_soon(self._work, scope, cache, random.Random(chance.random()))

    async def check(self, reader: TreeCache) -> None:
        for n, (done, perhaps) in enumerate(zip(self.done, self.perhaps, strict=True)):
            value = await reader.get(f"/c/{n}", "n", 0)
            assert done <= value <= done + perhaps, (n, value, done, perhaps)

    async def _work(self, scope: trio.CancelScope, cache: TreeCache, rng: random.Random) -> None:
        with scope:
            while not self.stop:
                n = rng.randrange(len(self.done))
                try:
                    async with cache.batch() as batch:
                        batch.put(f"/c/{n}", "n", await batch.get(f"/c/{n}", "n", 0) + 1)
                    self.done[n] += 1
                except BatchConflict:
                    pass
                except CacheError as error:
                    self.perhaps[n] += not error.definite
                    if isinstance(error, CacheClosed) or "leaving" in str(error):
                        return
                except trio.Cancelled:
                    self.perhaps[n] += 1
                    raise
                await trio.sleep(rng.random() / self._rate)
