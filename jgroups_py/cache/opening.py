"""open_tree_cache: from a cache file to a tree cache, and back."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial

import trio

from jgroups_py.cache.buddy_replication import BuddyReplication
from jgroups_py.cache.buddy_settings import check_buddies, host_addresses
from jgroups_py.cache.codec import Codec
from jgroups_py.cache.eviction import Region
from jgroups_py.cache.full_replication import FullReplication
from jgroups_py.cache.plugins import make_store
from jgroups_py.cache.policies import AllOf, EvictionPolicy, LeastRecentlyUsed, TimeToLive
from jgroups_py.cache.replication import LocalReplication, MemberReplication
from jgroups_py.cache.saving import Keeper
from jgroups_py.cache.settings import CacheSettings, RegionConfig
from jgroups_py.cache.settings_file import load_cache_settings
from jgroups_py.cache.store import Store, asked
from jgroups_py.cache.tree_cache import TreeCache
from jgroups_py.cache.values import CacheLimits
from jgroups_py.channel.channel import Channel
from jgroups_py.channel.given import check_names, check_text, check_texts
from jgroups_py.channel.open import open_channel
from jgroups_py.driver import Transport
from jgroups_py.driver.needs_trio import check_trio
from jgroups_py.driver.unwrap import reraise
from jgroups_py.errors import ConfigError, StoreError

_log = logging.getLogger("jgroups_py.cache")


@asynccontextmanager
async def open_tree_cache(
    config: str | os.PathLike[str] | CacheSettings,
    *,
    cluster: str | None = None,
    name: str | None = None,
    codec: Codec | None = None,
    store: Store | None = None,
    properties: Mapping[str, str] | None = None,
    attributes: Mapping[str, str] | None = None,
    transport: Transport | None = None,
    bind_addr: str | None = None,
) -> AsyncIterator[TreeCache]:
    """Open a tree cache for as long as the block lasts. Leaving the block waits for running calls, saves unsaved nodes
    if there is a store, and then leaves the group.

    Args:
        config: a cache file, the name of a shipped one ("local.xml"), or settings made in Python.
        cluster: the group's name; else ClusterName of the file. This option and ``name``, ``attributes``, ``transport``
            and ``bind_addr`` are for replicated modes; see ``open_channel``.
        codec: turns values into bytes; msgpack when not given.
        store: takes the place of the store the file names.
        properties: values for ``${name:default}`` in the file.

    Raises:
        ConfigError, TypeError, LocalProtocolError (no trio loop runs here): nothing was started.
        StoreError: the store cannot be used; nothing was started. Or, at the end of the block, some nodes
            could not be saved.
        JoinError, StateTransferError: the group could not be joined; no socket or task stays open.
        Expelled, StateTransferError: later, the group went on without this member; the block is
            cancelled.

    An exception of the block comes out as it is; only several errors at once make an ExceptionGroup.
    """
    check_trio("open_tree_cache")
    _check_given(codec, store)
    check_names(cluster, name)
    check_text("bind_addr", bind_addr)
    check_texts("attributes", attributes)
    check_texts("properties", properties)
    if not isinstance(config, CacheSettings):
        config = load_cache_settings(config, properties=properties)
    settings = config
    if settings.cache_mode == "LOCAL":
        async with _open(settings, LocalReplication(), codec, store) as cache:
            yield cache
        return
    if settings.buddies is not None:
        check_buddies(settings, store)
    else:
        _check_replicated(settings, store)
    group = cluster or settings.cluster_name
    if group is None:
        raise ConfigError("needs ClusterName, or cluster= when it is opened", file=settings.source)
    channel_of = partial(
        open_channel,
        settings.stack,
        cluster=group,
        name=name,
        bind_addr=bind_addr,
        attributes=attributes,
        properties=properties,
        transport=transport,
    )
    if settings.buddies is not None:
        hosts = host_addresses(settings.buddies) if transport is None else ()
        buddy = BuddyReplication(settings, hosts)
        async with _open_with_buddies(settings, buddy, codec, store, channel_of) as cache:
            yield cache
        return
    full = FullReplication(
        sync=settings.cache_mode == "REPL_SYNC", timeout=settings.sync_repl_timeout
    )
    async with (
        _open(settings, full, codec, None) as cache,
        channel_of(state=full.state, get_state=True) as channel,
    ):
        full.connect(channel.address)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(full.run, channel)
                await full.ready.wait()
                try:
                    yield cache
                finally:
                    if trio.current_effective_deadline() == -math.inf:
                        full.give_up()  # the task above is cancelled, too
                    with trio.CancelScope(shield=True):
                        await cache.aclose()
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group_of_errors:
            reraise(group_of_errors)


@asynccontextmanager
async def _open_with_buddies(
    settings: CacheSettings,
    buddy: BuddyReplication,
    codec: Codec | None,
    store: Store | None,
    channel_of: Callable[..., AbstractAsyncContextManager[Channel]],
) -> AsyncIterator[TreeCache]:
    """A normal end hands over all nodes first. An error or a cancellation is a crash: buddies take over."""
    async with (
        _open(settings, buddy, codec, store) as cache,
        channel_of(tap=buddy.manager.attach) as channel,
    ):
        buddy.channel = channel
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(buddy.manager.run)
                nursery.start_soon(buddy.end_waits)
                nursery.start_soon(buddy.keeping.run)
                nursery.start_soon(buddy.passive.restore)
                await buddy.manager.ready.wait()
                try:
                    yield cache
                    await buddy.manager.leave()
                finally:
                    if trio.current_effective_deadline() == -math.inf:
                        buddy.give_up()  # the tasks above are cancelled, too
                    with trio.CancelScope(shield=True):
                        try:
                            async with trio.open_nursery() as ending:
                                ending.start_soon(buddy.end_waits)  # the other one may be cancelled
                                await cache.end_calls()  # the outer block saves
                                ending.cancel_scope.cancel()
                        except BaseExceptionGroup as interrupted:
                            reraise(interrupted)
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group_of_errors:
            reraise(group_of_errors)


def _check_given(codec: object, store: object) -> None:
    if codec is not None and not all(
        callable(getattr(codec, name, None)) for name in ("encode", "decode")
    ):
        raise TypeError(
            f"codec must have encode and decode (jgroups_py.cache.Codec), got {codec!r:.80}"
        )
    if not (store is None or isinstance(store, Store)):
        raise TypeError(f"store is derived from jgroups_py.cache.Store, got {store!r:.80}")


def _check_replicated(settings: CacheSettings, store: Store | None) -> None:
    mode, problem = settings.cache_mode, ""
    if settings.cache_loader_configuration is not None or store is not None:
        problem = f"CacheLoaderConfiguration: {mode} to everybody keeps everything in memory"
    elif settings.eviction_policy_config.regions:
        problem = f"EvictionPolicyConfig: {mode} to everybody keeps everything in memory"
    if problem:
        raise ConfigError(problem, file=settings.source)


@asynccontextmanager
async def _open(
    settings: CacheSettings,
    replication: MemberReplication,
    codec: Codec | None,
    store: Store | None,
) -> AsyncIterator[TreeCache]:
    keeper = await _open_keeper(settings, store)
    buddies = settings.buddies
    cache = TreeCache(
        replication=replication,
        container=replication.container,
        auto_gravitation=buddies is not None and buddies.auto_data_gravitation,
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
    await asked(store.open)
    if loader is None:
        return Keeper(store, passivation=False)
    try:
        if loader.purge_on_startup:
            await asked(store.purge)
    except BaseException:
        with trio.CancelScope(shield=True), suppress(StoreError):  # the first error counts
            await asked(store.aclose)
        raise
    return Keeper(
        store,
        passivation=loader.passivation,
        behind_max=loader.store_behind_max,
        began_empty=loader.purge_on_startup,
    )


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
