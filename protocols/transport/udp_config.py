"""The settings of UDP."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.config.settings import Bytes
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.transport.config import TransportConfig


@dataclass(frozen=True, kw_only=True)
class UdpConfig(TransportConfig):
    mcast_addr: str = "239.8.8.8"
    """The group's multicast address."""
    mcast_port: int = 45588
    """The group's multicast port."""
    ip_ttl: int = 8
    """The most routers that a multicast may pass."""
    ip_mcast: bool = True
    """Use IP multicast."""
    ucast_recv_buf_size: Bytes = 5_000_000
    """The receive buffer to ask for, at the socket for unicasts. The kernel may give less."""
    ucast_send_buf_size: Bytes = 1_000_000
    """The send buffer to ask for. The kernel may give less."""
    mcast_recv_buf_size: Bytes = 5_000_000
    """The receive buffer to ask for, at the socket for multicasts. The kernel may give less."""
    ignored: ClassVar[frozenset[str]] = frozenset(
        {
            "tos",
            "traffic_class",
            "disable_loopback",
            "mcast_send_buf_size",
            "max_bundle_size",
            "num_last_seen",
            "suppress_*",
            "multicast_receiver_threads",
            "unicast_receiver_threads",
            "use_multicast_socket",
            "mcast_group_addr_*",
        }
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            multicast = ipaddress.ip_address(self.mcast_addr).is_multicast
        except ValueError:
            multicast = False
        if not multicast:
            raise ConfigError(
                f'mcast_addr must be a multicast address such as 239.8.8.8, got "{self.mcast_addr}"'
            )
        self._within(1, 65535, "mcast_port")
        self._within(0, 255, "ip_ttl")
        self._at_least(0, "ucast_recv_buf_size", "ucast_send_buf_size", "mcast_recv_buf_size")
