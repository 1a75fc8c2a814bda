"""GossipRouter: the router's machine, without sockets. It is a stack of its own, of one protocol.

    Connect from above    listen on bind_addr:bind_port
    REGISTER              the member is in that group, at that place, as long as its connection lasts
    UNREGISTER            the member is in that group no more
    GET_MBRS              GET_MBRS_RSP_LAST with the members of that group; nothing if there are none
    HEARTBEAT             HEARTBEAT
    the connection ends   all that it has registered is forgotten

Source:  JGroups GossipRouter.java; WIRE.md section 9.2.
Differs: it forwards no messages (for TUNNEL), so it does not report the end of a connection (SUSPECT).
         It has no answer to a request for all groups. A connection takes back only its own registrations. A member
         that is registered stays, unless the same host registers it anew.
Limits:  all fields of Config that begin with ``max_``; requests beyond them are refused and counted. A connection that does not register
         within register_timeout is disconnected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from jgroups_py.config.settings import Bytes, Seconds
from jgroups_py.errors import ConfigError, RemoteProtocolError
from jgroups_py.protocols.transport.crowd import CrowdLimits, goes
from jgroups_py.protocols.transport.frames import FrameReader
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    BindFailed,
    Bound,
    Close,
    Closed,
    Crowded,
    Handle,
    In,
    Received,
    Writable,
    Write,
)
from jgroups_py.stack.protocol import Protocol
from jgroups_py.values.address import Address, IpAddress, is_numeric_host
from jgroups_py.values.events import Connect, Event, Failed, TransportReady
from jgroups_py.values.payloads import PingData
from jgroups_py.wire.gossip import (
    GossipRecord,
    GossipType,
    gossip_frame,
    read_gossip,
)
from jgroups_py.wire.primitives import decode_whole

NAME_MAX: Final = 255
"""The most characters of a name of a member or a group."""
_MEMBERS_MAX: Final = 30_000  # a record counts them in 16 bits


@dataclass(slots=True, eq=False)
class _Client:
    """One connection. ``registered``: the members that it has registered."""

    handle: Handle
    host: str
    reader: FrameReader
    since: float
    unsent: int = 0
    registered: dict[tuple[str, Address], None] = field(default_factory=dict)


@dataclass(slots=True)
class _Entry:
    """``client``: the one whose connection keeps the record."""

    client: _Client
    data: PingData


class GossipRouter(Protocol):
    """See the module's docstring."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        bind_addr: str = "127.0.0.1"
        """Numeric address to listen on."""
        bind_port: int = 12001
        """Port to listen on; 0: any."""
        max_connections: int = 1000
        """The most connections at the same time."""
        max_connections_per_host: int = 200
        """The most connections of one address at the same time."""
        max_silent: int = 200
        """The most connections that have registered nothing. Beyond this number, the connection that came first is
        closed. In a process that may open few files the limit is lower."""
        max_silent_per_host: int = 100
        """The most such connections of one address."""
        max_groups: int = 1000
        """The most groups with members."""
        max_members: int = 2000
        """The most members of one group."""
        max_registrations: int = 20
        """The most members that one connection may register."""
        max_record: Bytes = 16_000
        """The most bytes of a record that a member may send."""
        max_unsent: Bytes = 4_000_000
        """The most unsent bytes for a member that does not read. With more, its connection ends."""
        register_timeout: Seconds = 30.0
        """A connection that has registered nothing after this time is disconnected."""

        def __post_init__(self) -> None:
            if not is_numeric_host(self.bind_addr):
                raise ConfigError(
                    f'bind_addr must be a numeric address such as 127.0.0.1, got "{self.bind_addr}"'
                )
            self._within(0, 65535, "bind_port")
            self._within(1, _MEMBERS_MAX, "max_members")
            self._at_least(
                1, "max_connections", "max_connections_per_host", "max_groups", "max_registrations"
            )
            self._at_least(1, "max_silent", "max_silent_per_host")
            self._at_least(100, "max_record", "max_unsent")
            self._above(0, "register_timeout")

    config: Config
    turns_away: ClassVar[Mapping[str, str]] = {
        "silent": "a connection registered nothing, and others wanted its place",
        "too_many": "there are max_connections, or max_connections_per_host of that address",
        "no_descriptors": "this process has few descriptors left",
        "garbage": "bytes that a router cannot read",
    }

    def start(self) -> None:
        self._listener: Handle = 0
        self.local: tuple[str, int] | None = None
        """The address at which the router listens."""
        self._clients: dict[Handle, _Client] = {}
        self._groups: dict[str, dict[Address, _Entry]] = {}
        self._silent = self.timer(self._on_silent)
        config = self.config
        limits = CrowdLimits(config.max_silent, config.max_silent_per_host, 1, 1)
        self._crowd = limits.within(self.machine.files_max)
        self.registered = 0
        self.unregistered = 0
        self.requests = 0
        self.heartbeats = 0
        self.refused_connections = 0
        """Connections beyond max_connections or max_connections_per_host."""
        self.refused_registrations = 0
        """Registrations beyond max_groups, max_members or max_registrations, without address or place, or of a member
        that another host has registered."""
        self.dropped_garbage = 0
        """Connections that ended because their bytes cannot be read."""
        self.dropped_records = 0
        """Records that a router does not answer: messages (TUNNEL), requests for all groups, unknown kinds."""
        self.dropped_silent = 0
        """Connections that registered nothing in time."""
        self.dropped_unread = 0
        """Connections whose member did not read."""

    def statistics(self) -> dict[str, int | float]:
        members = sum(len(group) for group in self._groups.values())
        sizes = {
            "connections": len(self._clients),
            "groups": len(self._groups),
            "members": members,
        }
        return {**super().statistics(), **sizes}

    # --- connections

    def event_down(self, event: Event) -> None:
        if isinstance(event, Connect) and not self._listener:
            self._listener = self.new_handle()
            self.open_port(
                Bind(self._listener, "tcp", self.config.bind_addr, self.config.bind_port)
            )

    def on_input(self, item: In) -> None:
        match item:
            case Bound(_, local):
                self.local = local
                self.pass_event_up(TransportReady(IpAddress(*local)))
            case BindFailed(handle, problem):
                self.forget_port(handle)
                self.pass_event_up(Failed(f"the router cannot listen: {problem}"))
            case Accepted(_, handle, peer):
                self._accept(handle, peer[0])
            case Crowded(_, peer):
                self.turn_away("no_descriptors", peer)
            case Received(handle, data):
                self._read(self._clients[handle], data)
            case Writable(handle, unsent):
                self._clients[handle].unsent = unsent
                if unsent > self.config.max_unsent:
                    self.dropped_unread += 1
                    self._end(self._clients[handle])
            case Closed(handle):
                self._forget(self._clients[handle])

    def _accept(self, handle: Handle, host: str) -> None:
        config = self.config
        self._let_silent_go(host)
        same = sum(client.host == host for client in self._clients.values())
        if len(self._clients) >= config.max_connections or same >= config.max_connections_per_host:
            self.refused_connections += 1
            self.turn_away("too_many", host)
            self.put(Close(handle, abort=True))
            return
        self.adopt(handle)
        self._clients[handle] = _Client(handle, host, FrameReader(config.max_record), self.now)
        if not self._silent.armed:
            self._silent.start(config.register_timeout)

    def _let_silent_go(self, host: str) -> None:
        """Make room for one more connection from ``host``: close the first of those without a registration."""
        config, crowd = self.config, self._crowd
        same = sum(client.host == host for client in self._clients.values())
        full = len(self._clients) >= config.max_connections
        full_here = same >= config.max_connections_per_host
        silent = [client for client in self._clients.values() if not client.registered]
        client = goes(
            silent, host, 0 if full else crowd.silent, 0 if full_here else crowd.silent_per_host
        )
        if client is not None:
            self.turn_away("silent", client.host)
            self._end(client)

    def _end(self, client: _Client) -> None:
        self.put(Close(client.handle, abort=True))
        self._forget(client)

    def _forget(self, client: _Client) -> None:
        """Forget a client whose connection has ended."""
        self.forget_port(client.handle)
        del self._clients[client.handle]
        for group, address in list(client.registered):
            self._unregister(client, group, address)

    def _on_silent(self) -> None:
        config = self.config
        silent = [client for client in self._clients.values() if not client.registered]
        for client in silent:
            if client.since + config.register_timeout <= self.now:
                self.dropped_silent += 1
                self._end(client)
        if any(not client.registered for client in self._clients.values()):
            self._silent.start(config.register_timeout / 4)

    # --- records

    def _read(self, client: _Client, data: bytes) -> None:
        try:
            for frame in client.reader.feed(data):
                if frame is not None:  # otherwise the member is about to close
                    self._take(client, decode_whole(read_gossip, frame))
                if client.handle not in self._clients:
                    return
        except RemoteProtocolError as error:
            self.dropped_garbage += 1
            self.turn_away("garbage", client.host)
            self.trace("garbage", problem=str(error), host=client.host)
            self._end(client)

    def _take(self, client: _Client, record: GossipRecord) -> None:
        match record.kind:
            case GossipType.REGISTER:
                self._register(client, record)
            case GossipType.UNREGISTER if record.group is not None and record.address is not None:
                self._unregister(client, record.group, record.address)
            case GossipType.GET_MBRS if record.group is not None:
                self._tell(client, record.group)
            case GossipType.HEARTBEAT:
                self.heartbeats += 1
                self.put(Write(client.handle, gossip_frame(GossipRecord(GossipType.HEARTBEAT))))
            case _:
                self.dropped_records += 1

    def _register(self, client: _Client, record: GossipRecord) -> None:
        group, address = record.group, record.address
        if group is None or address is None or not self._may_register(client, record):
            self.refused_registrations += 1
            return
        members = self._groups.setdefault(group, {})
        former = members.pop(address, None)
        if former is not None:
            former.client.registered.pop((group, address), None)
        name = record.name and record.name[:NAME_MAX]
        members[address] = _Entry(client, PingData(address, PingData.SERVER, name, record.physical))
        client.registered[group, address] = None
        self.registered += 1
        self.trace("registered", group=group, name=name, place=str(record.physical))

    def _may_register(self, client: _Client, record: GossipRecord) -> bool:
        group, address, config = record.group, record.address, self.config
        if group is None or address is None or len(group) > NAME_MAX:
            return False
        if not isinstance(record.physical, IpAddress) or record.physical.host is None:
            return False
        former = self._groups.get(group, {}).get(address)
        if former is not None:
            return former.client is client or former.client.host == client.host
        if group not in self._groups and len(self._groups) >= config.max_groups:
            return False
        if len(self._groups.get(group, ())) >= config.max_members:
            return False
        return len(client.registered) < config.max_registrations

    def _unregister(self, client: _Client, group: str, address: Address) -> None:
        if client.registered.pop((group, address), 0) == 0:
            return  # the address is not the member's own
        self.unregistered += 1
        members = self._groups[group]
        del members[address]
        if not members:
            del self._groups[group]
        self.trace("unregistered", group=group, address=str(address))

    def _tell(self, client: _Client, group: str) -> None:
        self.requests += 1
        entries = self._groups.get(group)
        if entries:
            members = tuple(entry.data for entry in entries.values())
            record = GossipRecord(GossipType.GET_MBRS_RSP_LAST, group, members=members)
            self.put(Write(client.handle, gossip_frame(record)))

    def check(self) -> None:
        config = self.config
        assert len(self._clients) <= config.max_connections
        assert len(self._groups) <= config.max_groups
        kept = [
            (entry.client, group, address)
            for group, members in self._groups.items()
            for address, entry in members.items()
        ]
        for client, group, address in kept:
            assert (group, address) in client.registered
            assert self._clients.get(client.handle) is client
        assert len(kept) == sum(len(client.registered) for client in self._clients.values())
        assert all(0 < len(members) <= config.max_members for members in self._groups.values())
