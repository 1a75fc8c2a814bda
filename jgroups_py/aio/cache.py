"""A tree cache for asyncio programs."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from types import TracebackType
from typing import (
    Any,
    Concatenate,
    NoReturn,
    ParamSpec,
    Self,
    TypeVar,
    TypeVarTuple,
    Unpack,
    overload,
)

from jgroups_py.aio.handle import Handle, forward, note
from jgroups_py.blocking import bulk_cache
from jgroups_py.blocking.cache import CHANGES_AT_ONCE, CacheOptions
from jgroups_py.cache import CacheBatch as AsyncBatch
from jgroups_py.cache import (
    CacheSettings,
    CacheStatistics,
    CallOptions,
    Discarded,
    EventKind,
    Missed,
    NodeChanged,
)
from jgroups_py.cache import TreeCache as AsyncTreeCache
from jgroups_py.cache import open_tree_cache as open_async
from jgroups_py.cache.fqn import AnyPath
from jgroups_py.cache.listeners import CHANGES
from jgroups_py.cache.nested import carried, inside
from jgroups_py.cache.options import options_of
from jgroups_py.cache.retried import NO_BLOCK, NO_RETRIES, refuse_function
from jgroups_py.errors import CacheClosed, CacheRefused

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


def open_tree_cache(
    config: str | os.PathLike[str] | CacheSettings, **options: Unpack[CacheOptions]
) -> TreeCache:
    """Open a tree cache for as long as the ``async with`` lasts. Arguments and errors are those of
    ``jgroups_py.cache.open_tree_cache``."""
    return TreeCache("tree cache", partial(open_async, config, **options), _closed)


class TreeCache(Handle[AsyncTreeCache]):
    """Nodes with attributes, by path. The calls have the options and errors of ``jgroups_py.cache.TreeCache``. A write
    that was cancelled may have happened."""

    _opened_with = "open_tree_cache"

    get = forward(AsyncTreeCache.get)
    get_node = forward(AsyncTreeCache.get_node)
    get_many = forward(bulk_cache.get_many)
    get_nodes = forward(bulk_cache.get_nodes)
    keys = forward(AsyncTreeCache.keys)
    exists = forward(AsyncTreeCache.exists)
    children = forward(AsyncTreeCache.children)

    put = forward(AsyncTreeCache.put)
    put_node = forward(AsyncTreeCache.put_node)
    update_node = forward(AsyncTreeCache.update_node)
    put_many = forward(bulk_cache.put_many)
    update = forward(AsyncTreeCache.update)
    increment = forward(AsyncTreeCache.increment)
    compare_and_set = forward(AsyncTreeCache.compare_and_set)
    remove = forward(AsyncTreeCache.remove)
    remove_node = forward(AsyncTreeCache.remove_node)
    remove_tree = forward(AsyncTreeCache.remove_tree)
    move = forward(AsyncTreeCache.move)
    evict = forward(AsyncTreeCache.evict)
    preload = forward(AsyncTreeCache.preload)
    owners = forward(AsyncTreeCache.owners)
    wait_members = forward(AsyncTreeCache.wait_members)
    wait_protected = forward(AsyncTreeCache.wait_protected)

    async def _call(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        return await super()._call(carried(function), *args)

    async def run(self, function: Callable[[AsyncTreeCache, *Ts], Awaitable[R]], *args: *Ts) -> R:
        """Run ``await function(cache, *args)`` in the trio loop, with the cache of the trio API. So many calls take one
        crossing. The function must not block."""
        result: R = await self._call(function, self._value, *args)
        return result

    @overload
    def batch(self, *, retries: None = None, **options: Unpack[CallOptions]) -> CacheBatch: ...

    @overload
    def batch(self, *, retries: int, **options: Unpack[CallOptions]) -> Retried: ...

    def batch(
        self, *given: object, retries: int | None = None, **options: Unpack[CallOptions]
    ) -> CacheBatch | Retried:
        """Make several changes as one, with ``async with``; see ``CacheBatch``. With ``retries`` it takes a function and runs it
        again after a lost race; see ``Retried``."""
        refuse_function(given)
        if retries is None:
            return CacheBatch(self, options)
        return Retried(self, retries, options)

    def listen(
        self,
        path: AnyPath = "/",
        *,
        kinds: frozenset[EventKind] = CHANGES,
        buffer_max: int = 1000,
    ) -> Changes:
        """Return a stream of changes at and below ``path``. Use it with ``async with``."""
        return Changes(self, partial(self._value.listen, path, kinds=kinds, buffer_max=buffer_max))

    @property
    def members(self) -> tuple[str, ...]:
        """The logical names of all members, the coordinator first; none in CacheMode LOCAL."""
        return self._value.members

    async def discarded(self) -> tuple[Discarded, ...]:
        """Return the values that merges after partitions have dropped, as far as this member knows."""
        cache = self._value
        found: tuple[Discarded, ...] = await self._look(lambda: cache.discarded)
        return found

    async def statistics(self) -> CacheStatistics:
        """Return the counters as they are now."""
        statistics: CacheStatistics = await self._look(self._value.statistics)
        return statistics


class CacheBatch:
    """Several changes that take effect together at the end of the ``async with``. It is for one task.

        async with cache.batch() as batch:
            balance = await batch.get("/accounts/7", "balance")
            batch.put("/accounts/7", "balance", balance - 10)

    A write is only noted, and crosses no thread. The end of the batch raises:
        BatchConflict: another call changed what the batch had read; nothing was changed, run it again.
    """

    def __init__(self, cache: TreeCache, options: CallOptions) -> None:
        self._cache = cache
        self._call = cache._call
        self._context = cache._value.batch(retries=None, **options)
        self._value: AsyncBatch

    def __call__(self, function: object) -> NoReturn:
        raise CacheRefused(NO_RETRIES)

    @classmethod
    def _of(cls, cache: TreeCache, batch: AsyncBatch) -> Self:
        """Return a batch that its maker ends."""
        made = cls(cache, {})
        made._value = batch
        return made

    get = forward(AsyncBatch.get)
    get_node = forward(AsyncBatch.get_node)
    exists = forward(AsyncBatch.exists)

    put = note(AsyncBatch.put)
    put_node = note(AsyncBatch.put_node)
    remove = note(AsyncBatch.remove)
    remove_node = note(AsyncBatch.remove_node)
    remove_tree = note(AsyncBatch.remove_tree)
    __len__ = note(AsyncBatch.__len__)

    async def __aenter__(self) -> Self:
        self._value = await self._call(self._context.__aenter__)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._call(self._context.__aexit__, kind, error, trace)
        except CacheClosed:
            if error is None:
                raise  # otherwise nothing was changed either way


class Retried:
    """A batch that runs again after a lost race: ``jgroups_py.cache.retried``, as a decorator or with ``run``. The
    function runs in the task of its caller, up to ``retries`` times more.

    Raises:
        BatchConflict: another call was first, also the last time; nothing was changed.
        LockTimeout: other calls were in front for too long; nothing was changed.
    """

    def __init__(self, cache: TreeCache, retries: int, options: CallOptions) -> None:
        self._cache = cache
        self._attempts = partial(cache._value.attempts, retries, options_of(options))
        self._attempts()  # a wrong option raises CacheRefused now, not when the batch runs

    def __call__(
        self, function: Callable[Concatenate[CacheBatch, P], Awaitable[R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return a function that runs as a retried batch each time it is called."""

        @wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await self.run(function, *args, **kwargs)

        return call

    async def run(
        self,
        function: Callable[Concatenate[CacheBatch, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Run ``await function(batch, ...)`` until its batch takes effect. Return its result."""
        cache, attempts = self._cache, self._attempts()
        try:
            while True:
                batch = await cache._call(attempts.begin)
                with inside(attempts):
                    result = await function(CacheBatch._of(cache, batch), *args, **kwargs)
                if await cache._call(attempts.finish):
                    return result
        finally:
            cache._opened.post_always(attempts.close)  # also when this task is cancelled

    async def __aenter__(self) -> NoReturn:
        raise CacheRefused(NO_BLOCK)

    async def __aexit__(self, *_: object) -> None:
        """Exist, so that ``__aenter__`` can say what is wrong."""

    def __aiter__(self) -> NoReturn:
        raise CacheRefused(NO_BLOCK)


class Changes:
    """A stream of changes; made by ``TreeCache.listen``. It is for one task and ends when the cache closes."""

    def __init__(self, cache: TreeCache, make: Any) -> None:
        self._cache = cache
        self._make = make
        self._listener: Any = None
        self._items: deque[NodeChanged | Missed] = deque()

    async def __aenter__(self) -> Self:
        async def begin() -> Any:
            return await self._make().__aenter__()

        self._listener = await self._cache._call(begin)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._cache.closed:
            await self._cache._call(self._listener.__aexit__, None, None, None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> NodeChanged | Missed:
        """Return the next change, or a Missed where some are missing. A cancelled call loses no change."""
        if not self._items and not self._cache.closed:
            take = partial(
                bulk_cache.changes_together, self._listener, self._items, CHANGES_AT_ONCE
            )
            await self._cache._call(take)
        if not self._items:
            raise StopAsyncIteration
        return self._items.popleft()


def _closed() -> CacheClosed:
    return CacheClosed("the cache is closed")
