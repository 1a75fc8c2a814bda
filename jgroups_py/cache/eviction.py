"""Evictor: keeps each region within what its policy allows.

After a call that filled memory, the calling task evicts (so writers pay for what they write), and a
task does so now and then for what only time makes due. Nodes that a call is using stay. With a
store, a node is saved before it leaves; if the store cannot, it stays in memory, which is counted,
and when memory is over its limit for that reason writes are refused: nothing is lost silently.

Backups are nobody's to evict but their owner's: no region may name them, and one above passes by.
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
"""Seconds before a store that failed is asked again to take what is to be evicted."""


@dataclass(frozen=True)
class Region:
    """``policy`` holds for nodes at and below ``root`` that no longer root claims."""

    root: Fqn
    policy: EvictionPolicy

    def __post_init__(self) -> None:
        refuse_backups(self.root)


def refuse_backups(path: Fqn) -> None:
    """CacheRefused for ``/_buddy_backup_`` and what is below it."""
    if path.is_within(BACKUP_ROOT):
        raise CacheRefused(
            f"{path} cannot be evicted: {BACKUP_ROOT} holds what this member keeps for others"
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
        """Is told of a node that was evicted and is nowhere now."""
        self.evicted = 0
        self.failures = 0

    @property
    def has_regions(self) -> bool:
        """Else no policy wants to hear anything."""
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

    # --- what policies and the store are told

    def touched(self, path: Fqn, node: Node, *, written: bool) -> None:
        """A node was read, written or loaded."""
        policy = self._policy_of(path)
        if policy is not None:
            policy.touched(path, node.size, self._clock(), written=written)

    def gone(self, path: Fqn) -> None:
        """A node was removed or evicted."""
        policy = self._policy_of(path)
        if policy is not None:
            policy.gone(path)

    def taken(self, path: Fqn, node: Node) -> None:
        """A node came from another member."""
        self.touched(path, node, written=False)
        if self._keeper is not None:
            self._keeper.taken(path)

    def given(self, path: Fqn, *, remove: bool) -> None:
        """Another member owns a node now; ``remove``: the store shall not keep it."""
        self.gone(path)
        if self._keeper is not None:
            self._keeper.given(path, remove=remove)

    def stored(self, path: Fqn) -> None:
        """The store has a row of a node that was not in memory."""
        if self._keeper is not None:
            self._keeper.has_row(path)

    async def load(self, path: Fqn) -> Node | None:
        """The stored node, which is about to be in memory again. StoreError."""
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
        """Evicts what is due. Never raises for the store's sake: what cannot be saved stays.

        A store that has just failed is left alone for a while, unless one insists.
        """
        if not self.is_over():
            return
        async with self._one:
            for region in self._regions:
                if region.policy.is_over(self._clock()):
                    await self._trim(region.policy, insist)

    @property
    def store_fails(self) -> bool:
        """It did when something was last evicted."""
        return self._failed_at is not None

    async def require_room(self) -> None:
        """Before a write, when the store fails. StoreError (definite): memory is over its limit."""
        await self.make_room(insist=True)
        if self._failed_at is not None and self.is_over():
            raise StoreError(
                f"memory holds {len(self._container)} nodes, more than eviction allows, and the"
                " store does not take them; nothing was changed"
            )

    async def evict(self, path: Fqn) -> bool:
        """Evicts one node now. False: it is not in memory, or busy.

        Raises:
            CacheRefused: a backup.
            StoreError: it could not be saved, and stays in memory.
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
        """Every ``interval`` seconds: what time made due, and what a failing store missed."""
        while True:
            await trio.sleep(interval)
            await self.make_room()
            if self._keeper is not None:
                try:
                    await self._keeper.catch_up(self._container, self._locks)
                except StoreError:
                    pass  # counted and logged by the keeper

    def is_over(self) -> bool:
        """Is something to be evicted?"""
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
            return False  # it is another value by now: it moved away and came back
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
