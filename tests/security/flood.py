"""Flood: in virtual time an attacker without a key, who has recorded a group, sends packets to its members.

    replayed      a datagram, or all that came over a connection, once more to the member that had it
    misdirected   the same to another member
    altered       with a bit turned over, cut short, lengthened, or with the head of another one
    forged        made up: random bytes, a head as members write it with random bytes behind, a packet in clear

A connection counts as one packet, even if much data are played over it. Members go on sending to each other. No packet
of the flood may be delivered, no view may change, every message of a member must arrive once, and no table may grow.

``python tests/security/flood.py --packets 1000000`` (``make flood``) shows its progress and exits with 1 after a
violation.
"""

from __future__ import annotations

import argparse
import gc
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

from sealed import properties, sealed

from jgroups_py.protocols.seal.protocol import SEAL
from jgroups_py.stack.ports import Accepted, Closed, Datagram, In, Received
from jgroups_py.testing.authority import CertificateAuthority
from jgroups_py.testing.sim import World
from jgroups_py.testing.sim.host import Host
from jgroups_py.testing.sim.member import Member

KINDS: Final = ("SEAL over UDP", "SEAL over TCP", "TLS")
SHARES: Final = (0.8, 0.1, 0.1)
"""The share of each kind in all packets. A connection costs as much as twenty datagrams."""
WAYS: Final = ("replayed", "misdirected", "altered", "forged")
RECORDED_MAX: Final = 2000
BURST: Final = 200
"""The number of packets at one time."""
STRANGER: Final = ("10.0.9.9", 40_000)
MEMBERS: Final = "ABC"
PLACES: Final = {"jgroups.tcpping.initial_hosts": "10.0.0.1[7800]"}


@dataclass
class Result:
    """``thrown``: packets by way. ``refused``: by cause, at all members. ``wrong``: violations, in words.
    ``objects``: by how many Python objects the number at the end exceeds that after the first half."""

    thrown: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    genuine: int = 0
    objects: int = 0
    own: int = 0
    """Datagrams that went to the member that had sent them; it accepts none of them."""


@dataclass
class Stream:
    """The bytes that came over one connection of a listener."""

    port: int
    pieces: list[bytes] = field(default_factory=list)


