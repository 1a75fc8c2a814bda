"""The settings of STABLE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.config.settings import Bytes, Seconds
from jgroups_py.errors import ConfigError
from jgroups_py.stack.protocol_settings import ProtocolSettings


@dataclass(frozen=True, kw_only=True)
class StableConfig(ProtocolSettings):
    """Attributes of the protocol."""

    desired_avg_gossip: Seconds = 20.0
    """A member looks at intervals of 0 to twice this. 0: it looks only after ``max_bytes``."""
    max_bytes: Bytes = 2_000_000
    """A member also looks when this many bytes of multicasts have come. The cost of keeping them counts, too
    (400 bytes a run, 100 a message). 0: it looks only at intervals."""

    ignored: ClassVar[frozenset[str]] = frozenset(
        {"stability_delay", "send_stable_msgs_to_coord_only", "cap", "digest_timeout"}
    )

    def __post_init__(self) -> None:
        self._at_least(0, "desired_avg_gossip", "max_bytes")
        if self.desired_avg_gossip == 0 and self.max_bytes == 0:
            raise ConfigError("max_bytes must be > 0 when desired_avg_gossip is 0")
