"""Connections: one TCP connection per peer, for TCP and FD_SOCK2. Not a protocol.

In a handshake the connecting side sends the address at which it listens; that address is the peer's name here.
Then both sides send frames: length, bytes. A length of -5 says that the sender closes on purpose.

Both sides may connect at once. A side that already has a connection of its own making keeps it when its own
address is the higher one, else it takes the new one. The other connection is closed with -5. Bytes under way on
it are still read, so nothing is lost by the choice. Until the connection to keep is open, the other connection stays as a
spare, which is used if the first never opens.

States of a connection: CONNECTING (frames wait) or ACCEPTED (the handshake is awaited), OPEN,
CLOSING (-5 was sent or received: it is not used for sending, and is read until the peer closes), GONE.

Source:  JGroups BaseServer.java, TcpConnection.java; WIRE.md section 8.
Differs: JGroups closes the loser at once. A second connection from a peer replaces one that the
         same peer had opened before, whatever the addresses: the peer would not open a second connection if the first worked.
Limits:  max_connections; connections of strangers, in all and for each host (crowd.py); max_length a frame; max_incomplete bytes of frames that are not complete, all
         connections together, beyond which the connection is closed whose frame began first (an honest
         peer's is complete soon); max_send_queue unsent bytes a peer, beyond which whole
         frames are dropped; peer_addr_read_timeout for the handshake; write_timeout for a peer that
         takes nothing; reconnect_interval after a refused connection. All counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Final

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.transport.crowd import CrowdLimits, goes
from jgroups_py.protocols.transport.frames import FrameReader, joined
from jgroups_py.stack.machine import Timer
from jgroups_py.stack.ports import (
    Accepted,
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Crowded,
    Handle,
    In,
    Received,
    Writable,
    Write,
)
from jgroups_py.stack.protocol import Protocol
from jgroups_py.values.address import IpAddress
from jgroups_py.wire.connection import (
    GRACEFUL_CLOSE,
    HANDSHAKE_HEAD,
    decode_handshake,
    encode_handshake,
    handshake_size,
)
from jgroups_py.wire.primitives import format_version, make_version, same_minor

CLOSING_TIME: Final = 1.0
"""Seconds in which the peer must close its side after a graceful close (-5)."""
CONNECTION_CAUSES: Final[Mapping[str, str]] = {
    "silent": "a connection said nothing, and others wanted its place",
    "stranger": "the least used connection of a non-member made room for another one",
    "late": "a connection did not send its handshake in time",
    "too_many": "there are max_connections connections of members",
    "no_descriptors": "this process has few descriptors left",
    "member_elsewhere": "a connection said that its other side is where a member is, and came from another host",
}
"""Causes for closing a connection that the other side has opened."""
HAS_GRACEFUL_CLOSE: Final = make_version(5, 5)
"""The first version that knows -5."""


class ConnectionState(Enum):
    CONNECTING = auto()
    ACCEPTED = auto()
    OPEN = auto()
    CLOSING = auto()
    GONE = auto()


CONNECTING: Final = ConnectionState.CONNECTING
OPEN: Final = ConnectionState.OPEN


@dataclass(slots=True, eq=False)
class Connection:
    """One connection. ``peer``: the place at which the other side listens. None: its handshake has not come."""

    handle: Handle
    state: ConnectionState
    outgoing: bool
    reader: FrameReader
    timer: Timer
    host: str = ""
    """The host from which an accepted connection comes."""
    heard_at: float = 0.0
    """The time when bytes were last received, or the connection was accepted."""
    peer: IpAddress | None = None
    waiting: list[bytes] = field(default_factory=list)
    """Frames that wait until the connection is open."""
    waiting_size: int = 0
    head: bytes = b""
    """The bytes of the handshake so far."""
    spoken: int = 0
    """The version of our handshake."""
    unsent: int = 0
    written: int = 0
    taken: int = 0
    """The least number of bytes that the peer's side has taken."""
    heard: bool = False
    """Were bytes received?"""
    graceful: bool = False
    """Was -5 sent or received?"""
    held: int = 0
    """Bytes of a frame that is not complete yet."""
    held_since: float = 0.0
    spare: Connection | None = None
    """While connecting: the peer's own connection. It is used if this connection never opens."""


@dataclass(frozen=True, slots=True)
class Limits:
    """See the module's docstring. Seconds and bytes."""

    connect_timeout: float
    read_timeout: float
    write_timeout: float
    reconnect_interval: float
    max_length: int
    max_incomplete: int
    max_send_queue: int
    max_connections: int
    crowd: CrowdLimits
    nodelay: bool = True
    send_buffer: int = 0
    receive_buffer: int = 0


