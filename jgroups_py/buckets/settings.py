"""Settings of an instance; all members have the same ones. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass

from jgroups_py.buckets.digest import BUCKETS_MAX
from jgroups_py.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class InstanceSettings:
    buckets: int
    """Bucket pairs. Changing their number is the only work for which the instance stops."""
    index_copies: tuple[str, ...]
    """Components that are copies of the index: the static set. The first one makes the instance."""
    index_quorum: int = 0
    """Index copies that an update needs. 0: a majority of the static set. With fewer, both sides of a cut network may
    have a master."""
    lease: float = 2.0
    """The time for which a manager answers without contact to a quorum of index copies. A take-over waits at most this
    long."""
    pipeline_max: int = 64
    """The most modifications of a bucket that the slave has not acknowledged. 1: one after the other, as in the
    seed."""
    queue_max: int = 1_000
    """The most requests that wait in a locked bucket. Beyond it they are refused, counted ``queue_full``."""
    remembered_max: int = 4_096
    """The most answers of modifications that a copy remembers for repeated requests."""
    pending_max: int = 10_000
    """The most unanswered requests of a router. Beyond it they are refused, counted ``pending_full``."""
    request_timeout: float = 30.0
    """The time for which a router repeats a request."""
    repeat_after: float = 3.0
    """Time after which an unanswered request, or an unacknowledged change, is sent again."""
    detection_max: float = 10.0
    """A stack that may need longer to notice the loss of a member is refused (A2)."""
    outbox_bytes_max: int = 64_000_000
    """The most bytes that wait at one member for slow receivers. Beyond it new requests are refused there, counted
    ``outbox_full``."""
    backoff: float = 0.02
    """A router waits a random time up to this after "moved", twice as long each time, up to ``backoff_max``."""
    backoff_max: float = 0.5
    transfers_max: int = 4
    """The most moves that leave one manager at the same time. Beyond it Move is refused, counted ``transfers_full``."""
    parcel_bytes: int = 64_000
    """Bytes of one message of a move, roughly."""
    parcel_entries: int = 50
    """Entries of one such message. Requests wait while a manager reads or writes it."""
    parcels_max: int = 2
    """The most parcels of a move on their way at the same time."""
    tail_max: int = 10_000
    """The most changes of a bucket on their way to the destination of a move. Beyond it the move is given up, counted
    ``tail_full``."""
    ask_timeout: float = 1.0
    """Time after which a silent index copy, or another one, is asked again."""

    def __post_init__(self) -> None:
        if not 1 <= self.buckets <= BUCKETS_MAX:
            raise ConfigError(f"buckets: 1 to {BUCKETS_MAX}, not {self.buckets}")
        if not self.index_copies or len(set(self.index_copies)) != len(self.index_copies):
            raise ConfigError(
                f"index_copies: different names, at least one, not {self.index_copies}"
            )
        if not 0 <= self.index_quorum <= len(self.index_copies):
            raise ConfigError(
                f"index_quorum: 0 to {len(self.index_copies)} (the index copies), not {self.index_quorum}"
            )
        for name in (
            "pipeline_max", "queue_max", "remembered_max", "pending_max", "transfers_max", "parcel_bytes", "parcel_entries",
            "parcels_max", "tail_max", "outbox_bytes_max",
        ):  # fmt: skip
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: at least 1, not {getattr(self, name)}")
        for name in (
            "lease",
            "request_timeout",
            "repeat_after",
            "backoff",
            "backoff_max",
            "ask_timeout",
            "detection_max",
        ):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}: more than 0 seconds, not {getattr(self, name)}")

    @property
    def quorum(self) -> int:
        return self.index_quorum or len(self.index_copies) // 2 + 1
