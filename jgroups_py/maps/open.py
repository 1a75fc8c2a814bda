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
    """Open a map for as long as the block lasts: a dictionary in a folder that all processes of this host share.

    Args:
        path: the folder. A missing one is created for its owner alone.
        name: of the map, the same at all hosts; by default the folder's name.
        key, value: the codecs of keys and values: bytes, str, int, "json", a msgspec Struct, a pair of functions
        (encode, decode) or a
            Codec. A key has 1 to 511 bytes. Not given: as in the file; a new file has bytes.
        identifier: of this host, 1 to 127, the same in all its processes. A map that does not replicate needs none.
        listen, peers: HOST:PORT where this host listens, and those of other hosts, over TCP. Of two hosts one must dial the other; both may.
        tls, insecure: other hosts than this machine need credentials, or ``insecure=True``.
        network: another connection to other hosts, or several. One process of a host replicates; the others wait for
            its end.
        replication: settings of the replication, ``Replication``.
        rule: joins two values of one key; by default the last writer wins.
        ttl: seconds after which a value expires, unless ``put`` gives others.
        durability: the failures that a put survives. "process" (default): the death of any process. "interval": also a
            loss of power, ``sync_interval`` (1 s) later. "sync": also a loss of power at once; each put waits for the
            disk.
        hybrid: False: the wall clock alone decides between hosts, as in Chronicle Map.
        max_bytes: the largest size of the file (a new one 16 GB; it grows as needed). The largest value ever given
            counts, also for open maps. inbox_bytes: bytes of each process that may wait to be merged (16 MB), for a new
            file.
        max_entries, max_live_bytes: the most entries, or bytes of keys and values; 0: no limit. Beyond them the least
            recently used entries leave, a moment after a put. The last value given by any process counts.
        evict: the way in which entries leave. "forget": as if they had never existed, for a map that does not
            replicate. "remove",
            the default with an identifier: as with ``del``, at all hosts.
        merger: "thread" or "process": the part that merges puts into the file when this process is the merger. With
            "process" no put waits for it.
        full_timeout: the most seconds that a put waits when ``inbox_bytes`` are used (5), then MapFull. It holds up the
            whole event loop. 0: MapFull at once.
        lock_timeout: seconds that ``update`` and similar calls wait for another change of the same key.

    Raises:
        MapError, ConfigError: an option is wrong. MapFileError: the folder's map cannot be opened with these options.
        Nothing is left open.

    Leaving the block merges the puts of this process, if no other process does.
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
