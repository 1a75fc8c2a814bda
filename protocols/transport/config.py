"""The settings that every transport has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from jgroups_py.config.settings import Bytes, Seconds, Secret
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.transport.diagnostics import settings_from
from jgroups_py.stack.protocol_settings import ProtocolSettings
from jgroups_py.wire.primitives import make_version, parse_version

OLDEST, NEWEST = make_version(5, 3), make_version(5, 6)
"""Minor versions that may be adopted."""


@dataclass(frozen=True, kw_only=True)
class TransportConfig(ProtocolSettings):
    """Settings of every transport."""

    bind_addr: str = ""
    """Numeric address to bind to. Empty: the host's default, loopback."""
    insecure: bool = False
    """True: every host in the network of ``bind_addr`` is trusted. Otherwise a channel is not opened if its messages
    would leave this machine in clear."""
    bind_port: int = 0
    """First port to try. 0: any port."""
    port_range: int = 10
    """The number of ports after bind_port that are tried."""
    external_addr: str = ""
    """Numeric address that others get instead of bind_addr (address translation)."""
    external_port: int = 0
    """Port that others get instead of the bound one. 0: the bound one."""
    bundler_max_size: Bytes = 64_000
    """The size at which bundles are cut."""
    logical_addr_cache_max_size: int = 2000
    """The most remembered physical addresses. Those of members of the view are always remembered."""
    logical_addr_cache_expiration: Seconds = 360.0
    """The time for which the address of a member outside the view is remembered."""
    who_has_cache_timeout: Seconds = 2.0
    """The time for which messages wait until their destination is located."""
    find_physical_interval: Seconds = 0.5
    """The time between two searches for a destination."""
    max_pending_members: int = 100
    """The most destinations that are searched for at the same time."""
    max_pending_bytes: Bytes = 1_000_000
    """The most bytes of payload that wait for one such destination (each message counts 100 bytes more)."""
    source_check: bool = True
    """Accept a packet in the name of a member only from the place of a member of the view. Switch it off where address
    translation gives the packets of a member changing addresses or ports."""
    version: str = "5.5"
    """The minor version of the wire: 5.3 to 5.6."""
    max_version_changes: int = 3
    """The number of other versions that are adopted before the first view. Afterwards only lower versions are adopted,
    so that members with different versions that start together do not swap them for ever."""
    diag_enabled: bool = False
    """Answer probes (diagnostics.py)."""
    diag_enable_udp: bool = True
    """Hear probes at a multicast address, if diag.enabled."""
    diag_enable_tcp: bool = False
    """Listen for probes over TCP, if diag.enabled."""
    diag_mcast_addr: str = ""
    """The multicast address of probes. Empty: that of JGroups, 224.0.75.75 or ff0e::75:75."""
    diag_port: int = 7500
    """The port of probes. Over TCP it is the first to try; 0: any."""
    diag_port_range: int = 50
    """The number of ports after diag.port that are tried, over TCP."""
    diag_bind_addr: str = ""
    """The address at which probes are heard. Empty: loopback, or bind_addr with diag.allow_remote."""
    diag_allow_remote: bool = False
    """Answer probes of other machines, too. It needs diag.passcode."""
    diag_passcode: Secret = field(default="", repr=False)
    """The passcode that probes must have. Without a passcode no setting can be changed."""
    refused: ClassVar[dict[str, str]] = {
        "socket_factory": 'with TCP write tls.enabled="true" and the tls attributes; for UDP put SEAL or SYM_ENCRYPT into the stack',
    }
    ignored: ClassVar[frozenset[str]] = frozenset(
        {
            "thread_pool",
            "thread_pool.*",
            "thread_pool_*",
            "thread_naming_pattern",
            "timer.*",
            "use_fork_join_pool",
            "use_common_fork_join_pool",
            "bundler_type",
            "bundler",
            "bundler.*",
            "diag.ttl",
            "diag.bind_interfaces",
            "diagnostics.*",
            "diagnostics_*",
            "enable_diagnostics",
            "message_processing_policy*",
            "message_processing_policy.*",
            "msg_processing_max_buffer_size",
            "msg_processing_policy",
            "max_msg_size",
            "rtt.*",
            "async_executor.*",
            "use_virtual_threads",
            "use_ip_addrs",
            "use_vthreads",
            "vthreads",
            "loopback_copy",
            "loopback_separate_thread",
            "logical_addr_cache_reaper_interval",
            "log_discard_msgs",
            "log_discard_msgs_version",
            "suppress_time_different_version_warnings",
            "suppress_time_different_cluster_warnings",
            "time_service_interval",
            "receive_on_all_interfaces",
            "receive_interfaces",
            "msg_factory_class",
            "local_transport",
            "print_*",
            "drop_when_full",
            "spawn_thread_on_full_pool",
            "thread_dumps_threshold",
            "max_buffer_size",
            "unicasts_to_self",
        }
    )

    def __post_init__(self) -> None:
        _check_version(self.version)
        self._within(0, 65535, "bind_port", "external_port")
        self._at_least(0, "port_range", "logical_addr_cache_expiration")
        self._at_least(1, "logical_addr_cache_max_size")
        self._at_least(0, "who_has_cache_timeout")
        self._above(0, "find_physical_interval")
        self._at_least(0, "max_pending_members", "max_pending_bytes", "max_version_changes")
        if self.bundler_max_size < 100:
            raise ConfigError(f"bundler.max_size must be >= 100, got {self.bundler_max_size}")
        self._within(0, 65535, "diag_port")
        self._at_least(0, "diag_port_range")
        settings_from(self)


def _check_version(text: str) -> None:
    try:
        version = parse_version(text)
    except ValueError as error:
        raise ConfigError(f"version must be one of 5.3, 5.4, 5.5, 5.6: {error}") from None
    if not OLDEST >> 6 <= version >> 6 <= NEWEST >> 6:
        raise ConfigError(f"version must be one of 5.3, 5.4, 5.5, 5.6, got {text}")
