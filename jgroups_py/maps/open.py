"""open_map: the map on trio."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar, Unpack

import trio

from jgroups_py.driver.needs_trio import check_trio
from jgroups_py.driver.unwrap import reraise
from jgroups_py.maps.async_map import AsyncMap
from jgroups_py.maps.host import MapHost
from jgroups_py.maps.local_map import MapStatistics
from jgroups_py.maps.opening import MapOptions, Opening

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
        max_bytes: how large the file may get (a new one 16 GB; it takes what it needs). The largest that anybody has given counts, also for those who
            have the map open. inbox_bytes: of each process, what may wait to be merged (16 MB),
            for a new file.
        max_entries, max_live_bytes: how many entries, or bytes of keys and values, the map may have; 0: no limit. Then those go first that were used least recently,
            a moment after a put. The last one that anybody has given counts.
        evict: how they go. "forget": as if they had never been there, for a map that does not replicate. "remove", which is the default with an identifier: as with
            ``del``, at all hosts.
        merger: "thread" or "process": who merges puts into the file, if this process is the one that does. With "process" no put waits for that.
        full_timeout: seconds that a put waits at most when puts come faster than they are merged and ``inbox_bytes`` are used (5); MapFull then. It
            keeps the whole event loop waiting; 0: MapFull at once.
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


class Map(AsyncMap[K, V], Generic[K, V]):
    """See ``AsyncMap`` and ``LocalMap``."""

    _host: MapHost | None = None

    def _begun(self, host: MapHost) -> None:
        self._host = host

    def _host_now(self) -> MapHost | None:
        return self._host

    @staticmethod
    async def _sleep(seconds: float) -> None:
        await trio.sleep(seconds)

    def statistics(self) -> MapStatistics:
        return self._statistics(self._host)
