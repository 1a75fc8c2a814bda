"""The settings of the buddy machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from jgroups_py.buddy.locator import buddies_wanted
from jgroups_py.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class BuddyConfig:
    """Settings of a buddy machine. Times are seconds."""

    sync: bool = True
    """True: a write is done when all holders have it. False: it is done at once."""
    locator_properties: Mapping[str, str] = field(default_factory=dict)
    """The settings of the locator: ``numBuddies``, ``ignoreColocatedBuddies``, and the settings of a locator of your
    own."""
    pool: str = ""
    """Only members that name the same pool can become buddies; empty: all members are in one pool."""
    zone: str = ""
    """A rack or a power source. Buddies are looked for in another zone."""
    hosts: tuple[str, ...] = ()
    """All interface addresses of this host, as text."""
    communication_timeout: float = 10.0
    """A member that does not send its inventory within this time is suspected."""
    leave_timeout: float = 30.0
    """A leave that takes longer counts as a crash, and is reported as one."""
    tombstone_time: float = 1200.0
    """The time for which removed nodes are kept after a member was lost (longer than RELAY's ``max_age``)."""
    partition: Literal["all", "majority"] = "all"
    """``majority``: a side with half or less of the last settled view neither adopts, claims nor
    acknowledges."""
    site: str = ""
    """The name of this site. Empty: there is no other site."""
    sites: tuple[str, ...] = ()
    """The other sites. Every write goes to each of them, too."""
    events_max: int = 1000
    """The most events of one owner that are under way to one site. Further events wait in the nodes."""
    event_timeout: float = 10.0
    """Events that are not acknowledged within this time are sent again."""
    removed_max: int = 100_000
    """The most removed nodes of one owner that are kept for a site. With more, the site is out of sync."""
    arrivals_max: int = 10_000
    """The most waiting events from other sites. Further ones are dropped and will be sent again."""
    hints_max: int = 10_000
    """The most paths whose owner the relay remembers."""
    chunk_nodes: int = 100
    """The most nodes in one message of a push to a new buddy."""
    chunk_bytes: int = 500_000
    """Bytes in one message of a push. The message ends with the node that reaches them."""
    search_backup_trees: bool = True
    """Answers name the backups of the nodes searched for. This helps diagnosis; backups never grant."""
    look_max: int = 10_000
    """The most owned paths, and the most backed-up paths, in an answer for diagnosis."""
    calls_max: int = 10_000
    """The most waiting calls. Further ones are refused."""
    claims_max: int = 1000
    """The most open claims of this member. Further calls wait."""
    held_max: int = 100_000
    """The most held messages that were sent in a newer view than this member's."""
    log_max: int = 10_000
    """The most unacknowledged log entries. Further writes wait."""
    departed_max: int = 1000
    """The most departed members whose last view and adopter are remembered."""

    def __post_init__(self) -> None:
        for name in (
            "chunk_nodes",
            "chunk_bytes",
            "look_max",
            "calls_max",
            "claims_max",
            "held_max",
            "log_max",
            "departed_max",
            "events_max",
            "arrivals_max",
            "hints_max",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("communication_timeout", "leave_timeout", "event_timeout"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be > 0, got {getattr(self, name)}")
        if self.removed_max < 0:
            raise ConfigError(f"removed_max must not be negative, got {self.removed_max}")
        if self.tombstone_time < 0:
            raise ConfigError(f"tombstone_time must not be negative, got {self.tombstone_time}")
        if self.sites and (not self.site or self.site in self.sites):
            raise ConfigError(f"site must be a name, and none of the others: {self.site!r}")
        if self.partition not in ("all", "majority"):
            raise ConfigError(f"partition must be all or majority, got {self.partition!r}")

    @property
    def num_buddies(self) -> int:
        """``numBuddies`` of the locator's properties; 1 if it is not among them."""
        return buddies_wanted(self.locator_properties)
