"""FD_SOCK2: a crashed process is noticed at once, because its connections close.

Place: above discovery, below FD_ALL3, VERIFY_SUSPECT2 and GMS.

Every member listens on the port of the transport + offset (or one of the port_range ports after
it) and holds a connection to its right-hand neighbour in the view.

    view from above           watch the next member on the right that is neither suspected nor
                              silent (Silent from above): look for it (fd_search.py), CONNECT
    CONNECT                   CONNECT_RSP(cluster, who I am) on the same connection
    the connection closes     look for it again (after a while if the peer said goodbye: it leaves)
    no port has the member    Suspect up, SUSPECT to everybody, again every suspect_msg_interval
                              until it leaves the view; watch the next one on the right
    SUSPECT, UNSUSPECT        Suspect, Unsuspect up. Of a sender that is not in the view: only if a view with it
                              comes soon (early_reports.py), else turned away
    Unsuspect from above      UNSUSPECT to everybody; watch it again after suspect_msg_interval

Proof of death. A process is gone when a connection broke on which it had sent its address, and now every port refuses or
belongs to another member (it was started again). A silent host proves nothing.

    proof                     Suspect(gone) up, SUSPECT with the cluster's name to everybody (Java
                              members do not look at that field)
    SUSPECT with the name     the first `provers` members look for it themselves; Suspect(gone) up
                              when its ports refuse here as well
    our watcher's connection  the same from the other side: search for the member, and suspect it
      breaks, or another      if that is proof. So two neighbours that fall at once are both noticed
      member has its port
    Unsuspect in spite of it  its ports prove nothing until it has connected again

VERIFY_SUSPECT2 still asks, but does not wait long for an answer. See design/failure-detection.md.

Two members have one connection and use it in both directions. TransportReady goes up when this member's own port is open,
because its neighbour will try it as soon as there is a view.

Source:  JGroups FD_SOCK2.java; WIRE.md section 11.7. Proof of death is ours.
Differs: silent members are passed over. In a view of two the second member waits for the first
         one's connection, and we always wait for that of a Java member, which counts a second
         connection as a failure.
Limits:  a member that hangs without closing its connection is not noticed: see FD_ALL3. Connections
         have limits as those of TCP, with numbers of their own (frames: MAX_FRAME bytes); one search a
         member of the view; EARLY_MAX reports from processes that are not members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.failure.early_reports import EarlyReports
from jgroups_py.protocols.failure.fd_search import Search, SearchResult
from jgroups_py.protocols.failure.fd_sock2_config import FdSock2Config
from jgroups_py.protocols.transport.connections import (
    CONNECTION_CAUSES,
    Connection,
    Connections,
    ConnectionState,
    Limits,
)
from jgroups_py.protocols.transport.crowd import CrowdLimits
from jgroups_py.stack.exposure import FAILURES, PortUse, TransportPlace
from jgroups_py.stack.machine import Timer
from jgroups_py.stack.ports import Bind, BindFailed, Bound, Handle, In
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import DETECTION, DISCOVERY, VERIFICATION
from jgroups_py.values.address import UUID, Address, IpAddress, is_numeric_host
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Event,
    Failed,
    GetPhysical,
    SharedAttribute,
    Silent,
    Suspect,
    TransportReady,
    Unsuspect,
    ViewChange,
)
from jgroups_py.values.message import Transient
from jgroups_py.wire.connection import encode_frame
from jgroups_py.wire.headers import PROTOCOL_IDS, FdHeader, FdType
from jgroups_py.wire.primitives import DEFAULT_VERSION
from jgroups_py.wire.single import decode_fd_frame, encode_fd_frame

MAX_FRAME: Final = 100_000
"""The longest frame that is accepted, in bytes. Ours have about 60."""
STRANGER_SECONDS: Final = 10.0
"""Seconds in which a peer that connects must send its address and be in the view. Then its connection is closed."""
CLEAN_UP_DELAY: Final = 1.0
"""Seconds from a view change until connections of former members are closed."""


class FD_SOCK2(Protocol):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["FD_SOCK2"]
    turns_away: ClassVar[Mapping[str, str]] = {
        **CONNECTION_CAUSES,
        "not_member": "a suspicion of somebody who is not in the view",
    }
    provides = (DETECTION,)
    needs_below = (DISCOVERY,)
    wants_above = (VERIFICATION,)

    @dataclass(frozen=True, kw_only=True)
    class Config(FdSock2Config):
        """See fd_sock2_config.py."""

    config: Config

    @classmethod
    def port_uses(cls, config: FD_SOCK2.Config, place: TransportPlace) -> Sequence[PortUse]:
        host = config.bind_addr or place.host
        first, last, setting = 0, 0, "the transport's bind_port"
        if place.first:
            setting = ""
            first = place.first + config.offset
            last = place.last + config.offset + config.port_range
            if last > 65535:  # the range continues with the lowest ports
                first, last = (first % 65536, last % 65536) if first > 65535 else (1, 65535)
        at = first, last, host
        sealed = place.sealed if config.use_tls else ""
        return (
            PortUse("tcp", "in", *at, host, (FAILURES,), "from members", setting, sealed),
            PortUse("tcp", "out", *at, "", (FAILURES,), "to members", setting, sealed),
        )

    def start(self) -> None:
        config = self.config
        self._ready: TransportReady | None = None
        self._listener: Handle = 0
        self._free_ports: list[int] = []
        self._host = ""
        self._members: tuple[Address, ...] = ()
        self._connections: Connections | None = None
        self._of: dict[Address, Connection] = {}
        """The connections whose other side has sent its address."""
        self._unknown: dict[Connection, None] = {}
        """The connections on which no address had come at the last clean-up."""
        self._met: dict[Address, None] = {}
        """The members that sent their address on a connection of ours. Their ports can prove a death."""
        self._suspected: dict[Address, bool] = {}
        """The members that this member found gone, with proof or without. SUSPECT is repeated for them."""
        self._heard: dict[Address, None] = {}
        """The members that any member suspects. An Unsuspect for one of them is passed on."""
        self._silent: dict[Address, None] = {}
        """The silent members (FD_ALL3). They are not watched."""
        self._proved: dict[Address, None] = {}
        """The members whose death this member has proved, or another member reports."""
        self._told: dict[Address, None] = {}
        """The members that are searched for because another member reports their death."""
        self._dropped: dict[Address, None] = {}
        """The members that are not watched here and whose connection broke. They are searched for, too."""
        self._doubted: dict[Address, None] = {}
        """The members that were alive although their ports refused."""
        self._searches: dict[Address, Search] = {}
        self._watched: Address | None = None
        self._watching: Connection | None = None
        self._try_timer: Timer = self.timer(self._on_try)
        self._repeat_timer: Timer = self.timer(self._on_repeat)
        self._clean_timer: Timer = self.timer(self._on_clean)
        self._early = EarlyReports()
        self._early_timer: Timer = self.timer(self._on_early_end)
        self._interval = config.suspect_msg_interval
        self.suspicions = 0
        self.deaths_proved = 0
        """The number of own suspicions with proof."""
        self.deaths_checked = 0
        """The number of others' proofs that an own search confirmed."""
        self.suspect_messages_sent = 0
        self.unsuspect_messages_sent = 0
        self.dropped_garbage = 0

    def stop(self) -> None:
        self._early.clear()
        self._early_timer.cancel()
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
        """Return the ports at which a member may listen, if ``port`` is its transport's."""
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
                max_incomplete=10 * MAX_FRAME,
                max_send_queue=MAX_FRAME,
                max_connections=config.max_connections,
                crowd=CrowdLimits(
                    config.max_silent,
                    config.max_silent_per_host,
                    config.max_strangers,
                    config.max_strangers_per_host,
                ),
            ),
            host=self._host,
            version=self._version,
            members=self._places_of_members,
            on_frame=self._on_frame,
            on_failed=self._on_failed,
            on_lost=self._on_lost,
            on_open=self._on_open,
        )
        self._connections.local = local
        assert self._ready is not None
        self.pass_event_up(self._ready)

    def _version(self) -> int:
        version = self.ask_down(SharedAttribute("wire_version"))
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
            case Silent(members):
                self._silent = dict.fromkeys(members)
                self._watch()
        self.pass_event_down(event)

    def _on_view(self, members: tuple[Address, ...]) -> None:
        self._members = members
        self._suspected = {m: p for m, p in self._suspected.items() if m in members}
        for table in (
            self._met,
            self._heard,
            self._silent,
            self._proved,
            self._told,
            self._dropped,
            self._doubted,
        ):
            for member in [m for m in table if m not in members]:
                del table[member]
        for member in [m for m in self._searches if m not in members]:
            self._searches.pop(member).stop()
        if not self._suspected:
            self._repeat_timer.cancel()
        if self._early:  # not at once: the protocols above do not have the view yet
            self.machine.soon(self._take_early)
        self._clean_timer.start(CLEAN_UP_DELAY)

    def _next(self) -> Address | None:
        """Return the next member on the right that is not suspected; a silent one only if all are silent."""
        if self.local_address not in self._members:
            return None
        own = self._members.index(self.local_address)
        right = self._members[own + 1 :] + self._members[:own]
        known = [m for m in right if m not in self._suspected]
        return next((m for m in known if m not in self._silent), known[0] if known else None)

    def _watch(self) -> None:
        """Watch the right neighbour."""
        target = self._next()
        if target == self._watched and target is not None:
            if target in self._searches or self._try_timer.armed or self._is_watching():
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
        return self._watching is not None and self._watching.state is ConnectionState.OPEN

    def _stop_watching(self) -> None:
        self._watched = None
        self._watching = None
        self._try_timer.cancel()

    def _lets_go_first(self, other: Address) -> bool:
        """Return whether ``other`` shall connect, in a view of two whose members watch each other."""
        if len(self._members) != 2:
            return False
        if isinstance(other, UUID) and not other.is_ours:
            return True
        return self._members[0] == other

    # --- looking for members

    def _on_try(self) -> None:
        target = self._watched
        if target is None or self._connections is None:
            return
        self._try_timer.cancel()
        self._watching = None
        if not self._look_for(target):
            # Any message makes the transport look for the member; this one has no other purpose.
            nothing = FdHeader(FdType.UNSUSPECT)
            self.pass_down(Batch.of(target, self.protocol_id, nothing))
            self._try_timer.start(self.config.retry_interval)

    def _look_for(self, member: Address) -> bool:
        """Search for a member unless a search runs. Return False if its network address is not known."""
        connections = self._connections
        assert connections is not None
        if member in self._searches:
            return True
        known = self._of.get(member)
        open = known is not None and known.state is ConnectionState.OPEN and known.peer is not None
        physical = None if open else self.ask_down(GetPhysical(member))
        if not open and (not isinstance(physical, IpAddress) or physical.host is None):
            return False
        search = self._searches[member] = Search(
            self, connections, member, self.config.connect_timeout, self._ask, self._on_result
        )
        if known is not None and open:
            search.ask_known(known)
        else:
            assert isinstance(physical, IpAddress)
            ports = [IpAddress(physical.host, port) for port in self._ports_of(physical.port)]
            search.try_ports([p for p in ports if p != connections.local])
        return True

    def _ask(self, connection: Connection, member: Address) -> None:
        self._write(connection, FdHeader(FdType.CONNECT, server=member))

    def _write(self, connection: Connection, header: FdHeader) -> None:
        assert self._connections is not None
        frame = encode_frame(encode_fd_frame(self.local_address, header))
        self._connections.write(connection, [frame])

    def _on_result(self, search: Search, result: SearchResult) -> None:
        member = search.member
        del self._searches[member]
        watched = member == self._watched
        if result is SearchResult.AGAIN and not search.graceful and self._look_for(member):
            return
        told, dropped = member in self._told, member in self._dropped
        self._told.pop(member, None)
        self._dropped.pop(member, None)
        if result is SearchResult.LOST:
            refused = search.refused and self.config.prove_death and member not in self._doubted
            proved = refused and (told or member in self._met)
            if watched or (dropped and proved):
                self._not_found(member, proved)
            elif proved:
                self.deaths_checked += 1
                self.trace("gone as told", member=self.name_of(member))
                self.pass_event_up(Suspect((member,), True))
        elif watched and result is SearchResult.FOUND:
            self._watching = search.connection
            self.trace("watch", member=self.name_of(member))
        elif watched:
            self._try_timer.start(self.config.retry_interval)

    def _not_found(self, member: Address, proved: bool) -> None:
        if member == self._watched:
            self._stop_watching()
        self._suspected[member] = proved
        self._heard[member] = None
        if proved:
            self._proved[member] = None
        self.suspicions += 1
        self.deaths_proved += proved
        self.trace("not found", member=self.name_of(member), gone=proved)
        self._say_suspects()
        self._watch()
        self.pass_event_up(Suspect((member,), proved))

    # --- suspicions

    def _say_suspects(self) -> None:
        """Send SUSPECT to all members: one message for the members whose death is proved, another message for the others."""
        for proved in (True, False):
            suspects = tuple(m for m, p in self._suspected.items() if p is proved)
            if suspects:
                self.suspect_messages_sent += 1
                cluster = self.cluster if proved else None  # Java members do not look at it
                self._multicast(FdHeader(FdType.SUSPECT, suspects, cluster=cluster))
        self._repeat_timer.cancel()
        self._repeat_timer.start(self._interval)

    def _on_repeat(self) -> None:
        if self._suspected:
            self._say_suspects()
            for proved in (True, False):
                suspects = tuple(m for m, p in self._suspected.items() if p is proved)
                if suspects:
                    self.pass_event_up(Suspect(suspects, proved))

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
            self._told.pop(member, None)
            if member in self._proved:  # the member answers, so its ports prove nothing
                del self._proved[member]
                self._met.pop(member, None)
                self._doubted[member] = None
        if tell:
            self.unsuspect_messages_sent += 1
            self._multicast(FdHeader(FdType.UNSUSPECT, known))
        # Not at once, because the search has just failed.
        if self._next() != self._watched and not self._clean_timer.armed:
            self._clean_timer.start(self._interval)

    def up(self, batch: Batch) -> None:
        header = batch.headers.get(self.protocol_id)
        if type(header) is not FdHeader:
            self.pass_up(batch)
            return
        src = batch.src
        if src is None or src == self.local_address:
            return
        if src in self._members:
            self._reported(src, header)
        elif self._known(header):
            self._reported_early(src, header)

    def _known(self, header: FdHeader) -> tuple[Address, ...]:
        """Return the other members of the view that a report names."""
        others = (m for m in header.members if m in self._members and m != self.local_address)
        return tuple(m for m in others if m is not None)

    def _reported(self, src: Address, header: FdHeader) -> None:
        """Take reports of a member of the view about others."""
        known = self._known(header)
        if not known:
            return
        if header.type == FdType.SUSPECT:
            for member in known:
                self._heard[member] = None
            self.pass_event_up(Suspect(known))
            if header.cluster == self.cluster:
                self._check_deaths(known)
        elif header.type == FdType.UNSUSPECT:
            self._unsuspect(known, tell=False)
            self.pass_event_up(Unsuspect(known))

    def _reported_early(self, src: Address, header: FdHeader) -> None:
        """Keep a report from outside the view: a joiner may be in the next view."""
        if not self._early.keep(src, header, self.now):
            self.turn_away("not_member", src)
        elif not self._early_timer.armed:
            self._early_timer.start_at(self._early.until)

    def _take_early(self) -> None:
        if self.stack.closed:
            return
        for src, header in self._early.take(self._members):
            self._reported(src, header)
        if not self._early:
            self._early_timer.cancel()

    def _on_early_end(self) -> None:
        for src, _ in self._early.clear():
            self.turn_away("not_member", src)

    def _check_deaths(self, members: Sequence[Address]) -> None:
        """Check whether the ports of members whose death another member reports refuse connections."""
        if not self.config.prove_death or self._connections is None:
            return
        for member in members:
            self._proved[member] = None
        alive = [m for m in self._members if m not in self._heard and m not in self._silent]
        if self.local_address not in alive[: self.config.provers]:
            return  # another member, before this member, makes the next view
        for member in members:
            if member not in self._doubted:
                self._told[member] = None
                if not self._look_for(member):
                    del self._told[member]

    # --- connections

    def _places_of_members(self) -> set[IpAddress]:
        """Return the known places at which members may listen."""
        places: set[IpAddress] = set()
        for member in self._members:
            known = self._of.get(member)
            if known is not None and known.peer is not None:
                places.add(known.peer)
            physical = self.ask_down(GetPhysical(member))
            if isinstance(physical, IpAddress) and physical.host is not None:
                places.update(
                    IpAddress(physical.host, port) for port in self._ports_of(physical.port)
                )
        return places

    def _on_open(self, connection: Connection) -> None:
        """Note that a connection is open. If it replaces one that is in use, ask again on it."""
        assert self._connections is not None
        if not self._clean_timer.armed:
            self._clean_timer.start(STRANGER_SECONDS)
        if connection.outgoing or self._connections.get(connection.peer) is not connection:  # type: ignore[arg-type]
            return
        for search in list(self._searches.values()):
            search.opened(connection)
        watching = self._watching
        if watching is not None and watching.peer == connection.peer and watching is not connection:
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
        if connection.state is not ConnectionState.OPEN:
            return
        former = [m for m, c in self._of.items() if m != member and c.peer == connection.peer]
        for other in former:  # two members cannot share a port
            del self._of[other]
        self._look_for_dropped(former)
        if member in self._of or len(self._of) < self.config.max_connections:
            self._of[member] = connection
        if member in self._members:
            self._met[member] = None
            self._doubted.pop(member, None)
        elif not self._clean_timer.armed:
            self._clean_timer.start(STRANGER_SECONDS)
        if member == self._watched and self._try_timer.armed:
            self._on_try()  # this is the connection we have waited for

    def _on_answer(self, connection: Connection, header: FdHeader) -> None:
        same = header.cluster == self.cluster
        if same and header.server is not None:
            self._remember(header.server, connection)
        for search in list(self._searches.values()):
            search.answered(connection, header.server, same)

    def _on_failed(self, peer: IpAddress, refused: bool) -> None:
        for search in list(self._searches.values()):
            search.failed(peer, refused)

    def _on_lost(self, connection: Connection, reset: bool) -> None:
        lost = [m for m, c in self._of.items() if c is connection]
        for member in lost:
            del self._of[member]
        for search in list(self._searches.values()):
            search.lost(connection)
        if connection is self._watching:
            self.trace("lost", member=self.name_of(self._watched), graceful=connection.graceful)
            self._watching = None
            if connection.graceful:
                self._try_timer.start(self.config.retry_interval)
            else:
                self._on_try()
        if not connection.graceful:
            self._look_for_dropped(lost)

    def _look_for_dropped(self, lost: list[Address]) -> None:
        """Search for the member that watched this member: it is alive and connects again, or it is dead. Its own watcher
        notices its death, too, unless both fell at the same time."""
        for member in lost:
            ours = isinstance(member, UUID) and member.is_ours
            if (
                ours
                and self.config.prove_death
                and member in self._members
                and member not in self._suspected
                and member != self._watched
            ):
                self._dropped[member] = None
                if not self._look_for(member):
                    del self._dropped[member]

    def _on_clean(self) -> None:
        """Close connections of former members. Watch members that were unsuspected meanwhile."""
        if self._connections is None:
            return
        self._of = {
            member: connection
            for member, connection in self._of.items()
            if connection.state is ConnectionState.OPEN
        }
        for member in [m for m in self._of if m not in self._members]:
            connection = self._of.pop(member)
            if not any(other is connection for other in self._of.values()):
                self._connections.close(connection)
        self._close_unknown()
        self._watch()

    def _close_unknown(self) -> None:
        """Close connections on which no address has come at two clean-ups in a row."""
        assert self._connections is not None
        known = {*self._of.values(), self._watching}
        known.update(s.connection for s in self._searches.values())
        unknown = [c for c in self._connections.open() if c not in known]
        for connection in unknown:
            if connection in self._unknown:
                self._connections.close(connection)
        self._unknown = dict.fromkeys(c for c in unknown if c.state is ConnectionState.OPEN)
        if self._unknown and not self._clean_timer.armed:
            self._clean_timer.start(STRANGER_SECONDS)

    def statistics(self) -> dict[str, int | float]:
        counts = {} if self._connections is None else dict(self._connections.counts)
        return {**super().statistics(), **counts, "suspected": len(self._suspected)}

    def check(self) -> None:
        if self._connections is not None:
            self._connections.check()
        assert self._watched is None or self._watched in self._members
        assert self._suspected.keys() <= self._heard.keys()
        assert all(m in self._members for m in self._searches)
        assert self._told.keys() <= self._searches.keys()
        assert self._dropped.keys() <= self._searches.keys()
        assert self._early_timer.armed == bool(self._early)