class Recorder:
    """The latest datagrams and connections that reached hosts, of each kind."""

    def __init__(self) -> None:
        self.datagrams: list[tuple[Host, Datagram]] = []
        self.streams: dict[tuple[Host, int], Stream] = {}

    def note(self, host: Host, item: In) -> None:
        if type(item) is Datagram:
            if len(self.datagrams) < RECORDED_MAX:
                self.datagrams.append((host, item))
        elif type(item) is Accepted:
            port = next(p for p, handle in host.listeners.items() if handle == item.listener)
            if len(self.streams) < RECORDED_MAX:
                self.streams[host, item.handle] = Stream(port)
        elif type(item) is Received and (stream := self.streams.get((host, item.handle))):
            if len(stream.pieces) < 50:
                stream.pieces.append(item.data)


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record what all hosts receive."""
    recorder, receive = Recorder(), Host.receive

    def noting(host: Host, item: In) -> None:
        recorder.note(host, item)
        receive(host, item)

    Host.receive = noting  # type: ignore[method-assign, assignment]
    try:
        yield recorder
    finally:
        Host.receive = receive  # type: ignore[method-assign]


class Flood:
    """One group and its recording. ``kind``: one of KINDS."""

    def __init__(self, folder: Path, kind: str, seed: int) -> None:
        self.result = Result()
        self._random = random.Random(f"{seed}/{kind}")
        self._world = World(seed, check=False)
        self._streams = kind != KINDS[0]
        self._handles = -1_000_000
        self._got = {name: Counter[bytes]() for name in MEMBERS}
        with recording() as recorder:
            self._members = _group(self._world, folder, kind)
            for member in self._members:
                member.keep_batches = False
                member.on_batch = self._received
            for _ in range(20):
                self._speak()
        self._datagrams = recorder.datagrams
        self._recorded = [(host, s) for (host, _), s in recorder.streams.items() if s.pieces]
        assert self._recorded if self._streams else self._datagrams
        self._views = [len(member.views) for member in self._members]

    def run(self, packets: int, progress: Callable[[int], None] = lambda done: None) -> Result:
        """Send this many packets, and check the group afterwards."""
        half = 0
        for done in range(0, packets, BURST):
            for _ in range(min(BURST, packets - done)):
                way = self._random.choice(WAYS)
                self.result.thrown[way] += 1
                (self._throw_stream if self._streams else self._throw_datagram)(way)
            self._speak()
            if not half and done >= packets // 2:
                half = self._objects()
            progress(min(done + BURST, packets))
        self._world.run_for(30)
        self.result.objects = self._objects() - half
        self._judge()
        return self.result

    def _objects(self) -> int:
        self._world.run_for(30)
        gc.collect()
        return len(gc.get_objects())

    # --- packets of the attacker

    def _throw_datagram(self, way: str) -> None:
        host, item = self._random.choice(self._datagrams)
        if way == "misdirected":
            host = self._random.choice(self._others(host))
            handles = [*host.datagram_ports.values(), *host.memberships]
            item = Datagram(self._random.choice(handles), item.data, item.source)
        elif way != "replayed":
            make = self._altered if way == "altered" else self._forged
            item = Datagram(item.handle, make(item.data), item.source)
        host.receive(item)

    def _throw_stream(self, way: str) -> None:
        host, stream = self._random.choice(self._recorded)
        if way == "misdirected":
            host = self._random.choice(self._others(host))
        pieces = stream.pieces
        if way in ("altered", "forged"):
            at = self._random.randrange(len(pieces))
            make = self._altered if way == "altered" else self._forged
            pieces = [*pieces[:at], make(pieces[at]), *pieces[at + 1 :]]
        listener = host.listeners.get(stream.port) or next(iter(host.listeners.values()))
        self._handles -= 1
        host.receive(Accepted(listener, self._handles, STRANGER))
        for piece in pieces:
            host.receive(Received(self._handles, piece))
        host.receive(Closed(self._handles, True))

    def _others(self, host: Host) -> list[Host]:
        return [m.host for m in self._members if m.alive and m.host is not host]

    def _altered(self, data: bytes) -> bytes:
        way = self._random.randrange(4)
        at = self._random.randrange(len(data))
        if way == 0:
            return data[:at] + bytes([data[at] ^ 1 << self._random.randrange(8)]) + data[at + 1 :]
        if way == 1:
            return data[:at]
        if way == 2:
            return data + self._random.randbytes(1 + at % 20)
        other = self._some_bytes()
        return other[:at] + data[at:] if other[:at] != data[:at] else data[:-1] + b"\xff\xff"

    def _forged(self, data: bytes) -> bytes:
        size = 1 + self._random.randrange(200)
        way = self._random.randrange(3)
        if way == 0:
            return self._random.randbytes(size)
        if way == 1:
            return data[:8] + self._random.randbytes(size)
        return b"\x15\x46\x00" + self._random.randbytes(size)

    def _some_bytes(self) -> bytes:
        if self._streams:
            return self._random.choice(self._random.choice(self._recorded)[1].pieces)
        return self._random.choice(self._datagrams)[1].data

    # --- the group

    def _speak(self) -> None:
        for member in self._members:
            member.send(b"genuine %d" % self.result.genuine)
        self.result.genuine += 1
        self._world.run_for(0.02)

    def _received(self, member: Member, batch: Any) -> None:
        got = self._got[member.name]
        for payload in batch.payloads:
            got[bytes(payload)] += 1

    def _judge(self) -> None:
        result = self.result
        wanted = {b"genuine %d" % n: len(MEMBERS) for n in range(result.genuine)}
        for member, views in zip(self._members, self._views, strict=True):
            got = self._got[member.name]
            if strange := got.keys() - wanted.keys():
                result.wrong.append(f"{member.name} got {next(iter(strange))!r}")
            if lost := [text for text, n in wanted.items() if got[text] != n]:
                result.wrong.append(f"{member.name} got {lost[0]!r} {got[lost[0]]} times")
            if len(member.views) != views:
                result.wrong.append(f"{member.name} has another view: {member.view}")
            result.refused.update(member.host.machine.turned_away)
            seal = member.stack.find(SEAL)
            result.own += 0 if seal is None else int(seal.statistics()["datagrams_own"])


def _group(world: World, folder: Path, kind: str) -> list[Member]:
    members = []
    authority = CertificateAuthority(folder) if kind == "TLS" else None
    for name in MEMBERS:
        if authority is None:
            file = sealed(folder, "udp.xml" if kind == KINDS[0] else "tcp.xml")
            members.append(world.start(name, file, "demo", properties=properties()))
        else:
            issued = authority.issue(name)
            attributes = {
                "TCP.tls.enabled": "true",
                "TCP.tls.certificate": issued.certificate,
                "TCP.tls.key": issued.key,
                "TCP.tls.ca": authority.ca,
            }
            members.append(
                world.start(name, "tcp.xml", "demo", attributes=attributes, properties=PLACES)
            )
        world.run_for(5)
    assert world.run_until(lambda: world.views_agree(members), limit=60)
    world.run_for(5)
    return members


def resident() -> float:
    """Return this process' resident memory in MB. 0 where the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * 4096 / 1e6


def _progress(packets: int, done: int) -> None:
    if done % 50_000 == 0:
        print(f"{done} of {packets}, {resident():.0f} MB", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description="Throw packets at groups behind SEAL and TLS.")
    parser.add_argument("--packets", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    options = parser.parse_args()
    failed = False
    logging.disable(logging.WARNING)
    for kind, share in zip(KINDS, SHARES, strict=True):
        packets, began = int(options.packets * share), time.monotonic()
        with tempfile.TemporaryDirectory(prefix="jgroups-flood-") as folder:
            flood = Flood(Path(folder), kind, options.seed)
            before = resident()
            result = flood.run(packets, partial(_progress, packets))
        took = time.monotonic() - began
        print(f"{kind}: {packets} packets in {took:.0f} s, {result.genuine} genuine rounds")
        print(f"  thrown {dict(result.thrown)}")
        print(f"  turned away {dict(sorted(result.refused.items()))}, own {result.own}")
        print(f"  memory {before:.0f} to {resident():.0f} MB, {result.objects} more objects")
        for problem in result.wrong:
            print(f"  WRONG: {problem}")
        failed = failed or bool(result.wrong)
    print("FAIL" if failed else "PASS")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
