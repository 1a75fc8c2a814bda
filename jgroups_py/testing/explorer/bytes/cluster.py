"""A simulated cluster, and an attacker that sends it any bytes.

    victim = Cluster(seed, "udp.xml")      members that have joined and whose traffic was recorded
    victim.strike(attack, 500)             so many packets of one kind of attack, time going by
    victim.talk()                          honest messages, which everybody must get once, in order

Every exception that leaves a machine, and every invariant of a machine that breaks (they are checked after
each step), ends the attack. ``held`` is the memory of a member's machine in bytes.

Everything that happens to the cluster after it was set up is an op, a tuple of plain values; ``perform`` does one.
The same ops on another Cluster of the same kind and seed end the same way.
"""

from __future__ import annotations

import gc
import random
import struct
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from jgroups_py.errors import JGroupsError, RemoteProtocolError
from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2
from jgroups_py.protocols.transport.base import TP
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import Accepted, Closed, Datagram, Received
from jgroups_py.testing.check.checkers import Checker
from jgroups_py.testing.check.messages import MULTICAST
from jgroups_py.testing.sim import Member, World
from jgroups_py.testing.sim.host import Host
from jgroups_py.values.address import UUID, Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.header import Header
from jgroups_py.values.message import Flag
from jgroups_py.values.view import View
from jgroups_py.wire.connection import encode_frame, encode_handshake
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    NakAckHeader2,
    NakAckType,
    UnicastHeader3,
    UnicastType,
)
from jgroups_py.wire.packet import Packet, decode_packet
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import DEFAULT_VERSION

QUICK: Final = {
    "FD_ALL3.timeout": "3s",
    "FD_ALL3.interval": "500ms",
    "MERGE3.min_interval": "500ms",
    "MERGE3.max_interval": "2s",
    "STABLE.desired_avg_gossip": "1s",
}
NAMES: Final = "ABC"
RECORDED: Final = 3000
"""Kept packets of honest members."""
NOTHING: Final = Packet(DEFAULT_VERSION, 0, None, UUID(bytes(16)), None, [])
"""A packet that a transport drops without a word, because it has no messages."""
SETTLE: Final = 120.0
"""Virtual seconds after which the members of a site share one view, at the latest."""
_HOSTILE_HOST: Final = "10.9.9.9"
_HOSTILE_PORT: Final = 55555
_PAYLOAD: Final = struct.Struct("!16sBQ")
"""The beginning that ``Checker.payload`` makes: the sender's address, the kind of message, a number."""

Op = tuple[Any, ...]
"""
    ("run", seconds)                               time goes by
    ("say", member)                                an honest multicast
    ("udp", member, handle, data, host)            a datagram arrives, as if a member at that host had sent it
    ("tcp", member, listener, pieces, end)         somebody connects and writes; end: 0 nothing, 1 closes, 2 resets
    ("crash", member), ("start", member)           ... and comes back
    ("cut", members), ("heal",)                    members are cut off from the others

Members are named ``site/name``.
"""


