"""RED: accepted, without effect.

In JGroups it drops messages at random while the transport's send queue grows, so that senders do
not block on it. Here the queue to the transport is bounded by flow control and by the driver's
limit on unsent bytes, and dropping would only cost retransmissions. It puts nothing on the wire.

Place: just above the transport, where stack files have it.
Source: JGroups RED; WIRE.md section 11.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.stack.protocol import Protocol


class RED(Protocol):
    """See the module's docstring."""

    protocol_id = 0

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        """JGroups' attributes, none of which has an effect."""

        ignored: ClassVar[frozenset[str]] = frozenset(
            {"enabled", "min_threshold", "max_threshold", "queue_capacity", "weight_factor"}
        )
