"""The settings of UNICAST3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.config.settings import Bytes, Seconds
from jgroups_py.stack.protocol_settings import ProtocolSettings


@dataclass(frozen=True, kw_only=True)
class Unicast3Config(ProtocolSettings):
    """Attributes of the protocol."""

    xmit_interval: Seconds = 0.5
    """The time after which an unacked message is sent again. Acks go out after half of it at the latest."""
    xmit_delay: Seconds = 0.02
    """The time that a member waits before it asks for a gap, because packets may overtake each other. At most
    ``xmit_interval``."""
    ack_threshold: int = 100
    """The number of messages after which an ack goes out at once."""
    sync_min_interval: Seconds = 2.0
    """The time between two SEND_FIRST_SEQNO to one member."""
    max_xmit_req_size: int = 1024
    """The most seqnos that one request may ask for, and that one answer has."""
    max_xmit_bytes: Bytes = 4_000_000
    """Bytes that one member gets retransmitted per ``xmit_interval``."""
    max_retransmit_time: Seconds = 60.0
    """The time without an ack after which a connection to a member outside the view is given up."""
    conn_expiry_timeout: Seconds = 120.0
    """The idle time after which a connection is about to be closed. 0: never."""
    conn_close_timeout: Seconds = 240.0
    """The further idle time after which it is closed."""
    departed_remembered: Seconds = 300.0
    """The time for which the number of a sender outside the view is remembered. A merge may bring it
    back. Other members need less time to find out that we have left."""
    max_window: int = 131_072
    """Messages of one sender that are kept beyond the last delivered one. Messages further off are dropped."""
    max_window_bytes: Bytes = 50_000_000
    """The same in bytes. The message that closes the gap is always taken. A sender outside the view has a
    ``max_strangers``th of this limit."""
    max_unacked: Bytes = 100_000_000
    """Bytes of unacked messages to one destination. Beyond, FlowBlocked asks the channel to wait."""
    max_cached: int = 50
    """Batches of one sender that are kept while its connection is unknown. For a sender outside the view the limit is a
    ``max_strangers``th of ``max_window_bytes``."""
    max_strangers: int = 1000
    """The most remembered senders outside the view, senders without a connection, and destinations outside the view."""
    max_strangers_bytes: Bytes = 20_000_000
    """Bytes of unacked messages to all destinations outside the view together. Beyond, the connection that was not used
    for longest is given up. Any process can make a member answer to invented addresses."""

    ignored: ClassVar[frozenset[str]] = frozenset(
        {
            "log_not_found_msgs",
            "loopback",
            "is_trace",
            "max_batch_size",
            "send_bytes_in_ack",
            "xmit_table_*",
        }
    )

    def __post_init__(self) -> None:
        self._above(0, "xmit_interval")
        self._at_least(1, "ack_threshold", "max_xmit_req_size", "max_xmit_bytes")
        self._at_least(1, "max_window", "max_window_bytes", "max_unacked", "max_strangers")
        self._at_least(1, "max_strangers_bytes")
        self._at_least(0, "xmit_delay", "sync_min_interval", "max_retransmit_time")
        self._at_least(0, "conn_expiry_timeout", "conn_close_timeout", "departed_remembered")
        self._at_least(0, "max_cached")
