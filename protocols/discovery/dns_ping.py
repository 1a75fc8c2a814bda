"""DNS_PING: discovery through the DNS: a name that has the addresses of all members, as a headless service of
Kubernetes.

Place: above TCP, whose bind_port all members have in common.

It asks every address of every name in dns_query, on bind_port and the ports after it. With SRV records the
record's port is asked (and bind_port as well with probe_transport_ports).

A records without dns_address are looked up as the system does it (its files, too). SRV records, and any with dns_address,
need dnspython: pip install 'jgroups_py[dns]'.

Source:  JGroups dns/DNS_PING.java, DefaultDNSResolver.java, AddressedDNSResolver.java.
Differs: A means IPv4 and AAAA means IPv6. With dns_address the targets of SRV records are asked there, too.
Limits:  max_records addresses of an answer; max_hosts addresses are asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.discovery.by_host import ByHost
from jgroups_py.stack.directories import DirectoryRequest, QueryDns
from jgroups_py.stack.exposure import DIRECTORY, PortUse, TransportPlace
from jgroups_py.stack.ports import Consulted, Endpoint
from jgroups_py.values.address import is_numeric_host
from jgroups_py.wire.headers import PROTOCOL_IDS

_NAME: Final = re.compile(r"[A-Za-z0-9_*-]+(\.[A-Za-z0-9_-]+)*\.?")
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
DNS_PORT: Final = 53
NAME_SERVER: Final = "the system's name server"
QUERIES_MAX: Final = 20
"""Names in dns_query."""


class DNS_PING(ByHost):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["DNS_PING"]

    @dataclass(frozen=True, kw_only=True)
    class Config(ByHost.Config):
        dns_query: tuple[str, ...] = ()
        """Names that have the addresses of the members."""
        dns_record_type: Literal["A", "AAAA", "SRV"] = "A"
        """Records that are asked for."""
        dns_address: str = ""
        """The name server, HOST or HOST:PORT; empty: the system's."""
        probe_transport_ports: bool = False
        """With SRV records: ask on bind_port and the ports after it, too."""
        max_records: int = 1000
        """Addresses of one answer."""
        ignored: ClassVar[frozenset[str]] = frozenset({"dns_context_factory"})

        def __post_init__(self) -> None:
            super().__post_init__()
            self._at_least(1, "max_records")
            if not 1 <= len(self.dns_query) <= QUERIES_MAX:
                raise ConfigError(
                    f"dns_query must name 1 to {QUERIES_MAX} names such as jgroups.default.svc.cluster.local, "
                    f"got {len(self.dns_query)}"
                )
            for name in self.dns_query:
                if not _NAME.fullmatch(name) or len(name) > 253:
                    raise ConfigError(
                        f'dns_query must be names with commas between them, got "{name}"'
                    )
            if self.dns_address and not _SERVER.fullmatch(self.dns_address):
                raise ConfigError(
                    f'dns_address must be HOST or HOST:PORT such as 10.96.0.10:53, got "{self.dns_address}"'
                )

    config: Config

    @classmethod
    def port_uses(cls, config: DNS_PING.Config, place: TransportPlace) -> Sequence[PortUse]:
        found = _SERVER.fullmatch(config.dns_address)
        host = found[1].strip("[]") if found else ""
        port = int(found[2][1:]) if found and found[2] else DNS_PORT
        return [
            PortUse(proto, "out", port, port, "", host or NAME_SERVER, (DIRECTORY,), "to DNS")
            for proto in ("udp", "tcp")
        ]

    @property
    def needs_port(self) -> bool:
        return self.config.dns_record_type != "SRV" or self.config.probe_transport_ports

    @property
    def directory_name(self) -> str:
        config = self.config
        server = f" at {config.dns_address}" if config.dns_address else ""
        return f"DNS {config.dns_record_type} {','.join(config.dns_query)}{server}"

    def asking(self) -> DirectoryRequest:
        config = self.config
        return QueryDns(
            config.dns_query,
            config.dns_record_type,
            config.dns_address,
            config.lookup_timeout,
            config.max_records,
        )

    def found_by(self, reply: Consulted) -> list[Endpoint]:
        found: list[Endpoint] = []
        for host, port in reply.answer:
            if is_numeric_host(host) and "%" not in host and 0 <= port <= 65535:
                found.append((host, port))
            else:
                self.dropped_entries += 1
        return found

    def ports_of(self, port: int) -> list[int]:
        ports = super().ports_of(port)
        if port and self.config.probe_transport_ports:
            ports += [more for more in super().ports_of(0) if more not in ports]
        return ports
