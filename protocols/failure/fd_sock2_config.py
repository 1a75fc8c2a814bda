"""The settings of FD_SOCK2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.config.settings import Seconds
from jgroups_py.stack.protocol import Protocol


@dataclass(frozen=True, kw_only=True)
class FdSock2Config(Protocol.Config):
    """Settings of FD_SOCK2. See its module."""

    bind_addr: str = ""
    """The numeric address to listen on. Empty: the transport's."""
    offset: int = 100
    """This member's port is the transport's port plus this."""
    port_range: int = 3
    """The number of further ports that this member and its neighbour try."""
    connect_timeout: Seconds = 1.0
    """The longest time to connect to one port and get an answer."""
    suspect_msg_interval: Seconds = 5.0
    """The time after which SUSPECT is repeated."""
    retry_interval: Seconds = 0.5
    """The time until a neighbour is tried again that said goodbye or cannot be located."""
    wait_for_peer: Seconds = 0.3
    """The time to wait for the other member's connection in a view of two (see "Differs" above)."""
    max_connections: int = 1000
    """The most connections at the same time. Further ones are refused."""
    max_silent: int = 128
    """The most accepted connections without a handshake. A further one replaces the oldest. The limit is lower in a
    process that may open few files (transport/crowd.py)."""
    max_silent_per_host: int = 64
    """The same, of one address."""
    max_strangers: int = 128
    """The most connections of non-members. A further one replaces the one that was silent for longest. The limit is
    lower in a process that may open few files (transport/crowd.py)."""
    max_strangers_per_host: int = 64
    """The same, of one address."""
    use_tls: bool = True
    """Speak TLS where the transport does. False: as Java members, whose FD_SOCK2 is always in clear."""
    prove_death: bool = True
    """Treat a member as dead if its connection broke and its ports refuse, and check such reports of others. False: as
    in JGroups, only waiting verifies a suspicion."""
    provers: int = 3
    """The number of members, from the coordinator on, that check reports of others."""
    ignored: ClassVar[frozenset[str]] = frozenset(
        {"client_bind_port", "linger", "min_port", "max_port", "start_port", "num_tries"}
    )

    def __post_init__(self) -> None:
        self._at_least(1, "offset", "provers", "max_connections")
        self._at_least(1, "max_silent", "max_silent_per_host")
        self._at_least(1, "max_strangers", "max_strangers_per_host")
        self._within(0, 100, "port_range")
        self._above(0, "connect_timeout", "suspect_msg_interval", "retry_interval")
        self._at_least(0, "wait_for_peer")
