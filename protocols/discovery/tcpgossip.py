"""TCPGOSSIP: discovery through gossip routers, which know where the members of each group are.

Place: above TCP. A router is ``jgroups-py router``, or JGroups' GossipRouter.

    TransportReady                connect to each router of initial_hosts and register there: name, UUID and place
    FindMembers, FindPhysical     GET_MBRS to each router; ask the members that they name (listed.py)
    a router is not there         connect again every reconnect_interval, and at searches
    all routers have answered     the list is whole; else a search lasts its time
    the stack is closed           UNREGISTER

A host may be a name: it is looked up before each connection, and all its addresses are tried in turn.

Source:  JGroups TCPGOSSIP.java, RouterStub.java, RouterStubManager.java; WIRE.md section 9.2.
Differs: Java's connection attempts are those of a start and of reconnect_interval only.
Limits:  lookup_timeout for a router's answer; MAX_FRAME bytes a record; max_hosts addresses are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from jgroups_py.config.settings import HostPorts, Seconds
from jgroups_py.errors import ConfigError, RemoteProtocolError
from jgroups_py.protocols.discovery.listed import Listed
from jgroups_py.protocols.transport.frames import FrameReader
from jgroups_py.stack.exposure import DIRECTORY, PortUse, TransportPlace
from jgroups_py.stack.ports import (
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Handle,
    In,
    Received,
    Resolve,
    Resolved,
    Writable,
    Write,
)
from jgroups_py.stack.protocol import Timer
from jgroups_py.units import HOSTS_FORM
from jgroups_py.values.address import IpAddress, is_numeric_host
from jgroups_py.values.events import Event, TransportReady
from jgroups_py.wire.gossip import (
    GOODBYE,
    GossipRecord,
    GossipType,
    gossip_frame,
    read_gossip,
)
from jgroups_py.wire.headers import PROTOCOL_IDS
from jgroups_py.wire.primitives import decode_whole

MAX_FRAME: Final = 1_000_000
"""Bytes of one record; a member takes about 60."""
ROUTERS_MAX: Final = 20
"""Routers in initial_hosts."""


@dataclass(slots=True, eq=False)
class _Router:
    """``handle``: of the look-up or the connection; 0: neither."""

    host: str
    port: int
    timer: Timer
    """The time to connect again, or the limit for an answer."""
    reader: FrameReader
    handle: Handle = 0
    open: bool = False
    addresses: tuple[str, ...] = ()
    """Addresses of its name that were not tried yet."""
    asked: bool = False
    """True: an answer of the router is awaited."""
    members: tuple[IpAddress, ...] | None = None
    """The router's last answer; None: it has not given a list in this look."""

    @property
    def place(self) -> str:
        return f"{self.host}[{self.port}]"


