"""The interceptors of a tree cache. interceptor.py has their order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import trio

from jgroups_py.cache.call import CacheCall, compute
from jgroups_py.cache.changes import Changes
from jgroups_py.cache.eviction import Evictor
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.interceptor import Interceptor
from jgroups_py.cache.locks import PathLocks, Scope
from jgroups_py.cache.node import Node
from jgroups_py.cache.replication import MemberReplication
from jgroups_py.cache.saving import Keeper
from jgroups_py.cache.tree import Tree
from jgroups_py.errors import CacheClosed, CacheRefused

YIELD_EVERY = 100
"""Calls without a wait, after which other tasks run. A call that finds all its nodes in memory does not wait."""


class Invocation(Interceptor):
    """Counts calls, refuses them after the end, and trims memory after them."""

    def __init__(self, evictor: Evictor) -> None:
        self._evictor = evictor
        self._closed = False
        self._under_way = 0
        self._idle = trio.Event()
        self._since_yield = 0
        self._counts = {"calls": 0, "reads": 0, "writes": 0, "failed_calls": 0}

    def statistics(self) -> dict[str, int]:
        return {**self._counts, "calls_under_way": self._under_way}

    async def handle(self, call: CacheCall) -> None:
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
            # The call is done; its caller learns so even if it is cancelled now.
            with trio.CancelScope(shield=True):
                await self._evictor.make_room()

    def require_open(self) -> None:
        """Raise CacheClosed if the cache is closed."""
        if self._closed:
            raise CacheClosed("the cache is closed")

    def is_idle(self) -> bool:
        """Is no call under way? CacheClosed: the cache is closed."""
        self.require_open()
        return not self._under_way

    @asynccontextmanager
    async def around_write(self) -> AsyncIterator[None]:
        """Do as ``handle`` for a write that skips the other interceptors. Raises CacheClosed."""
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
        """Make closing wait for the end of the block. Raises CacheClosed."""
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
        """Count a write that was one step."""
        self._counts["calls"] += 1
        self._counts["writes"] += 1

    async def close(self) -> None:
        """Refuse further calls. Return when running calls are done."""
        self._closed = True
        if self._under_way:
            await self._idle.wait()


class Locking(Interceptor):
    """Locks all nodes of the call in one step, until the call is done."""

    def __init__(self, locks: PathLocks, timeout: float) -> None:
        self._locks = locks
        self._timeout = timeout

    def statistics(self) -> dict[str, int]:
        locks = self._locks
        return {"lock_waits": locks.waits, "waiting_for_locks": locks.waiting}

    async def handle(self, call: CacheCall) -> None:
        timeout = call.options.lock_timeout or self._timeout
        held = self._locks.enter(call.scopes)
        if held.behind:
            await self._locks.wait(held, timeout)
        try:
            await self.next.handle(call)
        finally:
            self._locks.release(held)


class Loading(Interceptor):
    """Loads the call's nodes that memory lacks from the store (activation)."""

    def __init__(
        self, tree: Tree, keeper: Keeper, replication: MemberReplication, nodes_max: int
    ) -> None:
        self._tree = tree
        self._keeper = keeper
        self._replication = replication
        self._nodes_max = nodes_max

    def statistics(self) -> dict[str, int]:
        return self._keeper.statistics()

    async def handle(self, call: CacheCall) -> None:
        container = self._tree.container
        loaded: list[Fqn] = []
        if call.writes and self._replication.keeps_copies and not call.options.local_only:
            self._keeper.check_room()
        if call.names_of is not None:
            call.stored_names = await self._keeper.names(call.names_of, self._nodes_max)
        elif not call.options.new:
            for rows in await self._stored(call.scopes):
                for at, node in rows:
                    if container.get(at) is None:  # memory is newer
                        self._tree.load(at, node)
                        self._keeper.was_loaded(at)
                        loaded.append(at)
        try:
            await self.next.handle(call)
        finally:
            for at in loaded:
                container.unload(at)

    async def _stored(self, scopes: Sequence[Scope]) -> list[Sequence[tuple[Fqn, Node]]]:
        """Load the rows that the scopes cover."""
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
    """Nodes that this member lacks are taken from the others, if the call may do that."""

    def __init__(self, tree: Tree, replication: MemberReplication, automatic: bool) -> None:
        self._tree = tree
        self._replication = replication
        self._automatic = automatic
        self._searches = 0

    def statistics(self) -> dict[str, int]:
        return {"searches": self._searches}

    async def handle(self, call: CacheCall) -> None:
        await self._claim(call)
        await self.next.handle(call)

    async def _claim(self, call: CacheCall) -> None:
        options = call.options
        if options.local_only:
            return
        allowed = options.gravitation
        search = (self._automatic if allowed is None else allowed) and not options.new
        missing = self._missing(call.scopes)
        if call.writes or missing:
            self._searches += bool(search and missing)
            await self._replication.claim(call, missing, search=search)

    def _missing(self, scopes: Sequence[Scope]) -> list[Scope]:
        get, missing = self._tree.container.get, []
        for scope in scopes:
            if scope.deep or get(scope.path) is None:
                missing.append(scope)
        return missing


