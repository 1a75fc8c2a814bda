"""The settings of FRAG2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.config.settings import Bytes, Seconds
from jgroups_py.stack.protocol_settings import ProtocolSettings


@dataclass(frozen=True, kw_only=True)
class Frag2Config(ProtocolSettings):
    """Attributes of the protocol."""

    frag_size: Bytes = 60_000
    """A message with more bytes is cut. Must be below max_credits of MFC and UFC."""
    max_bytes: Bytes = 500_000_000
    """The most bytes of incomplete messages of one sender. A sender outside the view may have a ``max_strangers``th of
    it. A message that does not fit is refused."""
    max_messages: int = 1000
    """The most incomplete messages of one sender; a further one replaces the oldest."""
    max_strangers: int = 100
    """The most senders outside the view with incomplete messages."""
    stranger_timeout: Seconds = 30.0
    """Seconds without a fragment after which incomplete messages of such a sender are dropped."""

    ignored: ClassVar[frozenset[str]] = frozenset({"max_held_credits"})

    def __post_init__(self) -> None:
        self._at_least(1, "frag_size", "max_bytes", "max_messages", "max_strangers")
        self._above(0, "stranger_timeout")
