"""A network in memory, for tests of programs that use channels.

Stacks run unchanged: UDP, multicast and TCP
behave as on a perfect host without latency.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Sequence

from jgroups_py.driver.base import Driver, DriverLimits
from jgroups_py.driver.directories.asking import Directory, answer_of
from jgroups_py.driver.directories.in_memory import MemoryDirectories
from jgroups_py.driver.lookup import Resolver, addresses_of, knows_none
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    BindFailed,
    Bound,
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Consult,
    Datagram,
    Endpoint,
    Handle,
    In,
    JoinGroup,
    Out,
    Received,
    Resolve,
    SendTo,
    Write,
)

Place = tuple["MemoryDriver", Handle]


class MemoryNetwork:
    """A network in memory, for tests of programs that use channels. Channels that are opened with the same
    ``transport=MemoryNetwork()`` see each other and no other channel. It opens no socket and loses no packet. With
    trio's MockClock time-outs pass at once. Two runs of trio must not share it. ``resolver`` looks up the names in
    ``initial_hosts`` at once. ``directory`` answers the requests of FILE_PING and its like. By default all channels
    share one in memory."""

    in_memory = True
    """Nothing leaves this process, so open_channel asks for no encryption."""

    def __init__(
        self,
        limits: DriverLimits | None = None,
        resolver: Resolver = knows_none,
        directory: Directory | None = None,
    ) -> None:
        self.limits = limits
        self.resolver = resolver
        self.directory = MemoryDirectories() if directory is None else directory
        self.udp: dict[Endpoint, Place] = {}
        self.listeners: dict[Endpoint, Place] = {}
        self.groups: dict[Endpoint, dict[Place, None]] = {}
        self.peers: dict[Place, Place] = {}
        self._ports = itertools.count(49152)

    def driver(self, machine: Machine) -> MemoryDriver:
        return MemoryDriver(self, machine, self.limits)

    def free_port(self) -> int:
        return next(self._ports)

    def send(self, source: Endpoint, data: bytes, dest: Endpoint) -> None:
        targets = self.groups.get(dest)
        if targets is not None:
            for driver, handle in list(targets):
                driver.receive(Datagram(handle, data, source))
        elif (target := self.udp.get(dest)) is not None:
            target[0].receive(Datagram(target[1], data, source))


class MemoryDriver(Driver):
    """Executes Outs on a MemoryNetwork."""

    def __init__(
        self, network: MemoryNetwork, machine: Machine, limits: DriverLimits | None = None
    ) -> None:
        super().__init__(machine, limits)
        self.network = network
        self.local: dict[Handle, Endpoint] = {}
        self._accepted = itertools.count(-1, -1)

    def receive(self, item: In) -> None:
        if self.running:
            self.happened(item)
            self.wake()

    def execute(self, outs: Sequence[Out]) -> None:
        network = self.network
        for out in outs:
            match out:
                case SendTo(handle, data, dest):
                    if handle in self.local:
                        network.send(self.local[handle], data, dest)
                case Write(handle, data):
                    peer = network.peers.get((self, handle))
                    if peer is not None and data:
                        peer[0].receive(Received(peer[1], data))
                case Bind():
                    self._bind(out)
                case JoinGroup(handle, group):
                    self._join(handle, group)
                case Connect():
                    self._connect(out)
                case Close(handle, abort):
                    self._close(handle, abort)
                case Resolve():
                    self.happened(addresses_of(network.resolver, out))
                case Consult():
                    self.happened(answer_of(network.directory, out))

    def _bind(self, bind: Bind) -> None:
        taken = self.network.udp if bind.kind == "udp" else self.network.listeners
        first = bind.port or self.network.free_port()
        for port in range(first, first + bind.port_range + 1):
            local = (bind.host, port)
            if local not in taken:
                taken[local] = (self, bind.handle)
                self.local[bind.handle] = local
                self.happened(Bound(bind.handle, local))
                return
        problem = f"{bind.host}:{bind.port}: Address already in use (EADDRINUSE)"
        self.happened(BindFailed(bind.handle, problem))

    def _join(self, handle: Handle, group: Endpoint) -> None:
        if not ipaddress.ip_address(group[0]).is_multicast:
            problem = f"{group[0]} is not a multicast address"
            self.happened(BindFailed(handle, problem))
            return
        self.network.groups.setdefault(group, {})[(self, handle)] = None
        self.local[handle] = group
        self.happened(Bound(handle, group))

    def _connect(self, out: Connect) -> None:
        target = self.network.listeners.get(out.dest)
        if target is None:
            problem = f"{out.dest[0]}:{out.dest[1]}: ECONNREFUSED"
            self.happened(ConnectFailed(out.handle, True, problem))
            return
        driver, listener = target
        local = (out.host or out.dest[0], self.network.free_port())
        accepted = next(driver._accepted)
        self.network.peers[(self, out.handle)] = (driver, accepted)
        self.network.peers[(driver, accepted)] = (self, out.handle)
        driver.receive(Accepted(listener, accepted, local))
        self.happened(Connected(out.handle, local))

    def _close(self, handle: Handle, abort: bool) -> None:
        network, place = self.network, (self, handle)
        local = self.local.pop(handle, None)
        if local is not None:
            for table in (network.udp, network.listeners):
                if table.get(local) == place:
                    del table[local]
            if local in network.groups:
                network.groups[local].pop(place, None)
        peer = network.peers.pop(place, None)
        if peer is not None:
            del network.peers[peer]
            peer[0].receive(Closed(peer[1], abort))

    def close_all(self) -> None:
        mine = [handle for driver, handle in self.network.peers if driver is self]
        for handle in [*self.local, *mine]:
            self._close(handle, False)

    async def drained(self) -> None:
        return
