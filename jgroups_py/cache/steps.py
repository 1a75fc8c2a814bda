"""The interceptors of a tree cache, in their order (interceptor.py)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import trio

from jgroups_py.cache.call import Call, compute
from jgroups_py.cache.changes import Changes
from jgroups_py.cache.eviction import Evictor
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.interceptor import Interceptor
from jgroups_py.cache.locks import PathLocks, Scope
from jgroups_py.cache.node import Node
from jgroups_py.cache.replication import Replication
from jgroups_py.cache.saving import Keeper
from jgroups_py.cache.tree import Tree
from jgroups_py.errors import CacheClosed, CacheRefused

YIELD_EVERY = 100
"""Calls that find everything in memory do not wait; after so many of them other tasks run."""


class Invocation(Interceptor):
    """Counts calls, refuses them after the end, has memory trimmed after them."""

    def __init__(self, evictor: Evictor) -> None:
        self._evictor = evictor
        self._closed = False
        self._under_way = 0
        self._idle = trio.Event()
        self._since_yield = 0
        self._counts = {"calls": 0, "reads": 0, "writes": 0, "failed_calls": 0}

    def statistics(self) -> dict[str, int]:
        return {**self._counts, "calls_under_way": self._under_way}

    async def handle(self, call: Call) -> None:
        self._since_yield += 1
        if self._since_yield >= YIELD_EVERY:
            self._since_yield = 0
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        self.require_open()
        writes = call.writes
        self._counts["calls"] += 1
        self._counts["writes" if writes else "reads"] += 1
        self._under_way += 1
        try:
            if writes and self._evictor.store_fails:
                await self._evictor.require_room()
            await self.next.handle(call)
        except BaseException:
            self._counts["failed_calls"] += 1
            raise
        finally:
            self._ended()
        if self._evictor.is_over() and not self._closed:
            # The call is done and must say so, even if its caller is cancelled just now.
            with trio.CancelScope(shield=True):
                await self._evictor.make_room()

    def require_open(self) -> None:
        """CacheClosed: it is not."""
        if self._closed:
            raise CacheClosed("the cache is closed")

    def is_idle(self) -> bool:
        """No call is under way. CacheClosed: none will be."""
        self.require_open()
        return not self._under_way

    @asynccontextmanager
    async def around_write(self) -> AsyncIterator[None]:
        """As ``handle``, for a write past the other interceptors. CacheClosed."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.require_open()
        self.count_write()
        try:
            with self.under_way():
                yield
        except BaseException:
            self._counts["failed_calls"] += 1
            raise

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Closing waits for the end of the block. CacheClosed."""
        self.require_open()
        self._under_way += 1
        try:
            yield
        finally:
            self._ended()

    def _ended(self) -> None:
        self._under_way -= 1
        if self._closed and not self._under_way:
            self._idle.set()

    def count_write(self) -> None:
        """A write that was one step."""
        self._counts["calls"] += 1
        self._counts["writes"] += 1

    async def close(self) -> None:
        """No call after this; returns when those under way are done."""
        self._closed = True
        if self._under_way:
            await self._idle.wait()


class Locking(Interceptor):
    """Locks everything the call touches, at once, until it is done."""

    def __init__(self, locks: PathLocks, timeout: float) -> None:
        self._locks = locks
        self._timeout = timeout

    def statistics(self) -> dict[str, int]:
        locks = self._locks
        return {"lock_waits": locks.waits, "waiting_for_locks": locks.waiting}

    async def handle(self, call: Call) -> None:
        timeout = call.options.lock_timeout or self._timeout
        held = self._locks.enter(call.scopes)
        if held.behind:
            await self._locks.wait(held, timeout)
        try:
            await self.next.handle(call)
        finally:
            self._locks.release(held)


class Loading(Interceptor):
    """Activation: what the call touches and memory lacks is loaded from the store."""

    def __init__(
        self, tree: Tree, keeper: Keeper, replication: Replication, nodes_max: int
    ) -> None:
        self._tree = tree
        self._keeper = keeper
        self._replication = replication
        self._nodes_max = nodes_max

    def statistics(self) -> dict[str, int]:
        return self._keeper.statistics()

    async def handle(self, call: Call) -> None:
        container = self._tree.container
        loaded: list[Fqn] = []
        if call.writes and self._replication.keeps_copies and not call.options.local_only:
            self._keeper.check_room()
        if call.names_of is not None:
            call.stored_names = await self._keeper.names(call.names_of, self._nodes_max)
        elif not call.options.new:
            for rows in await self._stored(call.scopes):
                for at, node in rows:
                    if container.get(at) is None:  # what is in memory is newer
                        self._tree.load(at, node)
                        self._keeper.was_loaded(at)
                        loaded.append(at)
        try:
            await self.next.handle(call)
        finally:
            for at in loaded:
                container.unload(at)

    async def _stored(self, scopes: Sequence[Scope]) -> list[Sequence[tuple[Fqn, Node]]]:
        """What the scopes cover, of the store."""
        found: list[Sequence[tuple[Fqn, Node]]] = []
        get = self._tree.container.get
        for scope in scopes:
            if scope.deep:
                path = scope.path
                rows = await self._keeper.load_within(path, self._nodes_max + 1)
                if len(rows) > self._nodes_max:
                    raise CacheRefused(
                        f"more than {self._nodes_max} stored nodes within {path}"
                        " (max_call_nodes); work on parts of it"
                    )
                found.append(rows)
        missing = [s.path for s in scopes if not s.deep and get(s.path) is None]
        if len(missing) == 1:
            node = await self._keeper.load(missing[0])
            found.append([(missing[0], node)] if node is not None else [])
        elif missing:
            found.append(await self._keeper.load_many(missing))
        return found


class Gravitating(Interceptor):
    """What this member lacks or does not own is claimed from the others, if the call may."""

    def __init__(self, tree: Tree, replication: Replication, automatic: bool) -> None:
        self._tree = tree
        self._replication = replication
        self._automatic = automatic
        self._searches = 0

    def statistics(self) -> dict[str, int]:
        return {"searches": self._searches}

    async def handle(self, call: Call) -> None:
        options = call.options
        if not options.local_only:
            allowed = options.gravitation
            search = (self._automatic if allowed is None else allowed) and not options.new
            missing = self._missing(call.scopes)
            if call.writes or missing:
                self._searches += bool(search and missing)
                await self._replication.claim(call, missing, search=search)
        await self.next.handle(call)

    def _missing(self, scopes: Sequence[Scope]) -> list[Scope]:
        get = self._tree.container.get
        return [scope for scope in scopes if scope.deep or get(scope.path) is None]


class Computing(Interceptor):
    """The call's body, unless it ran when what it needs was claimed (replication.py)."""

    def __init__(self, tree: Tree, replication: Replication) -> None:
        self._tree = tree
        self._replication = replication
        self._counts = {"hits": 0, "misses": 0}

    def statistics(self) -> dict[str, int]:
        return dict(self._counts)

    async def handle(self, call: Call) -> None:
        container = self._tree.container
        for scope in call.scopes:
            if not scope.write and not scope.deep:
                found = container.get(scope.path) is not None
                self._counts["hits" if found else "misses"] += 1
                self._tree.was_read(scope.path)
        if not call.computed:
            compute(call, container)
            self._replication.promise(call)
        if call.modifications:
            await self.next.handle(call)