class Cluster:
    """See the module's docstring. ``incarnations``: members that come and go before, so that the
    record holds packets of former ones."""

    def __init__(
        self,
        seed: int,
        stack: str,
        *,
        attributes: Mapping[str, str] | None = None,
        properties: Callable[[World, str], dict[str, str]] | None = None,
        sites: tuple[str, ...] = ("local",),
        incarnations: int = 1,
    ) -> None:
        self.world = World(seed, check=False)
        self.random = random.Random(f"hostile/{seed}")
        self.stack = stack
        self.attributes = {**QUICK, **(attributes or {})}
        self.properties = properties
        self.packets: list[bytes] = []
        self.pieces: list[bytes] = []
        self.ops: list[Op] = []
        self.checkers = {site: Checker() for site in sites}
        self.striking = False
        self.only_said = False
        """Are packets dropped that were recorded in another run, because no member has sent them in this run?"""
        self._said: set[bytes] = set()
        """The messages that honest members sent, without their version."""
        self.got: dict[str, list[tuple[Address, int]]] = {}
        self._next_handle = -1_000_000
        for site in sites:
            for name in NAMES:
                self._start(f"{name}{site}", site)
        self.settle()
        for _ in range(incarnations):
            for site in sites:
                gone = self.world.member(f"C{site}", site)
                self.babble()
                gone.crash()
                self.world.run_for(10)
                self._start(f"C{site}", site)
            self.settle()
        self.babble()
        self.idle_sizes = {m.name: held(m.host.machine) for m in self.members}
        self.ops.clear()
        # Each machine's own invariants, from the first strike on: without strangers the simulator's tests check them.
        # Invariants across members do not survive a forger.
        self.world.after_each_step.append(lambda host: host.machine.check())

    def _start(self, name: str, site: str) -> None:
        properties = self.properties(self.world, f"{site}/{name}") if self.properties else {}
        member = self.world.start(
            name,
            self.stack,
            f"cluster-{site}",
            site=site,
            attributes=self.attributes,
            properties=properties,
        )
        self.checkers[site].watch(member)
        checked, log = member.on_batch, self.got.setdefault(_key(member), [])
        assert checked is not None

        def take(member: Member, batch: Batch) -> None:
            """Take honest messages of this site only: strangers may send any."""
            assert batch.src is not None
            for index, payload in enumerate(batch.payloads):
                number = _number(batch.src, payload)
                if number is not None:
                    log.append((batch.src, number))
                    if batch.dest is None:
                        checked(member, batch.slice(index, index + 1))

        member.on_batch = take
        self._record(member)
        self.world.run_for(1)

    def _record(self, member: Member) -> None:
        transport = member.stack.find(TP)
        assert transport is not None
        hear = member.host.receive

        def reading(data: bytes) -> Packet:
            """Read a packet without the world's cache, which holds packets. A forged copy is an empty packet."""
            if not self.striking:
                self._keep(self.packets, data)
                self._said.add(data[2:])
            elif self.only_said and self._is_foretold(data):
                return NOTHING
            return decode_packet(data)

        def hearing(item: Any) -> None:
            if type(item) is Received and not self.striking:
                self._keep(self.pieces, item.data)
            hear(item)

        transport.decode = reading  # a method cannot be replaced where TP is compiled
        member.host.receive = hearing  # type: ignore[method-assign]

    def _keep(self, record: list[bytes], data: bytes) -> None:
        if len(record) < RECORDED:
            record.append(data)
        elif self.random.random() < 0.2:
            record[self.random.randrange(RECORDED)] = data

    def _is_foretold(self, data: bytes) -> bool:
        """Is it a forged copy of a member's next messages, by their numbers?"""
        if data[2:] in self._said or is_refused(data):
            return False
        packet = decode_packet(data)
        for member in self.members:
            if member.address == packet.src and packet.cluster == f"cluster-{member.site}":
                return any(_has_number(member, batch) for batch in packet.batches)
        return False

    @property
    def members(self) -> list[Member]:
        return [m for m in self.world.members.values() if m.alive]

    def joined(self) -> tuple[Member, View]:
        """Return a member with a view, and the view."""
        for _ in range(100):
            found = [(m, m.view) for m in self.members if m.view is not None]
            if found:
                return self.random.choice(found)
            self.perform(("run", 1.0))
        raise AssertionError("nobody has a view")

    @property
    def sites(self) -> dict[str, list[Member]]:
        found: dict[str, list[Member]] = {}
        for member in self.members:
            found.setdefault(member.site, []).append(member)
        return found

    @property
    def is_settled(self) -> bool:
        """Do the members of each site share one view?"""
        return all(self.world.views_agree(members) for members in self.sites.values())

    def settle(self, limit: float = SETTLE) -> None:
        """Wait until the members of each site share one view."""
        agreed = self.world.run_until(lambda: self.is_settled, limit=limit)
        assert agreed, {m.name: m.view_names for m in self.members}

    def babble(self) -> None:
        """Make a little honest traffic of all kinds."""
        for _ in range(10):
            for member in self.members:
                self.say(member)
                other = self.random.choice(self.sites[member.site])
                member.send(b"to you alone", to=other)
            self.world.run_for(0.05)
        self.members[0].send(bytes(150_000))
        self.members[-1].fetch_state()
        self.world.run_for(3)

    def say(self, member: Member) -> None:
        self.perform(("say", _name(member)))

    # --- ops

    def perform(self, op: Op) -> None:
        """Do one op and remember it."""
        self.ops.append(op)
        match op:
            case ("run", seconds):
                self.world.run_for(seconds)
            case ("say", name):
                member = self.world.members[name]
                member.send(self.checkers[member.site].payload(member))
            case ("udp", name, handle, data, host):
                self._hostile(name, Datagram(handle, data, self._forged_end(name, host)))
            case ("tcp", name, listener, pieces, end):
                self._next_handle -= 1
                handle = self._next_handle
                self._hostile(name, Accepted(listener, handle, (_HOSTILE_HOST, _HOSTILE_PORT)))
                for piece in pieces:
                    self._hostile(name, Received(handle, piece))
                if end:
                    self._hostile(name, Closed(handle, end == 2))
            case ("crash", name):
                self.world.members[name].crash()
            case ("start", name):
                site, _, short = name.partition("/")
                self._start(short, site)
            case ("cut", names):
                group = [m for m in self.members if _name(m) in names]
                self.world.partition(group, [m for m in self.members if m not in group])
            case ("heal",):
                self.world.heal()
            case _:
                raise ValueError(f"no such op: {op!r}")

    def _forged_end(self, name: str, host: str) -> tuple[str, int]:
        """Return the address of a member at ``host``, or of any member other than ``name``. An attacker can forge the
        source of a datagram, and the transport refuses a member's name from elsewhere."""
        member = self.world.members[name]
        others = [m.host for m in self.sites[member.site] if m is not member]
        for other in sorted(others, key=lambda o: o.address != host):
            if other.datagram_ports:
                return other.address, next(iter(other.datagram_ports))
        return host, 40000

    def _hostile(self, name: str, item: Any) -> None:
        host = self.world.members[name].host
        self.striking = True
        try:
            host.receive(item)
        finally:
            self.striking = False

    # --- attacking

    def strike(self, attack: Callable[[Cluster], bytes], count: int, *, talk: bool = False) -> None:
        """Send ``count`` packets, each to a random member, over time. ``talk``: members go on talking."""
        for number in range(count):
            self.deliver(self.random.choice(self.members), attack(self))
            if number % 20 == 0:
                self.breathe(talk=talk)

    def breathe(self, *, talk: bool) -> None:
        """Let a little time pass, perhaps with an honest message."""
        if talk:
            self.say(self.random.choice(self.members))
        self.perform(("run", self.random.choice((0.0, 0.001, 0.02))))

    def deliver(self, member: Member, data: bytes) -> None:
        """Deliver one packet to a member: as a datagram, or over a connection if it has no UDP."""
        self.perform(self.delivery(member, data))

    def delivery(self, member: Member, data: bytes) -> Op:
        """Return the op of ``deliver``."""
        host = member.host
        handles = [*host.datagram_ports.values(), *host.memberships]
        if handles:
            others = [m.host.address for m in self.members if m is not member]
            source = self.random.choice([*others, _HOSTILE_HOST])
            return ("udp", _name(member), self.random.choice(handles), data, source)
        local = IpAddress(_HOSTILE_HOST, _HOSTILE_PORT)
        pieces = [encode_handshake(DEFAULT_VERSION, local), encode_frame(data)]
        return self.connection(member, pieces)

    def connect(self, member: Member, pieces: list[bytes], *, close: bool = True) -> None:
        """Connect to one of the member's listeners and write ``pieces``."""
        if member.host.listeners:
            self.perform(self.connection(member, pieces, close=close))

    def connection(self, member: Member, pieces: list[bytes], *, close: bool = True) -> Op:
        """Return the op of ``connect``."""
        listeners = list(member.host.listeners.values())
        listener = self.random.choice(listeners) if listeners else 0
        end = self.random.choice((1, 2)) if close else 0
        return ("tcp", _name(member), listener, pieces, end)

    def turmoil(self, attacks: Sequence[Callable[[Cluster], bytes]], count: int) -> None:
        """Attack in all ways while members crash, come back, and are cut off from each other."""
        rng = self.random
        while count > 0:
            part = min(count, rng.randrange(20, 80))
            count -= part
            self.strike(rng.choice(attacks), part, talk=True)
            self.trouble(attacks)

    def trouble(self, attacks: Sequence[Callable[[Cluster], bytes]]) -> None:
        """Perhaps cause a fault that happens without any attacker."""
        rng, members = self.random, self.members
        match rng.randrange(8):
            case 0 if len(members) > 2:
                gone = rng.choice(members)
                self.perform(("crash", _name(gone)))
                self.strike(rng.choice(attacks), 10)
                self.perform(("start", _name(gone)))
            case 1:
                self.perform(("cut", [_name(members[0])]))
                self.perform(("run", rng.choice((0.5, 6.0))))
                self.perform(("heal",))
            case 2:
                self.perform(("run", rng.choice((0.1, 3.0))))
            case 3:
                for _ in range(5):
                    self.connect(rng.choice(members), self.stream_noise())

    def stream_noise(self) -> list[bytes]:
        """Return bytes for a connection: noise, or honest bytes cut and mixed."""
        rng = self.random
        pieces: list[bytes] = []
        for _ in range(rng.randrange(1, 5)):
            honest = rng.choice(self.pieces) if self.pieces else b""
            at = rng.randrange(len(honest) + 1)
            pieces.append(
                rng.choice(
                    (
                        rng.randbytes(rng.randrange(1, 200)),
                        honest,
                        honest[:at],
                        honest[at:],
                        b"\x7f\xff\xff\xff" + rng.randbytes(20),
                        b"\x00\x00\x00\x00" * 5,
                        b"\xff\xff\xff\xff",
                    )
                )
            )
        return [piece for piece in pieces if piece] or [b"x"]

    # --- afterwards

    def talk(self, seconds: float = 5.0) -> None:
        """Check that all members share one view per site and get each other's new messages once, in order."""
        self.settle()
        marks = {key: len(log) for key, log in self.got.items()}
        first = {m.name: self.checkers[m.site].messages.count(m) + 1 for m in self.members}
        for _ in range(5):
            for member in self.members:
                self.say(member)
            self.world.run_for(0.2)
        self.world.run_for(seconds)
        for member in self.members:
            fresh = self.got[_key(member)][marks[_key(member)] :]
            for sender in self.sites[member.site]:
                begin = first[sender.name]
                heard = [n for src, n in fresh if src == sender.address and n >= begin]
                assert heard == list(range(begin, begin + 5)), (member.name, sender.name, heard)

    def once_in_order(self) -> None:
        """Check the properties that the simulator's checkers saw: each honest multicast once, in order, without a gap;
        views that grow, contain their holder and mean the same everywhere."""
        problems = [
            str(problem) for checker in self.checkers.values() for problem in checker.problems
        ]
        assert not problems, problems[:5]

    def assert_small(self, allowed: int) -> None:
        """Check that no machine holds more than ``allowed`` additional bytes."""
        for member in self.members:
            grown = held(member.host.machine) - self.idle_sizes.get(member.name, 0)
            assert grown <= allowed, f"{member.name} holds {grown:,} bytes more"

    def close(self) -> None:
        self.world.close()

    # --- forging

    def decoded(self) -> Packet:
        """Return an honest packet, decoded."""
        while True:
            try:
                packet = decode_packet(self.random.choice(self.packets))
            except JGroupsError:
                continue
            if packet.batches:
                return packet

    def forged(
        self,
        headers: Mapping[int, Header],
        *,
        src: Address | None = None,
        dest: Address | None = None,
        payload: Any = b"x",
        type: int = 0,
        flags: int = 0,
        site: str | None = None,
    ) -> bytes:
        """Return a packet of one message that claims to come from ``src`` (by default a member). Without a number it
        has NO_RELIABILITY, else the numbering protocols would refuse it."""
        if not headers.keys() & _NUMBERING:
            flags |= Flag.NO_RELIABILITY
        member = self.random.choice(self.members)
        batch = Batch(dest, (payload,), dict(headers), src or member.address, flags, 0, type)
        return encode_packets([batch], f"cluster-{site or member.site}")[0]

    def stranger(self) -> UUID:
        return UUID.make(self.random)

    def reencoded(self, packet: Packet, **changes: Any) -> bytes:
        batches = [replace(b, src=packet.src, dest=packet.dest, **changes) for b in packet.batches]
        src = changes.get("src", packet.src)
        batches = [replace(b, src=src) for b in batches]
        return encode_packets(batches[:1], packet.cluster or "")[0]


