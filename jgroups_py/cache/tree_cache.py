"""TreeCache: nodes with attributes, by path; ``open_tree_cache`` makes it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, Unpack, overload

import trio

from jgroups_py.buddy.journal import Journal
from jgroups_py.cache.accepted import Values, close_unrun, is_number, writable
from jgroups_py.cache.batch import CacheBatch
from jgroups_py.cache.buddy_manager import BuddyManager
from jgroups_py.cache.buddy_replication import BuddyReplication
from jgroups_py.cache.bulk import BulkWrites
from jgroups_py.cache.call import CacheCall
from jgroups_py.cache.changes import Drop, Modification, Put, Remove, RemoveTree
from jgroups_py.cache.codec import Codec, MsgpackCodec
from jgroups_py.cache.container import Container, MemoryTree
from jgroups_py.cache.discarded import Discarded
from jgroups_py.cache.eviction import Evictor, Region, refuse_backups
from jgroups_py.cache.fqn import AnyPath, Fqn, as_fqn
from jgroups_py.cache.holding import PlaceOfMember
from jgroups_py.cache.interceptor import chain
from jgroups_py.cache.listeners import CHANGES, CacheListeners, EventKind, Listener
from jgroups_py.cache.locks import PathLocks, Scope
from jgroups_py.cache.node import EMPTY, Node, checked_key
from jgroups_py.cache.old_rows import OldRows
from jgroups_py.cache.options import CallOptions, Options, options_of
from jgroups_py.cache.picture import CachePicture
from jgroups_py.cache.replication import LocalReplication, MemberReplication
from jgroups_py.cache.retried import Attempts, OneBatch, Retried, refuse_function
from jgroups_py.cache.rewriting import Rewriter
from jgroups_py.cache.saving import Keeper
from jgroups_py.cache.steps import Invocation, Locking, steps
from jgroups_py.cache.still import still
from jgroups_py.cache.tree import Tree
from jgroups_py.cache.turns import Turn
from jgroups_py.cache.values import CacheLimits, CacheStatistics, NodeOwner
from jgroups_py.channel.watch import WAIT_SECONDS
from jgroups_py.errors import (
    CacheClosed,
    CacheRefused,
    ChannelClosed,
)
from jgroups_py.values.address import Address


class TreeCache:
    """Nodes with attributes, by path; ``open_tree_cache`` makes it. For any number of tasks of one trio run.

        await cache.put("/users/7", "name", "Ada")
        await cache.get("/users/7", "name")             "Ada"
        await cache.children("/users")                  ("7",)
        await cache.remove_tree("/users")               1

    A node is a path with attributes that a caller put, perhaps none (``put_node(path, {})``). A path that only leads to
    nodes is no node. Calls on the same paths run one after the other. A call that raises a CacheError with ``definite``
    changed nothing. Every call takes the options of ``CallOptions`` as keyword arguments.
    """

    def __init__(
        self,
        *,
        replication: MemberReplication | None = None,
        container: Container | None = None,
        keeper: Keeper | None = None,
        regions: Sequence[Region] = (),
        codec: Codec | None = None,
        limits: CacheLimits | None = None,
        auto_gravitation: bool = False,
    ) -> None:
        self._limits = limits or CacheLimits()
        self._values = Values(codec or MsgpackCodec(), self._limits.max_value_bytes)
        self._container = container if container is not None else MemoryTree()
        self._keeper = keeper
        self._replication = replication or LocalReplication()
        self._listeners = CacheListeners()
        self._locks = locks = PathLocks()
        self._evictor = Evictor(self._container, regions, locks, self._listeners, keeper)
        tree = Tree(self._container, self._evictor, self._listeners)
        self._replication.tree = tree
        self._invocation = Invocation(self._evictor)
        self._interceptors = steps(
            self._invocation,
            Locking(locks, self._limits.lock_timeout),
            tree,
            self._replication,
            keeper,
            automatic=auto_gravitation,
            nodes_max=self._limits.max_call_nodes,
        )
        self.old_rows: OldRows | None = None
        """None without buddies or without a store."""
        if keeper is not None and isinstance(self._replication, BuddyReplication):
            manager, owned = self._replication.manager, self._replication.owned
            self.old_rows = OldRows(keeper, lambda: manager.entries, owned)
        self._first = chain(self._interceptors)
        self._rewriter = Rewriter(
            self._first.handle, self._invocation, self._replication, self._limits.lock_timeout
        )
        self._bulk = BulkWrites(
            self._values,
            self._replication,
            self._invocation,
            self._evictor,
            stored=keeper is not None,
            small=self._limits.max_value_bytes,
        )

    # --- reading

    async def get(
        self, path: AnyPath, key: str, default: Any = None, **options: Unpack[CallOptions]
    ) -> Any:
        """Return the value of an attribute; ``default`` if there is no such node or attribute."""
        name = checked_key(key)
        node = await self.read_node(as_fqn(path), options_of(options))
        data = None if node is None else node.attributes.get(name)
        return default if data is None else self._values.decode(data)

    async def get_node(
        self, path: AnyPath, **options: Unpack[CallOptions]
    ) -> dict[str, Any] | None:
        """Return all attributes of a node, as of one moment. None: there is no node."""
        node = await self.read_node(as_fqn(path), options_of(options))
        if node is None:
            return None
        return self._values.decode_all(node)

    async def keys(self, path: AnyPath, **options: Unpack[CallOptions]) -> tuple[str, ...]:
        """Return the names of a node's attributes, sorted. They are empty also if there is no node."""
        node = await self.read_node(as_fqn(path), options_of(options))
        return () if node is None else tuple(sorted(node.attributes))

    async def exists(self, path: AnyPath, **options: Unpack[CallOptions]) -> bool:
        """Is there a node at exactly this path?"""
        return await self.read_node(as_fqn(path), options_of(options)) is not None

    async def children(self, path: AnyPath, **options: Unpack[CallOptions]) -> tuple[str, ...]:
        """Return the names directly below a path that are nodes or lead to nodes, sorted."""
        fqn = as_fqn(path)
        names: tuple[str, ...] = ()

        def look(call: CacheCall, container: Container) -> Sequence[Modification]:
            nonlocal names
            names = tuple(sorted({*container.children(fqn), *call.stored_names}))
            return ()

        scopes = (Scope(fqn, deep=True),)
        await self._first.handle(
            CacheCall("children", scopes, look, options_of(options), names_of=fqn)
        )
        return names

    # --- writing

    async def put(
        self, path: AnyPath, key: str, value: Any, **options: Unpack[CallOptions]
    ) -> None:
        """Set one attribute. Create the node if it is missing."""
        await self.put_node(path, {key: value}, **options)

    async def put_node(
        self,
        path: AnyPath,
        attributes: Mapping[str, Any],
        *,
        replace: bool = False,
        **options: Unpack[CallOptions],
    ) -> None:
        """Set attributes. ``replace``: remove all others."""
        put = Put(writable(path), self._values.encode_all(attributes), replace)
        await self._modify("put", put, options_of(options))

    async def update_node(
        self,
        path: AnyPath,
        attributes: Mapping[str, Any],
        *,
        without: Iterable[str] = (),
        **options: Unpack[CallOptions],
    ) -> bool:
        """Set attributes of an existing node and remove those in ``without``, as one change. False: there is no such
        node, and none was created. It may raise BatchConflict, as ``update``.
        """
        fqn = writable(path)
        put = Put(fqn, self._values.encode_all(attributes))
        drop = Drop(fqn, tuple(checked_key(key) for key in without))
        there = False

        def look(call: CacheCall, container: Container) -> Sequence[Modification]:
            nonlocal there
            there = container.get(fqn) is not None
            return (put, drop) if there else ()

        scopes = (Scope(fqn, write=True),)
        await self._rewriter.run("update", scopes, look, options_of(options))
        return there

    async def update(
        self,
        path: AnyPath,
        key: str,
        function: Callable[[Any], Any],
        *,
        default: Any = None,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Set an attribute to ``function(value)`` and return it as ``get`` would (msgpack makes a tuple a list). Nobody
        else changes it in between. Create the node if it is missing.

        Callers of the same node queue, at all members. ``function`` gets ``default`` if there is no such attribute.
        Others wait while it runs: it is not async, waits for nothing and calls no cache. With full replication it may
        run more than once. If it raises, the caller gets the exception, and no node is changed.

        Raises:
            BatchConflict: callers that do not queue (``put``) were first 100 times; nothing was changed.
        """
        fqn, name = writable(path), checked_key(key)
        new: Any = None

        def work_out(call: CacheCall, container: Container) -> Sequence[Modification]:
            nonlocal new
            new = function(self._value(container, fqn, name, default))
            if inspect.isawaitable(new):
                close_unrun(new)
                raise CacheRefused("the function of an update is not async: use batch(retries=...)")
            put = Put(fqn, self._values.encode_all({name: new}))
            new = self._values.decode(put.attributes[name])
            return (put,)

        await self._rewriter.run("update", (Scope(fqn, write=True),), work_out, options_of(options))
        return new

    async def increment(
        self,
        path: AnyPath,
        key: str,
        by: float = 1,
        *,
        initial: float = 0,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Add to a number and return the sum. A missing one begins with ``initial``. Errors as ``update``.

        Raises:
            CacheRefused: the attribute, ``by`` or ``initial`` is no number; nothing was changed.
        """
        for given in (by, initial):
            if not is_number(given):
                raise CacheRefused(f"by and initial are numbers, got {given!r}")

        def add(value: Any) -> Any:
            if not is_number(value):
                raise CacheRefused(f'"{key}" of {as_fqn(path)} is no number: {value!r:.100}')
            return value + by

        return await self.update(path, key, add, default=initial, **options)

    async def compare_and_set(
        self,
        path: AnyPath,
        key: str,
        expected: Any,
        new: Any,
        /,
        **options: Unpack[CallOptions],
    ) -> bool:
        """Set an attribute to ``new`` if its value equals ``expected`` as stored (None: if there is none). Return
        whether it did. Errors as ``update``.

        Raises:
            CacheRefused: ``expected`` or ``new`` cannot be stored; nothing was changed.
        """
        fqn, name = writable(path), checked_key(key)
        put = Put(fqn, self._values.encode_all({name: new}))
        known = None
        if expected is not None:  # as it would come back: (1, 2) is stored as a list
            known = self._values.decode(self._values.encode(expected))
        same = False

        def compare(call: CacheCall, container: Container) -> Sequence[Modification]:
            nonlocal same
            same = bool(self._value(container, fqn, name, None) == known)
            return (put,) if same else ()

        scopes = (Scope(fqn, write=True),)
        await self._rewriter.run("update", scopes, compare, options_of(options), queue=False)
        return same

    async def remove(self, path: AnyPath, key: str, **options: Unpack[CallOptions]) -> bool:
        """Remove one attribute; the node stays. Return whether it existed."""
        drop = Drop(writable(path), (checked_key(key),))
        return bool(await self._modify("remove", drop, options_of(options)))

    async def remove_node(self, path: AnyPath, **options: Unpack[CallOptions]) -> bool:
        """Remove a node; those below it stay. Return whether it existed."""
        return bool(await self._modify("remove", Remove(writable(path)), options_of(options)))

    async def remove_tree(self, path: AnyPath, **options: Unpack[CallOptions]) -> int:
        """Remove a node and all below it, together. Return the number of nodes."""
        remove = RemoveTree(writable(path, root=True))
        return await self._modify("remove", remove, options_of(options), deep=True)

    async def move(self, path: AnyPath, to: AnyPath, **options: Unpack[CallOptions]) -> int:
        """Move a node and all below it, together: ``/a/x`` to ``/b/x``. Return the number of nodes.

        Raises:
            CacheRefused: one place lies within the other, or there are nodes at the new place.
            BatchConflict: as ``update``.
        """
        source, target = writable(path), writable(to)
        if target.is_within(source) or source.is_within(target):
            raise CacheRefused(f"{source} and {target} lie within each other")

        def look(call: CacheCall, container: Container) -> Sequence[Modification]:
            moving = container.within(source)
            if moving and container.within(target):
                raise CacheRefused(f"there are nodes at {target}")
            modifications: list[Modification] = []
            for old in moving:
                node = container.get(old) or EMPTY
                modifications.append(Put(old.moved(source, target), node.attributes, True))
                modifications.append(Remove(old))
            return modifications

        scopes = tuple(Scope(place, deep=True, write=True) for place in (source, target))
        call = await self._rewriter.run("move", scopes, look, options_of(options))
        return len(call.changes) // 2

    @overload
    def batch(
        self, *, retries: None = None, **options: Unpack[CallOptions]
    ) -> AbstractAsyncContextManager[CacheBatch]: ...

    @overload
    def batch(self, *, retries: int, **options: Unpack[CallOptions]) -> Retried: ...

    def batch(
        self, *given: object, retries: int | None = None, **options: Unpack[CallOptions]
    ) -> AbstractAsyncContextManager[CacheBatch] | Retried:
        """Make several changes as one, with ``async with``; see ``CacheBatch``. With ``retries`` it takes a function,
        which runs again when it lost a race; see ``Retried``.

        Raises, at the end of the block:
            BatchConflict: another call changed what the batch had read; nothing was changed.
        """
        refuse_function(given)
        checked = options_of(options)
        if retries is None:
            new = partial(self._new_batch, checked)
            return OneBatch(new, lambda batch: self.end_batch(batch, None))
        return Retried(partial(self.attempts, retries, checked))

    async def put_at_once(self, rows: Sequence[tuple[Fqn, Node | None]], *, replace: bool) -> bool:
        """Write as a batch of ``put_encoded`` and ``remove_node`` would, at a fraction of its cost (bulk.py). False:
        not possible here and nothing was done; use a batch.

        Raises:
            CacheRefused: as ``CacheBatch.put_encoded``; nothing was done.
            CacheClosed: the cache is closed.
            ReplicationError: the write may have happened.
        """
        return await self._bulk.write(rows, replace=replace)

    async def evict(self, path: AnyPath) -> bool:
        """Take one node out of memory, into the store if there is one. False: it is not in memory, or busy.

        Raises:
            CacheRefused: the node is a backup; or other members rely on this copy and there is no store to keep it.
            StoreError: the node could not be saved, and stays in memory.
        """
        fqn = as_fqn(path)
        self._invocation.require_open()
        refuse_backups(fqn)
        if self._keeper is None and not isinstance(self._replication, LocalReplication):
            raise CacheRefused(
                f"{fqn} stays: it is not this member's alone, and there is no store for it to go to"
                " (CacheLoaderConfiguration)"
            )
        return await self._evictor.evict(fqn)

    async def preload(self, path: AnyPath) -> None:
        """Load a node and all below it from the store, if there is one."""
        scopes = (Scope(as_fqn(path), deep=True),)
        only_here = Options(gravitation=False)
        await self._first.handle(
            CacheCall("preload", scopes, lambda _call, _container: (), only_here)
        )

    # --- watching

    def listen(
        self,
        path: AnyPath = "/",
        *,
        kinds: frozenset[EventKind] = CHANGES,
        buffer_max: int = 1000,
    ) -> Listener:
        """Return a stream of changes at and below ``path``. Use it with ``async with``.

        Args:
            buffer_max: changes that may wait for the listener. Later ones are lost, and a ``Missed`` takes their place
                in the stream.
        """
        if buffer_max < 1:
            raise CacheRefused(f"buffer_max must be >= 1, got {buffer_max}")
        return Listener(self._listeners, as_fqn(path), frozenset(kinds), buffer_max)

    def statistics(self) -> CacheStatistics:
        """Return the present counters."""
        counters = dict(self._evictor.statistics())
        counters["discarded"] = self._replication.discarded.count
        counters["turn_waits"] = self._rewriter.waits
        for interceptor in self._interceptors:
            counters.update(interceptor.statistics())
        return CacheStatistics(
            len(self._container),
            self._container.size,
            self._listeners.missed,
            MappingProxyType(counters),
        )

    @property
    def members(self) -> tuple[str, ...]:
        """Return the logical names of all members, the coordinator first. The tuple is empty in CacheMode LOCAL."""
        channel = self._replication.channel
        return () if channel is None else tuple(map(channel.name_of, channel.view))

    async def wait_members(
        self, wanted: int | Iterable[str], *, timeout: float | None = WAIT_SECONDS
    ) -> tuple[str, ...]:
        """Wait until at least the ``wanted`` members are in the group, and return ``members``.

        Args:
            wanted: the least number of members, this one included, or their logical names.
            timeout: seconds; None waits without a limit.

        Raises:
            WaitTimeout: they did not all come in time. The text names the missing ones.
            CacheRefused: a cache in CacheMode LOCAL has no members.
            CacheClosed, Expelled: the cache is closed, or its member has left the group.
        """
        channel = self._replication.channel
        if channel is None:
            raise CacheRefused("a cache in CacheMode LOCAL has no members")
        try:
            await channel.wait_members(wanted, timeout=timeout)
        except ChannelClosed:
            raise CacheClosed("the cache is closed") from None
        return self.members

    async def wait_protected(
        self, size: int | None = None, *, timeout: float | None = WAIT_SECONDS
    ) -> None:
        """Wait until the buddies have acknowledged a copy of every node that this member owns.

        Until the group has noticed a crash, all nodes still look protected. Give the expected ``size`` of the group
        in that case. The whole group is protected when each member's call has returned.

        Args:
            size: the exact number of members that the group must have.
            timeout: seconds; None waits without a limit.

        Raises:
            WaitTimeout: it did not happen in time. The text names the missing copies.
            CacheRefused: the cache has no buddies.
            CacheClosed, Expelled: the cache is closed, or its member has left the group.
        """
        try:
            await self.buddies.wait_protected(size, timeout=timeout)
        except ChannelClosed:
            raise CacheClosed("the cache is closed") from None

    def name_of(self, member: Address) -> str:
        """Return the logical name of a member, or its address as text if the name is unknown."""
        channel = self._replication.channel
        return str(member) if channel is None else channel.name_of(member)

    @property
    def buddies(self) -> BuddyManager:
        """Return the buddy groups of this member. CacheRefused: the cache has no buddies."""
        if not isinstance(self._replication, BuddyReplication):
            raise CacheRefused("buddy replication is not configured")
        return self._replication.manager

    @property
    def discarded(self) -> tuple[Discarded, ...]:
        """Return the values that merges have dropped, as far as this member knows: its own, with their attributes, and
        with buddies those of others. At most 1,000, the newest last."""
        channel = self._replication.channel
        me = "" if channel is None else channel.name
        return tuple(
            Discarded(
                dropped.path,
                me if dropped.member is None else self.name_of(dropped.member),
                None if dropped.node is None else self._values.decode_all(dropped.node),
            )
            for dropped in self._replication.discarded.listed
        )

    async def owners(self, path: AnyPath = "/", *, deep: bool = True) -> dict[Fqn, NodeOwner]:
        """Return the owners of the node at a path, with ``deep`` also of all below; nothing moves. Each member is asked
        and names at most 10,000 nodes.

        Raises:
            CacheRefused: the cache has no buddies.
            ReplicationError: not all members have answered.
        """
        self._invocation.require_open()
        if not isinstance(self._replication, BuddyReplication):
            raise CacheRefused("buddy replication is not configured")
        name = self.name_of
        return {
            Fqn(at): NodeOwner(name(owner), tuple(map(name, backups)))
            for at, (owner, backups) in (
                await self._replication.owners(as_fqn(path), deep=deep)
            ).items()
        }

    # --- for the parts of the cache

    def attempts(self, retries: int, options: Options) -> Attempts:
        """Return attempts at a batch, one after the other. CacheRefused: ``retries`` is invalid."""
        rewriter = self._rewriter
        return Attempts(
            retries,
            partial(self._new_batch, options),
            self.end_batch,
            partial(rewriter.take_turn, options),
            rewriter.come_up,
            rewriter.end_turn,
        )

    def _new_batch(self, options: Options) -> CacheBatch:
        return CacheBatch(self._values, self.read_node, self._limits.max_call_nodes, options)

    async def end_batch(self, batch: CacheBatch, turn: Turn | None) -> None:
        """Apply the batch. BatchConflict: nothing was changed."""
        scopes = batch.scopes()
        if scopes:
            await self._first.handle(
                CacheCall(
                    "batch", scopes, batch.body, batch.options, depends=batch.reads(), turn=turn
                )
            )

    def _value(self, container: Container, path: Fqn, key: str, default: Any) -> Any:
        node = container.get(path)
        data = None if node is None else node.attributes.get(key)
        return default if data is None else self._values.decode(data)

    async def read_node(self, path: Fqn, options: Options | None = None) -> Node | None:
        """Return a node as stored."""
        found: Node | None = None

        def look(call: CacheCall, container: Container) -> Sequence[Modification]:
            nonlocal found
            found = container.get(path)
            return ()

        await self._first.handle(CacheCall("get", (Scope(path),), look, options or Options()))
        return found

    def local_nodes(self, path: Fqn) -> Iterator[tuple[Fqn, Node]]:
        """Yield this member's nodes in memory at and below a path, each as it is at that moment. Other members are not
        asked, and policies do not count it as a use."""
        for at in self._container.within(path):
            node = self._container.get(at)
            if node is not None:
                yield at, node

    async def passive_paths(self, path: Fqn) -> list[Fqn]:
        """Return the names directly below a path that have left memory for the store, of nodes that this member owns.
        In CacheMode LOCAL these are all stored names, those that only lead to nodes included.

        Raises:
            CacheError: the store failed.
        """
        if isinstance(self._replication, LocalReplication):
            names = await self.children(path) if self._keeper is not None else ()
            return [at for at in map(path.child, names) if self._container.get(at) is None]
        found = map(Fqn, self._replication.passive_paths())
        return [at for at in found if len(at) == len(path) + 1 and at.is_within(path)]

    def encode_all(self, attributes: Mapping[str, Any]) -> dict[str, bytes]:
        """Check names and encode values."""
        return self._values.encode_all(attributes)

    def decode(self, data: bytes) -> Any:
        """Decode stored bytes. CacheError: the codec cannot read them."""
        return self._values.decode(data)

    @property
    def codec(self) -> Codec:
        """Return the codec of values."""
        return self._values.codec

    @property
    def tree(self) -> Tree:
        """Return the tree: nodes, and observers of their changes."""
        return self._replication.tree

    @property
    def name(self) -> str:
        """Return the logical name of this member; "local" in CacheMode LOCAL."""
        channel = self._replication.channel
        return "local" if channel is None else channel.name

    @property
    def origins(self) -> tuple[str, ...]:
        """Return the names under which ``position`` counts the present members."""
        channel = self._replication.channel
        return () if channel is None else tuple(bytes(member).hex() for member in channel.view)

    def position(self) -> Mapping[str, int] | None:
        """See ``MemberReplication.position``."""
        return self._replication.position()

    def turn_away(
        self, by: str, cause: str, source: str | None = None, *, causes: Mapping[str, str] = {}
    ) -> bool:
        """Count and log a refusal by ``by``, a block on top of this cache (``Channel.turn_away``). False: the cache has
        no channel, so nothing was done."""
        channel = self._replication.channel
        if channel is not None:
            channel.turn_away(by, cause, source, causes=causes)
        return channel is not None

    def holding(self) -> PlaceOfMember | None:
        """See ``MemberReplication.holding``."""
        return self._replication.holding()

    def follow_owners(self, journal: Journal) -> Callable[[], None]:
        """See ``MemberReplication.follow_owners``."""
        return self._replication.follow_owners(journal)

    @property
    def has_store(self) -> bool:
        """May nodes be outside memory?"""
        return self._keeper is not None

    @property
    def is_shared_out(self) -> bool:
        """Does each member own a part of the nodes (buddies)? Otherwise this tree has all nodes."""
        return isinstance(self._replication, BuddyReplication)

    @asynccontextmanager
    async def still(self) -> AsyncIterator[CachePicture]:
        """Give a picture of all nodes of this member (with buddies: its own). Nothing changes them before the block
        ends. With a store in CacheMode LOCAL, calls wait for that long, and this waits for running ones. Else the block
        must not wait for anything.

        Raises:
            LockTimeout: running calls take too long.
            StoreError: the store cannot be read.
        """
        locks, seconds = self._locks, self._limits.lock_timeout
        async with still(self._container, self._keeper, self._replication, locks, seconds) as found:
            yield found

    async def _modify(
        self, name: str, modification: Modification, options: Options, *, deep: bool = False
    ) -> int:
        scopes = (Scope(modification.path, deep=deep, write=True),)
        only = (modification,)
        call = CacheCall(name, scopes, lambda _call, _container: only, options)
        await self._first.handle(call)
        return len(call.changes)

    # --- beginning and end

    async def run(self) -> None:
        """Run the periodic work for as long as the cache is open."""
        await self._evictor.run(self._limits.wake_up_interval)

    async def end_calls(self) -> None:
        """Refuse further calls. Return when running calls are done."""
        await self._invocation.close()

    async def aclose(self) -> None:
        """Wait for running calls, and save unsaved nodes if there is a store.

        Raises:
            StoreError: some nodes could not be saved. The text has the number of nodes that are not in the store.
        """
        await self.end_calls()
        self._listeners.close()
        if self._keeper is not None:
            with trio.CancelScope(shield=True):
                await self._keeper.aclose(self._container)
