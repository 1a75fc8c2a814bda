"""Limits and counters of an RPC."""

from __future__ import annotations

from dataclasses import dataclass

from jgroups_py.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class RpcLimits:
    """Limits of an RPC. Sizes are bytes, times seconds. A wait for one of these limits is counted, and logged when it is
    long."""

    pending_max: int = 10_000
    """The most calls of this member under way. Further calls wait before they are sent."""
    replies_max: int = 64_000_000
    """The most bytes of replies that callers have not taken. Replies beyond that are lost (ReplyLost)."""
    handlers_max: int = 1_000
    """The most async handlers that run at once. When they all run, the channel is not read until one ends. Handlers that
    call each other in a circle can use them all up."""
    reply_buffer_max: int = 8_000_000
    """The most bytes of replies that wait for their callers' credit. Beyond that the channel is not read until some
    have left."""
    turn_requests: int = 500
    """Other tasks run after this many requests."""
    warn_after: float = 5.0
    """A wait that is longer than this is logged with its reason."""
    early_max: int = 100
    """The most runs of calls that wait for the view with their callers. Beyond that the oldest is turned away."""
    early_bytes_max: int = 1_000_000
    """The most bytes of these runs together."""
    early_wait: float = 5.0
    """A call waits this long for the view with its caller. Then it is turned away, without an answer."""

    def __post_init__(self) -> None:
        for name in ("pending_max", "replies_max", "handlers_max", "turn_requests", "early_max"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be >= 1, got {getattr(self, name)}")


@dataclass(slots=True)
class RpcCounters:
    """Counters since the RPC was opened."""

    calls: int = 0
    """Calls that were sent, casts not included."""
    casts: int = 0
    requests: int = 0
    """Requests for this member that arrived."""
    raised: int = 0
    """Handlers that raised."""
    refused: int = 0
    """Requests that were not run: no such method, or arguments that could not be read."""
    late: int = 0
    """Replies that no task waited for any more."""
    lost: int = 0
    """Replies that were dropped because of ``replies_max``."""
    malformed: int = 0
    """Messages under our header that are neither request nor reply, or cannot be read."""
    strangers: int = 0
    """Requests of callers that are not in the view and did not join soon after. They were not run."""
    excluded: int = 0
    """Requests whose sender excluded this member."""
    waits_pending: int = 0
    """Calls that waited because ``pending_max`` were under way."""
    waits_handlers: int = 0
    """Number of times that reading stopped at ``handlers_max``."""
    waits_replies: int = 0
    """Number of times that reading stopped at ``reply_buffer_max``."""


@dataclass(frozen=True, slots=True)
class RpcStatistics:
    """A snapshot."""

    counters: RpcCounters
    pending: int
    """Calls under way."""
    held_bytes: int
    """Replies that were not taken yet."""
    handlers: int
    """Async handlers that run."""
