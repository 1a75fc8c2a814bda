"""Evictor: keeps each region within the limits of its policy.

After a call that filled memory, the calling task evicts, so writers pay for their writes. A background task evicts
nodes whose time is over. Nodes that a call is using stay. With a store, a node is saved before it leaves. If saving
fails the node stays in memory and is counted. Writes are refused while memory is over its limit for that reason, so no value
is lost silently.

Only its owner may evict a backup: no region may name backups, and a region above them skips them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from jgroups_py.cache.container import Container
from jgroups_py.cache.fqn import BACKUP_ROOT, Fqn
from jgroups_py.cache.guarded_policy import guarded
from jgroups_py.cache.listeners import CacheListeners, EventKind
from jgroups_py.cache.locks import LockRequest, PathLocks, Scope
from jgroups_py.cache.node import Node
from jgroups_py.cache.policies import EvictionPolicy
from jgroups_py.cache.saving import Keeper
from jgroups_py.errors import CacheRefused, StoreError

_log = logging.getLogger("jgroups_py.cache")
RETRY_AFTER = 1.0
"""Seconds before saving is tried again after the store failed."""


@dataclass(frozen=True)
class Region:
    """``policy`` holds for nodes at and below ``root``, unless a region with a longer root covers them."""

    root: Fqn
    policy: EvictionPolicy

    def __post_init__(self) -> None:
        refuse_backups(self.root)


def refuse_backups(path: Fqn) -> None:
    """Raise CacheRefused for ``/_buddy_backup_`` and paths below it."""
    if path.is_within(BACKUP_ROOT):
        raise CacheRefused(
            f"{path} cannot be evicted: {BACKUP_ROOT} holds backups for other members"
        )


class Evictor:
    """The regions of one cache."""

    def __init__(
        self,
        container: Container,
        regions: Sequence[Region],
        locks: PathLocks,
        listeners: CacheListeners,
        keeper: Keeper | None,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self._container = container
        asked = [Region(region.root, guarded(region.policy, clock)) for region in regions]
        self._regions = sorted(asked, key=lambda region: -len(region.root))
        self._locks = locks
        self._listeners = listeners
        self._keeper = keeper
        self._clock = clock
        self._one = trio.Lock()
        self._failed_at: float | None = None
        self.forgotten: Callable[[Fqn, Node], None] = lambda path, node: None
        """Called with a node that was evicted and is kept nowhere."""
        self.evicted = 0
        self.failures = 0

    @property
    def has_regions(self) -> bool:
        """Is there any policy to notify?"""
        return bool(self._regions)

    def statistics(self) -> dict[str, int]:
        """Counters by name."""
        over = sum(region.policy.is_over(self._clock()) for region in self._regions)
        return {
            "evicted": self.evicted,
            "eviction_failures": self.failures,
            "regions_over_limit": over,
            "policy_failures": sum(getattr(r.policy, "failures", 0) for r in self._regions),
        }

    # --- news for policies and the store

    def touched(self, path: Fqn, node: Node, *, written: bool) -> None:
        """Note that a node was read, written or loaded."""
        policy = self._policy_of(path)
        if policy is not None:
            policy.touched(path, node.size, self._clock(), written=written)

    def gone(self, path: Fqn) -> None:
        """Note that a node was removed or evicted."""
        policy = self._policy_of(path)
        if policy is not None:
            policy.gone(path)

    def taken(self, path: Fqn, node: Node) -> None:
        """Note that a node came from another member."""
        self.touched(path, node, written=False)
        if self._keeper is not None:
            self._keeper.taken(path)

    def given(self, path: Fqn, *, remove: bool) -> None:
        """Note that another member owns the node now. ``remove``: remove it from the store."""
        self.gone(path)
        if self._keeper is not None:
            self._keeper.given(path, remove=remove)

    def stored(self, path: Fqn) -> None:
        """Note that the store has a row of a node that was not in memory."""
        if self._keeper is not None:
            self._keeper.has_row(path)

    async def load(self, path: Fqn) -> Node | None:
        """Return the stored node, which is about to be in memory again. Raises StoreError."""
        if self._keeper is None:
            raise StoreError("there is no store")
        node = await self._keeper.load(path)
        if node is not None:
            self._keeper.was_loaded(path)
        return node

    def _policy_of(self, path: Fqn) -> EvictionPolicy | None:
        if not self._regions or path.is_within(BACKUP_ROOT):
            return None
        for region in self._regions:
            if path.is_within(region.root):
                return region.policy
        return None

    # --- evicting

    async def make_room(self, *, insist: bool = False) -> None:
        """Evict the nodes that are due. A failing store raises nothing here: unsaved nodes stay.

        A store that has just failed is left alone for ``RETRY_AFTER``, unless ``insist``.
        """
        if not self.is_over():
            return
        async with self._one:
            for region in self._regions:
                if region.policy.is_over(self._clock()):
                    await self._trim(region.policy, insist)

    @property
    def store_fails(self) -> bool:
        """Did the store fail at the last eviction?"""
        return self._failed_at is not None

    async def require_room(self) -> None:
        """Check memory before a write while the store fails. StoreError (definite): it is over its limit."""
        await self.make_room(insist=True)
        if self._failed_at is not None and self.is_over():
            raise StoreError(
                f"memory holds {len(self._container)} nodes, more than eviction allows, and the"
                " store does not take them; nothing was changed"
            )

    async def evict(self, path: Fqn) -> bool:
        """Evict one node now. False: the node is not in memory, or busy.

        Raises:
            CacheRefused: the node is a backup.
            StoreError: the node could not be saved, and stays in memory.
        """
        refuse_backups(path)
        node = self._container.get(path) if self._container.may_discard(path) else None
        lock = self._locks.try_acquire((Scope(path, write=True),)) if node is not None else None
        if node is None or lock is None:
            return False
        try:
            await self._save([path])
            return self._discard(path)
        finally:
            self._locks.release(lock)

    async def run(self, interval: float) -> None:
        """Evict every ``interval`` seconds, and save nodes that a failing store missed."""
        while True:
            await trio.sleep(interval)
            await self.make_room()
            if self._keeper is not None:
                try:
                    await self._keeper.catch_up(self._container, self._locks)
                except StoreError:
                    pass  # counted and logged by the keeper

    def is_over(self) -> bool:
        """Does a region exceed its limit?"""
        if not self._regions:
            return False
        now = self._clock()
        return any(region.policy.is_over(now) for region in self._regions)

    async def _trim(self, policy: EvictionPolicy, insist: bool) -> None:
        held: dict[Fqn, LockRequest] = {}
        now = self._clock()
        failed_at = self._failed_at
        resting = not insist and failed_at is not None and now - failed_at < RETRY_AFTER

        def can_take(path: Fqn) -> bool:
            if not self._container.may_discard(path):
                return False
            if resting and self._keeper is not None and not self._keeper.is_saved(path):
                return False
            lock = self._locks.try_acquire((Scope(path, write=True),))
            if lock is not None:
                held[path] = lock
            return lock is not None

        try:
            victims = [path for path in policy.victims(now, can_take) if path in held]
            try:
                await self._save(victims)
            except StoreError:
                self.failures += 1
                self._failed_at = now
                assert self._keeper is not None
                victims = [path for path in victims if self._keeper.is_saved(path)]
            else:
                if not resting:
                    self._failed_at = None
            for path in victims:
                self._discard(path)
        finally:
            for lock in held.values():
                self._locks.release(lock)

    async def _save(self, paths: Sequence[Fqn]) -> None:
        if self._keeper is not None:
            nodes = [(path, self._container.get(path)) for path in paths]
            await self._keeper.save([(path, node) for path, node in nodes if node is not None])

    def _discard(self, path: Fqn) -> bool:
        node = self._container.get(path)
        if self._keeper is not None and not self._keeper.is_saved(path):
            return False  # the node moved away and came back with another value
        if not self._container.discard(path):
            return False
        if self._keeper is None and node is not None:
            self.forgotten(path, node)
        self.evicted += 1
        if self._keeper is not None:
            self._keeper.evicted(path)
        self.gone(path)
        self._listeners.moved(path, EventKind.EVICTED)
        return True