_NUMBERING = {PROTOCOL_IDS["NAKACK2"], PROTOCOL_IDS["UNICAST3"]}


def _name(member: Member) -> str:
    return f"{member.site}/{member.name}"


def _key(member: Member) -> str:
    return f"{_name(member)}#{member.incarnation}"


def _number(src: Address, payload: Any) -> int | None:
    """Return the number of a message that ``src`` multicast; None for anything else."""
    if not isinstance(payload, bytes | memoryview) or len(payload) != _PAYLOAD.size:
        return None
    sender, kind, number = _PAYLOAD.unpack(payload)
    return number if sender == src and kind == MULTICAST else None


def _has_number(member: Member, batch: Batch) -> bool:
    """Return whether others could take a number for the member's own: it is not far beyond the sent ones."""
    unicast = batch.headers.get(PROTOCOL_IDS["UNICAST3"])
    if isinstance(unicast, UnicastHeader3):
        return unicast.type == UnicastType.DATA
    multicast = batch.headers.get(PROTOCOL_IDS["NAKACK2"])
    nak = member.stack.find(NAKACK2)
    assert nak is not None
    return (
        isinstance(multicast, NakAckHeader2)
        and multicast.type in (NakAckType.MSG, NakAckType.XMIT_RSP)
        and 0 < multicast.seqno <= nak.seqno + nak.config.max_window
    )


def is_refused(data: bytes) -> bool:
    """Must every transport refuse these bytes?"""
    try:
        decode_packet(data)
    except RemoteProtocolError:
        return True
    return False


def held(machine: Machine) -> int:
    """Return the bytes of all objects reachable from the stacks of a machine, the members' own world left out."""
    skipped = (type, types.ModuleType, types.FunctionType, types.CodeType, World, Host, Member)
    seen: set[int] = set()
    todo: list[Any] = [machine]
    total = 0
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, skipped):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        if isinstance(one, memoryview):
            todo.append(one.obj)
        else:
            todo += gc.get_referents(one)
    return total
