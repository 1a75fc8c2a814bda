"""TCP: a connection to each member; a multicast is a copy to each.

Place: bottom of the stack.

We listen on the first free port of bind_port .. bind_port + port_range, and others reach us there. The first message
for a peer opens a connection, which serves both directions (connections.py). A second after a view change,
connections to others than members are closed.

    connection refused         Unreachable up. Drop the messages that waited for the connection.
    connection lost            Nothing: the next message opens another one. With enable_suspect_events,
                               Suspect up unless the peer said goodbye.
    peer closes right after    Before joining: VersionHeard up, and it is asked again. When it closes twice, it
      our handshake            speaks another version of the wire: try the next one. When no peer has answered
                               in any version, speak our own again.
    place of hearsay           No connection is opened to it (hearsay.py).
    tls.enabled                TLS on every connection (tls_door.py, tls_attributes.py). Drop a packet whose sender has
                               another name than the certificate of its connection.

Source:  JGroups TCP.java, BasicTCP.java; WIRE.md section 8.
Differs: tcp_nodelay is on by default: outgoing messages are bundled already. max_length has a limit by
         default. A slow peer blocks no sender: frames beyond max_send_queue are dropped, and
         retransmitted by the layers above when there is room.
Limits:  max_connections; max_silent, max_strangers and the same per host: connections of strangers (crowd.py); max_length a frame; max_incomplete bytes of frames that are not complete; max_send_queue unsent bytes
         a peer; peer_addr_read_timeout for a handshake; write_timeout for a peer that takes nothing. All counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from jgroups_py.protocols.transport.base import CARRIED, TP
from jgroups_py.protocols.transport.connections import (
    CONNECTION_CAUSES,
    Connection,
    Connections,
    Limits,
)
from jgroups_py.protocols.transport.crowd import CrowdLimits
from jgroups_py.protocols.transport.diagnostics import probe_ports
from jgroups_py.protocols.transport.frames import FRAME_HEAD, writes_of
from jgroups_py.protocols.transport.sources import End
from jgroups_py.protocols.transport.tcp_config import TcpConfig
from jgroups_py.protocols.transport.tls_door import TlsDoor
from jgroups_py.stack.exposure import PortUse, TransportPlace
from jgroups_py.stack.ports import Bind, BindFailed, Bound, Handle, In, Received
from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Suspect, Unreachable, VersionHeard
from jgroups_py.values.native import has_settings, mypyc_attr
from jgroups_py.wire.headers import PROTOCOL_IDS, NakAckHeader2, NakAckType
from jgroups_py.wire.packet import Packet
from jgroups_py.wire.primitives import DEFAULT_VERSION, make_version, same_minor

RETAIN_DELAY: Final = 1.0
"""Seconds from a view change until connections to others than members are closed."""
NEIGHBOURS: Final = [make_version(5, minor) for minor in (5, 4, 6, 3)]
"""Versions to try, in this order, after our own was refused."""
_NAKACK2: Final = PROTOCOL_IDS["NAKACK2"]


@mypyc_attr(allow_interpreted_subclasses=True)
class TCP(TP):
    """See the module's docstring."""

    framed = True
    turns_away = {**TP.turns_away, **CONNECTION_CAUSES}

    @classmethod
    def packet_max(cls, config: Any) -> int | None:
        """The largest packet that this side can queue and that the other side accepts with the same settings."""
        return int(min(config.max_length, config.max_send_queue))

    Config: TypeAlias = TcpConfig

    config: TcpConfig

    @classmethod
    def port_uses(cls, config: TcpConfig, place: TransportPlace) -> Sequence[PortUse]:
        host, first, last, sealed = place.host, place.first, place.last, place.sealed
        setting = "" if first else "TCP.bind_port"
        theirs = config.external_port or first, config.external_port or last
        return (
            PortUse("tcp", "in", first, last, host, host, CARRIED, "from members", setting, sealed),
            PortUse("tcp", "out", *theirs, host, "", CARRIED, "to members", setting, sealed),
            *probe_ports(config, place),
        )

    def start(self) -> None:
        super().start()
        self._listener = 0
        self._heard = False
        self._own_version = self.version
        """The version that we spoke before we tried others."""
        self._refusals: dict[IpAddress, int] = {}
        """Peer that closed a connection of ours before the first view -> the version that we spoke then."""
        self._retain = self.timer(self._on_retain)
        config = self.config
        self._tls: TlsDoor | None = None
        self._heard_on: Handle = 0
        """The connection of the packet that is being received."""
        if config.tls_enabled:
            self._tls = TlsDoor(
                self,
                config.tls_settings(),
                check_names=config.tls_check_names,
                handshake_timeout=config.tls_handshake_timeout,
                max_handshakes=config.tls_max_handshakes,
                reload_interval=config.tls_reload_interval,
                expiry_warning=config.tls_expiry_warning,
            )
            self.stack.install(self._tls)
        self._connections = Connections(
            self,
            Limits(
                config.sock_conn_timeout,
                config.peer_addr_read_timeout,
                config.write_timeout,
                config.reconnect_interval,
                config.max_length,
                config.max_incomplete,
                config.max_send_queue,
                config.max_connections,
                CrowdLimits(
                    config.max_silent,
                    config.max_silent_per_host,
                    config.max_strangers,
                    config.max_strangers_per_host,
                ),
                config.tcp_nodelay,
                config.send_buf_size,
                config.recv_buf_size,
            ),
            host=self.bind_host,
            version=lambda: self.version,
            members=self._places_of_members,
            on_frame=self._on_frame,
            on_failed=self._on_connect_failed,
            on_lost=self._on_lost,
            may_be_at=self._may_be_at,
        )

    def stop(self) -> None:
        super().stop()
        self._connections.stop()

    @property
    def has_multicast(self) -> bool:
        return False

    def open_ports(self) -> None:
        if self._listener:
            return
        config = self.config
        self._listener = self.new_handle()
        self.open_port(
            Bind(
                self._listener,
                "tcp",
                self.bind_host,
                config.bind_port,
                config.port_range if config.bind_port else 0,
                send_buffer=config.send_buf_size,
                receive_buffer=config.recv_buf_size,
                nodelay=config.tcp_nodelay,
            )
        )

    def on_input(self, item: In) -> None:
        if type(item) is Received:
            self._connections.on_input(item)
        elif isinstance(item, Bound):
            host, port = item.local
            self._connections.local = IpAddress(
                self.config.external_addr or host, self.config.external_port or port
            )
            self.opened(host, port)
        elif isinstance(item, BindFailed):
            self.forget_port(item.handle)
            self.failed(f"cannot listen: {item.problem}")
        else:
            self._connections.on_input(item)

    # --- sending

    def send_group(self, packets: Sequence[bytes]) -> None:
        pieces = writes_of(packets)
        own = self.local_address
        for member in self.view_members:
            if member == own:
                continue
            physical = self.physical_of(member)
            if physical is None:
                self.dropped_unlocated += len(packets)
                self.find(member)
            else:
                self._send(physical, packets, pieces)

    def send_unicast(self, physical: IpAddress, packets: Sequence[bytes]) -> None:
        self._send(physical, packets, writes_of(packets))

    def _send(self, physical: IpAddress, packets: Sequence[bytes], pieces: Sequence[bytes]) -> None:
        self.packets_sent += len(packets)
        self.bytes_sent += sum(map(len, packets)) - FRAME_HEAD * len(packets)
        self._connections.send(physical, pieces)

    # --- connections

    def has_way(self, physical: IpAddress) -> bool:
        return self._connections.get(physical) is not None

    def _places_of_members(self) -> set[IpAddress]:
        return {
            physical
            for member in self.view_members
            if (physical := self.physical_of(member)) is not None
        }

    def _may_be_at(self, peer: IpAddress, host: str) -> bool:
        """Return whether a connection from ``host`` may say that its other side listens at ``peer``, where a member may
        be. From its own host, it may."""
        sources = self._sources
        if sources is None or peer.host is None or not sources.is_of_member((peer.host, peer.port)):
            return True
        return sources.is_of_member((host, peer.port))

    def _on_frame(self, connection: Connection, frame: bytes) -> None:
        self._heard_on = connection.handle
        self.receive(frame, _end_of(connection))

    def admits(self, batch: Batch) -> bool:
        tls, src = self._tls, batch.src
        if tls is None or src is None:
            return True
        header = batch.headers.get(_NAKACK2)
        if type(header) is NakAckHeader2 and header.type == NakAckType.XMIT_RSP:
            # Members repeat each other's messages, also those of a lost member.
            if tls.has_spoken(self._heard_on):
                return True
        return tls.may_speak(self._heard_on, src, self.stack.names.get(src))

    def accepted_packet(self, packet: Packet) -> None:
        self._heard = True

    def _on_connect_failed(self, peer: IpAddress, refused: bool) -> None:
        if refused:
            self.pass_event_up(Unreachable(peer))
            if self.config.enable_suspect_events:
                self._suspect(peer, gone=True)

    def _on_lost(self, connection: Connection, reset: bool) -> None:
        peer = connection.peer
        assert peer is not None
        self.trace("lost", peer=str(peer), reset=reset, graceful=connection.graceful)
        if connection.graceful:
            return
        if self.config.enable_suspect_events:
            self._suspect(peer, gone=False)
        if self._tls is not None and reset:
            return  # the peer may have refused our certificate, so other versions would not help
        if connection.outgoing and not (connection.heard or self._heard or self.joined):
            self._hung_up_on(connection.spoken, peer)

    def _hung_up_on(self, version: int, peer: IpAddress) -> None:
        """Note that a peer closed after our handshake. A peer that is ending does so once. A peer that refuses our
        version does so again."""
        if version != self.version:
            return  # another version was tried meanwhile
        if self._refusals.get(peer) == version:
            self._try_next_version()
        else:
            self._refusals[peer] = version
            self.pass_event_up(VersionHeard(version))

    def _try_next_version(self) -> None:
        """Try another version, because a peer closed after our handshake, probably for its version."""
        minors = [version >> 6 for version in NEIGHBOURS]
        index = minors.index(self.version >> 6)
        version = NEIGHBOURS[(index + 1) % len(NEIGHBOURS)]
        self.adopt_version(DEFAULT_VERSION if same_minor(version, DEFAULT_VERSION) else version)

    def _suspect(self, peer: IpAddress, *, gone: bool) -> None:
        members: tuple[Address, ...] = tuple(
            member for member in self.view_members if self.physical_of(member) == peer
        )
        if members:
            self.pass_event_up(Suspect(members, gone))

    def view_changed(self) -> None:
        if not self._heard and self.version != self._own_version:
            # The member that closed was about to end, not of another version: it was alone in this.
            self.adopt_version(self._own_version)
        self._own_version = self.version
        self._refusals.clear()
        if not self._retain.armed:
            self._retain.start(RETAIN_DELAY)

    def _on_retain(self) -> None:
        self._connections.close_others(self._places_of_members())

    def statistics(self) -> dict[str, int | float]:
        return {
            **super().statistics(),
            **self._connections.counts,
            "connections": len(self._connections),
            "incomplete_bytes": self._connections.incomplete,
            **({} if self._tls is None else self._tls.statistics()),
        }

    def check(self) -> None:
        super().check()
        self._connections.check()
        if self._tls is not None:
            self._tls.check()


has_settings(TCP, TcpConfig)


def _end_of(connection: Connection) -> End | None:
    """Return the place at which the other side listens: its reported port, on the host from which the connection
    came."""
    peer = connection.peer
    if peer is None or peer.host is None:
        return None
    return connection.host or peer.host, peer.port
