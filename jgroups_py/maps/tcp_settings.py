"""Times and limits of the TCP port of a host's maps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jgroups_py.errors import ConfigError
from jgroups_py.maps.messages import MESSAGE_MAX


@dataclass(frozen=True, kw_only=True)
class TcpSettings:
    """Seconds and bytes."""

    retry_first: float = 0.1
    """Seconds from the end of a link until its peer is dialled again. Each try that fails doubles it."""
    retry_max: float = 10.0
    """The longest time between two tries. A link that lasted longer begins with ``retry_first`` again."""
    connect_timeout: float = 5.0
    greeting_timeout: float = 5.0
    """The longest time for TLS and greetings together."""
    alive_interval: float = 1.0
    """Seconds between two signs of life of an idle host to each peer."""
    silence_timeout: float = 10.0
    """A peer counts as gone after this silence."""
    linger: float = 2.0
    """The longest time for a closed link to send the rest."""
    frame_max: int = MESSAGE_MAX
    """The most bytes of a message."""
    unsent_max: int = 4 * MESSAGE_MAX
    """The most bytes that wait for one peer. Its link ends when there are more."""
    strangers_max: int = 32
    """The most connections at once without a greeting. A further one replaces the oldest."""
    strangers_per_host: int = 16
    """As ``strangers_max``, for one address."""
    inquiries_max: int = 2
    """The most programs at once that compare a map with this host's. A further one is refused."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (value > 0 and math.isfinite(value)):
                raise ConfigError(f"{name} must be a number above 0, got {value}")
        if self.silence_timeout <= self.alive_interval:
            raise ConfigError(
                f"silence_timeout must be more than alive_interval ({self.alive_interval:g} s), got "
                f"{self.silence_timeout:g} s"
            )
