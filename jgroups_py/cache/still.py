"""A picture of all nodes of a member while nothing changes them (``TreeCache.still``)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jgroups_py.cache.buddy_replication import BuddyReplication
from jgroups_py.cache.container import Container
from jgroups_py.cache.fqn import ROOT
from jgroups_py.cache.locks import PathLocks, Scope
from jgroups_py.cache.picture import CachePicture
from jgroups_py.cache.replication import MemberReplication
from jgroups_py.cache.saving import Keeper


@asynccontextmanager
async def still(
    container: Container,
    keeper: Keeper | None,
    replication: MemberReplication,
    locks: PathLocks,
    lock_timeout: float,
) -> AsyncIterator[CachePicture]:
    """Give the picture to the block. With a store in CacheMode LOCAL, calls wait while the block runs. Else the block
    must not wait for anything.

    Raises:
        LockTimeout: calls under way took more than ``lock_timeout`` seconds.
        StoreError: the store cannot be read.
    """
    if keeper is None:
        yield CachePicture(container.nodes())
        return
    if isinstance(replication, BuddyReplication):
        passive = replication.passive
        with passive.watched() as left:
            stored, _ = await keeper.picture()
        yield passive.picture(stored, left)
        return
    held = await locks.acquire((Scope(ROOT, deep=True),), lock_timeout)
    try:
        stored, gone = await keeper.picture()
        yield CachePicture(container.nodes(), stored, gone)
    finally:
        locks.release(held)
