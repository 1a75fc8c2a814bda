"""open_tree_cache: from a cache file to a tree cache, and back."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import trio

from jgroups_py.cache.codec import Codec
from jgroups_py.cache.eviction import Region
from jgroups_py.cache.plugins import make_store
from jgroups_py.cache.policies import AllOf, EvictionPolicy, LeastRecentlyUsed, TimeToLive
from jgroups_py.cache.saving import Keeper
from jgroups_py.cache.settings import CacheSettings, RegionConfig
from jgroups_py.cache.settings_file import load_cache_settings
from jgroups_py.cache.store import Store
from jgroups_py.cache.tree_cache import CacheLimits, TreeCache
from jgroups_py.errors import ConfigError, StoreError
from jgroups_py.unwrap import reraise

_log = logging.getLogger("jgroups_py.cache")


@asynccontextmanager
async def open_tree_cache(
    config: str | os.PathLike[str] | CacheSettings,
    *,
    codec: Codec | None = None,
    store: Store | None = None,
    properties: Mapping[str, str] | None = None,
) -> AsyncIterator[TreeCache]:
    """A tree cache for as long as the block lasts. Leaving it waits for calls under way and saves
    what is only in memory, if there is a store.

    Args:
        config: a cache file, the name of a shipped one ("local.xml"), or settings made in Python.
        codec: how values become bytes; msgpack when not given.
        store: takes the place of the store the file names.
        properties: values for ``${name:default}`` in the file.

    Raises:
        ConfigError: nothing was started.
        StoreError: the store cannot be used; nothing was started. Or, at the end of the block, not
            everything could be saved.

    What the block raises comes out as it is; only several errors at once make an ExceptionGroup.
    """
    if isinstance(config, CacheSettings):
        settings = config
    else:
        settings = load_cache_settings(config, properties=properties)
    if settings.cache_mode != "LOCAL":
        raise ConfigError(
            f"CacheMode {settings.cache_mode} is not built yet (LOCAL is)", file=settings.source
        )
    keeper = await _open_keeper(settings, store)
    cache = TreeCache(
        keeper=keeper,
        regions=[_region(region) for region in settings.eviction_policy_config.regions],
        codec=codec,
        limits=CacheLimits(
            max_value_bytes=settings.max_value_size,
            max_call_nodes=settings.max_call_nodes,
            lock_timeout=settings.lock_acquisition_timeout,
            wake_up_interval=settings.eviction_policy_config.wake_up_interval,
        ),
    )
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cache.run)
            try:
                await _preload(cache, settings)
                yield cache
            except BaseException:
                with trio.CancelScope(shield=True):
                    try:
                        await cache.aclose()
                    except StoreError as error:
                        _log.warning("closing after an error: %s", error)
                raise
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await cache.aclose()
    except BaseExceptionGroup as group:
        reraise(group)


async def _open_keeper(settings: CacheSettings, store: Store | None) -> Keeper | None:
    loader = settings.cache_loader_configuration
    if store is None:
        if loader is None:
            return None
        store = make_store(loader.cacheloader)
    await store.open()
    if loader is None:
        return Keeper(store, passivation=False)
    try:
        if loader.purge_on_startup:
            await store.purge()
    except BaseException:
        with trio.CancelScope(shield=True):
            await store.aclose()
        raise
    return Keeper(store, passivation=loader.passivation, behind_max=loader.store_behind_max)


def _region(config: RegionConfig) -> Region:
    policies: list[EvictionPolicy] = []
    if config.max_nodes or config.max_bytes:
        policies.append(LeastRecentlyUsed(config.max_nodes, config.max_bytes))
    if config.time_to_live or config.max_age:
        policies.append(TimeToLive(config.time_to_live, config.max_age))
    return Region(config.root, policies[0] if len(policies) == 1 else AllOf(policies))


async def _preload(cache: TreeCache, settings: CacheSettings) -> None:
    loader = settings.cache_loader_configuration
    for path in loader.preload_paths if loader is not None else ():
        await cache.preload(path)
