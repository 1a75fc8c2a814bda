"""TP: what every transport does; UDP, TCP and SHARED_LOOPBACK derive from it.

Place: bottom of the stack.

    Connect from above        open the sockets; TransportReady or Failed up
    batch from above          queue it for its destination; all batches queued while the driver was
                              busy leaves as bundles of at most bundler.max_size bytes
    multicast from above      comes back up as well (unless DONT_LOOPBACK), never through the network
    unicast to ourselves      comes back up only
    unicast to an address     kept for a short while; FindPhysical up
      we cannot locate
    packet from the network   version, destination, cluster and (source_check) the sender's place checked, then up,
                              run by run
    another place of a        not believed (sources.py): its messages still go to its known place
      member of the view
    another host's place      remembered as hearsay (hearsay.py); TCP does not connect there
      told by a stranger

A packet of another minor version that is meant for our cluster, heard before the first view, makes
us speak that version: VersionHeard up. Later ones are dropped, and so are those of a higher version
after ``max_version_changes``.

Source:  JGroups TP.java, PerDestinationBundler.java; WIRE.md sections 1 and 7.
Differs: no bundler thread or timer: a bundle has all messages of one step of the machine.
         Own multicasts are recognised by their sender as well as by the datagram's source.
Limits:  logical_addr_cache_max_size addresses; max_pending_members, max_pending_bytes for
         destinations that are being looked for. Messages that do not fit are dropped and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

from jgroups_py.config.settings import ConfigBase
from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.transport.config import NEWEST, OLDEST, TransportConfig
from jgroups_py.protocols.transport.diagnostics import Diagnostics, settings_from
from jgroups_py.protocols.transport.hearsay import Hearsay
from jgroups_py.protocols.transport.namesakes import AFTER, Namesakes
from jgroups_py.protocols.transport.probe_answers import ProbeAnswers
from jgroups_py.protocols.transport.sources import End, Sources
from jgroups_py.stack.exposure import DISCOVERY, HEADERS, MESSAGES
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import TRANSPORT
from jgroups_py.values.address import Address, IpAddress, is_numeric_host
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Around,
    Connect,
    Event,
    Failed,
    FindPhysical,
    GetPhysical,
    HasMulticast,
    IsBelieved,
    PhysicalAddress,
    ProveReach,
    Query,
    SharedAttribute,
    Surroundings,
    TransportPorts,
    TransportReady,
    VersionHeard,
    ViewChange,
)
from jgroups_py.values.message import Flag, Transient
from jgroups_py.values.native import has_settings, mypyc_attr
from jgroups_py.values.shown import shown
from jgroups_py.values.view import View
from jgroups_py.wire.headers import TP_ID
from jgroups_py.wire.packet import Packet
from jgroups_py.wire.packet_memory import PacketReader
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import (
    DEFAULT_VERSION,
    format_version,
    parse_version,
    same_minor,
)

_DONT_BUNDLE: Final = int(Flag.DONT_BUNDLE)
_DONT_LOOPBACK: Final = int(Transient.DONT_LOOPBACK)
STRANGERS_MAX: Final = 5
"""Other clusters and versions that are remembered. A member that is alone can ask for them."""
NAME_MAX = 255
"""Characters of a logical name that are remembered."""


CARRIED: Final = (MESSAGES, HEADERS, DISCOVERY)
"""Traffic that passes a transport's sockets."""


@dataclass(slots=True)
class _Pending:
    """Batches for a member whose physical address is not known yet."""

    batches: list[Batch]
    size: int
    drop_at: float
    ask_at: float


