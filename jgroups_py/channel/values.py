"""Values of a channel: its limits, its statistics, a state as an item of its stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jgroups_py.values.address import Address


@dataclass(frozen=True, kw_only=True)
class ChannelLimits:
    """The most that a channel keeps, and how long it waits. Sizes are bytes, times seconds."""

    send_buffer_max: int = 1_000_000
    """The most bytes of payloads that were sent and not yet handed to the stack. A single larger payload is still
    taken."""
    receive_buffer_max: int = 64_000_000
    """The most bytes of unread payloads that no flow control bounds (stacks without MFC and UFC, flag NO_FC). Beyond
    this the member leaves with Expelled. Messages under flow control are bounded by their credits."""
    turn_bytes: int = 512_000
    """``send`` and ``send_many`` let other tasks run after this many bytes. With fewer, a member that sends much answers calls sooner and
    sends less."""
    turn_messages: int = 2_000
    """``send`` and ``send_many`` let other tasks run after this many messages."""
    state_max: int = 256_000_000
    """The largest state that a provider may make. Beyond this the member that asked is refused."""
    state_timeout: float = 60.0
    """The longest time that a provider may take. After that the member that asked is refused. The stream is not read
    meanwhile."""
    leave_timeout: float = 5.0
    """The longest time that leaving the block may take."""
    warn_after: float = 5.0
    """A ``send`` that waits longer than this logs the members that it waits for."""
    hold_senders_max: float = 120.0
    """The longest time that senders may wait for credit while this member's application takes nothing. After that the
    member leaves with Expelled, so that the others go on. ``math.inf`` means for ever. The limit does not count when
    ``slow_reader_timeout`` is given."""


@dataclass(frozen=True, slots=True)
class State:
    """The state that another member provided, as an item of the stream. It contains the effect of all earlier messages."""

    provider: Address
    payload: bytes


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """A snapshot. ``protocols`` and ``driver`` hold their counters by name."""

    sent: int
    sent_bytes: int
    received: int
    waiting: int
    """The number of messages that wait for the reader."""
    buffered_bytes: int
    """The bytes that wait for credit."""
    send_waits: int
    """Number of sends that had to wait."""
    merged_views: int
    excluded: int = 0
    """Number of times that the group went on without this member."""
    lost: int = 0
    """Number of this member's messages that were lost by exclusions, or may be."""
    protocols: Mapping[str, Mapping[str, int | float]] = field(default_factory=dict)
    driver: Mapping[str, int] = field(default_factory=dict)
    state_failures: int = 0
    """Number of times that the state provider raised, or gave no usable state."""
    trace_failures: int = 0
    """Number of times that ``trace`` raised."""
    turned_away: Mapping[str, int] = field(default_factory=dict)
    """Number of refusals of packets or connections from the network, by ``protocol.cause``, such as
    ``TCP.too_many_connections``."""
    turned_away_failures: int = 0
    """Number of times that ``turned_away`` raised."""
