"""Makes the machine's settings, its locator and this host's addresses from the BuddyReplicationConfig of a cache
file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.locator import BuddyLocator, NextMemberBuddyLocator
from jgroups_py.cache.plugins import find_class
from jgroups_py.cache.settings import NEXT_MEMBER, BuddyReplicationConfig, CacheSettings
from jgroups_py.cache.store import Store
from jgroups_py.driver.interfaces import interfaces
from jgroups_py.errors import ConfigError
from jgroups_py.stack.raised import said


def buddy_config(config: BuddyReplicationConfig, hosts: Sequence[str]) -> BuddyConfig:
    """Return the machine's settings. Its writes are always synchronous; each call decides whether it waits."""
    return BuddyConfig(
        sync=True,
        locator_properties={k: str(v) for k, v in config.buddy_locator_properties.items()},
        pool=config.buddy_pool_name or "",
        zone=config.zone or "",
        hosts=tuple(hosts),
        communication_timeout=config.buddy_communication_timeout,
        leave_timeout=config.leave_timeout,
        removed_max=config.unsent_removals_max,
        tombstone_time=config.tombstone_time,
        partition=config.partition,
        search_backup_trees=config.data_gravitation_search_backup_trees,
    )


def locator_of(config: BuddyReplicationConfig, source: str) -> BuddyLocator:
    """Return the locator, not yet initialised. ConfigError: its class does not exist or cannot be made.
    ``source``: the cache file."""
    if config.buddy_locator_class == NEXT_MEMBER:
        return NextMemberBuddyLocator()
    found = find_class(config.buddy_locator_class)
    if isinstance(found, str):
        raise ConfigError(
            f'"{config.buddy_locator_class}" {found}', file=source, where="buddyLocatorClass"
        )
    try:
        return cast(BuddyLocator, found())
    except Exception as error:
        raise ConfigError(
            f"{config.buddy_locator_class}() raised {said(error)}",
            file=source,
            where="buddyLocatorClass",
        ) from error


def host_addresses(config: BuddyReplicationConfig) -> tuple[str, ...]:
    """Return all addresses of this host but loopback. A member that has one of them is on this host."""
    if config.buddy_locator_class == NEXT_MEMBER and not config.ignore_colocated_buddies:
        return ()
    found = (interface.address for interface in interfaces())
    return tuple(dict.fromkeys(str(ip) for ip in found if not ip.is_loopback))


def check_buddies(settings: CacheSettings, store: Store | None) -> None:
    """Check the settings. ConfigError: one of them contradicts buddies."""
    loader = settings.cache_loader_configuration
    if settings.eviction_policy_config.regions and loader is None and store is None:
        problem = (
            "EvictionPolicyConfig: with buddies what leaves memory needs a store to go to"
            " (CacheLoaderConfiguration); only its owner may remove it"
        )
    elif loader is not None and loader.passivation and not loader.purge_on_startup:
        problem = (
            "CacheLoaderConfiguration: passivation with buddies needs purgeOnStartup = true, and a"
            " store of its own for each member: other members took over what is left from last time"
        )
    else:
        return
    raise ConfigError(problem, file=settings.source)