class Reads:
    """Counts hits and misses, and notifies the evictor."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.counts = {"hits": 0, "misses": 0}

    def note(self, call: CacheCall) -> None:
        get = self._tree.container.get
        for scope in call.scopes:
            if not scope.write and not scope.deep:
                self.counts["misses" if get(scope.path) is None else "hits"] += 1
                self._tree.was_read(scope.path)


class Computing(Interceptor):
    """The body of the call runs. A call that changes nothing ends here."""

    def __init__(self, tree: Tree, replication: MemberReplication) -> None:
        self._tree = tree
        self._replication = replication
        self._reads = Reads(tree)

    def statistics(self) -> dict[str, int]:
        return dict(self._reads.counts)

    async def handle(self, call: CacheCall) -> None:
        self._reads.note(call)
        compute(call, self._tree.container)
        self._replication.promise(call)
        if call.modifications:
            await self.next.handle(call)


class Owning(Gravitating):
    """``Gravitating`` and ``Computing`` in one, because others may take claimed nodes before the call goes on. The body runs in the step in
    which this member owns all nodes of the call. The change has then taken effect. A call that finds all its nodes
    here claims none, and its body runs at once."""

    def __init__(self, tree: Tree, replication: MemberReplication, automatic: bool) -> None:
        super().__init__(tree, replication, automatic)
        self._reads = Reads(tree)

    def statistics(self) -> dict[str, int]:
        return {**super().statistics(), **self._reads.counts}

    async def handle(self, call: CacheCall) -> None:
        await self._claim(call)
        self._reads.note(call)
        if not call.computed:
            compute(call, self._tree.container)
        if call.modifications:
            await self.next.handle(call)


class StoringFirst(Interceptor):
    """The store gets the change before it takes effect: it holds the only other copy."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    async def handle(self, call: CacheCall) -> None:
        await self._keeper.before(call.changes)
        await self.next.handle(call)


class Replicating(Interceptor):
    """The change takes effect, here and at the others; if it has done so already, the others acknowledge it."""

    def __init__(self, tree: Tree, replication: MemberReplication) -> None:
        self._tree = tree
        self._replication = replication

    def statistics(self) -> dict[str, int]:
        return dict(self._replication.statistics())

    async def handle(self, call: CacheCall) -> None:
        if call.options.local_only:
            if not self._replication.allows_local_writes:
                raise CacheRefused("local_only writes would set this member's tree apart from all")
            self._tree.apply(call.changes, local=True)
            await self.next.handle(call)
            return
        is_true = call.ticket is not None
        try:
            await self._replication.commit(call)
            is_true = True
        finally:
            if is_true:  # acknowledged or not
                await self.next.handle(call)


class StoringLast(Interceptor):
    """The store gets the change when other members have it. It may fall behind."""

    def __init__(self, keeper: Keeper, replication: MemberReplication) -> None:
        self._keeper = keeper
        self._replication = replication

    async def handle(self, call: CacheCall) -> None:
        # The change has taken effect, and the store must get it.
        with trio.CancelScope(shield=True):
            await self._keeper.after(self._still_here(call))
        await self.next.handle(call)

    def _still_here(self, call: CacheCall) -> Changes:
        """Return the changes without nodes that another member has taken meanwhile, even if they came back. The keeper
        knows of those."""
        owned = self._replication.tree.container.owned
        return tuple(c for c in call.changes if owned(c.path) == c.after)


def steps(
    invocation: Invocation,
    locking: Locking,
    tree: Tree,
    replication: MemberReplication,
    keeper: Keeper | None,
    *,
    automatic: bool,
    nodes_max: int,
) -> list[Interceptor]:
    """Return the interceptors of a cache in their order. ``automatic``: every miss searches. ``nodes_max``: nodes that
    a call may load."""
    found: list[Interceptor] = [invocation, locking]
    if keeper is not None:
        found.append(Loading(tree, keeper, replication, nodes_max))
    if replication.runs_bodies:
        found.append(Owning(tree, replication, automatic))
    else:
        found.append(Gravitating(tree, replication, automatic))
        found.append(Computing(tree, replication))
    if keeper is not None and not replication.keeps_copies:
        found.append(StoringFirst(keeper))
    found.append(Replicating(tree, replication))
    if keeper is not None and replication.keeps_copies:
        found.append(StoringLast(keeper, replication))
    return found
