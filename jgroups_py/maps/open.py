"""open_map: the map on trio."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, Self, TypeVar, Unpack

import trio

from jgroups_py.driver.needs_trio import check_trio
from jgroups_py.driver.unwrap import reraise
from jgroups_py.maps.errors import MapClosed
from jgroups_py.maps.feed import LISTEN_INTERVAL, Feed, MapChange, Skipped
from jgroups_py.maps.host import MapHost
from jgroups_py.maps.local_map import LocalMap, MapStatistics
from jgroups_py.maps.opening import MapOptions, Opening
from jgroups_py.maps.waiting import LOOK_INTERVAL, Replicated

K = TypeVar("K")
V = TypeVar("V")


@asynccontextmanager
async def open_map(
    path: str | os.PathLike[str], **options: Unpack[MapOptions]
) -> AsyncIterator[Map[Any, Any]]:
    """A map for as long as the block lasts: a dictionary in a folder that all processes of this host share.

    Args:
        path: the folder. It is made, for its owner alone, if it is not there.
        name: of the map, the same at all hosts; that of the folder when it is not given.
        key, value: how keys and values become bytes: bytes, str, int, "json", a msgspec Struct, a pair of functions (encode, decode) or a
            Codec. A key has 1 to 511 bytes. Not given: what the file says; a new file has bytes.
        identifier: of this host, 1 to 127, the same in all its processes. A map that does not replicate needs none.
        listen, peers: HOST:PORT where this host listens, and those of other hosts, over TCP. Of two hosts one must dial the other; both may.
        tls, insecure: other hosts than this machine need credentials, or ``insecure=True``.
        network: anything else that connects it to other hosts, or several of them. One process of a host replicates; the others wait for its end.
        replication: settings of that, ``Replication``.
        rule: what two values of one key become; the last writer, when it is not given.
        ttl: seconds after which a value is gone, if ``put`` says nothing else.
        durability: when a put survives. "process" (default): the death of any process at any time. "interval": also the loss of power,
            ``sync_interval`` (1 s) later. "sync": also the loss of power, at once; each put waits for the disk then.
        hybrid: False: the wall clock alone decides between hosts, as in Chronicle Map.
        max_bytes: how large the file may get (16 GB; it takes what it needs). inbox_bytes: of each process, what may wait to be merged (16 MB),
            for a new file.
        merger: "thread" or "process": who merges puts into the file, if this process is the one that does. With "process" no put waits for that.
        lock_timeout: seconds that ``update`` and its kind wait for somebody who changes the same key.

    Raises:
        MapError, ConfigError: an option cannot be. MapFileError: the folder has no map that can be opened so. Nothing is left open.

    Leaving the block merges what this process has put, if no other process does it.
    """
    check_trio("open_map")
    opening = Opening(path, options)
    file = await trio.to_thread.run_sync(opening.open_file)
    try:
        key, value = opening.codecs(file)
        opened: Map[Any, Any] = Map(file, key, value, opening.ttl)
        if not opening.networks:
            yield opened
            return
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(opening.replicate, file, opened._begun)
                yield opened
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            reraise(group)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(file.close)


class Map(LocalMap[K, V], Generic[K, V]):
    """See ``LocalMap``. Reading and writing waits for nobody, so it is without ``await``. What reads first and then writes may wait for
    another one who does that with the same key: MapBusy after ``lock_timeout``, and nothing was changed."""

    _host: MapHost | None = None

    def _begun(self, host: MapHost) -> None:
        self._host = host

    async def put_if_absent(self, key: K, value: V, *, ttl: float | None = None) -> V | None:
        """Put a value unless there is one. The one that is there, or None: this one was put."""
        raw = self._raw(key)
        async with self._locked(raw):
            return self._put_if_absent(raw, value, ttl)

    async def replace(self, key: K, value: V) -> V | None:
        """Overwrite a value if there is one, and return it; None: there is none, and nothing was put."""
        raw = self._raw(key)
        async with self._locked(raw):
            return self._replace(raw, value)

    async def compare_and_set(self, key: K, expected: V, value: V) -> bool:
        """Put a value if the one that is there equals ``expected``. Whether it was put."""
        raw = self._raw(key)
        async with self._locked(raw):
            return self._compare_and_set(raw, expected, value)

    async def update(self, key: K, function: Callable[[Any], V], default: Any = None) -> V:
        """Put what ``function`` makes of the value, or of ``default`` where there is none, and return it. Nobody else of this host updates the
        key meanwhile. The function must not wait. If it raises, nothing was changed."""
        raw = self._raw(key)
        async with self._locked(raw):
            return self._update(raw, function, default)

    async def increment(self, key: K, amount: int = 1) -> int:
        """Add to a number, which is 0 where there is none, and return the sum. No addition of a process of this host is lost; with the rule
        ``PnCounter`` none of any host."""
        raw = self._raw(key)
        async with self._locked(raw):
            return self._increment(raw, amount)

    def listen(self) -> Changes:
        """Changes from now on, of this host and of others: ``async for change in m.listen()``. See ``MapChange`` and ``Skipped``.
        That the time of a value has passed is not told. It ends when the map is closed."""
        return Changes(self, Feed(self._file, self._key, self._feed_codec()))

    async def wait_merged(self) -> None:
        """Wait until all that this process has put is merged into the file. (Others see it before.)"""
        file = self._file
        goal = file.written()
        while not file.has_merged(goal):  # noqa: ASYNC110 - another process may merge
            await trio.sleep(LISTEN_INTERVAL)

    async def wait_replicated(self, hosts: int, timeout: float = 60.0) -> None:
        """Wait until so many other hosts have all that this host has written so far.

        Raises:
            WaitTimeout: they have not, within ``timeout`` seconds. The text says who lacks how much. Nothing is undone.
        """
        waited = Replicated(self._file, hosts, lambda: self._host)
        limit = trio.current_time() + timeout
        await trio.lowlevel.checkpoint()
        while waited.missing():
            if trio.current_time() > limit:
                raise waited.error(timeout)
            await trio.sleep(LOOK_INTERVAL)

    def statistics(self) -> MapStatistics:
        return self._statistics(self._host)

    @asynccontextmanager
    async def _locked(self, raw: bytes) -> AsyncIterator[None]:
        file = self._file
        await trio.lowlevel.checkpoint()
        pauses = file.pauses(raw)
        while not file.try_lock(raw):  # noqa: ASYNC110 - another process may have it
            await trio.sleep(next(pauses))
        try:
            yield
        finally:
            file.unlock(raw)


class Changes:
    """Made by ``Map.listen``."""

    def __init__(self, of: Map[Any, Any], feed: Feed) -> None:
        self._map = of
        self._feed = feed
        self._next: list[MapChange | Skipped] = []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MapChange | Skipped:
        await trio.lowlevel.checkpoint()
        while not self._next:
            if self._map.closed:
                raise StopAsyncIteration
            try:
                self._next = self._feed.take()[::-1]
            except MapClosed:
                raise StopAsyncIteration from None
            if not self._next:
                await trio.sleep(LISTEN_INTERVAL)
        return self._next.pop()
