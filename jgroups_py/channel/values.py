"""Plain values around a channel: its limits, its statistics, a state as an item of its stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jgroups_py.values.address import Address


@dataclass(frozen=True, kw_only=True)
class ChannelLimits:
    """What a channel keeps at most, and how long it waits. Sizes are bytes, times seconds."""

    send_buffer_max: int = 1_000_000
    """Payloads sent but not yet handed to the stack; a larger single payload is still taken."""
    receive_buffer_max: int = 64_000_000
    """Unread payloads that no flow control bounds (stacks without MFC and UFC, flag NO_FC). At
    more the member leaves with Expelled. What came under flow control is bounded by its credits."""
    turn_bytes: int = 128_000
    """After so many bytes ``send`` lets other tasks run."""
    turn_messages: int = 2_000
    """After so many messages ``send`` lets other tasks run."""
    state_max: int = 256_000_000
    """The state a provider may make; at more the member that asked is refused."""
    state_timeout: float = 60.0
    """So long a provider may take; then the member that asked is refused. Meanwhile nothing is read."""
    leave_timeout: float = 5.0
    """How long leaving the block may take."""
    warn_after: float = 5.0
    """A ``send`` that waits longer logs whom it waits for."""
    hold_senders_max: float = 120.0
    """How long senders may wait for credit while this member's application takes nothing. Then the
    member leaves with Expelled, so that the others go on. ``math.inf``: for ever. Not used where
    ``slow_reader_timeout`` is given."""


@dataclass(frozen=True, slots=True)
class State:
    """The state another member provided, as an item of the stream: everything before it."""

    provider: Address
    payload: bytes


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """A snapshot. ``protocols`` and ``driver`` hold their counters by name."""

    sent: int
    sent_bytes: int
    received: int
    waiting: int
    """Messages that wait for the reader."""
    buffered_bytes: int
    """Payloads that wait for credit."""
    send_waits: int
    """How often ``send`` had to wait."""
    merged_views: int
    excluded: int = 0
    """How often the group went on without this member."""
    lost: int = 0
    """Messages that it had sent and that were lost by that, or may be."""
    protocols: Mapping[str, Mapping[str, int | float]] = field(default_factory=dict)
    driver: Mapping[str, int] = field(default_factory=dict)
    state_failures: int = 0
    """Times that the state provider raised, or what it gave was no state."""
    trace_failures: int = 0
    """Times that ``trace`` raised."""
