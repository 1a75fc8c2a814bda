"""A simulated host: runs one machine and executes its outputs.

The same list of outs that the trio driver executes on sockets is executed here on tables. A crash resets the host's
connections; a host that vanished is silent.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol

from jgroups_py.driver.directories.asking import Directory, answer_of
from jgroups_py.driver.lookup import Resolver, addresses_of
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
    CountListeners,
    Datagram,
    Endpoint,
    Handle,
    In,
    JoinGroup,
    Listeners,
    Received,
    Resolve,
    SendTo,
    Write,
)
from jgroups_py.testing.sim.clock import Clock
from jgroups_py.testing.sim.network import Network

EPHEMERAL_PORT = 40000
TICK = 0.25
"""The most seconds between two looks of a member at its own lateness, as in the driver."""


@dataclass(slots=True, eq=False)
class Pipe:
    """One direction of a connection: from ``source`` to ``dest``, bytes in order."""

    source: Host
    dest: Host
    dest_handle: Handle
    open: bool = True
    arrives: float = 0.0
    waiting: list[In] = field(default_factory=list)
    """Inputs held back by a cut or a clogged link, until it heals."""
    forgotten: bool = False
    """Has ``dest`` forgotten this connection without ``source``'s knowledge?"""


@dataclass(slots=True, eq=False)
class HostConnection:
    """A host's data about one of its connections."""

    out: Pipe
    back: Pipe
    since: float
    """The time from which both ends have it."""


class HostWorld(Protocol):
    """The part of the world that a host needs. ``packets``: inputs handled by machines."""

    clock: Clock
    network: Network
    hosts: dict[str, Host]
    groups: dict[tuple[str, Endpoint], dict[Host, Handle]]
    stalled: dict[Pipe, None]
    packets: int
    resolver: Resolver
    directory_delay: float
    is_one_machine: bool
    receive_buffer: int

    @property
    def directory(self) -> Directory: ...

    def after_step(self, host: Host) -> None: ...


