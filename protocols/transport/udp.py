"""UDP: datagrams to one member, IP multicast to the group.

Place: bottom of the stack.

One socket is bound to bind_addr and any port. Others reach us at its address, and all that we send
leaves through it. A second socket receives packets to the group's multicast address. A multicast is one
datagram, however many members there are. With ip_mcast="false" there is no second socket, and a
multicast is one datagram for each member of the view.

    LookAround from above     ask the driver for other listeners to the group; NobodyListens up if there are none

Source:  JGroups UDP.java; WIRE.md section 7.
Differs: mcast_addr and mcast_port default to those of JGroups' udp.xml, not of the class.
Limits:  a packet above 65507 bytes is dropped and counted (put FRAG2 into the stack).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from jgroups_py.protocols.transport.base import CARRIED, TP
from jgroups_py.protocols.transport.diagnostics import probe_ports
from jgroups_py.protocols.transport.udp_config import UdpConfig
from jgroups_py.stack.exposure import PortUse, TransportPlace
from jgroups_py.stack.ports import (
    Bind,
    BindFailed,
    Bound,
    CountListeners,
    Datagram,
    Endpoint,
    In,
    JoinGroup,
    Listeners,
    SendTo,
)
from jgroups_py.stack.services import FRAGMENTATION
from jgroups_py.values.address import IpAddress
from jgroups_py.values.events import Event, LookAround, NobodyListens, Query, ReceiveBuffer
from jgroups_py.values.native import has_settings, mypyc_attr

MAX_DATAGRAM = 65507
"""Largest payload of an IPv4 datagram."""


@mypyc_attr(allow_interpreted_subclasses=True)
class UDP(TP):
    """See the module's docstring."""

    wants_above = (FRAGMENTATION,)

    @classmethod
    def packet_max(cls, config: Any) -> int | None:
        """Return the largest payload of a datagram."""
        return MAX_DATAGRAM

    Config: TypeAlias = UdpConfig

    config: UdpConfig

    @classmethod
    def port_uses(cls, config: UdpConfig, place: TransportPlace) -> Sequence[PortUse]:
        host, first, last = place.host, place.first, place.last
        setting = "" if first else "UDP.bind_port"
        theirs = config.external_port or first, config.external_port or last
        uses = [
            PortUse("udp", "in", first, last, host, host, CARRIED, "from members", setting),
            PortUse("udp", "out", *theirs, host, "", CARRIED, "to members", setting),
        ]
        if config.ip_mcast:
            group, port = config.mcast_addr, config.mcast_port
            uses += [
                PortUse("udp", "in", port, port, host, group, CARRIED, "multicasts of members"),
                PortUse("udp", "out", port, port, host, group, CARRIED, "multicasts to members"),
            ]
        return [*uses, *probe_ports(config, place)]

    def start(self) -> None:
        super().start()
        self._unicast = 0  # handles; 0: none
        self._group = 0
        self._local: Endpoint | None = None
        self._group_open = False
        self._unicast_buffer = self._group_buffer = 0  # granted bytes
        self._destination = (self.config.mcast_addr, self.config.mcast_port)

    @property
    def has_multicast(self) -> bool:
        return self.config.ip_mcast

    def groups(self) -> tuple[Endpoint, ...]:
        return (self._destination,) if self.config.ip_mcast else ()

    def open_ports(self) -> None:
        if self._unicast:
            return
        config = self.config
        self._unicast = self.new_handle()
        self.open_port(
            Bind(
                self._unicast,
                "udp",
                self.bind_host,
                config.bind_port,
                config.port_range if config.bind_port else 0,
                config.ip_ttl,
                config.ucast_send_buf_size,
                config.ucast_recv_buf_size,
            )
        )
        if config.ip_mcast:
            self._group = self.new_handle()
            self.open_port(
                JoinGroup(
                    self._group,
                    self._destination,
                    self.bind_host,
                    config.mcast_recv_buf_size,
                    self._unicast,
                )
            )

    def event_down(self, event: Event) -> None:
        if type(event) is LookAround and self._group_open:
            self.put(CountListeners(self._group, self.bind_host))
        super().event_down(event)

    def answer(self, query: Query) -> Any:
        if type(query) is ReceiveBuffer:
            of_group = query.multicast and self.config.ip_mcast
            return (self._group_buffer if of_group else self._unicast_buffer) or None
        return super().answer(query)

    def on_input(self, item: In) -> None:
        if type(item) is Datagram:
            if item.source == self._local:
                self.dropped_own += 1
            else:
                self.receive(item.data, item.source)
        elif isinstance(item, Bound):
            if item.handle == self._unicast:
                self._local = item.local
                self._unicast_buffer = item.receive_buffer
            else:
                self._group_open = True
                self._group_buffer = item.receive_buffer
            if self._local is not None and (self._group_open or not self._group):
                self.opened(*self._local)
        elif isinstance(item, Listeners):
            if not item.others:
                self.pass_event_up(NobodyListens())
        elif isinstance(item, BindFailed):
            self.forget_port(item.handle)
            what = "multicast group" if item.handle == self._group else "socket"
            self.failed(f"cannot open the {what}: {item.problem}")

    def send_group(self, packets: Sequence[bytes]) -> None:
        if not self.config.ip_mcast:
            self.send_copies(packets)
            return
        for packet in packets:
            self._send(packet, self._destination)

    def send_unicast(self, physical: IpAddress, packets: Sequence[bytes]) -> None:
        if physical.host is None:
            self.dropped_unlocated += len(packets)
            return
        dest = (physical.host, physical.port)
        for packet in packets:
            self._send(packet, dest)

    def _send(self, packet: bytes, dest: Endpoint) -> None:
        if len(packet) > MAX_DATAGRAM:
            self.dropped_too_large += 1
            self.log.error(
                "a packet of %d bytes is too large for a datagram: put FRAG2 into the stack, or lower its frag_size",
                len(packet),
            )
            return
        self.packets_sent += 1
        self.bytes_sent += len(packet)
        if self.stack.doorway is None:
            self.machine.put(SendTo(self._unicast, packet, dest))
        else:
            self.put(SendTo(self._unicast, packet, dest))


has_settings(UDP, UdpConfig)
