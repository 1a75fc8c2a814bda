"""A simulated cluster and somebody who sends it whatever bytes there are.

    victim = Cluster(seed, "udp.xml")      members that have joined and whose traffic was recorded
    victim.strike(attack, 500)             so many packets of one kind of attack, time going by
    victim.talk()                          honest messages, which everybody must get once, in order

Every exception that leaves a machine, and every invariant of a machine that breaks (they are checked after
each step), ends the test. ``held`` is what a member's machine holds in bytes.
"""

from __future__ import annotations

import gc
import random
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jgroups_py.address import UUID, Address, IpAddress
from jgroups_py.batch import Batch
from jgroups_py.errors import JGroupsError
from jgroups_py.header import Header
from jgroups_py.machine import Machine
from jgroups_py.packets import Packet, decode_packet, encode_frame, encode_handshake, encode_packets
from jgroups_py.ports import Accepted, Closed, Datagram, Received
from jgroups_py.protocols.transport import TP
from jgroups_py.sim import Member, World
from jgroups_py.sim.host import Host
from jgroups_py.view import View
from jgroups_py.wire import DEFAULT_VERSION

QUICK = {
    "FD_ALL3.timeout": "3s",
    "FD_ALL3.interval": "500ms",
    "MERGE3.min_interval": "500ms",
    "MERGE3.max_interval": "2s",
    "STABLE.desired_avg_gossip": "1s",
}
NAMES = "ABC"
RECORDED = 3000
"""Packets kept of what honest members sent."""
_HOSTILE_PORT = 55555


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
        # Each machine's own invariants; what holds across members does not survive a forger.
        self.world = World(seed, check=False)
        self.world.after_each_step.append(lambda host: host.machine.check())
        self.random = random.Random(f"hostile/{seed}")
        self.stack = stack
        self.attributes = {**QUICK, **(attributes or {})}
        self.properties = properties
        self.packets: list[bytes] = []
        self.pieces: list[bytes] = []
        self.striking = False
        self.sent: dict[str, int] = {}
        self.got: dict[str, list[tuple[Address, int]]] = {}
        self.struck = 0
        self._next_handle = -1_000_000
        for site in sites:
            for name in NAMES:
                self.start(f"{name}{site}", site)
        self.settle()
        for _ in range(incarnations):
            for site in sites:
                gone = self.world.member(f"C{site}", site)
                self.babble()
                gone.crash()
                self.world.run_for(10)
                self.start(f"C{site}", site)
            self.settle()
        self.babble()
        self.idle_sizes = {m.name: held(m.host.machine) for m in self.members}

    def start(self, name: str, site: str) -> None:
        properties = self.properties(self.world, f"{site}/{name}") if self.properties else {}
        member = self.world.start(
            name,
            self.stack,
            f"cluster-{site}",
            site=site,
            attributes=self.attributes,
            properties=properties,
        )
        member.keep_batches = False
        log = self.got[f"{name}#{member.incarnation}"] = []
        member.on_batch = lambda _, batch: self._note(log, batch)
        self._record(member)
        self.world.run_for(1)

    @staticmethod
    def _note(log: list[tuple[Address, int]], batch: Batch) -> None:
        assert batch.src is not None
        for payload in batch.payloads:
            _, _, number = bytes(payload or b"").partition(b":")
            if number.isdigit():
                log.append((batch.src, int(number[:18])))

    def _record(self, member: Member) -> None:
        transport = member.stack.find(TP)
        assert transport is not None
        transport.decode = decode_packet  # without the world's cache, which holds packets
        receive, hear = transport.receive, member.host.receive

        def recording(data: bytes) -> None:
            if not self.striking:
                self._keep(self.packets, data)
            receive(data)

        def hearing(item: Any) -> None:
            if type(item) is Received and not self.striking:
                self._keep(self.pieces, item.data)
            hear(item)

        transport.receive = recording  # type: ignore[method-assign]
        member.host.receive = hearing  # type: ignore[method-assign]

    def _keep(self, record: list[bytes], data: bytes) -> None:
        if len(record) < RECORDED:
            record.append(data)
        elif self.random.random() < 0.2:
            record[self.random.randrange(RECORDED)] = data

    @property
    def members(self) -> list[Member]:
        return [m for m in self.world.members.values() if m.alive]

    def joined(self) -> tuple[Member, View]:
        """Some member that has a view, and the view."""
        for _ in range(100):
            found = [(m, m.view) for m in self.members if m.view is not None]
            if found:
                return self.random.choice(found)
            self.world.run_for(1)
        raise AssertionError("nobody has a view")

    @property
    def sites(self) -> dict[str, list[Member]]:
        found: dict[str, list[Member]] = {}
        for member in self.members:
            found.setdefault(member.site, []).append(member)
        return found

    def settle(self, limit: float = 120.0) -> None:
        """Returns when the members of each site share one view."""
        agreed = self.world.run_until(
            lambda: all(self.world.views_agree(m) for m in self.sites.values()), limit=limit
        )
        assert agreed, {m.name: m.view_names for m in self.members}

    def babble(self) -> None:
        """A little honest traffic of all kinds."""
        for _ in range(10):
            for member in self.members:
                self.say(member)
                other = self.random.choice(self.sites[member.site])
                member.send(b"to you alone", to=other)
            self.world.run_for(0.05)
        self.members[0].send(bytes(150_000))
        self.world.run_for(3)

    def say(self, member: Member) -> None:
        number = self.sent[member.name] = self.sent.get(member.name, 0) + 1
        member.send(f"{member.name}:{number}".encode())

    # --- attacking

    def strike(self, attack: Callable[[Cluster], bytes], count: int, *, talk: bool = False) -> None:
        """``count`` packets, each to a random member, over time. ``talk``: members go on talking."""
        rng = self.random
        for number in range(count):
            data = attack(self)
            self.striking = True
            self.deliver(rng.choice(self.members), data)
            self.striking = False
            if number % 20 == 0:
                if talk:
                    self.say(rng.choice(self.members))
                self.world.run_for(rng.choice((0.0, 0.001, 0.02)))

    def deliver(self, member: Member, data: bytes) -> None:
        """One packet reaches a member: as a datagram, or on a connection where it has no UDP."""
        self.struck += 1
        host = member.host
        handles = [*host.datagram_ports.values(), *host.memberships]
        if handles:
            others = [m.host.address for m in self.members if m is not member]
            source = (self.random.choice([*others, "10.9.9.9"]), 40000)
            host.receive(Datagram(self.random.choice(handles), data, source))
        else:
            local = IpAddress("10.9.9.9", _HOSTILE_PORT)
            self.connect(member, [encode_handshake(DEFAULT_VERSION, local), encode_frame(data)])

    def connect(self, member: Member, pieces: list[bytes], *, close: bool = True) -> None:
        """Somebody connects to one of the member's listeners and writes ``pieces``."""
        host = member.host
        if not host.listeners:
            return
        listener = self.random.choice(list(host.listeners.values()))
        self._next_handle -= 1
        handle = self._next_handle
        host.receive(Accepted(listener, handle, ("10.9.9.9", _HOSTILE_PORT)))
        for piece in pieces:
            host.receive(Received(handle, piece))
        if close:
            host.receive(Closed(handle, self.random.random() < 0.5))

    def turmoil(self, attacks: Sequence[Callable[[Cluster], bytes]], count: int) -> None:
        """Attacks of all kinds while members crash, come back, and are cut off from each other."""
        rng = self.random
        while count > 0:
            part = min(count, rng.randrange(20, 80))
            count -= part
            self.strike(rng.choice(attacks), part, talk=True)
            members = self.members
            match rng.randrange(8):
                case 0 if len(members) > 2:
                    gone = rng.choice(members)
                    gone.crash()
                    self.strike(rng.choice(attacks), 10)
                    self.start(gone.name, gone.site)
                case 1:
                    self.world.partition(members[:1], members[1:])
                    self.world.run_for(rng.choice((0.5, 6)))
                    self.world.heal()
                case 2:
                    self.world.run_for(rng.choice((0.1, 3)))
                case 3:
                    for _ in range(5):
                        self.connect(rng.choice(members), self.stream_noise())

    def stream_noise(self) -> list[bytes]:
        """Something to write on a connection: noise, or honest bytes cut and mixed."""
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
        """All members share one view per site and get each other's new messages once, in order."""
        self.settle()
        marks = {key: len(log) for key, log in self.got.items()}
        first = {m.name: self.sent.get(m.name, 0) + 1 for m in self.members}
        for _ in range(5):
            for member in self.members:
                self.say(member)
            self.world.run_for(0.2)
        self.world.run_for(seconds)
        for member in self.members:
            log = self.got[f"{member.name}#{member.incarnation}"]
            fresh = log[marks[f"{member.name}#{member.incarnation}"] :]
            for sender in self.sites[member.site]:
                begin = first[sender.name]
                heard = [n for src, n in fresh if src == sender.address and n >= begin]
                assert heard == list(range(begin, begin + 5)), (member.name, sender.name, heard)

    def once_in_order(self) -> None:
        """Whatever came of honest senders came once and in order."""
        for key, log in self.got.items():
            last: dict[Address, int] = {}
            for sender, number in log:
                assert number > last.get(sender, 0), f"{key}: {sender}:{number} after {last}"
                last[sender] = number

    def assert_small(self, allowed: int) -> None:
        """No machine holds more than ``allowed`` bytes beyond what it held before."""
        for member in self.members:
            grown = held(member.host.machine) - self.idle_sizes.get(member.name, 0)
            assert grown <= allowed, f"{member.name} holds {grown:,} bytes more"

    # --- forging

    def decoded(self) -> Packet:
        """Some honest packet, decoded."""
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
        """A packet of one message that claims to come from ``src`` (a member, if not given)."""
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


def held(machine: Machine) -> int:
    """Bytes of all objects reachable from the stacks of a machine, the members' own world left out."""
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