class Connections:
    """The connections of one protocol. The protocol passes inputs for its handles to ``on_input`` and learns of events
    through callbacks:

    on_frame(connection, frame), on_open(connection), on_lost(connection, reset) after an open
    connection to a peer is gone (not for the loser of two), on_failed(peer, refused) when one
    could not be opened.

    ``members``: where the members of the view listen. ``may_be_at(peer, host)``: whether a connection from ``host`` may
    claim that its other side listens at ``peer``.
    """

    def __init__(
        self,
        protocol: Protocol,
        limits: Limits,
        *,
        host: str,
        version: Callable[[], int],
        members: Callable[[], Set[IpAddress]],
        on_frame: Callable[[Connection, bytes], None],
        on_failed: Callable[[IpAddress, bool], None],
        on_lost: Callable[[Connection, bool], None],
        on_open: Callable[[Connection], None] | None = None,
        may_be_at: Callable[[IpAddress, str], bool] = lambda peer, host: True,
    ) -> None:
        self._protocol = protocol
        self._limits = limits
        self._host = host
        self._version = version
        self._members = members
        self._crowd = limits.crowd.within(protocol.machine.files_max)
        self._on_frame = on_frame
        self._on_failed = on_failed
        self._on_lost = on_lost
        self._on_open = on_open
        self._may_be_at = may_be_at
        self.local: IpAddress | None = None
        """The place at which we listen, as peers hear it. Set it before any other use of the connections."""
        self._all: dict[Handle, Connection] = {}
        self._silent: dict[Connection, None] = {}
        """Accepted connections whose handshake has not come or that are about to end. The oldest are first."""
        self._peers: dict[IpAddress, Connection] = {}
        self._refused: dict[IpAddress, float] = {}
        self.incomplete = 0
        """Bytes of frames that are not complete, of all connections."""
        self.counts: dict[str, int] = {
            "connections_opened": 0,
            "connections_accepted": 0,
            "connections_refused": 0,
            "connections_lost": 0,
            "dropped_send_queue_full": 0,
            "dropped_unreachable": 0,
            "dropped_bad_stream": 0,
            "dropped_incomplete": 0,
            "dropped_handshake_version": 0,
            "dropped_handshake_late": 0,
            "dropped_too_many_connections": 0,
            "dropped_stuck": 0,
        }

    # --- looking

    def __len__(self) -> int:
        return len(self._all)

    def get(self, peer: IpAddress) -> Connection | None:
        """Return the connection for sending to that peer, open or opening."""
        return self._peers.get(peer)

    def open(self) -> list[Connection]:
        """Return all open connections, also those that are not used for sending."""
        return [c for c in self._all.values() if c.state is ConnectionState.OPEN]

    def peers(self) -> list[IpAddress]:
        return list(self._peers)

    def check(self) -> None:
        for peer, connection in self._peers.items():
            assert connection.peer == peer
            assert self._all.get(connection.handle) is connection
            assert connection.state in (ConnectionState.CONNECTING, ConnectionState.OPEN)
        for connection in self._all.values():
            assert connection.waiting_size <= self._limits.max_send_queue
            assert len(connection.reader) <= self._limits.max_length + 4
        assert self.incomplete == sum(c.held for c in self._all.values())
        assert self.incomplete <= self._limits.max_incomplete
        assert len(self._silent) <= self._crowd.silent
        assert all(
            self._all.get(c.handle) is c
            and c.state in (ConnectionState.ACCEPTED, ConnectionState.CLOSING)
            for c in self._silent
        )

    # --- doing

    def connect(self, peer: IpAddress) -> Connection | None:
        """Return the connection to ``peer``; open one if there is none. None: one was refused just now."""
        connection = self._peers.get(peer)
        if connection is not None:
            return connection
        if peer.host is None or self._was_refused(peer):
            return None
        connection = self._make(
            self._protocol.new_handle(), ConnectionState.CONNECTING, outgoing=True
        )
        connection.peer = peer
        self._peers[peer] = connection
        self._protocol.open_port(
            Connect(
                connection.handle,
                (peer.host, peer.port),
                self._limits.connect_timeout,
                self._host,
                self._limits.nodelay,
                self._limits.send_buffer,
                self._limits.receive_buffer,
            )
        )
        return connection

    def _was_refused(self, peer: IpAddress) -> bool:
        until = self._refused.get(peer)
        if until is None:
            return False
        if until > self._protocol.now:
            return True
        del self._refused[peer]
        return False

    def send(self, peer: IpAddress, frames: Sequence[bytes]) -> None:
        """Send frames (with their length before them) to a peer. Connect to it if necessary."""
        connection = self._peers.get(peer) or self.connect(peer)
        if connection is None:
            self.counts["dropped_unreachable"] += len(frames)
            self._protocol.machine.soon(partial(self._on_failed, peer, True))
        else:
            self.write(connection, frames)

    def write(self, connection: Connection, frames: Sequence[bytes]) -> None:
        """Send frames on a connection, or as many as its queue has room for."""
        limit = self._limits.max_send_queue
        state = connection.state
        if state is CONNECTING:
            for frame in frames:
                if connection.waiting_size + len(frame) > limit:
                    self.counts["dropped_send_queue_full"] += 1
                else:
                    connection.waiting.append(frame)
                    connection.waiting_size += len(frame)
            return
        if state is not OPEN:
            self.counts["dropped_unreachable"] += len(frames)
            return
        room = limit - connection.unsent
        for frame in frames:
            if len(frame) > room:
                self.counts["dropped_send_queue_full"] += 1
                continue
            room -= len(frame)
            connection.written += len(frame)
            self._protocol.put(Write(connection.handle, frame))
        if connection.unsent:
            connection.unsent = limit - room  # until Writable gives the number

    def _write(self, connection: Connection, data: bytes) -> None:
        connection.written += len(data)
        self._protocol.put(Write(connection.handle, data))

    def close(self, connection: Connection, *, abort: bool = False) -> None:
        """Close a connection without calling ``on_lost``.

        Without ``abort`` it sends -5, and reads until the peer has closed as well.
        """
        self._take_out(connection)
        if abort or connection.state in (ConnectionState.CONNECTING, ConnectionState.ACCEPTED):
            self._drop(connection, abort=abort)
        elif connection.state is ConnectionState.OPEN:
            connection.state = ConnectionState.CLOSING
            if not connection.outgoing:
                self._note_silent(connection)
            self._say_goodbye(connection)
            connection.timer.start(CLOSING_TIME)

    def close_others(self, keep: set[IpAddress]) -> None:
        """Close connections to peers that are not in ``keep``."""
        for peer, connection in list(self._peers.items()):
            if peer not in keep and connection.state is ConnectionState.OPEN:
                self.close(connection)

    def stop(self) -> None:
        """Say goodbye to all peers. The owner of the handles closes them."""
        for connection in self._all.values():
            connection.timer.cancel()
            if connection.state is ConnectionState.OPEN:
                self._say_goodbye(connection)

    def _say_goodbye(self, connection: Connection) -> None:
        if self._version() >= HAS_GRACEFUL_CLOSE:
            self._write(connection, GRACEFUL_CLOSE)

    def _make(self, handle: Handle, state: ConnectionState, *, outgoing: bool) -> Connection:
        timer = self._protocol.timer(lambda: None, "connection")
        connection = Connection(
            handle, state, outgoing, FrameReader(self._limits.max_length), timer
        )
        connection.timer = self._protocol.timer(
            partial(self._on_late, connection), f"{self._protocol.name} connection"
        )
        self._all[handle] = connection
        return connection

    def _drop(self, connection: Connection, *, abort: bool) -> None:
        """Close the handle. No more input comes from it."""
        self._protocol.put(Close(connection.handle, abort))
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        connection.timer.cancel()
        self._silent.pop(connection, None)
        connection.state = ConnectionState.GONE
        if self._all.pop(connection.handle, None) is not None:
            self.incomplete -= connection.held
        self._protocol.forget_port(connection.handle)
        self._take_out(connection)

    def _take_out(self, connection: Connection) -> bool:
        """Stop using the connection for sending. Return whether it was used."""
        peer = connection.peer
        if peer is None or self._peers.get(peer) is not connection:
            return False
        del self._peers[peer]
        return True

    # --- events

    def on_input(self, item: In) -> None:
        """Take an input for one of our connections, or Accepted on a listener of the protocol."""
        if isinstance(item, Accepted):
            self._accepted(item)
            return
        if isinstance(item, Crowded):
            self._protocol.turn_away("no_descriptors", item.peer)
            return
        connection = self._all.get(item.handle)
        if connection is None:
            return
        if type(item) is Received:
            self._received(connection, item.data)
            return
        match item:
            case Writable(_, unsent):
                self._writable(connection, unsent)
            case Connected():
                self._connected(connection)
            case ConnectFailed(_, refused, problem):
                self._connect_failed(connection, refused, problem)
            case Closed(_, reset):
                self._closed(connection, reset)

    def _accepted(self, item: Accepted) -> None:
        self._protocol.adopt(item.handle)
        if len(self._all) >= self._limits.max_connections and not self._make_room():
            self.counts["dropped_too_many_connections"] += 1
            self._protocol.turn_away("too_many", item.peer)
            self._protocol.put(Close(item.handle, True))
            self._protocol.forget_port(item.handle)
            return
        connection = self._make(item.handle, ConnectionState.ACCEPTED, outgoing=False)
        connection.host = item.peer[0]
        connection.heard_at = self._protocol.now
        self._note_silent(connection)
        connection.timer.start(self._limits.read_timeout)

    def _note_silent(self, connection: Connection) -> None:
        """Count a connection as silent, and close another connection if there are too many."""
        limits = self._crowd
        silent = goes(tuple(self._silent), connection.host, limits.silent, limits.silent_per_host)
        if silent is not None:
            self._send_away(silent, "silent")
        self._silent[connection] = None

    def _admit_stranger(self, new: Connection) -> None:
        """Close another stranger's connection if there are too many."""
        limits, strangers = self._crowd, self._strangers(new)
        stranger = goes(strangers, new.host, limits.strangers, limits.strangers_per_host)
        if stranger is not None:
            self._send_away(stranger, "stranger")

    def _strangers(self, new: Connection | None = None) -> list[Connection]:
        """Return the open connections, without ``new``, that others than members have opened. The first was not heard for longest."""
        members = self._members()
        found = [
            c
            for c in self._all.values()
            if c.state is ConnectionState.OPEN
            and not c.outgoing
            and c is not new
            and c.peer not in members
        ]
        return sorted(found, key=lambda c: c.heard_at)

    def _make_room(self) -> bool:
        """Close a connection that is no member's. Return whether there was one."""
        for cause, candidates in (("silent", list(self._silent)), ("stranger", self._strangers())):
            if candidates:
                self._send_away(candidates[0], cause)
                return True
        return False

    def _send_away(self, connection: Connection, cause: str) -> None:
        self._protocol.turn_away(cause, connection.host)
        self._throw_out(connection, cause)

    def _connected(self, connection: Connection) -> None:
        assert self.local is not None
        self.counts["connections_opened"] += 1
        connection.state = ConnectionState.OPEN
        connection.spoken = self._version()
        spare, connection.spare = connection.spare, None
        if spare is not None:
            self.close(spare)
        self._write(connection, encode_handshake(connection.spoken, self.local))
        self._write_waiting(connection)
        if self._on_open is not None:
            self._on_open(connection)

    def _write_waiting(self, connection: Connection) -> None:
        waiting, connection.waiting = connection.waiting, []
        connection.waiting_size = 0
        for data in joined(waiting):
            self._write(connection, data)

    def _connect_failed(self, connection: Connection, refused: bool, problem: str) -> None:
        self.counts["connections_refused"] += 1
        peer = connection.peer
        assert peer is not None
        self._forget(connection)
        spare = connection.spare
        if spare is not None and spare.state is ConnectionState.OPEN:
            self._protocol.trace("spare used", peer=str(peer), problem=problem)
            self._take(spare, peer, connection)
            return
        self.counts["dropped_unreachable"] += len(connection.waiting)
        if refused:
            now = self._protocol.now
            self._refused = {p: until for p, until in self._refused.items() if until > now}
            if len(self._refused) >= self._limits.max_connections:
                self._refused.clear()
            self._refused[peer] = now + self._limits.reconnect_interval
        self._protocol.trace("connect failed", peer=str(peer), problem=problem)
        self._on_failed(peer, refused)

    def _received(self, connection: Connection, data: bytes) -> None:
        connection.heard = True
        connection.heard_at = self._protocol.now
        try:
            if connection.state is ConnectionState.ACCEPTED:
                rest = self._handshake(connection, data)
                if not rest:
                    return
                data = rest
            only = connection.reader.only(data)
            if only is not None:
                self._on_frame(connection, only)
                return
            begun = connection.held == 0
            for frame in connection.reader.feed(data):
                begun = True
                if frame is None:
                    self._peer_closes(connection)
                else:
                    self._on_frame(connection, frame)
                if connection.handle not in self._all or self._protocol.stack.closed:
                    return
        except RemoteProtocolError as error:
            self.counts["dropped_bad_stream"] += 1
            self._throw_out(connection, str(error))
        else:
            self._hold(connection, begun)

    def _hold(self, connection: Connection, begun: bool) -> None:
        """Count bytes that wait for the rest of their frame. ``begun``: that frame has begun just now."""
        held = len(connection.reader)
        self.incomplete += held - connection.held
        connection.held = held
        if begun:
            connection.held_since = self._protocol.now
        while self.incomplete > self._limits.max_incomplete:
            oldest = min((c for c in self._all.values() if c.held), key=lambda c: c.held_since)
            self.counts["dropped_incomplete"] += 1
            self._throw_out(oldest, f"{self.incomplete} bytes of incomplete frames")

    def _throw_out(self, connection: Connection, problem: str) -> None:
        """Close the connection of a misbehaving peer at once."""
        self._protocol.trace("thrown out", peer=str(connection.peer), problem=problem)
        used = self._take_out(connection)
        self._drop(connection, abort=True)
        if used:
            self._on_lost(connection, True)

    def _handshake(self, connection: Connection, data: bytes) -> bytes:
        """Take the handshake, and return the bytes that came after it."""
        head = connection.head + data
        if len(head) < HANDSHAKE_HEAD or len(head) < (size := handshake_size(head[:8])):
            connection.head = head
            if len(head) >= 4 and head[:4] != b"bela":
                handshake_size(head + bytes(HANDSHAKE_HEAD))
            return b""
        version, peer = decode_handshake(head[:size])
        connection.head = b""
        if not same_minor(version, self._version()):
            self.counts["dropped_handshake_version"] += 1
            self._protocol.trace("other version", version=format_version(version), peer=str(peer))
            self._drop(connection, abort=False)
            return b""
        if peer.host is None or peer == self.local:
            raise RemoteProtocolError(f"a handshake from {peer}")
        if not self._may_be_at(peer, connection.host):
            self._protocol.turn_away("member_elsewhere", connection.host)
            self._drop(connection, abort=True)
            return b""
        connection.timer.cancel()
        connection.peer = peer
        connection.state = ConnectionState.OPEN
        del self._silent[connection]
        if peer not in self._members():
            self._admit_stranger(connection)
        self.counts["connections_accepted"] += 1
        self._refused.pop(peer, None)
        self._choose(connection, peer)
        return head[size:]

    def _choose(self, new: Connection, peer: IpAddress) -> None:
        """Decide which connection is used from now on."""
        assert self.local is not None
        old = self._peers.get(peer)
        if old is None:
            self._peers[peer] = new
            if self._on_open is not None:
                self._on_open(new)
        elif not old.outgoing or self.local.order_key < peer.order_key:
            self.close(old)
            self._take(new, peer, old)
            self._protocol.trace("replaced", peer=str(peer))
        elif old.state is ConnectionState.CONNECTING:
            former, old.spare = old.spare, new
            if former is not None:
                self.close(former)
            self._protocol.trace("spared", peer=str(peer))
        else:
            self.close(new)
            self._protocol.trace("kept", peer=str(peer))

    def _take(self, new: Connection, peer: IpAddress, old: Connection) -> None:
        """Use ``new`` from now on, also for frames that waited for ``old`` to open."""
        waiting, old.waiting, old.waiting_size = old.waiting, [], 0
        self._peers[peer] = new
        for data in joined(waiting):
            self._write(new, data)
        if old.spare is not None and old.spare is not new:
            self.close(old.spare)
        old.spare = None
        if self._on_open is not None:
            self._on_open(new)

    def _peer_closes(self, connection: Connection) -> None:
        """Take -5: the peer still reads what we have written, and nothing more should be written."""
        used = self._take_out(connection)
        connection.graceful = True
        self._drop(connection, abort=False)
        if used:
            self._on_lost(connection, False)

    def _writable(self, connection: Connection, unsent: int) -> None:
        taken = connection.written - unsent
        moved = taken > connection.taken
        connection.taken = taken
        connection.unsent = unsent
        if connection.state is not ConnectionState.OPEN:
            return
        if unsent == 0:
            connection.timer.cancel()
        elif moved or not connection.timer.armed:
            connection.timer.start(self._limits.write_timeout)

    def _on_late(self, connection: Connection) -> None:
        """Handle a time-out: a handshake, an end, or room for our bytes has not come."""
        match connection.state:
            case ConnectionState.ACCEPTED:
                self.counts["dropped_handshake_late"] += 1
                self._protocol.turn_away("late", connection.host)
                self._drop(connection, abort=True)
            case ConnectionState.OPEN:
                self.counts["dropped_stuck"] += 1
                self._protocol.trace("stuck", peer=str(connection.peer), unsent=connection.unsent)
                used = self._take_out(connection)
                self._drop(connection, abort=True)
                if used:
                    self._on_lost(connection, True)
            case _:
                self._drop(connection, abort=False)

    def _closed(self, connection: Connection, reset: bool) -> None:
        used = self._take_out(connection)
        self._forget(connection)
        if used:
            self.counts["connections_lost"] += 1
            self._on_lost(connection, reset)
