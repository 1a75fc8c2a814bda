"""MPING: discovery by IP multicast where the transport is TCP.

Place: above TCP.

Requests are datagrams to a group of our own, sent from a socket of our own; each holds one bare
message. Answers come over the transport.

Source:  JGroups MPING.java; WIRE.md section 9.1.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from jgroups_py.config.settings import Bytes
from jgroups_py.errors import ConfigError, RemoteProtocolError
from jgroups_py.protocols.discovery.base import Discovery
from jgroups_py.stack.exposure import DISCOVERY, PortUse, TransportPlace
from jgroups_py.stack.ports import Bind, BindFailed, Bound, Datagram, In, JoinGroup, SendTo
from jgroups_py.values.address import is_numeric_host
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Around, Event, Failed, Query, Surroundings, TransportReady
from jgroups_py.values.shown import shown
from jgroups_py.wire.headers import PROTOCOL_IDS, PingHeader
from jgroups_py.wire.single import decode_mping, encode_mping

STRANGERS_MAX: Final = 5
"""Other clusters remembered, as hints for a member that stays alone."""
NAME_MAX: Final = 255
"""Characters of a cluster's name that are remembered."""


class MPING(Discovery):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["MPING"]

    @dataclass(frozen=True, kw_only=True)
    class Config(Discovery.Config):
        bind_addr: str = ""
        """Numeric address of the interface; empty: the transport's."""
        mcast_addr: str = "232.5.6.7"
        """The group's multicast address."""
        mcast_port: int = 7555
        """The group's multicast port."""
        ip_ttl: int = 8
        """The most routers that a request may pass."""
        recv_buf_size: Bytes = 0
        """The requested receive buffer; 0: the kernel's choice."""
        ignored: ClassVar[frozenset[str]] = frozenset(
            {
                "tos",
                "receive_on_all_interfaces",
                "receive_interfaces",
                "send_on_all_interfaces",
                "send_interfaces",
                "bind_interface_str",
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
                    f'mcast_addr must be a multicast address such as 232.5.6.7, got "'
                    f'{self.mcast_addr}"'
                )
            self._within(1, 65535, "mcast_port")
            self._within(0, 255, "ip_ttl")
            self._at_least(0, "recv_buf_size")

    config: Config

    @classmethod
    def port_uses(cls, config: MPING.Config, place: TransportPlace) -> Sequence[PortUse]:
        host = config.bind_addr or place.host
        group, port = config.mcast_addr, config.mcast_port
        carried = (DISCOVERY,)
        return (
            PortUse("udp", "in", port, port, host, group, carried, "requests of joiners"),
            PortUse("udp", "out", port, port, host, group, carried, "requests to members"),
        )

    def start(self) -> None:
        super().start()
        self._sender = 0  # handles; 0: none
        self._group = 0
        self._opening = 0
        self._ready: TransportReady | None = None
        self._strangers: dict[str, None] = {}

    def event_up(self, event: Event) -> None:
        if isinstance(event, TransportReady) and not (self._sender and not self._opening):
            self._ready = event  # the event that goes up when our sockets are open, too
            bind_addr = self.config.bind_addr
            if not is_numeric_host(bind_addr):
                bind_addr = event.physical.host or self.machine.host
            self._open(bind_addr)
            return
        super().event_up(event)

    def _open(self, host: str) -> None:
        if self._opening:
            return
        config = self.config
        self._sender, self._group = self.new_handle(), self.new_handle()
        self._opening = 2
        self.open_port(Bind(self._sender, "udp", host, 0, multicast_ttl=config.ip_ttl))
        self.open_port(
            JoinGroup(
                self._group, (config.mcast_addr, config.mcast_port), host, config.recv_buf_size
            )
        )

    def on_input(self, item: In) -> None:
        match item:
            case Datagram(handle, data, source):
                if handle == self._group:
                    self._heard(data, source[0])
            case Bound():
                self._opening -= 1
                if self._opening == 0 and self._ready is not None:
                    super().event_up(self._ready)
            case BindFailed(handle, problem):
                self.forget_port(handle)
                self.pass_event_up(Failed(f"{self.name}: cannot open its socket: {problem}"))

    def answer(self, query: Query) -> Any:
        if isinstance(query, Surroundings):
            group = (self.config.mcast_addr, self.config.mcast_port)
            return Around((group,), tuple(self._strangers))
        return super().answer(query)

    def other_cluster(self, cluster: str) -> None:
        if len(self._strangers) < STRANGERS_MAX:
            self._strangers[f'members of cluster "{shown(cluster, NAME_MAX)}" are heard here'] = (
                None
            )

    def send_request(self, batch: Batch) -> None:
        group = (self.config.mcast_addr, self.config.mcast_port)
        self.put(SendTo(self._sender, encode_mping(batch), group))

    def _heard(self, data: bytes, host: str) -> None:
        try:
            batch = decode_mping(data)
        except RemoteProtocolError as error:
            self.dropped_garbage += 1
            self.trace("garbage", problem=str(error))
            return
        header = batch.header(self.protocol_id, PingHeader)
        if header is None:
            self.dropped_garbage += 1
            return
        for payload in batch.payloads:
            self.received(batch.src, header, payload, host)
