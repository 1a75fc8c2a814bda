"""A multi-master map for threads: a ``MutableMapping``."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, Unpack, cast

import trio

from jgroups_py.blocking.block import OpenBlock
from jgroups_py.driver.unwrap import reraise
from jgroups_py.maps.errors import MapClosed
from jgroups_py.maps.feed import LISTEN_INTERVAL, Feed, Heard
from jgroups_py.maps.host import MapHost
from jgroups_py.maps.local_map import LocalMap, MapStatistics
from jgroups_py.maps.opening import MapOptions, Opening
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.waiting import LOOK_INTERVAL, Replicated

LOG: Final = logging.getLogger("jgroups_py.maps")
K = TypeVar("K")
V = TypeVar("V")


def open_map(path: str | os.PathLike[str], **options: Unpack[MapOptions]) -> Map[Any, Any]:
    """Open a map. Use it with ``with``, or call ``close``. Arguments and errors are those of ``jgroups_py.maps.open_map``.

    A map that does not replicate needs no loop. One that does replicates in the background thread of ``jgroups_py.blocking``.
    After a fork the child may use it, too, as another process does; it does not replicate.
    """
    return Map(Opening(path, options))


class Map(LocalMap[K, V], MutableMapping[K, V], Generic[K, V]):
    """A dictionary in a folder; see ``jgroups_py.maps.Map``. Any thread may use it. Reads and writes never wait for other
    processes or hosts. A call that reads and then writes waits at most ``lock_timeout`` for another such call with the same key
    (MapBusy; nothing was changed)."""

    def __init__(self, opening: Opening) -> None:
        file = opening.open_file()
        try:
            key, value = opening.codecs(file)
            super().__init__(file, key, value, opening.ttl)
            self._finalizer = weakref.finalize(self, file.close)
            self._replicating: _Replicating | None = None
            if opening.networks:
                self._replicating = _Replicating(opening, file)
        except BaseException:
            file.close()
            raise

    def close(self) -> None:
        """Merge the puts of this process, if no other process does it, and close. Closing again does nothing."""
        try:
            if self._replicating is not None:
                self._replicating.close()
        finally:
            self._finalizer.detach()
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def put_if_absent(self, key: K, value: V, *, ttl: float | None = None) -> V | None:
        """Put a value unless there is one. Return the present value. None: there was no value, and this value was put."""
        raw = self._raw(key)
        with self._file.locked(raw):
            return self._put_if_absent(raw, value, ttl)

    def setdefault(self, key: K, default: Any = None) -> V:
        """Return the value. If there is none, put and return ``default``."""
        raw = self._raw(key)
        with self._file.locked(raw):
            before = self._file.get(raw)
            if before is not None:
                return self._decoded(before)
            self._put_if_absent(raw, default, None)
            return cast(V, default)

    def replace(self, key: K, value: V) -> V | None:
        """Overwrite a value if there is one, and return it; None: there is none, and nothing was put."""
        raw = self._raw(key)
        with self._file.locked(raw):
            return self._replace(raw, value)

    def compare_and_set(self, key: K, expected: V, value: V) -> bool:
        """Put a value if the one that is there equals ``expected``. Return whether it was put."""
        raw = self._raw(key)
        with self._file.locked(raw):
            return self._compare_and_set(raw, expected, value)

    def update(  # type: ignore[override]
        self,
        other: Any = (),
        function: Callable[[Any], V] | None = None,
        default: Any = None,
        /,
        **more: V,
    ) -> V | None:
        """``update(key, function, default)`` puts and returns ``function(value)``, or ``function(default)`` where there
        is no value. No other call of this host updates the key meanwhile. If the function raises, nothing was changed.

        ``update(mapping)``, ``update(pairs)`` and ``update(key=value)`` put several values, as those of a dict do.
        """
        if function is not None:
            raw = self._raw(other)
            with self._file.locked(raw):
                return self._update(raw, function, default)
        pairs: Iterable[Any] = other.items() if isinstance(other, Mapping) else other
        for key, value in pairs:
            self[key] = value
        for name, value in more.items():
            self[cast(K, name)] = value
        return None

    def increment(self, key: K, amount: int = 1) -> int:
        """Add to a number, which is 0 where there is none, and return the sum. No addition of this host is lost; with
        the rule ``PnCounter`` no addition of any host."""
        raw = self._raw(key)
        with self._file.locked(raw):
            return self._increment(raw, amount)

    def listen(self, timeout: float | None = None) -> Iterator[Heard]:
        """Changes from now on, of this host and of others; see ``jgroups_py.maps.Map.listen``. It ends when the map is closed, or when
        nothing has changed for ``timeout`` seconds."""
        return _changes(self._file, Feed(self._file, self._key, self._shown), timeout)

    def wait_merged(self, timeout: float | None = None) -> bool:
        """Wait until all that this process has put is merged into the file. (Others see it before.) Return False if
        that takes longer than ``timeout`` seconds."""
        return self._file.wait_merged(1e9 if timeout is None else timeout)

    def wait_replicated(self, hosts: int, timeout: float = 60.0) -> None:
        """Wait until ``hosts`` other hosts have all changes that this host has written before this call.

        Raises:
            WaitTimeout: fewer hosts had it within ``timeout`` seconds. The text says how much each host lacks. Nothing
                is undone.
        """
        waited = Replicated(self._file, hosts, self._host)
        limit = time.monotonic() + timeout
        while waited.missing():
            if time.monotonic() > limit:
                raise waited.error(timeout)
            time.sleep(LOOK_INTERVAL)

    def _host(self) -> MapHost | None:
        return None if self._replicating is None else self._replicating.host_now

    def statistics(self) -> MapStatistics:
        return self._statistics(self._host())


def _changes(file: SharedFile, feed: Feed, timeout: float | None) -> Iterator[Heard]:
    last = time.monotonic()
    while not file.closed:
        try:
            found = feed.take()
        except MapClosed:
            return
        if found:
            yield from found
            last = time.monotonic()
        elif timeout is not None and time.monotonic() - last >= timeout:
            return
        else:
            time.sleep(LISTEN_INTERVAL)


class _Replicating:
    """Replicates a file in the loop of the facade."""

    def __init__(self, opening: Opening, file: SharedFile) -> None:
        self.host: MapHost | None = None

        @asynccontextmanager
        async def run() -> AsyncIterator[None]:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._replicate, opening, file)
                    yield
                    nursery.cancel_scope.cancel()
            except BaseExceptionGroup as group:
                reraise(group)

        self._block: OpenBlock[None] = OpenBlock(run, lambda: MapClosed("the map is closed"))
        self._block.open(None)

    async def _replicate(self, opening: Opening, file: SharedFile) -> None:
        """Replicate ``file``, and log at once the error that ends it. Otherwise only ``close`` would report it, because
        the map can still be read and written."""
        try:
            await opening.replicate(file, self._begun)
        except Exception as error:
            self.host = None
            LOG.error(
                'the map "%s" is not replicated by this process any more: %s', file.name, error
            )
            raise

    def _begun(self, host: MapHost) -> None:
        self.host = host

    @property
    def host_now(self) -> MapHost | None:
        """None: this is a forked child, or replication has not begun."""
        return self.host if self._block.is_of_this_process else None

    def close(self) -> None:
        if not self._block.is_of_this_process:
            return  # a forked child
        self._block.close(None)
        if self._block.error is not None:
            raise self._block.error
