"""The settings of GMS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from jgroups_py.config.settings import Seconds
from jgroups_py.stack.protocol import Protocol


@dataclass(frozen=True, kw_only=True)
class GmsConfig(Protocol.Config):
    """Settings of GMS. See its module."""

    join_timeout: Seconds = 2.0
    """Seconds that a joiner waits for one discovery, and then for the coordinator's answer."""
    max_join_attempts: int = 10
    """The most tries to join, each with a new discovery. 0: try for ever. After the last try ``give_up`` decides."""
    give_up: Literal["singleton", "fail"] = "singleton"
    """After the last try: make a group of our own, which a merge can join later, or fail."""
    all_clients_retry_timeout: Seconds = 0.1
    """Pause before the next discovery when only members without a view were found."""
    leave_timeout: Seconds = 1.0
    """Seconds that a leaver waits until the group has noticed."""
    merge_timeout: Seconds = 5.0
    """The longest time of a merge."""
    view_ack_collection_timeout: Seconds = 2.0
    """The longest time that joins wait for all members to acknowledge the previous view."""
    view_bundling: bool = True
    """Joins that come close together are one view."""
    max_bundling_time: Seconds = 0.05
    """Joins within this time are close together."""
    use_delta_views: bool = True
    """Send the changes of a view instead of all members."""
    agree_timeout: Seconds = 2.0
    """The longest time in which survivors agree. After that the view goes out without agreement. 0: survivors do not
    agree at all."""
    excluded: Literal["merge", "expel"] = "merge"
    """After a view without us: wait for a merge, or give up (Expelled)."""
    max_early: int = 1000
    """The most batches that are kept before the first view."""
    max_waiting: int = 1000
    """The most joiners that are remembered, and the most that have yet to prove their presence."""
    prove_joiners: bool = True
    """A joiner must answer a discovery request before it is let in. False: as in JGroups, one datagram is enough."""

    ignored: ClassVar[frozenset[str]] = frozenset(
        {
            "print_local_addr",
            "print_physical_addrs",
            "handle_concurrent_startup",
            "num_prev_mbrs",
            "num_prev_views",
            "log_collect_msgs",
            "log_view_warnings",
            "install_view_locally_first",
            "membership_change_policy",
            "max_leave_attempts",
            "merge_kill_timeout",
            "flush_invoker_timeout",
            "use_flush_if_present",
            "shun",
            "view_handler_*",
        }
    )

    def __post_init__(self) -> None:
        self._above(0, "join_timeout", "leave_timeout", "merge_timeout")
        self._at_least(0, "max_join_attempts", "all_clients_retry_timeout", "agree_timeout")
        self._at_least(0, "view_ack_collection_timeout", "max_bundling_time", "max_early")
        self._at_least(1, "max_waiting")
