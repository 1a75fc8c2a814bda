"""What an RPC keeps at most, and what it counts."""

from __future__ import annotations

from dataclasses import dataclass

from jgroups_py.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class RpcLimits:
    """Sizes are bytes, times seconds. What waits because of one of these is counted, and logged
    when it waits for long."""

    pending_max: int = 10_000
    """Calls of this member under way; more wait before they are sent."""
    replies_max: int = 64_000_000
    """Replies that arrived and were not taken by their callers; those beyond are lost (ReplyLost)."""
    handlers_max: int = 1_000
    """Async handlers that run at once. At more nothing is read: neither requests nor what else comes,
    until one ends. Handlers that call each other around in a circle can use them all up."""
    reply_buffer_max: int = 8_000_000
    """Replies that wait for their callers' credit; at more nothing is read until some went."""
    turn_requests: int = 500
    """After so many requests other tasks run."""
    warn_after: float = 5.0
    """What waits longer logs why."""

    def __post_init__(self) -> None:
        for name in ("pending_max", "replies_max", "handlers_max", "turn_requests"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be >= 1, got {getattr(self, name)}")


@dataclass(slots=True)
class RpcCounters:
    """Counted since the RPC was opened."""

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
    """Replies that nobody waited for any more."""
    lost: int = 0
    """Replies that found no room (``replies_max``)."""
    malformed: int = 0
    """Messages under our header that are neither request nor reply, or cannot be read."""
    excluded: int = 0
    """Requests that this member was to ignore."""
    waits_pending: int = 0
    """Calls that waited because ``pending_max`` were under way."""
    waits_handlers: int = 0
    """Times that reading stopped at ``handlers_max``."""
    waits_replies: int = 0
    """Times that reading stopped at ``reply_buffer_max``."""


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
