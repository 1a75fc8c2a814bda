"""The settings of TCP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.config.settings import Bytes, Seconds
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.transport.config import TransportConfig
from jgroups_py.protocols.transport.tls_attributes import TlsAttributes


@dataclass(frozen=True, kw_only=True)
class TcpConfig(TlsAttributes, TransportConfig):
    bind_port: int = 7800
    """First port to try; 0: any."""
    sock_conn_timeout: Seconds = 2.0
    """Seconds in which a connection must open."""
    peer_addr_read_timeout: Seconds = 1.0
    """Seconds in which a connected peer must send its handshake."""
    write_timeout: Seconds = 30.0
    """Seconds without progress after which a peer that takes no bytes is disconnected."""
    reconnect_interval: Seconds = 0.1
    """The time after a refused connection until the next one is tried."""
    tcp_nodelay: bool = True
    """Send small segments at once."""
    recv_buf_size: Bytes = 0
    """The receive buffer to ask for, of each connection. 0: the kernel's choice, which grows as needed."""
    send_buf_size: Bytes = 0
    """The send buffer to ask for, of each connection. 0: the kernel's choice, which grows as needed."""
    max_length: Bytes = 20_000_000
    """The longest frame that is accepted."""
    max_incomplete: Bytes = 100_000_000
    """Bytes of frames that are not complete yet, of all peers together. Beyond, the connection is closed
    whose frame began first. At least max_length."""
    max_send_queue: Bytes = 10_000_000
    """The most bytes that wait for one peer. Further frames are dropped."""
    max_connections: int = 1000
    """The most connections at the same time. Further ones are refused."""
    max_silent: int = 128
    """The most accepted connections without a handshake. A further one replaces the oldest. The limit is lower in a
    process that may open few files (crowd.py)."""
    max_silent_per_host: int = 64
    """The same, of one address."""
    max_strangers: int = 500
    """The most open connections of non-members. A further one replaces the one that was silent for longest. The limit
    is lower in a process that may open few files (crowd.py)."""
    max_strangers_per_host: int = 250
    """The same, of one address."""
    enable_suspect_events: bool = False
    """Suspect a member whose connection breaks."""
    ignored: ClassVar[frozenset[str]] = frozenset(
        {
            "buffered_input_stream_size",
            "buffered_output_stream_size",
            "client_bind_addr",
            "client_bind_port",
            "defer_client_bind_addr",
            "conn_expire_time",
            "reaper_interval",
            "linger",
            "max_send_buffers",
            "max_read_batch_size",
            "copy_on_partial_write",
            "use_direct_memory",
            "reader_idle_time",
            "use_acks",
            "non_blocking_sends",
            "log_accept_error",
            "log_details",
            "use_lock_to_send",
            "use_send_queues",
            "send_queue_size",
            "use_peer_connections",
            "so_timeout",
        }
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._above(0, "sock_conn_timeout", "peer_addr_read_timeout", "write_timeout")
        self._at_least(0, "reconnect_interval", "recv_buf_size", "send_buf_size")
        self._at_least(100_000, "max_length", "max_send_queue")
        self._at_least(1, "max_connections", "max_silent", "max_silent_per_host")
        self._at_least(1, "max_strangers", "max_strangers_per_host")
        self.check_tls()
        if self.max_incomplete < self.max_length + 4:
            raise ConfigError(
                f"max_incomplete must be above max_length + 4, got {self.max_incomplete}"
            )

    def verify(self) -> None:
        self.verify_tls()