class Storing(Interceptor):
    """The store before the change, where it holds the only other copy; else after it."""

    def __init__(self, keeper: Keeper, replication: Replication) -> None:
        self._keeper = keeper
        self._replication = replication

    async def handle(self, call: Call) -> None:
        if self._replication.keeps_copies and not call.options.local_only:
            true_already = call.ticket is not None
            try:
                await self.next.handle(call)
                true_already = True
            finally:
                if true_already:  # acknowledged or not, the store must hear of it
                    with trio.CancelScope(shield=True):
                        await self._keeper.after(self._still_here(call))
        else:
            await self._keeper.before(call.changes)
            await self.next.handle(call)

    def _still_here(self, call: Call) -> Changes:
        """Without nodes that another member has taken meanwhile, also where they came back with another value: the
        keeper knows of those."""
        owned = self._replication.tree.container.owned
        return tuple(c for c in call.changes if owned(c.path) == c.after)


class Replicating(Interceptor):
    """The end: the change is made true, here and at the others."""

    def __init__(self, tree: Tree, replication: Replication) -> None:
        self._tree = tree
        self._replication = replication

    def statistics(self) -> dict[str, int]:
        return dict(self._replication.statistics())

    async def handle(self, call: Call) -> None:
        if call.options.local_only:
            if not self._replication.allows_local_writes:
                raise CacheRefused("local_only writes would set this member's tree apart from all")
            self._tree.apply(call.changes, local=True)
        else:
            await self._replication.commit(call)
