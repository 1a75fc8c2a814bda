"""A tree cache: nodes with attributes by path, with locks, batches, eviction and a store.

    async with open_tree_cache("local.xml") as cache:
        await cache.put("/users/7", "name", "Ada")

See design/tree-cache.md.

May import: buddy, channel and the rooms below.
Imported by: export, blocking, aio, sessions, drill, testing.explorer, tools.
"""

from __future__ import annotations

from jgroups_py.cache.batch import CacheBatch
from jgroups_py.cache.codec import Codec, MsgpackCodec
from jgroups_py.cache.discarded import Discarded
from jgroups_py.cache.fqn import BACKUP_ROOT, Fqn
from jgroups_py.cache.listeners import EventKind, Listener, Missed, NodeChanged
from jgroups_py.cache.opening import open_tree_cache
from jgroups_py.cache.options import CallOptions
from jgroups_py.cache.policies import EvictionPolicy, LeastRecentlyUsed, TimeToLive
from jgroups_py.cache.retried import Retried
from jgroups_py.cache.settings import (
    BuddyReplicationConfig,
    CacheSettings,
    EvictionConfig,
    LoaderConfig,
    RegionConfig,
    StoreConfig,
)
from jgroups_py.cache.settings_file import (
    load_cache_settings,
    parse_cache_settings,
    shipped_caches,
)
from jgroups_py.cache.sqlite_store import SqliteStore
from jgroups_py.cache.store import Row, Store
from jgroups_py.cache.tree_cache import TreeCache
from jgroups_py.cache.values import CacheLimits, CacheStatistics, NodeOwner
from jgroups_py.errors import (
    BatchConflict,
    CacheClosed,
    CacheError,
    CacheRefused,
    LockTimeout,
    NotOwner,
    ReplicationError,
    StoreError,
)

__all__ = [
    "BACKUP_ROOT",
    "CacheBatch",
    "BatchConflict",
    "BuddyReplicationConfig",
    "CacheClosed",
    "CacheError",
    "CacheLimits",
    "CacheRefused",
    "CacheSettings",
    "CacheStatistics",
    "CallOptions",
    "Codec",
    "Discarded",
    "EvictionConfig",
    "EvictionPolicy",
    "Fqn",
    "EventKind",
    "LeastRecentlyUsed",
    "Listener",
    "LoaderConfig",
    "LockTimeout",
    "Missed",
    "MsgpackCodec",
    "NodeChanged",
    "NodeOwner",
    "NotOwner",
    "RegionConfig",
    "ReplicationError",
    "Retried",
    "Row",
    "SqliteStore",
    "Store",
    "StoreConfig",
    "StoreError",
    "TimeToLive",
    "TreeCache",
    "load_cache_settings",
    "open_tree_cache",
    "parse_cache_settings",
    "shipped_caches",
]
