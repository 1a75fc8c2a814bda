"""The settings of MFC and UFC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.config.settings import Bytes, Fraction, Seconds
from jgroups_py.errors import ConfigError
from jgroups_py.stack.protocol_settings import ProtocolSettings


@dataclass(frozen=True, kw_only=True)
class FlowConfig(ProtocolSettings):
    """Attributes of the protocol."""

    max_credits: Bytes = 2_000_000
    """The most bytes that may be under way to one member."""
    min_threshold: Fraction = 0.4
    """The fraction of its credits at which a sender gets new ones."""
    min_credits: Bytes = 0
    """The same in bytes. 0 means that it is computed from ``min_threshold``."""
    max_block_time: Seconds = 5.0
    """A sender that waits for this long asks for credits."""
    max_queue: Bytes = 100_000_000
    """The bytes that may wait for credits to one destination. The channel holds senders back long before. Messages
    beyond this limit are kept all the same, and counted."""
    max_strangers: int = 100
    """The most senders outside the view that are owed credits."""

    fit_receive_buffer: bool = True
    """Have no more bytes under way than the system granted to this member's own receive buffer, if these are fewer than ``max_credits``."""

    ignored: ClassVar[frozenset[str]] = frozenset({"max_block_times"})

    def __post_init__(self) -> None:
        self._at_least(1, "max_credits")
        self._at_least(0, "max_queue", "max_strangers")
        if not 0 <= self.min_threshold < 1:
            raise ConfigError(f"min_threshold must be >= 0 and < 1, got {self.min_threshold}")
        if not 0 <= self.min_credits < self.max_credits:
            raise ConfigError(f"min_credits must be < max_credits, got {self.min_credits}")
        self._above(0, "max_block_time")
