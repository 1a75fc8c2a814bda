"""AsyncMap: the common part of the maps for trio and asyncio. They differ in how they sleep."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, Self, TypeVar

from jgroups_py.maps.errors import MapClosed
from jgroups_py.maps.feed import LISTEN_INTERVAL, Feed, Heard
from jgroups_py.maps.host import MapHost
from jgroups_py.maps.local_map import LocalMap
from jgroups_py.maps.waiting import LOOK_INTERVAL, Replicated

K = TypeVar("K")
V = TypeVar("V")


class AsyncMap(LocalMap[K, V], Generic[K, V]):
    """See ``LocalMap``. Reads and writes do not wait and need no ``await``. Only with a full inbox a put stops the
    loop, at most for ``full_timeout``. A call that reads and then writes may wait for another such call on the same
    key. MapBusy: the call has waited for ``lock_timeout``; nothing was changed."""

    @staticmethod
    @abstractmethod
    async def _sleep(seconds: float) -> None:
        """Sleep. Other tasks run even for 0 seconds."""

    @abstractmethod
    def _host_now(self) -> MapHost | None:
        """Return the object that replicates the map. None: this process does not replicate."""

    async def put_if_absent(self, key: K, value: V, *, ttl: float | None = None) -> V | None:
        """Put a value unless the key has one. Return the existing value. None: this value was put."""
        raw = self._raw(key)
        async with self._locked(raw):
            return self._put_if_absent(raw, value, ttl)

    async def replace(self, key: K, value: V) -> V | None:
        """Overwrite a value and return the old one. None: there was none, and nothing was put."""
        raw = self._raw(key)
        async with self._locked(raw):
            return self._replace(raw, value)

    async def compare_and_set(self, key: K, expected: V, value: V) -> bool:
        """Put a value if the present one equals ``expected``. Return whether it was put."""
        raw = self._raw(key)
        async with self._locked(raw):
            return self._compare_and_set(raw, expected, value)

    async def update(self, key: K, function: Callable[[Any], V], default: Any = None) -> V:
        """Put ``function(value)``, or ``function(default)`` if there is no value, and return the result. No other
        process of this host updates the key meanwhile. The function must not wait. If it raises, nothing was
        changed."""
        raw = self._raw(key)
        async with self._locked(raw):
            return self._update(raw, function, default)

    async def increment(self, key: K, amount: int = 1) -> int:
        """Add to a number, 0 if there is none, and return the sum. No addition on this host is lost. With the rule
        ``PnCounter`` no addition on any host is lost."""
        raw = self._raw(key)
        async with self._locked(raw):
            return self._increment(raw, amount)

    def listen(self) -> Changes:
        """Return the changes from now on, of this host and of others: ``async for change in m.listen()``. See
        ``MapChange``, ``Skipped`` and ``Evicted``. Expiries are not reported. The stream ends when the map is
        closed."""
        return Changes(self, Feed(self._file, self._key, self._shown))

    async def wait_merged(self) -> None:
        """Wait until all puts of this process are merged into the file. (Others see them earlier.)"""
        file = self._file
        goal = file.written()
        while not file.has_merged(goal):
            await self._sleep(LISTEN_INTERVAL)

    async def wait_replicated(self, hosts: int, timeout: float = 60.0) -> None:
        """Wait until ``hosts`` other hosts have all changes that this host has written before this call.

        Raises:
            WaitTimeout: ``timeout`` seconds were not enough. The text has the missing changes of each host. Nothing is
                undone.
        """
        waited = Replicated(self._file, hosts, self._host_now)
        limit = time.monotonic() + timeout
        await self._sleep(0)
        while waited.missing():
            if time.monotonic() > limit:
                raise waited.error(timeout)
            await self._sleep(LOOK_INTERVAL)

    @asynccontextmanager
    async def _locked(self, raw: bytes) -> AsyncIterator[None]:
        file = self._file
        await self._sleep(0)
        pauses = file.pauses(raw)
        while not file.try_lock(raw):
            await self._sleep(next(pauses))
        try:
            yield
        finally:
            file.unlock(raw)


class Changes:
    """Made by ``AsyncMap.listen``."""

    def __init__(self, of: AsyncMap[Any, Any], feed: Feed) -> None:
        self._map = of
        self._feed = feed
        self._next: list[Heard] = []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Heard:
        await self._map._sleep(0)
        while not self._next:
            if self._map.closed:
                raise StopAsyncIteration
            try:
                self._next = self._feed.take()[::-1]
            except MapClosed:
                raise StopAsyncIteration from None
            if not self._next:
                await self._map._sleep(LISTEN_INTERVAL)
        return self._next.pop()
