"""The identity, times and limits of a host in the replication of a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jgroups_py.maps.messages import VECTOR_MAX
from jgroups_py.maps.rules import LAST_WRITER
from jgroups_py.maps.stamp import IDENTIFIER_MAX

AHEAD_MAX: Final = 366 * 86_400.0
"""The limit of ``max_ahead``, in seconds. Times must not come near the largest one of a stamp."""


@dataclass(frozen=True, kw_only=True)
class ReplicaSettings:
    """Seconds and bytes."""

    map: str
    node: int
    origin: int
    file: bytes
    rule: str = "last-writer"
    key: str = ""
    value: str = ""
    """Names of the codecs. Hosts with other codecs are refused: they could not read the values."""
    name: str = ""
    peers: frozenset[int] = frozenset()
    """Identifiers of all hosts. A tombstone is forgotten when all of them have it. Empty: unknown; then only
    ``tombstone_age`` ends a tombstone, because an unknown host may still have the value."""
    flush_interval: float = 0.01
    """Seconds for which changes are collected before they are sent."""
    max_bandwidth: float = 0.0
    """The most bytes a second to all peers together; 0: no limit."""
    window: int = 1024 * 1024
    """The most bytes on the way to one peer that it has not acknowledged."""
    have_interval: float = 0.5
    """Seconds between two Haves while there are changes."""
    ack_delay: float = 0.0
    """The least seconds between two acknowledgements to a peer."""
    repair_wait: float = 1.0
    """The wait for an origin's own changes before another peer that has them is asked."""
    tombstone_age: float = 7 * 86_400.0
    """After this time a tombstone is forgotten, even if hosts lack it."""
    tombstone_min_age: float = 0.0
    """The least time for which a tombstone is kept, for readers of changes that stop for a while. ``tombstone_age``
    limits it."""
    compare_wait: float = 60.0
    """A new peer that could not be compared for this many seconds, because one of both is written all the time, gets a
    survey (surveys.py)."""
    max_skew: float = 10.0
    """The most seconds that a clock may be ahead before there is an alarm."""
    max_ahead: float = 3600.0
    """The most seconds that a change of another host may be ahead of this host's clock. A change that is further ahead
    waits, and so do later ones of its origin."""
    identifier_max: int = IDENTIFIER_MAX
    """Changes of hosts with larger identifiers are not taken."""
    origins_max: int = 4096
    """The most origins of which changes are taken: hosts, and for each host the lives of its file."""
    peers_max: int = 126
    held_max: int = 64 * 1024 * 1024
    """The most bytes of all peers' messages that wait for room in the table. A link that sends more ends."""

    def __post_init__(self) -> None:
        for name in ("flush_interval", "have_interval", "repair_wait", "tombstone_age"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0 seconds, got {getattr(self, name)}")
        if not self.tombstone_min_age >= 0:
            raise ValueError(
                f"tombstone_min_age must be at least 0 seconds, got {self.tombstone_min_age}"
            )
        if not 0 < self.max_ahead <= AHEAD_MAX:
            raise ValueError(
                f"max_ahead must be more than 0 and at most {AHEAD_MAX:.0f} seconds, got {self.max_ahead}"
            )
        if self.rule != LAST_WRITER.name and not self.tombstone_age > self.max_ahead:
            raise ValueError(
                f"with the rule {self.rule} tombstone_age must be more than max_ahead ({self.max_ahead:g} s), got {self.tombstone_age:g}: "
                "a removal that is forgotten does not win over a change with a later time"
            )
        if not 2 <= self.origins_max <= VECTOR_MAX:
            raise ValueError(f"origins_max must be from 2 to {VECTOR_MAX}, got {self.origins_max}")
        if self.window < 1 or self.peers_max < 1 or self.max_bandwidth < 0:
            raise ValueError(
                "window and peers_max must be at least 1 and max_bandwidth at least 0, got "
                f"{self.window}, {self.peers_max} and {self.max_bandwidth:g}"
            )