@mypyc_attr(allow_interpreted_subclasses=True)
class TP(Protocol):
    """Base of transports. A subclass opens sockets, sends packets, and hands in received ones. The methods at the
    end of the class say how."""

    protocol_id = TP_ID
    provides = (TRANSPORT,)
    framed: ClassVar[bool] = False
    """True where ``send_group`` and ``send_unicast`` get frames: packets with their length in front."""
    writable = frozenset({"who_has_cache_timeout", "find_physical_interval", "max_pending_bytes"})
    turns_away = {
        "no_cluster": "a packet that names no cluster: JGroups names it in each",
        "other_place": "a packet in the name of a member, from where no member is",
        "moved": "a member of the view is said to be somewhere else",
        "told_elsewhere": "a stranger said of somebody that it is on another host, and nobody has connected from there",
    }

    Config: TypeAlias = TransportConfig

    config: TransportConfig

    def __init__(self, config: ConfigBase | None = None, **attributes: Any) -> None:
        super().__init__(config, **attributes)
        self._reader = PacketReader()
        self.decode: Callable[[bytes], Packet] = self._reader.decode
        """Decodes one packet. The simulator puts a cache in front of it: there many members get the same bytes, and no
        member changes a packet."""

    def start(self) -> None:
        self._version = parse_version(self.config.version)
        if same_minor(self._version, DEFAULT_VERSION):
            self._version = max(self._version, DEFAULT_VERSION)
        self._changes_left = self.config.max_version_changes
        self.physical: IpAddress | None = None
        self.view_members: tuple[Address, ...] = ()
        self._present: frozenset[Address] = frozenset()
        self._view: View | None = None
        self.joined = False
        self._table: dict[Address, IpAddress] = {}
        self._expires: dict[Address, float] = {}  # for members outside the view
        self._sources: Sources | None = None
        self._hearsay: Hearsay | None = None
        if self.config.source_check:
            self._sources, self._hearsay = Sources(), Hearsay()
        self._nonces: dict[Address, float] = {}
        """Address in whose name a joiner is asked (ProveReach) -> the time until which it is ours, too."""
        self._pending: dict[Address, _Pending] = {}
        self._queues: dict[Address | None, list[Batch]] = {}
        self._strangers: dict[str, None] = {}
        self._looped: deque[Batch] = deque()
        self._pending_timer = self.timer(self._on_pending)
        self._expiry_timer = self.timer(self._on_expiry)
        self._namesakes = Namesakes()
        self._namesakes_timer = self.timer(self._on_namesakes)
        self._diagnostics = self._make_diagnostics()
        self.packets_sent = 0
        self.bytes_sent = 0
        self.packets_received = 0
        self.bytes_received = 0
        self.messages_sent = 0
        self.messages_received = 0
        self.dropped_own = 0
        self.dropped_version = 0
        self.dropped_cluster = 0
        self.dropped_dest = 0
        self.dropped_garbage = 0
        self.dropped_not_open = 0
        self.dropped_too_large = 0
        self.dropped_unlocated = 0
        self.dropped_address_table_full = 0

    def stop(self) -> None:
        if self._diagnostics is not None:
            self._diagnostics.close()

    def _make_diagnostics(self) -> Diagnostics | None:
        settings = settings_from(self.config)
        if settings is None:
            return None
        answers = ProbeAnswers(
            self.stack,
            lambda: self._view,
            lambda member: self.answer(GetPhysical(member)),
            lambda: self._version,
        )
        return Diagnostics(self, settings, self.bind_host, answers)

    @property
    def is_open(self) -> bool:
        return self.physical is not None

    @property
    def version(self) -> int:
        """Return the version that we speak, as on the wire."""
        return self._version

    @property
    def bind_host(self) -> str:
        """Return the numeric address to which sockets are bound. Words (site_local, ...) became numbers before the
        stack was built. In a simulation, which has no interfaces, they mean the host's default."""
        text = self.config.bind_addr
        return text if is_numeric_host(text) else self.machine.host

    # --- from above

    def down(self, batch: Batch) -> None:
        if batch.src is None:
            batch.src = self.local_address
        dest = batch.dest
        if dest is None:
            if not batch.transient & _DONT_LOOPBACK:
                self._loop_back(batch)
        elif dest == self.stack.address or dest == self.physical:
            self._loop_back(batch)
            return
        queue = self._queues.get(dest)
        if queue is None:
            if not self._queues:
                self.machine.want_flush(self._flush)
            self._queues[dest] = [batch]
        else:
            queue.append(batch)

    def event_down(self, event: Event) -> None:
        match event:
            case Connect():
                if self._diagnostics is not None:
                    self._diagnostics.open()
                if self.physical is not None:
                    self.pass_event_up(TransportReady(self.physical))
                else:
                    self.open_ports()
            case PhysicalAddress(member, physical, name, told_from):
                self._learn(member, physical, name, told_from)
            case ProveReach(_, nonce, until):
                self._nonces = {n: at for n, at in self._nonces.items() if at > self.now}
                self._nonces[nonce] = until
            case ViewChange(view, _):
                self.joined = True
                self._view = view
                self._reader.forget()
                self._on_view(view.members)

    def answer(self, query: Query) -> Any:
        match query:
            case GetPhysical(member):
                if member is None or member == self.local_address:
                    return self.physical
                return self._table.get(member)
            case IsBelieved(member, physical):
                hearsay = self._hearsay
                known = self._table.get(member) == physical
                return known and (hearsay is None or member not in hearsay)
            case HasMulticast():
                return self.has_multicast
            case Surroundings():
                return Around(self.groups(), tuple(self._strangers))
            case TransportPorts():
                return self.config.bind_port, self.config.port_range
            case SharedAttribute("wire_version"):
                return self.version
        return None

    # --- own messages

    def _loop_back(self, batch: Batch) -> None:
        if not self._looped:
            self.machine.soon(self._on_looped)
        self._looped.append(batch)

    def _on_looped(self) -> None:
        looped = self._looped
        while looped:
            batch = looped.popleft()
            if self.stack.closed:
                continue
            self.messages_received += len(batch.payloads)
            self.pass_up(batch)

    # --- sending

    def _flush(self) -> None:
        queues, self._queues = self._queues, {}
        if self.physical is None:
            self.dropped_not_open += sum(len(b) for queue in queues.values() for b in queue)
            return
        for dest, batches in queues.items():
            if dest is None:
                self.send_group(self._encode(batches))
            elif isinstance(dest, IpAddress):
                self.send_unicast(dest, self._encode(batches))
            elif (physical := self._table.get(dest)) is not None:
                self._send_to(dest, physical, batches)
            else:
                self._keep(dest, batches)

    def _send_to(self, member: Address, physical: IpAddress, batches: Sequence[Batch]) -> None:
        """Send to a member whose place is ``physical``, unless that is hearsay and no connection has come from there."""
        hearsay = self._hearsay
        if hearsay is not None and member in hearsay and not self.has_way(physical):
            self.turn_away("told_elsewhere", physical_end(physical))
            return
        self.send_unicast(physical, self._encode(batches))

    def _encode(self, batches: Sequence[Batch]) -> list[bytes]:
        max_size = self.config.bundler_max_size
        if len(batches) == 1 == len(batches[0].payloads):
            self.messages_sent += 1
            cluster, version = self.stack.cluster, self._version
            return encode_packets(batches, cluster, version, max_size, framed=self.framed)
        packets: list[bytes] = []
        for bundle in _bundles(batches):
            packets += encode_packets(
                bundle, self.cluster, self._version, max_size, framed=self.framed
            )
        for batch in batches:
            self.messages_sent += len(batch.payloads)
        return packets

    # --- places of members

    def _learn(
        self, member: Address, physical: IpAddress, name: str | None, told_from: str
    ) -> None:
        if member == self.local_address or isinstance(member, IpAddress):
            return
        known, sources = self._table.get(member), self._sources
        present = member in self._present
        if sources is not None and present and known is not None and known != physical:
            self.turn_away("moved", physical_end(physical))
            return
        hearsay = self._hearsay
        if hearsay is not None:
            elsewhere = self.joined and not present and hearsay.is_told(physical, told_from)
            if elsewhere and known is not None and member not in hearsay:
                if known != physical:
                    self.turn_away("told_elsewhere", physical_end(physical))
                return
        if known is None and not self._make_room():
            self.dropped_address_table_full += 1
            return
        if sources is not None:
            sources.learned(member, physical, present=present)
        if hearsay is not None:
            (hearsay.remember if elsewhere else hearsay.forget)(member)
        self._table[member] = physical
        # A member chooses its own name, and logs and terminals show it.
        if name and self.stack.names.get(member) != (safe := shown(name, NAME_MAX)):
            self.stack.names[member] = safe
            self._look_for_namesakes()
        if member not in self.view_members:
            self._expires.pop(member, None)  # the order is that in which places were learned
            self._expires[member] = self.now + self.config.logical_addr_cache_expiration
            if not self._expiry_timer.armed:
                self._expiry_timer.start_at(self._expires[member])
        pending = self._pending.pop(member, None)
        if pending is not None:
            self._send_to(member, physical, pending.batches)

    def _make_room(self) -> bool:
        if len(self._table) < self.config.logical_addr_cache_max_size:
            return True
        oldest = next(iter(self._expires), None)
        if oldest is None:
            return False
        self._forget(oldest)
        return True

    def _forget(self, member: Address) -> None:
        del self._expires[member]
        if self._sources is not None:
            self._sources.forget(member)
        if self._hearsay is not None:
            self._hearsay.forget(member)
        self._table.pop(member, None)
        self.stack.names.pop(member, None)

    def _on_expiry(self) -> None:
        for member in [m for m, at in self._expires.items() if at <= self.now]:
            self._forget(member)
        if self._expires:
            self._expiry_timer.start_at(min(self._expires.values()))

    def _on_view(self, members: tuple[Address, ...]) -> None:
        self._present = present = frozenset(members)
        until = self.now + self.config.logical_addr_cache_expiration
        for member in self._table:
            if member in present:
                self._expires.pop(member, None)
            else:
                self._expires.setdefault(member, until)
        self.view_members = members
        if self._sources is not None:
            others = [m for m in members if m != self.local_address]
            self._sources.view_installed(others, self._table)
        if self._hearsay is not None:
            self._hearsay.view_installed(members)
        if self._expires and not self._expiry_timer.armed:
            self._expiry_timer.start_at(min(self._expires.values()))
        self._look_for_namesakes()
        self.view_changed()

    def _look_for_namesakes(self) -> None:
        """Look for members with one name, because the view or a name is new. Members of two sites, which meet in a
        child stack, may share one."""
        if self.stack.parent is not None:
            return
        found = self._namesakes.changed(self.view_members, self.stack.names)
        if found and not self._namesakes_timer.armed:
            self._namesakes_timer.start(AFTER)

    def _on_namesakes(self) -> None:
        for pair in self._namesakes.due(self.view_members, self.stack.names):
            self.log.warning(
                'two members are named "%s": %s and %s; give each a name of its own',
                self.name_of(pair[0]),
                *[f"{member} at {self._place(member)}" for member in pair],
            )

    def _place(self, member: Address) -> str:
        physical = self.physical if member == self.local_address else self._table.get(member)
        return "an unknown address" if physical is None else str(physical)

    def _keep(self, dest: Address, batches: list[Batch]) -> None:
        """Keep batches until the address of ``dest`` is known."""
        config = self.config
        pending = self._pending.get(dest)
        if pending is None:
            if len(self._pending) >= config.max_pending_members:
                self.dropped_unlocated += sum(len(b) for b in batches)
                return
            pending = _Pending([], 0, self.now + config.who_has_cache_timeout, self.now)
            self._pending[dest] = pending
        for batch in batches:
            size = batch.length + 100 * len(batch)
            if pending.size + size > config.max_pending_bytes:
                self.dropped_unlocated += len(batch)
                continue
            pending.size += size
            pending.batches.append(batch)
        self._on_pending()

    def _on_pending(self) -> None:
        """Ask for members whose address is awaited. Give up on those that took too long."""
        asked = []
        for member, pending in list(self._pending.items()):
            if pending.drop_at <= self.now:
                self.dropped_unlocated += sum(len(b) for b in pending.batches)
                self.trace("unlocated", member=self.name_of(member))
                del self._pending[member]
            elif pending.ask_at <= self.now:
                pending.ask_at = self.now + self.config.find_physical_interval
                asked.append(member)
        if self._pending:
            self._pending_timer.start_at(
                min(min(p.drop_at, p.ask_at) for p in self._pending.values())
            )
        else:
            self._pending_timer.cancel()
        for member in asked:
            self.pass_event_up(FindPhysical(member))

    # --- receiving

    def receive(self, data: bytes, source: End | None = None) -> None:
        """Check one packet and pass its runs up. Count and drop a bad packet. ``source``: the network end that it
        came from, if that is known."""
        self.packets_received += 1
        self.bytes_received += len(data)
        if len(data) < 3:
            self._garbage("shorter than 3 bytes")
            return
        version = data[0] << 8 | data[1]
        other = (version ^ self._version) >> 6 != 0
        if other and not self._may_adopt(version):
            self.dropped_version += 1
            self._note_stranger(
                f"packets of version {format_version(version)} come here, and this member speaks "
                f"{format_version(self._version)}"
            )
            self.trace("other version", version=format_version(version))
            return
        try:
            packet = self.decode(data)
        except RemoteProtocolError as error:
            self._garbage(str(error))
            return
        if not (batches := packet.batches):
            return
        if packet.cluster is None:
            self.turn_away("no_cluster", source or packet.src)
            return
        stack, dest = self.stack, packet.dest
        if packet.cluster != stack.cluster:
            self._other_cluster(packet.cluster)
            return
        if not (dest is None or dest == stack.address or packet.multicast or self._is_ours(dest)):
            self.dropped_dest += 1
            self.trace("not for us", dest=str(dest))
            return
        src, sources, hearsay = packet.src, self._sources, self._hearsay
        if src == stack.address:
            self.dropped_own += 1
            return
        if sources is not None and source is not None and not sources.admits(src, source):
            self.turn_away("other_place", source)
            return
        if hearsay is not None and source is not None and src not in self._present:
            hearsay.reading(source[0])
        if other:
            self._changes_left -= 1
            self.adopt_version(version)
        self.accepted_packet(packet)
        for batch in batches:
            if stack.closed:
                return
            # A message of a bundle may name a sender of its own: members repeat each other's messages.
            if batch.src is not src and not self._fits(batch, source):
                continue
            if batch.dest is not dest and batch.dest != dest:
                self.dropped_dest += len(batch.payloads)
                continue
            if not self.admits(batch):
                continue
            self.messages_received += len(batch.payloads)
            try:
                self.pass_up(batch)
            except RemoteProtocolError as error:
                self._garbage(str(error))
        if sources is not None:
            sources.packet_read()
        if hearsay is not None:
            hearsay.packet_read()

    def _other_cluster(self, cluster: str) -> None:
        self.dropped_cluster += 1
        self._note_stranger(f'members of cluster "{shown(cluster, NAME_MAX)}" are heard here')
        self.trace("other cluster", theirs=cluster)

    def _is_ours(self, dest: Address) -> bool:
        """Return whether a unicast to ``dest``, which is not our address, is for us."""
        if dest == self.physical:
            return True
        return self._nonces.get(dest, 0.0) > self.now

    def _may_speak(self, src: Address, source: End | None) -> bool:
        """Return whether a message of ``src`` may come from ``source``. If not, count it."""
        sources = self._sources
        if sources is None or source is None or sources.admits(src, source):
            return True
        self.turn_away("other_place", source)
        return False

    def _fits(self, batch: Batch, source: End | None) -> bool:
        """Return whether a batch with a sender of its own may go up. If not, count it."""
        src = batch.src
        if src is None or src == self.local_address:
            self.dropped_own += len(batch.payloads)
            return False
        return self._may_speak(src, source)

    def _note_stranger(self, words: str) -> None:
        if len(self._strangers) < STRANGERS_MAX:
            self._strangers[words] = None

    def _may_adopt(self, version: int) -> bool:
        """Return whether packets of such a version could make us speak it."""
        if self.joined or not OLDEST >> 6 <= version >> 6 <= NEWEST >> 6:
            return False
        return self._changes_left > 0 or version < self._version

    def adopt_version(self, version: int) -> None:
        """Speak another minor version from now on, because the group does."""
        self._version = version
        self.log.info("the group speaks version %s, so do we", format_version(version))
        self.trace("version adopted", version=format_version(version))
        self.pass_event_up(VersionHeard(version))

    def _garbage(self, problem: str) -> None:
        self.dropped_garbage += 1
        self.trace("garbage", problem=problem)

    def statistics(self) -> dict[str, int | float]:
        found = super().statistics()
        if self._diagnostics is not None:
            found["probes_answered"] = self._diagnostics.answered
        return found

    # --- for subclasses

    def opened(self, host: str, port: int) -> None:
        """Note that the sockets are open. We can be reached at ``host`` and ``port``."""
        config = self.config
        self.physical = IpAddress(config.external_addr or host, config.external_port or port)
        self.pass_event_up(TransportReady(self.physical))

    def failed(self, problem: str) -> None:
        """Note that the sockets cannot be opened."""
        self.trace("failed", problem=problem)
        self.pass_event_up(Failed(f"{self.name}: {problem}"))

    @property
    def has_multicast(self) -> bool:
        """Return whether multicasts reach members that we do not know."""
        raise NotImplementedError

    def groups(self) -> tuple[tuple[str, int], ...]:
        """Return the multicast groups that we listen to."""
        return ()

    def open_ports(self) -> None:
        """Open the sockets, and then call ``opened`` or ``failed``."""
        raise NotImplementedError

    def send_group(self, packets: Sequence[bytes]) -> None:
        """Send packets to all other members."""
        raise NotImplementedError

    def send_unicast(self, physical: IpAddress, packets: Sequence[bytes]) -> None:
        """Send packets to one physical address."""
        raise NotImplementedError

    def send_copies(self, packets: Sequence[bytes]) -> None:
        """Send a copy to each member of the view: ``send_group`` for transports without multicast."""
        for member in self.view_members:
            if member == self.local_address:
                continue
            physical = self._table.get(member)
            if physical is not None:
                self.send_unicast(physical, packets)
            else:
                self.dropped_unlocated += len(packets)
                self.find(member)

    def physical_of(self, member: Address) -> IpAddress | None:
        """Return the physical address of a member, if we know it."""
        return self._table.get(member)

    def find(self, member: Address) -> None:
        """Ask where a member is, without waiting for the answer."""
        self._keep(member, [])

    def has_way(self, physical: IpAddress) -> bool:
        """Return whether packets reach ``physical`` without opening a connection."""
        return True

    def view_changed(self) -> None:
        """Act on new ``view_members``."""

    def admits(self, batch: Batch) -> bool:
        """Return whether messages of the packet that is being received may go up. If not, count them."""
        return True

    def accepted_packet(self, packet: Packet) -> None:
        """Note that a packet has passed the checks and goes up now."""

    def sent(self, packet: bytes, copies: int = 1) -> None:
        """Count one packet."""
        self.packets_sent += copies
        self.bytes_sent += copies * len(packet)

    def check(self) -> None:
        config = self.config
        assert len(self._table) <= max(config.logical_addr_cache_max_size, len(self.view_members))
        assert len(self._pending) <= config.max_pending_members
        assert self._expires.keys() <= self._table.keys()
        if self._sources is not None:
            self._sources.check(self._table)
        if self._hearsay is not None:
            self._hearsay.check(self._table, self._present)


has_settings(TP, TransportConfig)


def physical_end(physical: IpAddress) -> End:
    """Return ``physical`` in the form for a log line."""
    return physical.host or "<any>", physical.port


def _bundles(batches: Sequence[Batch]) -> Iterator[Sequence[Batch]]:
    """Cut batches into packets. A message with DONT_BUNDLE is a packet of its own, and a packet has one sender."""
    start = 0
    for index, batch in enumerate(batches):
        if batch.flags & _DONT_BUNDLE:
            if start < index:
                yield batches[start:index]
            for position in range(len(batch)):
                yield (batch.slice(position, position + 1),)
            start = index + 1
        elif index > start and batch.src != batches[start].src:
            yield batches[start:index]
            start = index
    if start < len(batches):
        yield batches[start:] if start else batches
