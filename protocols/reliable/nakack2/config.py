"""The settings of NAKACK2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.config.settings import Bytes, Seconds
from jgroups_py.stack.protocol_settings import ProtocolSettings


@dataclass(frozen=True, kw_only=True)
class Nakack2Config(ProtocolSettings):
    """Settings of NAKACK2. See its module."""

    xmit_interval: Seconds = 1.0
    """The time after which a vain request is repeated; then it doubles each time."""
    xmit_delay: Seconds = 0.02
    """The time that a member waits before it asks for a gap, because packets may overtake each other. At most
    ``xmit_interval``."""
    use_mcast_xmit: bool = True
    """Answer requests for own messages by a multicast, not only to the member that asks."""
    max_xmit_req_size: int = 1024
    """The most seqnos that one request may ask for, and that one answer has."""
    ask_others_after: int = 3
    """The number of vain requests after which a member other than the sender is asked."""
    xmit_from_random_member: bool = False
    """Ask any member each time, to spare the sender."""
    max_xmit_bytes: Bytes = 4_000_000
    """Bytes that one member gets retransmitted per ``xmit_interval``."""
    resend_last_seqno_max_count: int = 3
    """The number of times that HIGHEST_SEQNO is sent for the same seqno. 0: never."""
    max_window: int = 131_072
    """Messages of one sender that are kept beyond the last delivered one. Messages further off are dropped."""
    max_window_bytes: Bytes = 50_000_000
    """The same in bytes. The message that closes the gap is always taken."""
    max_buffered_before_join: int = 50
    """The most batches that are kept of senders outside the view, which may not have joined yet."""
    max_unstable: Bytes = 100_000_000
    """Bytes of own messages that are not stable. Beyond, FlowBlocked asks the channel to wait."""
    max_departed: int = 100
    """The most departed senders whose messages are kept until all members have a view without them. The delivered
    numbers of the same number of further senders are remembered for ``departed_remembered``."""
    departed_remembered: Seconds = 300.0
    """The time for which the delivered number of a departed sender is remembered. A merge may bring the sender back at
    a lower number. Others need less time to find out that it is dead."""

    ignored: ClassVar[frozenset[str]] = frozenset(
        {
            "use_mcast_xmit_req",
            "discard_delivered_msgs",
            "log_discard_msgs",
            "log_not_found_msgs",
            "resend_last_seqno",
            "max_rebroadcast_timeout",
            "suppress_time_non_member_warnings",
            "sends_can_block",
            "max_batch_size",
            "xmit_table_*",
        }
    )
    aliases: ClassVar[dict[str, str]] = {
        "become_server_queue_size": "max_buffered_before_join",
    }

    def __post_init__(self) -> None:
        self._above(0, "xmit_interval")
        self._at_least(1, "max_xmit_req_size", "max_xmit_bytes")
        self._at_least(1, "max_window", "max_window_bytes", "max_unstable")
        self._at_least(0, "xmit_delay", "ask_others_after", "resend_last_seqno_max_count")
        self._at_least(0, "max_buffered_before_join", "max_departed", "departed_remembered")
