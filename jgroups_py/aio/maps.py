"""A multi-master map for asyncio programs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar, Unpack

from jgroups_py.blocking.maps import Map as BlockingMap
from jgroups_py.driver.needs_trio import check_asyncio
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
    """Open a map for as long as the block lasts. Arguments and errors are those of ``jgroups_py.maps.open_map``. If it
    replicates, it does so in the background thread of ``jgroups_py.blocking``."""
    check_asyncio("open_map")
    opening = Opening(path, options)
    making = asyncio.ensure_future(asyncio.to_thread(BlockingMap[Any, Any], opening))
    cancelled = await _ended(making)
    if cancelled and making.exception() is not None:
        raise asyncio.CancelledError
    opened = making.result()
    try:
        if cancelled:
            raise asyncio.CancelledError
        yield Map(opened)
    finally:
        closing = asyncio.ensure_future(asyncio.to_thread(opened.close))
        cancelled = await _ended(closing)
        closing.result()
        if cancelled:
            raise asyncio.CancelledError


async def _ended(work: asyncio.Future[Any]) -> bool:
    """Wait for the end of a thread's work, also when this task is cancelled: a thread cannot be stopped, and a map that
    stays open cannot be opened again. Return whether the task was cancelled."""
    cancelled = False
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


class Map(AsyncMap[K, V], Generic[K, V]):
    """See ``jgroups_py.maps.Map``."""

    def __init__(self, opened: BlockingMap[K, V]) -> None:
        super().__init__(opened._file, opened._key, opened._value, opened._ttl)
        self._opened = opened

    def _host_now(self) -> MapHost | None:
        return self._opened._host()

    @staticmethod
    async def _sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)

    def statistics(self) -> MapStatistics:
        return self._opened.statistics()
