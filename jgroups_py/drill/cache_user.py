"""The application of a cache drill: requests at a rate, and what came of each, logged.

A value says who wrote it and with which number, so that a reader can tell whose it is:
``["A#1", 17, padding]``. Requests do not wait for each other, as those of many clients.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol

import trio

from jgroups_py.cache import TreeCache
from jgroups_py.drill.requests import Load, Request, Requests
from jgroups_py.errors import CacheError

WATCH_SECONDS = 0.02
"""Between two looks at what the buddies say."""
TELL_SECONDS = 1.0
"""After which they are logged though nothing changed."""
UNDER_WAY_MAX = 1000
"""Requests of one member that have no answer yet; further ones are counted as failed."""


class Log(Protocol):
    """Where records go; the time is that of the call."""

    def __call__(
        self, event: str, origin: str | None = None, seqno: int | None = None, **detail: Any
    ) -> None: ...


class CacheUser:
    """One member's requests. ``origin``: ``NAME#incarnation``. ``awake``: does the process run?"""

    def __init__(self, cache: TreeCache, origin: str, chance: random.Random, log: Log) -> None:
        self._cache = cache
        self._origin = origin
        self._name = origin.partition("#")[0]
        self._chance = chance
        self._log = log
        self._seqno = 0
        self._under_way = 0
        self.awake = True

    @property
    def members(self) -> list[str]:
        """Names, without incarnations, of the view the buddies were chosen in."""
        cache = self._cache
        return [cache.name_of(m).partition("#")[0] for m in cache.buddies.members]

    async def requests(
        self, load: Load, rate: float, start: float, stop: float, zero: float
    ) -> None:
        """``rate`` a second from ``start`` to ``stop``, on trio's clock from ``zero`` on; returns when
        all are answered."""
        source = Requests(load, self._name, self._chance)
        due = max(start, trio.current_time() - zero)
        async with trio.open_nursery() as nursery:
            while due < stop:
                await trio.sleep_until(zero + due)
                due += 1 / rate
                if self.awake:  # who sleeps is asked for nothing
                    request = source.next(self.members)
                    if self._under_way >= UNDER_WAY_MAX:
                        self._log("failed", key=request.key, why="too many requests under way")
                    else:
                        nursery.start_soon(self._one, request, load)

    async def _one(self, request: Request, load: Load) -> None:
        self._under_way += 1
        try:
            if request.read:
                await self.read(request.key)
            else:
                await self._write(request.key, load.value_size)
        finally:
            self._under_way -= 1

    async def read(self, key: int, **detail: Any) -> None:
        """From wherever it is; what is read is taken, if the cache does so."""
        began = trio.current_time()
        try:
            value = await self._cache.get(_path(key), "v")
        except CacheError as error:
            self._log("failed", key=key, why=str(error), **detail)
        else:
            took = trio.current_time() - began
            self._log("got", *_whose(value), key=key, took=round(took, 6), **detail)

    async def _write(self, key: int, size: int) -> None:
        self._seqno += 1
        seqno = self._seqno
        value = [self._origin, seqno, bytes(max(0, size - len(self._origin) - 12))]
        self._log("put", self._origin, seqno, key=key)
        try:
            await self._cache.put(_path(key), "v", value)
        except CacheError as error:
            why, definite = str(error), error.definite
            self._log("failed", self._origin, seqno, key=key, why=why, definite=definite)
        else:
            self._log("acked", self._origin, seqno, key=key)

    async def watch(self) -> None:
        """Logs what the buddies say when it changes."""
        cache, told, at = self._cache, None, 0.0
        while True:
            members = [cache.name_of(member) for member in cache.buddies.members]
            now = (cache.buddies.protected, members)
            if now != told or trio.current_time() - at >= TELL_SECONDS:
                told, at = now, trio.current_time()
                counters = cache.statistics().counters
                self._log(
                    "buddies",
                    protected=now[0],
                    members=members,
                    owned=len(cache.buddies.entries),
                    gravitations=counters.get("buddy_gravitations", 0),
                    adopted=counters.get("nodes_adopted", 0),
                )
            await trio.sleep(WATCH_SECONDS)

    async def census(self, keys: int) -> None:
        """Logs which keys are owned here, with what value; nothing moves."""
        owned: dict[str, Any] = {}
        for key in range(keys):
            try:
                value = await self._cache.get(_path(key), "v", gravitation=False)
            except CacheError as error:  # a request that still waits has it locked
                self._log("failed", key=key, why=str(error), last=True)
                continue
            if value is not None:
                owned[str(key)] = list(_whose(value))
        members = [self._cache.name_of(member) for member in self._cache.buddies.members]
        self._log("census", members=members, owned=owned)

    async def last_look(self, keys: Sequence[int]) -> None:
        """Reads each key once more, when all is at rest."""
        for key in keys:
            await self.read(key, last=True)


def _path(key: int) -> str:
    return f"/drill/{key}"


def _whose(value: Any) -> tuple[str | None, int | None]:
    return (None, None) if value is None else (value[0], value[1])
