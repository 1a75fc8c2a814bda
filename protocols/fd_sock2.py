"""FD_SOCK2: a crashed process is noticed at once, because its connections close.

Place: above discovery, below VERIFY_SUSPECT2 and GMS.

Every member listens on the port of the transport + offset (or one of the port_range ports after
it) and holds a connection to its right-hand neighbour in the view.

    view from above           watch the next member on the right that is not suspected:
                              connect, CONNECT(who you should be)
    CONNECT                   CONNECT_RSP(cluster, who I am) on the same connection
    CONNECT_RSP               the right one: watched. Another one: try the next port
    the connection closes     connect again (after a while if the peer said goodbye: it is leaving)
    no port has the member    Suspect up, SUSPECT to everybody, again every suspect_msg_interval
                              until it leaves the view; watch the next one on the right
    SUSPECT, UNSUSPECT        Suspect, Unsuspect up
    Unsuspect from above      UNSUSPECT to everybody; watch it again after suspect_msg_interval

Two members have one connection and use it in both directions. TransportReady goes up when our own
port is open, for our neighbour will try it as soon as there is a view.

Source:  JGroups FD_SOCK2.java; WIRE.md section 11.7.
Differs: Suspect says whether all ports refused (the process is gone) or some were silent. In a view
         of two the second member waits for the first one's connection, and we always wait for that
         of a Java member, which counts a second connection as a failure.
Limits:  a member that hangs without closing its connection is not noticed: see FD_ALL3. Connections
         as in connections.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from jgroups_py.address import UUID, Address, IpAddress, is_numeric_host
from jgroups_py.batch import Batch
from jgroups_py.config import Seconds
from jgroups_py.errors import ConfigError, RemoteProtocolError
from jgroups_py.events import (
    Attribute,
    Event,
    Failed,
    GetPhysical,
    Suspect,
    TransportReady,
    Unsuspect,
    ViewChange,
)
from jgroups_py.headers import PROTOCOL_IDS, FdHeader, FdType
from jgroups_py.machine import Timer
from jgroups_py.message import Transient
from jgroups_py.packets import decode_fd_frame, encode_fd_frame, encode_frame
from jgroups_py.ports import Bind, BindFailed, Bound, Handle, In
from jgroups_py.protocol import Protocol
from jgroups_py.protocols.connections import Connection, Connections, Limits, State
from jgroups_py.wire import DEFAULT_VERSION

MAX_FRAME: Final = 100_000
"""Longest frame accepted, bytes; ours have about 60."""
CLEAN_UP_DELAY: Final = 1.0
"""Seconds from a view change until connections of former members are closed."""


@dataclass(slots=True)
class _Attempt:
    """Looking for a member on its ports, one after the other."""

    member: Address
    ports: list[IpAddress]
    index: int = 0
    connection: Connection | None = None
    again: bool = False
    """This port was tried twice: its connection closed before the answer."""
    refused: bool = True
    """All ports so far refused, or had somebody else behind them."""


class FD_SOCK2(Protocol):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["FD_SOCK2"]

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        bind_addr: str = ""
        """Numeric address to listen on; empty: the transport's."""
        offset: int = 100
        """Our port is the transport's plus this."""
        port_range: int = 3
        """How many ports after it are tried, by us and by our neighbour."""
        connect_timeout: Seconds = 1.0
        """How long connecting to one port, answer included, may take."""
        suspect_msg_interval: Seconds = 5.0
        """SUSPECT is repeated this often."""
        retry_interval: Seconds = 0.5
        """How long until a neighbour is tried again that said goodbye or cannot be located."""
        wait_for_peer: Seconds = 0.3
        """In a view of two, how long to wait for the other one's connection; see the module."""
        max_connections: int = 1000
        """Connections at the same time; further ones are refused."""
        ignored: ClassVar[frozenset[str]] = frozenset(
            {"client_bind_port", "linger", "min_port", "max_port", "start_port", "num_tries"}
        )

        def __post_init__(self) -> None:
            if self.offset < 1:
                raise ConfigError(f"offset must be >= 1, got {self.offset}")
            if not 0 <= self.port_range <= 100:
                raise ConfigError(f"port_range must be within 0..100, got {self.port_range}")
            for name in ("connect_timeout", "suspect_msg_interval", "retry_interval"):
                if getattr(self, name) <= 0:
                    raise ConfigError(f"{name} must be > 0, got {getattr(self, name)}")

    config: Config

    def start(self) -> None:
        config = self.config
        self._ready: TransportReady | None = None
        self._listener: Handle = 0
        self._free_ports: list[int] = []
        self._host = ""
        self._members: tuple[Address, ...] = ()
        self._connections: Connections | None = None
        self._of: dict[Address, Connection] = {}
        """Connections whose other side has told who it is."""
        self._suspected: dict[Address, None] = {}
        """Members we have found gone; SUSPECT is repeated for them."""
        self._heard: dict[Address, None] = {}
        """Members that somebody suspects; an Unsuspect for one of them is passed on."""
        self._attempt: _Attempt | None = None
        self._watched: Address | None = None
        self._watching: Connection | None = None
        self._try_timer: Timer = self.timer(self._on_try)
        self._answer_timer: Timer = self.timer(self._on_no_answer)
        self._repeat_timer: Timer = self.timer(self._on_repeat)
        self._clean_timer: Timer = self.timer(self._on_clean)
        self._interval = config.suspect_msg_interval
        self.suspicions = 0
        self.suspect_messages_sent = 0
        self.unsuspect_messages_sent = 0
        self.dropped_garbage = 0

    def stop(self) -> None:
        if self._connections is not None:
            self._connections.stop()

    # --- our port

    def event_up(self, event: Event) -> None:
        if isinstance(event, TransportReady) and self._connections is None:
            if self._ready is None:
                self._ready = event
                self._host = self.config.bind_addr
                if not is_numeric_host(self._host):
                    self._host = event.physical.host or self.machine.host
                self._free_ports = self._ports_of(event.physical.port)
                self._bind()
            return
        self.pass_event_up(event)

    def _ports_of(self, port: int) -> list[int]:
        """Where a member listens whose transport has ``port``."""
        ports = []
        for number in range(self.config.port_range + 1):
            candidate = (port + self.config.offset + number) % 65536
            ports.append(candidate + 1024 if candidate < 1024 else candidate)
        return ports

    def _bind(self) -> None:
        self._listener = self.new_handle()
        self.open_port(Bind(self._listener, "tcp", self._host, self._free_ports.pop(0)))

    def on_input(self, item: In) -> None:
        match item:
            case Bound(_, (host, port)):
                self._open(IpAddress(host, port))
            case BindFailed(handle, problem):
                self.forget_port(handle)
                if self._free_ports:
                    self._bind()
                else:
                    self.pass_event_up(Failed(f"{self.name}: no free port: {problem}"))
            case _:
                if self._connections is not None:
                    self._connections.on_input(item)

    def _open(self, local: IpAddress) -> None:
        config = self.config
        self._connections = Connections(
            self,
            Limits(
                connect_timeout=config.connect_timeout,
                read_timeout=config.connect_timeout,
                write_timeout=10.0,
                reconnect_interval=0.0,
                max_length=MAX_FRAME,
                max_send_queue=MAX_FRAME,
                max_connections=config.max_connections,
            ),
            host=self._host,
            version=self._version,
            on_frame=self._on_frame,
            on_failed=self._on_failed,
            on_lost=self._on_lost,
            on_open=self._on_open,
        )
        self._connections.local = local
        assert self._ready is not None
        self.pass_event_up(self._ready)

    def _version(self) -> int:
        version = self.ask_down(Attribute("wire_version"))
        return version if isinstance(version, int) else DEFAULT_VERSION

    # --- the ring

    def event_down(self, event: Event) -> None:
        match event:
            case ViewChange(view, _):
                self._on_view(view.members)
                self.pass_event_down(event)
                self._watch()
                return
            case Unsuspect(members):
                self._unsuspect(members, tell=True)
        self.pass_event_down(event)

    def _on_view(self, members: tuple[Address, ...]) -> None:
        self._members = members
        self._suspected = {m: None for m in self._suspected if m in members}
        self._heard = {m: None for m in self._heard if m in members}
        if not self._suspected:
            self._repeat_timer.cancel()
        self._clean_timer.start(CLEAN_UP_DELAY)

    def _next(self) -> Address | None:
        """The next member on the right that is not suspected."""
        if self.local_address not in self._members:
            return None
        own = self._members.index(self.local_address)
        for member in self._members[own + 1 :] + self._members[:own]:
            if member not in self._suspected:
                return member
        return None

    def _watch(self) -> None:
        """Sees to it that the right one is watched."""
        target = self._next()
        if target == self._watched and target is not None:
            if self._attempt is not None or self._try_timer.armed or self._is_watching():
                return
        self._stop_watching()
        self._watched = target
        if target is None or self._connections is None:
            return
        known = self._of.get(target)
        if known is None and self._lets_go_first(target):
            self._try_timer.start(self.config.wait_for_peer)
        else:
            self._on_try()

    def _is_watching(self) -> bool:
        return self._watching is not None and self._watching.state is State.OPEN

    def _stop_watching(self) -> None:
        self._watched = None
        self._watching = None
        self._attempt = None
        self._try_timer.cancel()
        self._answer_timer.cancel()

    def _lets_go_first(self, other: Address) -> bool:
        """In a view of two both watch each other: shall ``other`` connect?"""
        if len(self._members) != 2:
            return False
        if isinstance(other, UUID) and not other.is_ours:
            return True
        return self._members[0] == other

    # --- looking for the watched member

    def _on_try(self) -> None:
        target = self._watched
        if target is None or self._connections is None:
            return
        self._try_timer.cancel()
        self._watching = None
        known = self._of.get(target)
        if known is not None and known.state is State.OPEN and known.peer is not None:
            self._attempt = _Attempt(target, [known.peer])
            self._ask(known)
            return
        physical = self.ask_down(GetPhysical(target))
        if not isinstance(physical, IpAddress) or physical.host is None:
            # A message makes the transport look for it; this one means nothing.
            nothing = FdHeader(FdType.UNSUSPECT)
            self.pass_down(Batch.of(target, self.protocol_id, nothing))
            self._try_timer.start(self.config.retry_interval)
            return
        ports = [IpAddress(physical.host, port) for port in self._ports_of(physical.port)]
        self._attempt = _Attempt(target, [p for p in ports if p != self._connections.local])
        self._try_port()

    def _try_port(self) -> None:
        """Connects to the current port of the attempt, or to the first one that does not refuse."""
        attempt, connections = self._attempt, self._connections
        assert attempt is not None and connections is not None
        while attempt.index < len(attempt.ports):
            connection = connections.connect(attempt.ports[attempt.index])
            if connection is not None:
                self._ask(connection)
                return
            attempt.index += 1
        self._not_found(attempt)

    def _ask(self, connection: Connection) -> None:
        attempt = self._attempt
        assert attempt is not None
        attempt.connection = connection
        self._write(connection, FdHeader(FdType.CONNECT, server=attempt.member))
        self._answer_timer.cancel()
        self._answer_timer.start(self.config.connect_timeout)

    def _write(self, connection: Connection, header: FdHeader) -> None:
        assert self._connections is not None
        frame = encode_frame(encode_fd_frame(self.local_address, header))
        self._connections.write(connection, [frame])

    def _next_port(self, *, refused: bool) -> None:
        attempt = self._attempt
        assert attempt is not None
        attempt.index += 1
        attempt.again = False
        attempt.connection = None
        attempt.refused = attempt.refused and refused
        self._answer_timer.cancel()
        self._try_port()

    def _on_no_answer(self) -> None:
        if self._attempt is not None:
            self._next_port(refused=False)

    def _not_found(self, attempt: _Attempt) -> None:
        member = attempt.member
        self._stop_watching()
        self._suspected[member] = None
        self._heard[member] = None
        self.suspicions += 1
        self.trace("not found", member=self.name_of(member), gone=attempt.refused)
        self._say_suspects()
        self._watch()
        self.pass_event_up(Suspect((member,), attempt.refused))

    # --- suspicions

    def _say_suspects(self) -> None:
        self.suspect_messages_sent += 1
        self._multicast(FdHeader(FdType.SUSPECT, tuple(self._suspected)))
        self._repeat_timer.cancel()
        self._repeat_timer.start(self._interval)

    def _on_repeat(self) -> None:
        if self._suspected:
            suspects = tuple(self._suspected)
            self._say_suspects()
            self.pass_event_up(Suspect(suspects))

    def _multicast(self, header: FdHeader) -> None:
        dont = int(Transient.DONT_LOOPBACK)
        self.pass_down(Batch.of(None, self.protocol_id, header, transient=dont))

    def _unsuspect(self, members: tuple[Address, ...], *, tell: bool) -> None:
        known = tuple(m for m in members if m in self._heard)
        if not known:
            return
        for member in known:
            del self._heard[member]
            self._suspected.pop(member, None)
        if not self._suspected:
            self._repeat_timer.cancel()
        if tell:
            self.unsuspect_messages_sent += 1
            self._multicast(FdHeader(FdType.UNSUSPECT, known))
        # Not at once: we have just failed to find it.
        if self._next() != self._watched and not self._clean_timer.armed:
            self._clean_timer.start(self._interval)

    def up(self, batch: Batch) -> None:
        header = batch.header(self.protocol_id, FdHeader)
        if header is None:
            self.pass_up(batch)
            return
        members = tuple(m for m in header.members if m in self._members and m != self.local_address)
        known = [m for m in members if m is not None]
        if not known or batch.src == self.local_address:
            return
        if header.type == FdType.SUSPECT:
            for member in known:
                self._heard[member] = None
            self.pass_event_up(Suspect(tuple(known)))
        elif header.type == FdType.UNSUSPECT:
            self._unsuspect(tuple(known), tell=False)
            self.pass_event_up(Unsuspect(tuple(known)))

    # --- connections

    def _on_open(self, connection: Connection) -> None:
        """A connection is open. If it takes the place of one that we use, ask again on it."""
        assert self._connections is not None
        if connection.outgoing or self._connections.get(connection.peer) is not connection:  # type: ignore[arg-type]
            return
        attempt = self._attempt
        if attempt is not None:
            if attempt.index < len(attempt.ports) and (
                attempt.ports[attempt.index] == connection.peer
            ):
                self._ask(connection)
        elif self._watching is not None and self._watching.peer == connection.peer:
            self._on_try()

    def _on_frame(self, connection: Connection, frame: bytes) -> None:
        try:
            src, header = decode_fd_frame(frame)
        except RemoteProtocolError as error:
            self.dropped_garbage += 1
            self.trace("garbage", problem=str(error))
            return
        if header.type == FdType.CONNECT:
            self._write(
                connection,
                FdHeader(FdType.CONNECT_RSP, cluster=self.cluster, server=self.local_address),
            )
            self._remember(src, connection)
        elif header.type == FdType.CONNECT_RSP:
            self._on_answer(connection, header)

    def _remember(self, member: Address, connection: Connection) -> None:
        if connection.state is not State.OPEN:
            return
        if member in self._of or len(self._of) < self.config.max_connections:
            self._of[member] = connection
        if member == self._watched and self._try_timer.armed:
            self._on_try()  # this is the connection we have waited for

    def _on_answer(self, connection: Connection, header: FdHeader) -> None:
        attempt = self._attempt
        if header.cluster == self.cluster and header.server is not None:
            self._remember(header.server, connection)
        if attempt is None or attempt.connection is not connection:
            return
        if header.cluster == self.cluster and header.server == attempt.member:
            self._attempt = None
            self._answer_timer.cancel()
            self._watching = connection
            self.trace("watch", member=self.name_of(attempt.member))
        else:
            self._next_port(refused=True)

    def _on_failed(self, peer: IpAddress, refused: bool) -> None:
        attempt = self._attempt
        if attempt is None or attempt.index >= len(attempt.ports):
            return
        if attempt.ports[attempt.index] == peer:
            self._next_port(refused=refused)

    def _on_lost(self, connection: Connection, reset: bool) -> None:
        for member in [m for m, c in self._of.items() if c is connection]:
            del self._of[member]
        attempt = self._attempt
        if attempt is not None and attempt.connection is connection:
            # Closed before it answered: it may have lost against the peer's own connection, or
            # the peer has died just now.
            attempt.connection = None
            if connection.graceful or len(attempt.ports) == 1:
                self._attempt = None
                self._answer_timer.cancel()
                self._try_timer.start(self.config.retry_interval if connection.graceful else 0.0)
            elif not attempt.again:
                attempt.again = True
                self._answer_timer.cancel()
                self._try_port()
            else:
                self._next_port(refused=False)
        elif connection is self._watching:
            self.trace("lost", member=self.name_of(self._watched), graceful=connection.graceful)
            self._watching = None
            if connection.graceful:
                self._try_timer.start(self.config.retry_interval)
            else:
                self._on_try()

    def _on_clean(self) -> None:
        """Closes connections of former members; watches who was unsuspected meanwhile."""
        if self._connections is None:
            return
        self._of = {
            member: connection
            for member, connection in self._of.items()
            if connection.state is State.OPEN
        }
        for member in [m for m in self._of if m not in self._members]:
            connection = self._of.pop(member)
            if not any(other is connection for other in self._of.values()):
                self._connections.close(connection)
        self._watch()

    def statistics(self) -> dict[str, int | float]:
        counts = {} if self._connections is None else dict(self._connections.counts)
        return {**super().statistics(), **counts, "suspected": len(self._suspected)}

    def check(self) -> None:
        if self._connections is not None:
            self._connections.check()
        assert self._watched is None or self._watched in self._members
        assert self._suspected.keys() <= self._heard.keys()
        assert self._attempt is None or self._attempt.member == self._watched