class Host:
    """See the module's docstring. ``address`` is its only network address."""

    def __init__(self, world: HostWorld, address: str, site: str, machine: Machine) -> None:
        self.world = world
        self.address = address
        self.site = site
        self.machine = machine
        self.sockets: dict[Handle, Endpoint] = {}
        self.listeners: dict[int, Handle] = {}
        self.datagram_ports: dict[int, Handle] = {}
        self.memberships: dict[Handle, tuple[str, Endpoint]] = {}
        self.connections: dict[Handle, HostConnection] = {}
        self._next_port = EPHEMERAL_PORT
        self._next_accepted = -1
        self._wake: float | None = None
        self._wakes = 0
        self.rate = 1.0
        """The rate of its clock."""
        self._since = self._reading = 0.0
        self.alive = True
        self.vanished = False
        self.paused = False
        self._held: list[In] = []
        self.held_limit = 2000
        """Inputs kept while paused; datagrams beyond are lost as in a full socket buffer."""
        self._held_bytes = 0
        self.held_lost = 0
        self._ran_at = 0.0
        self._turn_time = 0.0
        self._turns_at: float | None = None
        self._wanted = 0.0

    # --- its clock

    @property
    def now(self) -> float:
        """Return the time of its clock."""
        return self._reading + (self.world.clock.now - self._since) * self.rate

    def drift(self, rate: float) -> None:
        """Let its clock run at ``rate`` times the world's speed from now on."""
        self._reading, self._since = self.now, self.world.clock.now
        self.rate = rate
        self._wake = None
        self._plan_wake()

    def _plan_wake(self) -> None:
        deadline = self.machine.next_deadline()
        if deadline is not None and (self._wake is None or deadline < self._wake):
            self._wake = deadline
            self._wakes += 1
            instant = self._since + (deadline - self._reading) / self.rate
            self.world.clock.at(instant, self._on_wake, deadline, self._wakes)

    # --- inputs and timers

    def receive(self, item: In) -> None:
        """Take an input."""
        if not self.alive or self.vanished:
            return
        if self.paused or self._turn_time:
            if type(item) is not Datagram:
                self._held.append(item)
            elif len(self._held) < self.held_limit and self._has_room(item):
                self._held.append(item)
                self._held_bytes += len(item.data)
            else:
                self.held_lost += 1
            self._want_turn()
            return
        self.world.packets += 1
        self.machine.handle((item,), self.now)
        self.after_step()

    def _has_room(self, item: Datagram) -> bool:
        most = self.world.receive_buffer
        return not most or self._held_bytes + len(item.data) <= most

    def _receive_stream(self, pipe: Pipe, item: In) -> None:
        """Take the next input of a connection. It waits while the network is cut."""
        if not pipe.open:
            return
        if self.vanished:
            self._reset_by_successor(pipe)
            return
        if pipe.forgotten:
            self._answer_with_reset(pipe)
            return
        if pipe.waiting or not self.world.network.flows(pipe.source.address, self.address):
            pipe.waiting.append(item)
            self.world.stalled[pipe] = None
            return
        if type(item) is Closed:
            pipe.open = False
            connection = self.connections.pop(pipe.dest_handle, None)
            if connection is None:
                return
            connection.out.open = False
        self.receive(item)

    def _reset_by_successor(self, pipe: Pipe) -> None:
        """Reset a connection to a vanished member: the new process at its address does not know it."""
        successor = self.world.hosts.get(self.address)
        if successor is not None and successor.alive and not successor.vanished:
            self._answer_with_reset(pipe)

    def _answer_with_reset(self, pipe: Pipe) -> None:
        """Reset the sender's end of ``pipe``."""
        pipe.open = False
        for connection in pipe.source.connections.values():
            if connection.out is pipe and not pipe.source.vanished:
                back = connection.back
                delay = self.world.network.stream_delay(self.address, pipe.source.address)
                at = max(back.arrives, self.world.clock.now + delay)
                reset = Closed(back.dest_handle, True)
                self.world.clock.at(at, pipe.source._receive_stream, back, reset)

    def release(self, pipe: Pipe) -> None:
        """Deliver the inputs that waited for the network."""
        waiting, pipe.waiting = pipe.waiting, []
        for item in waiting:
            self._receive_stream(pipe, item)

    def reset(self, other: Host, *, one_way: bool = False) -> None:
        """Reset the connections to ``other``, as something on the way does (a firewall, a NAT table that was emptied);
        packets under way are lost. ``one_way``: only this host notices at once; the other host notices when it sends next."""
        now = self.world.clock.now
        for handle, connection in list(self.connections.items()):
            out, back = connection.out, connection.back
            opening = now <= connection.since or any(type(i) is Connected for i in back.waiting)
            if out.dest is not other or opening or handle not in self.connections:
                continue
            del self.connections[handle]
            if one_way:
                back.forgotten = True
            else:
                out.open = back.open = False
                out.waiting.clear()
                back.waiting.clear()
                if other.connections.pop(out.dest_handle, None) is not None:
                    other.receive(Closed(out.dest_handle, True))
            self.receive(Closed(handle, True))

    def pause(self) -> None:
        """Stop the process or block its loop; to others that is the same."""
        if not self.paused:
            self.world.clock.end_turns()
            self.paused = True
            self._ran_at = self.now

    def resume(self) -> None:
        if not self.paused:
            return
        self.paused = False
        due = self.machine.next_deadline()
        tick = self._ran_at + TICK
        self._wanted = tick if due is None else min(due, tick)
        if self._turn_time:
            self._want_turn()
        elif self.alive and not self.vanished:
            self._run_loop()

    def slow_down(self, turn_time: float) -> None:
        """Let each turn of the loop take ``turn_time`` seconds from now on; 0 makes it quick again."""
        self._turn_time = turn_time
        self._ran_at = self.now
        self._wanted = self._ran_at + TICK
        self._want_turn()

    def _want_turn(self) -> None:
        """Schedule a turn of a slow member's loop after the present one."""
        if self._turns_at is None and not self.paused:
            self._turns_at = self.world.clock.now + self._turn_time
            self.world.clock.at(self._turns_at, self._on_turn)

    def _on_turn(self) -> None:
        self._turns_at = None
        if self.alive and not self.vanished and not self.paused:
            self._run_loop()
            self._wanted = self.now + TICK
            if self._turn_time:
                self._want_turn()  # the driver needs it at least for its tick

    def _run_loop(self) -> None:
        """Run one late turn: timers before arrivals, which is the worse order of the two."""
        now = self.now
        self.machine.woke(now, self._wanted, self._ran_at)
        self.machine.advance(now)
        held, self._held = self._held, []
        self._held_bytes = 0
        self.world.packets += len(held)
        self.machine.handle(held, now)
        self.after_step()
        self._ran_at = now

    def after_step(self) -> None:
        """Note a step of the machine. Its outputs are executed at the end of the turn."""
        self.world.clock.at_end(self._end_turn)
        self.world.after_step(self)

    def _end_turn(self) -> None:
        """Execute the machine's outputs and note its next deadline."""
        machine = self.machine
        while machine.has_outgoing or machine.has_rest:
            for out in machine.take_outgoing():
                self._execute[type(out)](self, out)
            if machine.has_rest:
                machine.do_rest()
        self._plan_wake()

    def _on_wake(self, planned: float, wake: int) -> None:
        if self._wake is None or wake != self._wakes:
            return
        self._wake = None
        if not self.alive or self.vanished or self.paused:
            return
        if self._turn_time:
            self._wanted = min(self._wanted, planned)
            self._want_turn()
            return
        # An instant of the grid may lie a rounding error before the deadline it stands for.
        self.machine.advance(max(planned, self.now))
        self.after_step()

    # --- ends

    def crash(self) -> None:
        """Kill the process: its connections are reset, unread data are lost."""
        if not self.alive:
            return
        self.world.clock.end_turns()
        self.alive = False
        for connection in list(self.connections.values()):
            connection.back.open = False
            if not self.vanished:
                self._send_stream(connection.out, Closed(connection.out.dest_handle, True))
        self._drop_tables()

    def vanish(self) -> None:
        """Cut power or cable: no packet and no close from now on."""
        self.world.clock.end_turns()
        self.vanished = True

    def shut(self) -> None:
        """End the process in good order after the member has left."""
        self.world.clock.end_turns()
        self.alive = False
        self._drop_tables()

    def forget(self) -> None:
        """Free the host's data. A vanished one is still in its groups."""
        self.alive = False
        self._drop_tables()

    def _drop_tables(self) -> None:
        for group in self.memberships.values():
            self.world.groups[group].pop(self, None)
        self.sockets.clear()
        self.listeners.clear()
        self.datagram_ports.clear()
        self.memberships.clear()
        self.connections.clear()

    # --- outs

    def _soon(self, item: In) -> None:
        self.world.clock.at(self.world.clock.now, self.receive, item)

    def _bind(self, out: Bind) -> None:
        table = self.listeners if out.kind == "tcp" else self.datagram_ports
        ports = range(out.port, out.port + out.port_range + 1)
        if out.port == 0:
            while self._next_port in table:
                self._next_port += 1
            ports = range(self._next_port, self._next_port + 1)
            self._next_port += 1
        for port in ports:
            if port not in table:
                table[port] = out.handle
                self.sockets[out.handle] = (self.address, port)
                self._soon(Bound(out.handle, (self.address, port), self.world.receive_buffer))
                return
        self._soon(BindFailed(out.handle, f"no free port in {ports[0]}..{ports[-1]}"))

    def _join_group(self, out: JoinGroup) -> None:
        if not ipaddress.ip_address(out.group[0]).is_multicast:
            self._soon(BindFailed(out.handle, f"{out.group[0]} is not a multicast address"))
            return
        # Multicast stays inside a site: a WAN does not carry it.
        group = (self.site, out.group)
        self.memberships[out.handle] = group
        self.world.groups.setdefault(group, {})[self] = out.handle
        self._soon(Bound(out.handle, out.group, self.world.receive_buffer))

    def _count_listeners(self, out: CountListeners) -> None:
        group = self.memberships.get(out.handle)
        if self.world.is_one_machine and group is not None:
            self._soon(Listeners(out.handle, len(self.world.groups[group]) - 1))

    def _send_to(self, out: SendTo) -> None:
        if self.vanished:
            return
        source = self.sockets.get(out.handle)
        if source is None:
            return
        members = self.world.groups.get((self.site, out.dest))
        if members is not None:
            for host, handle in members.items():
                self._send_datagram(host, Datagram(handle, out.data, source))
            return
        dest = self.world.hosts.get(out.dest[0])
        if dest is not None:
            port_handle = dest.datagram_ports.get(out.dest[1])
            if port_handle is not None:
                self._send_datagram(dest, Datagram(port_handle, out.data, source))

    def _send_datagram(self, dest: Host, item: Datagram) -> None:
        world = self.world
        if dest is not self and not world.network.connected(self.address, dest.address):
            return
        if dest is self:
            world.clock.at(world.clock.now, dest.receive, item)
            return
        if world.network.is_clogged(self.address, dest.address):
            world.network.queue(self.address, dest.address, partial(dest.receive, item))
            return
        for delay in world.network.datagram_delays(self.address, dest.address):
            world.clock.at(world.clock.now + delay, dest.receive, item)

    def _connect(self, out: Connect) -> None:
        world = self.world
        now = world.clock.now
        dest = world.hosts.get(out.dest[0])
        reachable = (
            dest is not None
            and not dest.vanished
            and not self.vanished
            and world.network.flows(self.address, dest.address)
            and world.network.flows(dest.address, self.address)
        )
        if not reachable or dest is None:
            failed = ConnectFailed(out.handle, False, "timed out")
            world.clock.at(now + out.timeout, self.receive, failed)
            return
        there = world.network.stream_delay(self.address, dest.address)
        back = world.network.stream_delay(dest.address, self.address)
        if there + back > out.timeout:
            failed = ConnectFailed(out.handle, False, "timed out")
            world.clock.at(now + out.timeout, self.receive, failed)
            return
        world.clock.at(now + there, self._reach_listener, out, dest, back)

    def _reach_listener(self, out: Connect, dest: Host, back: float) -> None:
        world = self.world
        listener = dest.listeners.get(out.dest[1])
        if listener is None:
            refused = ConnectFailed(out.handle, True, "connection refused")
            world.clock.at(world.clock.now + back, self.receive, refused)
            return
        handle = dest._next_accepted
        dest._next_accepted -= 1
        self._next_port += 1
        peer = (self.address, self._next_port)
        there = Pipe(self, dest, handle)
        here = Pipe(dest, self, out.handle)
        dest.connections[handle] = HostConnection(here, there, world.clock.now + back)
        self.connections[out.handle] = HostConnection(there, here, world.clock.now + back)
        here.arrives = world.clock.now + back
        dest.receive(Accepted(listener, handle, peer))
        world.clock.at(here.arrives, self._receive_stream, here, Connected(out.handle, peer))

    def _write(self, out: Write) -> None:
        connection = self.connections.get(out.handle)
        if connection is not None and connection.out.open:
            item = Received(connection.out.dest_handle, out.data)
            self._send_stream(connection.out, item)

    def _send_stream(self, pipe: Pipe, item: In) -> None:
        if self.vanished:
            return
        world = self.world
        delay = world.network.stream_delay(self.address, pipe.dest.address)
        pipe.arrives = max(pipe.arrives, world.clock.now + delay)
        world.clock.at(pipe.arrives, pipe.dest._receive_stream, pipe, item)

    def _resolve(self, out: Resolve) -> None:
        self._soon(addresses_of(self.world.resolver, out))

    def _consult(self, out: Consult) -> None:
        """Ask a directory. The request is executed half-way to its answer, even if this host crashes meanwhile."""
        if self.vanished:
            return
        half = self.world.directory_delay / 2
        self.world.clock.at(self.world.clock.now + half, self._consulted, out, half)

    def _consulted(self, out: Consult, back: float) -> None:
        found = answer_of(self.world.directory, out)
        self.world.clock.at(self.world.clock.now + back, self.receive, found)

    def _close(self, out: Close) -> None:
        endpoint = self.sockets.pop(out.handle, None)
        if endpoint is not None:
            for table in (self.listeners, self.datagram_ports):
                if table.get(endpoint[1]) == out.handle:
                    del table[endpoint[1]]
        group = self.memberships.pop(out.handle, None)
        if group is not None:
            self.world.groups[group].pop(self, None)
        connection = self.connections.pop(out.handle, None)
        if connection is not None:
            connection.back.open = False
            self._send_stream(connection.out, Closed(connection.out.dest_handle, out.abort))

    _execute: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        Bind: _bind,
        JoinGroup: _join_group,
        CountListeners: _count_listeners,
        SendTo: _send_to,
        Connect: _connect,
        Write: _write,
        Close: _close,
        Resolve: _resolve,
        Consult: _consult,
    }