class TCPGOSSIP(Listed):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["TCPGOSSIP"]
    outsiders = True

    @dataclass(frozen=True, kw_only=True)
    class Config(Listed.Config):
        initial_hosts: HostPorts = ()
        """The routers."""
        sock_conn_timeout: Seconds = 1.0
        """Seconds in which a connection to a router must open."""
        reconnect_interval: Seconds = 10.0
        """Seconds between two attempts to connect to a router."""
        lookup_timeout: Seconds = 5.0
        """Seconds in which a router must answer."""
        ignored: ClassVar[frozenset[str]] = frozenset({"use_nio"})

        def __post_init__(self) -> None:
            super().__post_init__()
            self._above(0, "sock_conn_timeout", "reconnect_interval", "lookup_timeout")
            if not 1 <= len(self.initial_hosts) <= ROUTERS_MAX:
                raise ConfigError(
                    f"initial_hosts must name 1 to {ROUTERS_MAX} gossip routers ({HOSTS_FORM}), "
                    f"got {len(self.initial_hosts)}"
                )

    config: Config

    @classmethod
    def port_uses(cls, config: TCPGOSSIP.Config, place: TransportPlace) -> Sequence[PortUse]:
        return [
            PortUse("tcp", "out", port, port, "", host, (DIRECTORY,), "to a gossip router")
            for host, port in config.initial_hosts
        ]

    def start(self) -> None:
        super().start()
        self._routers: list[_Router] = []
        for host, port in self.config.initial_hosts:
            number = len(self._routers)
            timer = self.timer(lambda n=number: self._on_timer(n), "_on_router_timer")  # type: ignore[misc]
            host = "127.0.0.1" if host == "localhost" else host
            self._routers.append(_Router(host, port, timer, FrameReader(MAX_FRAME)))
        self.connects = 0
        self.connects_failed = 0
        self.registrations = 0
        self.answers_received = 0
        self.dropped_records = 0
        """Records of routers that a member cannot read or does not understand."""

    def stop(self) -> None:
        super().stop()
        for router in self._routers:
            router.timer.cancel()
            if router.open:
                goodbye = GossipRecord(GossipType.UNREGISTER, self.cluster, self.local_address)
                self.put(Write(router.handle, gossip_frame(goodbye) + GOODBYE))

    def event_up(self, event: Event) -> None:
        super().event_up(event)
        if isinstance(event, TransportReady):
            for router in self._routers:
                self._connect(router)

    # --- connections

    def _connect(self, router: _Router) -> None:
        if router.handle or self.physical is None:
            return
        router.timer.cancel()
        router.handle = self.new_handle()
        if is_numeric_host(router.host):
            router.addresses = ()
            self._connect_to(router, router.host)
        else:
            self.open_port(Resolve(router.handle, router.host))

    def _connect_to(self, router: _Router, address: str) -> None:
        self.connects += 1
        timeout = self.patience(self.config.sock_conn_timeout)
        self.open_port(Connect(router.handle, (address, router.port), timeout))

    def on_input(self, item: In) -> None:
        match item:
            case Resolved(handle, addresses, problem):
                router = self._of(handle)
                router.addresses = addresses
                self.forget_port(handle)
                self._try_next(router, problem)
            case ConnectFailed(handle, _, problem):
                router = self._of(handle)
                self.forget_port(handle)
                self.connects_failed += 1
                self._try_next(router, problem)
            case Connected(handle):
                self._opened(self._of(handle))
            case Received(handle, data):
                self._read(self._of(handle), data)
            case Closed(handle):
                router = self._of(handle)
                self.forget_port(handle)
                self._lost(router, "it has closed the connection")
            case Writable():
                pass  # our requests are small, and one answer is awaited at a time

    def _of(self, handle: Handle) -> _Router:
        return next(router for router in self._routers if router.handle == handle)

    def _try_next(self, router: _Router, problem: str) -> None:
        """Try the next address of its name, if there is one."""
        if router.addresses:
            address, *others = router.addresses
            router.addresses = tuple(others)
            router.handle = self.new_handle()
            self._connect_to(router, address)
        else:
            self._lost(router, problem)

    def _opened(self, router: _Router) -> None:
        router.open = True
        router.reader = FrameReader(MAX_FRAME)
        self.registrations += 1
        self._write(
            router,
            GossipRecord(
                GossipType.REGISTER,
                self.cluster,
                self.local_address,
                name=self.stack.name,
                physical=self.physical,
            ),
        )
        self.trace("registered", router=router.place)
        if router.asked:
            self._ask_router(router)

    def _lost(self, router: _Router, problem: str) -> None:
        """Note that the connection could not be opened or has ended."""
        router.handle, router.open = 0, False
        router.timer.start(self.config.reconnect_interval)
        self.failed_lookup(f"gossip router {router.place}", problem)
        if router.asked:
            router.asked = False
            self._look_on()

    def _drop(self, router: _Router, problem: str) -> None:
        """Drop a peer that does not behave like a router."""
        self.put(Close(router.handle, abort=True))
        self.forget_port(router.handle)
        self._lost(router, problem)

    def _on_timer(self, number: int) -> None:
        router = self._routers[number]
        if router.open and router.asked:
            self._drop(router, f"no answer within {self.config.lookup_timeout:g} s")
        elif not router.handle:
            self._connect(router)

    def _write(self, router: _Router, record: GossipRecord) -> None:
        self.put(Write(router.handle, gossip_frame(record)))

    # --- looking

    def look(self) -> None:
        for router in self._routers:
            router.asked, router.members = True, None
        for router in self._routers:
            if router.open:
                self._ask_router(router)
            else:
                self._connect(router)
        self._look_on()

    def _ask_router(self, router: _Router) -> None:
        self._write(router, GossipRecord(GossipType.GET_MBRS, self.cluster))
        router.timer.start(self.patience(self.config.lookup_timeout))

    def _look_on(self) -> None:
        """Check after a change whether all possible answers have come."""
        if not self._looking or any(router.asked for router in self._routers):
            return
        answers = [router.members for router in self._routers if router.members is not None]
        if answers:
            hosts = [member for members in answers for member in members]
            self.listed(hosts, whole=len(answers) == len(self._routers))
        else:
            self.not_listed("gossip routers", "none of them has answered")

    def _read(self, router: _Router, data: bytes) -> None:
        try:
            for frame in router.reader.feed(data):
                if frame is not None:
                    self._take(router, decode_whole(read_gossip, frame))
        except RemoteProtocolError as error:
            self.dropped_records += 1
            self.trace("garbage", problem=str(error), router=router.place)
            self._drop(router, "its bytes cannot be read")

    def _take(self, router: _Router, record: GossipRecord) -> None:
        match record.kind:
            case GossipType.GET_MBRS_RSP | GossipType.GET_MBRS_RSP_LAST:
                self._answered(router, record)
            case GossipType.HEARTBEAT | GossipType.SUSPECT:
                pass  # FD_SOCK2 and FD_ALL3 decide who is dead, not a router
            case _:
                self.dropped_records += 1

    def _answered(self, router: _Router, record: GossipRecord) -> None:
        if record.group != self.cluster or not router.asked:
            self.dropped_records += 1
            return
        self.answers_received += 1
        places = [data.physical for data in record.members]
        hosts = [p for p in places if isinstance(p, IpAddress) and p.host is not None]
        self.dropped_entries += len(places) - len(hosts)
        router.asked, router.members = False, tuple(hosts)
        router.timer.cancel()
        self.listed_some(hosts)
        self._look_on()

    def check(self) -> None:
        super().check()
        for router in self._routers:
            assert router.handle or not router.open
            assert self._looking or not router.asked
