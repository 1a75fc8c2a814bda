"""The settings of a cache file, typed, with JBoss Cache's names and defaults.

A field ``buddy_pool_name`` is ``buddyPoolName`` in a file, whatever the case. settings_file.py reads files; this module
has meanings, defaults and checks.

Source: JBoss Cache 1.4 documentation, "Buddy Replication", "Configuration"; the design note.
Differs: zone, partition, leaveTimeout, unsentRemovalsMax, tombstoneTime, maxBytes, maxValueSize, maxCallNodes and
         StoreBehindMax are ours; there are REPL modes and LOCAL, but no INVALIDATION modes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from jgroups_py.cache.fqn import BACKUP_ROOT, ROOT, Fqn
from jgroups_py.config.settings import Bytes, ConfigBase, Seconds
from jgroups_py.errors import ConfigError

NEXT_MEMBER: Final = "NextMemberBuddyLocator"
BUDDIES_MAX: Final = 100
"""The largest numBuddies."""


@dataclass(frozen=True, kw_only=True)
class BuddyReplicationConfig(ConfigBase):
    """Backups on a few members instead of all."""

    buddy_replication_enabled: bool
    """The only required setting."""
    buddy_locator_class: str = NEXT_MEMBER
    """The class that chooses buddies: this one, or the import path of your own."""
    buddy_locator_properties: Mapping[str, str] = field(default_factory=dict)
    """``numBuddies = 1`` and ``ignoreColocatedBuddies = true``, or the settings of your locator."""
    buddy_pool_name: str | None = None
    """Buddies are looked for among members of the same pool; unset: all members are one pool."""
    buddy_communication_timeout: Seconds = 10.0
    """The time limit of calls that organise buddy groups."""
    auto_data_gravitation: bool = False
    """A miss asks the cluster, unless the call says otherwise."""
    data_gravitation_remove_on_find: bool = True
    """The former owner removes a node that moved away; false: it only evicts the node, so a shared store keeps it."""
    data_gravitation_search_backup_trees: bool = True
    """Answers to a search name backups, too (``TreeCache.owners``). A backup never grants a node: only owners do, and
    the nodes of a dead owner already have a new one."""
    zone: str | None = None
    """Rack, power source, room: buddies are looked for in another one."""
    partition: Literal["all", "majority"] = "all"
    """``majority``: a side with half of the members or fewer waits and then refuses writes that the merge might
    discard. The larger side continues. It lacks nodes whose owner and buddies are all on the smaller side, which needs
    more members there than ``numBuddies``. If one of two members is killed, the other one waits for good: a restarted
    member is a new one, and the old one might still live."""
    leave_timeout: Seconds = 30.0
    """The longest time for handing nodes over when the cache closes. Buddies adopt the rest."""
    unsent_removals_max: int = 100_000
    """The most removals of one owner kept for a site that has not acknowledged them. With more the site is out of sync,
    and all nodes are compared when it can be reached."""
    tombstone_time: Seconds = 1200.0
    """The time for which a removed node is remembered after a member was lost; longer than RELAY's ``max_age``."""

    def __post_init__(self) -> None:
        for name in ("buddy_communication_timeout", "leave_timeout"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be > 0 s, got {getattr(self, name):g}")
        for name in ("unsent_removals_max", "tombstone_time"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, got {getattr(self, name):g}")
        if self.partition not in ("all", "majority"):
            raise ConfigError(f'partition is "{self.partition}" (all or majority)')
        if self.buddy_locator_class == NEXT_MEMBER:
            known = ("numBuddies", "ignoreColocatedBuddies")
            for key in self.buddy_locator_properties:
                if key not in known:
                    raise ConfigError(
                        f"buddy_locator_properties: {NEXT_MEMBER} does not know {key}"
                        f" (it knows {' and '.join(known)})"
                    )
            _ = self.ignore_colocated_buddies
        _ = self.num_buddies

    @property
    def num_buddies(self) -> int:
        """Return the number of backups of each owner. ConfigError: the text is no such number."""
        text = str(self.buddy_locator_properties.get("numBuddies", "1"))
        if not text.isdecimal() or not 1 <= int(text) <= BUDDIES_MAX:
            raise ConfigError(
                f'buddy_locator_properties: numBuddies is "{text}" (a whole number from 1 to'
                f" {BUDDIES_MAX}; for no buddies set buddyReplicationEnabled to false)"
            )
        return int(text)

    @property
    def ignore_colocated_buddies(self) -> bool:
        """Are buddies on other hosts preferred? ConfigError: the text is no truth value."""
        text = str(self.buddy_locator_properties.get("ignoreColocatedBuddies", "true")).lower()
        if text not in ("true", "false"):
            raise ConfigError(
                f'buddy_locator_properties: ignoreColocatedBuddies is "{text}" (true or false)'
            )
        return text == "true"


@dataclass(frozen=True, kw_only=True)
class RegionConfig(ConfigBase):
    """The limits of memory at and below a path. Zero: no such limit."""

    name: str
    """The path. ``/`` or ``/_default_`` covers everything that no other region covers."""
    max_nodes: int = 0
    max_bytes: Bytes = 0
    """Names and values of attributes, as stored."""
    time_to_live: Seconds = 0.0
    """Evict a node this long after its last use."""
    max_age: Seconds = 0.0
    """Evict a node this long after its last write."""

    def __post_init__(self) -> None:
        for name in ("max_nodes", "max_bytes", "time_to_live", "max_age"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be >= 0, got {getattr(self, name)}")
        if not (self.max_nodes or self.max_bytes or self.time_to_live or self.max_age):
            raise ConfigError("needs one of maxNodes, maxBytes, timeToLive, maxAge")
        if self.root.is_within(BACKUP_ROOT):
            raise ConfigError(
                f"name {self.name} cannot be evicted: {BACKUP_ROOT} holds what this member keeps"
                " for others, which only their owners may remove"
            )

    @property
    def root(self) -> Fqn:
        """Return the path. ConfigError: ``name`` is no path."""
        if self.name in ("/_default_", "/"):
            return ROOT
        try:
            return Fqn.parse(self.name)
        except ValueError as error:
            raise ConfigError(f"name: {error}") from None


@dataclass(frozen=True, kw_only=True)
class EvictionConfig(ConfigBase):
    """Regions, and the interval between two looks at them."""

    wake_up_interval: Seconds = 5.0
    regions: tuple[RegionConfig, ...] = ()
    ignored: ClassVar[frozenset[str]] = frozenset({"eventqueuesize", "policyclass"})

    def __post_init__(self) -> None:
        if self.wake_up_interval <= 0:
            raise ConfigError(f"wake_up_interval must be > 0 s, got {self.wake_up_interval:g}")
        seen: dict[Fqn, str] = {}
        for region in self.regions:
            if region.root in seen:
                raise ConfigError(f"region {region.name} is given twice")
            seen[region.root] = region.name


@dataclass(frozen=True, kw_only=True)
class StoreConfig(ConfigBase):
    """One store (``cacheloader``)."""

    store_class: str = "SqliteStore"
    """SqliteStore, or the import path of your own Store, made with the properties as keywords."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """SqliteStore: ``location = FILE``, and ``durable = true`` (each write survives a power cut)."""


@dataclass(frozen=True, kw_only=True)
class LoaderConfig(ConfigBase):
    """The store of a cache."""

    cacheloader: StoreConfig
    passivation: bool = False
    """The store gets evicted nodes, not every write."""
    purge_on_startup: bool = False
    """Begin with an empty store. With passivation and after a crash its values may be old."""
    preload: str = ""
    """Paths to load at the start, separated by commas."""
    store_behind_max: int = 10_000
    """The most changes that a failing store may lack before writes are refused, in replicated modes."""
    ignored: ClassVar[frozenset[str]] = frozenset(
        {"shared", "fetchpersistentstate", "ignoremodifications", "async"}
    )

    def __post_init__(self) -> None:
        if self.store_behind_max < 1:
            raise ConfigError(f"store_behind_max must be >= 1, got {self.store_behind_max}")
        _ = self.preload_paths

    @property
    def preload_paths(self) -> tuple[Fqn, ...]:
        """Return the paths to load. ConfigError: one is no path."""
        try:
            return tuple(Fqn.parse(p.strip()) for p in self.preload.split(",") if p.strip())
        except ValueError as error:
            raise ConfigError(f"preload: {error}") from None


@dataclass(frozen=True, kw_only=True)
class CacheSettings(ConfigBase):
    """A whole cache file. Times are seconds here, sizes bytes."""

    cache_mode: Literal["LOCAL", "REPL_SYNC", "REPL_ASYNC"] = "LOCAL"
    """REPL_SYNC: a write returns when the others have it. REPL_ASYNC: it returns at once."""
    cluster_name: str | None = None
    stack: str = "udp.xml"
    """The stack file of the channel; also ClusterConfig."""
    lock_acquisition_timeout: Seconds = 10.0
    """The longest time that a call waits for others on the same paths."""
    sync_repl_timeout: Seconds = 15.0
    """The longest time that a write waits for the others (REPL_SYNC)."""
    max_value_size: Bytes = 16_000_000
    max_call_nodes: int = 100_000
    """The most nodes that one call may load from a store, and the most changes of one batch."""
    buddy_replication_config: BuddyReplicationConfig | None = None
    eviction_policy_config: EvictionConfig = EvictionConfig()
    cache_loader_configuration: LoaderConfig | None = None
    source: str = "<settings>"
    without_effect: Mapping[str, str] = field(default_factory=dict)
    """Settings of JBoss Cache without effect here, as given."""

    def __post_init__(self) -> None:
        for name in ("lock_acquisition_timeout", "sync_repl_timeout"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be > 0 s, got {getattr(self, name):g}")
        for name in ("max_value_size", "max_call_nodes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be >= 1, got {getattr(self, name)}")

    @property
    def buddies(self) -> BuddyReplicationConfig | None:
        """Return the settings of buddy replication. None: buddy replication is off."""
        config = self.buddy_replication_config
        return config if config is not None and config.buddy_replication_enabled else None
