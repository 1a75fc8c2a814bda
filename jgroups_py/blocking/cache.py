"""A tree cache for threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial, wraps
from types import TracebackType
from typing import (
    Any,
    Concatenate,
    NoReturn,
    ParamSpec,
    Self,
    TypedDict,
    TypeVar,
    TypeVarTuple,
    Unpack,
    overload,
)

from jgroups_py.blocking import bulk_cache
from jgroups_py.blocking.handle import Handle
from jgroups_py.cache import (
    CacheBatch as AsyncBatch,
)
from jgroups_py.cache import (
    CacheSettings,
    CacheStatistics,
    CallOptions,
    Codec,
    Discarded,
    EventKind,
    Fqn,
    Missed,
    NodeChanged,
    NodeOwner,
    Store,
)
from jgroups_py.cache import TreeCache as AsyncTreeCache
from jgroups_py.cache import open_tree_cache as open_async
from jgroups_py.cache.fqn import AnyPath
from jgroups_py.cache.listeners import CHANGES
from jgroups_py.cache.nested import carried, inside
from jgroups_py.cache.options import options_of
from jgroups_py.cache.retried import NO_BLOCK, NO_RETRIES, refuse_function
from jgroups_py.channel.watch import WAIT_SECONDS
from jgroups_py.driver import Transport
from jgroups_py.errors import CacheClosed, CacheRefused

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")

CHANGES_AT_ONCE = 256
"""The most changes that one crossing between threads brings to a listener."""


class CacheOptions(TypedDict, total=False):
    """Options of ``jgroups_py.cache.open_tree_cache``, with the same meaning."""

    cluster: str | None
    name: str | None
    codec: Codec | None
    store: Store | None
    properties: Mapping[str, str] | None
    attributes: Mapping[str, str] | None
    transport: Transport | None
    bind_addr: str | None


def open_tree_cache(
    config: str | os.PathLike[str] | CacheSettings,
    *,
    timeout: float | None = None,
    **options: Unpack[CacheOptions],
) -> TreeCache:
    """Open a tree cache. Use it with ``with``, or call ``close``.

    Args:
        timeout: seconds for opening.
        config, options: as ``jgroups_py.cache.open_tree_cache``, whose errors it raises, too.
    """
    return TreeCache(partial(open_async, config, **options), str(_name_of(config)), timeout)


class TreeCache(Handle[AsyncTreeCache]):
    """Nodes with attributes, by path. The calls have the options and errors of ``jgroups_py.cache.TreeCache``.
    ``timeout`` is in seconds, for the whole call. A write that raises TimeoutError may have happened."""

    def __init__(self, opener: Any, name: str, timeout: float | None) -> None:
        super().__init__(f"tree cache of {name}", opener, _closed, timeout)

    # --- reading

    def get(
        self,
        path: AnyPath,
        key: str,
        default: Any = None,
        *,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Return the value of an attribute, or ``default`` where there is no such node or attribute."""
        return self._call(self._value.get, path, key, default, timeout=timeout, **options)

    def get_node(
        self, path: AnyPath, *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> dict[str, Any] | None:
        """Return all attributes of a node, all of one moment, or None where there is no node."""
        node: dict[str, Any] | None = self._call(
            self._value.get_node, path, timeout=timeout, **options
        )
        return node

    def get_many(
        self,
        paths: Iterable[AnyPath],
        key: str,
        default: Any = None,
        *,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> list[Any]:
        """Return one attribute of many nodes, in the order of ``paths``, with one crossing between threads. The values are
        not of one moment."""
        look = partial(bulk_cache.get_many, self._value, list(paths), key, default, **options)
        values: list[Any] = self._call(look, timeout=timeout)
        return values

    def get_nodes(
        self,
        paths: Iterable[AnyPath],
        *,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> list[dict[str, Any] | None]:
        """Return all attributes of many nodes, like ``get_many``; None where there is no node."""
        look = partial(bulk_cache.get_nodes, self._value, list(paths), **options)
        nodes: list[dict[str, Any] | None] = self._call(look, timeout=timeout)
        return nodes

    def keys(
        self, path: AnyPath, *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> tuple[str, ...]:
        """Return the sorted names of a node's attributes. It is empty also where there is no node."""
        names: tuple[str, ...] = self._call(self._value.keys, path, timeout=timeout, **options)
        return names

    def exists(
        self, path: AnyPath, *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> bool:
        """Return whether there is a node at this very path."""
        there: bool = self._call(self._value.exists, path, timeout=timeout, **options)
        return there

    def children(
        self, path: AnyPath, *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> tuple[str, ...]:
        """Return the sorted names directly below a path that are nodes or lead to nodes."""
        names: tuple[str, ...] = self._call(self._value.children, path, timeout=timeout, **options)
        return names

    # --- writing

    def put(
        self,
        path: AnyPath,
        key: str,
        value: Any,
        *,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """Set one attribute; make the node if it is not there."""
        self._call(self._value.put, path, key, value, timeout=timeout, **options)

    def put_node(
        self,
        path: AnyPath,
        attributes: Mapping[str, Any],
        *,
        replace: bool = False,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """Set attributes; with ``replace`` the node has no others afterwards."""
        put = partial(self._value.put_node, replace=replace)
        self._call(put, path, attributes, timeout=timeout, **options)

    def update_node(
        self,
        path: AnyPath,
        attributes: Mapping[str, Any],
        *,
        without: Iterable[str] = (),
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> bool:
        """Set and remove attributes of an existing node, as one change. Return False if there is no such node."""
        update = partial(self._value.update_node, without=tuple(without))
        there: bool = self._call(update, path, attributes, timeout=timeout, **options)
        return there

    def put_many(
        self,
        nodes: Mapping[Any, Mapping[str, Any]] | Iterable[tuple[AnyPath, Mapping[str, Any]]],
        *,
        replace: bool = False,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        """Set attributes of many nodes, path by path, as one batch and with one crossing between threads. All take effect or
        none. A batch has at most ``maxCallNodes`` nodes."""
        wanted = list(nodes.items() if isinstance(nodes, Mapping) else nodes)
        put = partial(bulk_cache.put_many, self._value, wanted, replace=replace, **options)
        self._call(put, timeout=timeout)

    def remove(
        self,
        path: AnyPath,
        key: str,
        *,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> bool:
        """Remove one attribute; the node stays. Return whether the attribute was there."""
        there: bool = self._call(self._value.remove, path, key, timeout=timeout, **options)
        return there

    def remove_node(
        self, path: AnyPath, *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> bool:
        """Remove a node; the nodes below it stay. Return whether it was there."""
        there: bool = self._call(self._value.remove_node, path, timeout=timeout, **options)
        return there

    def remove_tree(
        self, path: AnyPath, *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> int:
        """Remove a node and all nodes below it, together. Return their number."""
        count: int = self._call(self._value.remove_tree, path, timeout=timeout, **options)
        return count

    def move(
        self,
        path: AnyPath,
        to: AnyPath,
        *,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> int:
        """Move a node and all nodes below it, together: ``/a/x`` to ``/b/x``. Return their number."""
        count: int = self._call(self._value.move, path, to, timeout=timeout, **options)
        return count

    def update(
        self,
        path: AnyPath,
        key: str,
        function: Callable[[Any], Any],
        *,
        default: Any = None,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Set an attribute to ``function(value)``, and return that. No other change comes in between. See
        ``jgroups_py.cache.TreeCache.update``. ``function`` runs in the loop, so it must not call this cache."""
        update = partial(self._value.update, default=default)
        return self._call(update, path, key, function, timeout=timeout, **options)

    def increment(
        self,
        path: AnyPath,
        key: str,
        by: float = 1,
        *,
        initial: float = 0,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Add to a number, and return the sum. Where there is no number, it begins with ``initial``."""
        add = partial(self._value.increment, initial=initial)
        return self._call(add, path, key, by, timeout=timeout, **options)

    def compare_and_set(
        self,
        path: AnyPath,
        key: str,
        expected: Any,
        new: Any,
        /,
        *,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> bool:
        """Set an attribute to ``new`` if its value equals ``expected``; None means that there is no value. Return whether it
        was set."""
        compare = self._value.compare_and_set
        done: bool = self._call(compare, path, key, expected, new, timeout=timeout, **options)
        return done

    @overload
    def batch(
        self,
        *,
        retries: None = None,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> CacheBatch: ...

    @overload
    def batch(
        self, *, retries: int, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> Retried: ...

    def batch(
        self,
        *given: object,
        retries: int | None = None,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> CacheBatch | Retried:
        """Make several changes as one, with ``with``; see ``CacheBatch``. ``timeout`` is for the end of the batch. With ``retries``
        it takes a function and runs it again after a lost race; see ``Retried``."""
        refuse_function(given)
        if retries is None:
            return CacheBatch(self, timeout, options)
        return Retried(self, retries, timeout, options)

    def evict(self, path: AnyPath, *, timeout: float | None = None) -> bool:
        """Take one node out of memory, into the store if there is one. Return False if it is not there or is in use."""
        done: bool = self._call(self._value.evict, path, timeout=timeout)
        return done

    def preload(self, path: AnyPath, *, timeout: float | None = None) -> None:
        """Load a node and all below it from the store, if there is one."""
        self._call(self._value.preload, path, timeout=timeout)

    def _call(self, function: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        return super()._call(carried(function), *args, **options)

    def run(
        self,
        function: Callable[[AsyncTreeCache, *Ts], Awaitable[R]],
        *args: *Ts,
        timeout: float | None = None,
    ) -> R:
        """Run ``await function(cache, *args)`` in the loop, with the cache of the async API. So many calls take one crossing
        between threads. The function must not block."""
        result: R = self._call(function, self._value, *args, timeout=timeout)
        return result

    # --- listening and reading properties

    def listen(
        self,
        path: AnyPath = "/",
        *,
        kinds: frozenset[EventKind] = CHANGES,
        buffer_max: int = 1000,
    ) -> Changes:
        """Return a stream of changes at and below ``path``. Use it with ``with``."""
        return Changes(self, partial(self._value.listen, path, kinds=kinds, buffer_max=buffer_max))

    def owners(
        self, path: AnyPath = "/", *, deep: bool = True, timeout: float | None = None
    ) -> dict[Fqn, NodeOwner]:
        """Return who owns the node at a path and, with ``deep``, the nodes below. No node moves."""
        look = partial(self._value.owners, deep=deep)
        found: dict[Fqn, NodeOwner] = self._call(look, path, timeout=timeout)
        return found

    @property
    def discarded(self) -> tuple[Discarded, ...]:
        """The values that merges after partitions have dropped, as far as this member knows."""
        cache = self._value
        found: tuple[Discarded, ...] = self._look(lambda: cache.discarded)
        return found

    @property
    def members(self) -> tuple[str, ...]:
        """The logical names of all members, the coordinator first; none in CacheMode LOCAL."""
        return self._value.members

    def wait_members(
        self, wanted: int | Iterable[str], *, timeout: float | None = WAIT_SECONDS
    ) -> tuple[str, ...]:
        """Wait until at least the ``wanted`` members are in the group, and return ``members``. Arguments and errors
        as ``jgroups_py.cache.TreeCache.wait_members``."""
        members: tuple[str, ...] = self._call(
            partial(self._value.wait_members, wanted, timeout=timeout)
        )
        return members

    def wait_protected(
        self, size: int | None = None, *, timeout: float | None = WAIT_SECONDS
    ) -> None:
        """Wait until the buddies have acknowledged a copy of every node that this member owns. Arguments and errors
        as ``jgroups_py.cache.TreeCache.wait_protected``."""
        self._call(partial(self._value.wait_protected, size, timeout=timeout))

    def statistics(self) -> CacheStatistics:
        """Return the counters as they are now."""
        statistics: CacheStatistics = self._look(self._value.statistics)
        return statistics


class CacheBatch:
    """Several changes that take effect together at the end of the ``with``. It is for one thread.

        with cache.batch() as batch:
            balance = batch.get("/accounts/7", "balance")
            batch.put("/accounts/7", "balance", balance - 10)

    A write is only noted, and crosses no thread. The end of the batch raises:
        BatchConflict: another call changed what the batch had read; nothing was changed, run it again.
    """

    def __init__(self, cache: TreeCache, timeout: float | None, options: CallOptions) -> None:
        self._cache = cache
        self._timeout = timeout
        self._context = cache._value.batch(retries=None, **options)
        self._batch: AsyncBatch

    def __call__(self, function: object) -> NoReturn:
        raise CacheRefused(NO_RETRIES)

    @classmethod
    def _of(cls, cache: TreeCache, batch: AsyncBatch) -> Self:
        """Return a batch that its maker ends."""
        made = cls(cache, None, {})
        made._batch = batch
        return made

    def __enter__(self) -> Self:
        self._batch = self._cache._call(self._context.__aenter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        leave = self._context.__aexit__
        if error is None:
            self._cache._call(leave, None, None, None, timeout=self._timeout)
            return
        try:
            self._cache._call(leave, kind, error, trace)
        except CacheClosed:
            pass  # the cache was closed meanwhile; nothing was changed either way

    def get(
        self, path: AnyPath, key: str, default: Any = None, *, timeout: float | None = None
    ) -> Any:
        """Return the value of an attribute, or ``default`` where there is none. It includes changes of this batch."""
        return self._cache._call(self._batch.get, path, key, default, timeout=timeout)

    def get_node(self, path: AnyPath, *, timeout: float | None = None) -> dict[str, Any] | None:
        """Return all attributes, or None where there is no node."""
        node: dict[str, Any] | None = self._cache._call(self._batch.get_node, path, timeout=timeout)
        return node

    def exists(self, path: AnyPath, *, timeout: float | None = None) -> bool:
        """Return whether there is a node."""
        there: bool = self._cache._call(self._batch.exists, path, timeout=timeout)
        return there

    def put(self, path: AnyPath, key: str, value: Any) -> None:
        """Set one attribute; make the node if it is not there."""
        self._batch.put(path, key, value)

    def put_node(
        self, path: AnyPath, attributes: Mapping[str, Any], *, replace: bool = False
    ) -> None:
        """Set attributes; with ``replace`` the node has no others afterwards."""
        self._batch.put_node(path, attributes, replace=replace)

    def remove(self, path: AnyPath, key: str) -> None:
        """Remove one attribute, if it is there; the node stays."""
        self._batch.remove(path, key)

    def remove_node(self, path: AnyPath) -> None:
        """Remove a node, if it is there; those below it stay."""
        self._batch.remove_node(path)

    def remove_tree(self, path: AnyPath) -> None:
        """Remove a node and all below it."""
        self._batch.remove_tree(path)

    def __len__(self) -> int:
        """Return the number of changes that were noted so far."""
        return len(self._batch)


class Retried:
    """A batch that runs again after a lost race: ``jgroups_py.cache.retried``, with plain functions.

        @cache.batch(retries=10)
        def transfer(batch, amount):
            balance = batch.get("/accounts/7", "balance")
            batch.put("/accounts/7", "balance", balance - amount)

        transfer(10)

    ``cache.batch(retries=10).run(transfer, 10)`` does the same. The function runs in the thread of its caller, up to
    ``retries`` times more. ``timeout`` is in seconds, for each wait for a turn and for each end of a batch.

    Raises:
        BatchConflict: another call was first, also the last time; nothing was changed.
        LockTimeout: other calls were in front for too long; nothing was changed.
    """

    def __init__(
        self, cache: TreeCache, retries: int, timeout: float | None, options: CallOptions
    ) -> None:
        self._cache = cache
        self._timeout = timeout
        self._attempts = partial(cache._value.attempts, retries, options_of(options))
        self._attempts()  # a wrong option raises CacheRefused now, not when the batch runs

    def __call__(self, function: Callable[Concatenate[CacheBatch, P], R]) -> Callable[P, R]:
        """Return a function that runs as a retried batch each time it is called."""

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return self.run(function, *args, **kwargs)

        return call

    def run(
        self, function: Callable[Concatenate[CacheBatch, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run ``function(batch, ...)`` until its batch takes effect. Return its result."""
        cache, attempts = self._cache, self._attempts()
        try:
            while True:
                batch = cache._call(attempts.begin, timeout=self._timeout)
                with inside(attempts):
                    result = function(CacheBatch._of(cache, batch), *args, **kwargs)
                if cache._call(attempts.finish, timeout=self._timeout):
                    return result
        finally:
            cache._block.post_always(attempts.close)  # also when this thread is interrupted

    def __enter__(self) -> NoReturn:
        raise CacheRefused(NO_BLOCK)

    def __exit__(self, *_: object) -> None:
        """Exist, so that ``__enter__`` can say what is wrong."""

    def __iter__(self) -> NoReturn:
        raise CacheRefused(NO_BLOCK)


class Changes:
    """A stream of changes; made by ``TreeCache.listen``. It is for one thread and ends when the cache closes."""

    def __init__(self, cache: TreeCache, make: Any) -> None:
        self._cache = cache
        self._make = make
        self._listener: Any = None
        self._items: deque[NodeChanged | Missed] = deque()

    def __enter__(self) -> Self:
        async def begin() -> Any:
            return await self._make().__aenter__()

        self._listener = self._cache._call(begin)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._cache.closed:
            self._cache._call(self._listener.__aexit__, None, None, None)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> NodeChanged | Missed:
        item = self.receive()
        if item is None:
            raise StopIteration
        return item

    def receive(self, timeout: float | None = None) -> NodeChanged | Missed | None:
        """Return the next change, or a Missed where some are missing. Return None when the cache was closed and no change
        is left.

        Raises:
            TimeoutError: no change came.
        """
        if not self._items:
            if self._cache.closed:
                return None
            take = partial(
                bulk_cache.changes_together, self._listener, self._items, CHANGES_AT_ONCE
            )
            self._cache._call(take, timeout=timeout)
        return self._items.popleft() if self._items else None


def _closed() -> CacheClosed:
    return CacheClosed("the cache is closed")


def _name_of(config: str | os.PathLike[str] | CacheSettings) -> str:
    if isinstance(config, CacheSettings):
        return config.cluster_name or "settings"
    return os.fspath(config)
