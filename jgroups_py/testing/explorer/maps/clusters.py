"""Maps over the real stack, simulated: replicas, links of a group, GMS, NAKACK2, UNICAST3 and the rest, with faults from a seed.

Members write, crash, start again, join, are parted and merged. Then all is healed, and all maps must be equal.
"""

from __future__ import annotations

import random
from typing import Any, Final

from jgroups_py.maps.entry import MapEntry, origin_of
from jgroups_py.maps.group import (
    Down,
    GroupLinks,
    GroupSettings,
    Incoming,
    Overheard,
    Send,
    Up,
    opened,
)
from jgroups_py.maps.orders import CloseLink, SendAll, SendToPeer
from jgroups_py.maps.replica import Replica
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.stamp import HybridClock, MapStamp
from jgroups_py.maps.table import MemoryTable
from jgroups_py.testing.check.violation import Violated, violations_in
from jgroups_py.testing.explorer.clusters import QUICK, SECONDS
from jgroups_py.testing.explorer.lab import RunOutcome
from jgroups_py.testing.sim import Member, World
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.view import View

HOSTS_MAX: Final = 5
REST_MAX: Final = 120.0
"""Virtual time in which all maps must have become equal."""
STEP: Final = 0.02


def explore_cluster(seed: int) -> RunOutcome:
    """Explore one cluster; it has no schedule but its seed."""
    return _Cluster(seed).run()


class ClusterHost:
    """A host: its table stays when it crashes; its replica and links belong to one member of the group."""

    def __init__(self, world: World, node: int, **settings: Any) -> None:
        self.world, self.node = world, node
        self.origin = origin_of(node, 1)
        self.table = MemoryTable()
        self.offset = 0.0
        self.settings = settings
        self.member: Member | None = None
        self.sent_bytes = 0
        """Bytes of messages as the group gets them: a multicast counts once."""
        self.sent_messages = 0

    def start(self, attributes: dict[str, str] | None = None) -> None:
        world = self.world
        member = self.member = world.start(
            f"M{self.node}",
            "sim.xml",
            "maps",
            attributes=QUICK if attributes is None else attributes,
        )
        member.keep_batches = False
        member.on_view, member.on_batch = self._on_view, self._on_batch
        self.clock = HybridClock(lambda: int((1_000_000 + world.now + self.offset) * 1e9))
        for entry in self.table.entries.values():
            self.clock.observe(entry.stamp.time)
        settings = ReplicaSettings(
            map="m", node=self.node, origin=self.origin, file=bytes([self.node]), **self.settings
        )
        self.replica = Replica(settings, self.table, self.clock, world.now)
        chance = random.Random(f"{self.node} {world.now}")
        self.links = GroupLinks(
            "m", member.address, lambda: chance.randint(1, 2**32 - 1), GroupSettings(hi_max=5.0)
        )
        self._numbers: dict[Address, int] = {}
        self._members: dict[int, Address] = {}
        self._last = 0

    def crash(self) -> None:
        assert self.member is not None
        self.member.on_view = self.member.on_batch = None
        self.member.crash()
        self.member = None

    def write(self, key: bytes, value: bytes | None) -> None:
        entry = MapEntry(value, MapStamp(self.clock.next(), self.node), {}, 0, 0)
        self.table.change(self.origin, key, entry)
        self.replica.changed()

    def tick(self) -> None:
        if self.member is not None:
            self.replica.tick(self.world.now)
            self.links.tick(self.world.now)
            self._carry_out()

    def _on_view(self, member: Member, view: View) -> None:
        self.links.view(view.members, self.world.now)
        self._carry_out()

    def _on_batch(self, member: Member, batch: Batch) -> None:
        assert batch.src is not None
        for payload in batch.payloads:
            envelope = opened(bytes(payload))
            assert envelope is not None
            self.links.received(batch.src, envelope, self.world.now)
            self._carry_out()

    def _carry_out(self) -> None:
        while True:
            outs, links = self.replica.take(), self.links.take()
            if not outs and not links:
                return
            for out in outs:
                if isinstance(out, SendToPeer):
                    if out.link in self._members:
                        self.links.send(self._members[out.link], out.data)
                elif isinstance(out, SendAll):
                    self.links.send_all(out.data)
                elif isinstance(out, CloseLink):
                    address = self._members.pop(out.link, None)
                    if address is not None:
                        del self._numbers[address]
                        self.links.close(address, self.world.now)
            for one in links:
                self._do(one)

    def _do(self, out: Any) -> None:
        now = self.world.now
        if isinstance(out, Send):
            assert self.member is not None
            self.sent_bytes += len(out.data)
            self.sent_messages += 1
            self.member.send(out.data, to=out.to)
        elif isinstance(out, Up):
            self._last += 1
            self._numbers[out.member], self._members[self._last] = self._last, out.member
            self.replica.link_opened(self._last, shared=True)
        elif isinstance(out, Down):
            number = self._numbers.pop(out.member, None)
            if number is not None:
                del self._members[number]
                self.replica.link_closed(number)
        elif isinstance(out, Incoming):
            number = self._numbers.get(out.member)
            if number is not None:
                self.replica.received(number, out.data, now, shared=out.shared)
        elif isinstance(out, Overheard):
            self.replica.overheard(out.data, now)

    def values(self) -> dict[bytes, bytes]:
        return {k: e.value for k, e in self.table.entries.items() if e.value is not None}


def are_equal(hosts: list[ClusterHost]) -> bool:
    first = hosts[0]
    return all(
        host.values() == first.values() and host.table.vector() == first.table.vector()
        for host in hosts
    )


class _Cluster:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = chance = random.Random(f"maps:clusters:{seed}")
        self.world = World(seed, check=False)
        count = chance.randint(2, HOSTS_MAX)
        settings = {
            "peers": frozenset(range(1, count + 1) if chance.random() < 0.7 else ()),
            "window": chance.choice([100, 2000, 1 << 20]),
            "max_bandwidth": chance.choice([0.0, 0.0, 5000.0]),
            "ack_delay": chance.choice([0.0, 0.1]),
            "max_ahead": 3600.0 if seed % 13 else 20.0,
            "tombstone_age": 7 * 86_400.0 if seed % 5 else 3.0,
        }
        self.hosts = [ClusterHost(self.world, node, **settings) for node in range(1, count + 1)]
        self.fault_rate = chance.choice([0.01, 0.03, 0.06])
        self.split = False
        self.faults = 0
        self.story: list[str] = []

    def run(self) -> RunOutcome:
        world = self.world
        problems = violations_in(self._run, lambda: world.now)
        world.close()
        return RunOutcome(
            self.seed,
            problems,
            self.story,
            faults=self.faults,
            events=world.events,
            virtual_s=world.now,
        )

    def _run(self) -> None:
        for host in self.hosts:
            host.start()
            self._run_for(self.chance.choice([0.0, 0.5]))
        end = self.world.now + SECONDS
        while self.world.now < end:
            if self.chance.random() < self.fault_rate:
                self._fault()
            if self.chance.random() < 0.2:
                self._write()
            self._run_for(STEP)
        self._rest()

    def _run_for(self, seconds: float) -> None:
        self.world.run_for(seconds)
        for host in self.hosts:
            host.tick()

    def _write(self) -> None:
        chance = self.chance
        host = chance.choice(self.hosts)
        if host.member is not None:
            key, value = b"k%d" % chance.randrange(6), b"%d" % chance.randrange(10**9)
            host.write(key, value if chance.random() < 0.75 else None)

    def _fault(self) -> None:
        chance, world = self.chance, self.world
        host = chance.choice(self.hosts)
        self.faults += 1
        what = chance.choice(["crash", "start", "split", "clock"])
        if what == "crash" and host.member is not None:
            host.crash()
        elif what == "start" and host.member is None:
            host.start()
        elif what == "clock":
            host.offset = chance.choice([-100.0, -1.0, 0.0, 1.0, 100.0])
        elif self.split:
            world.heal()
            self.split = False
        else:
            living = [h.member for h in self.hosts if h.member is not None]
            if len(living) < 2:
                return
            side = chance.sample(living, chance.randint(1, len(living) - 1))
            world.partition(side, [member for member in living if member not in side])
            self.split = True
        self.story.append(f"{world.now:8.2f} {what} M{host.node}")

    def _rest(self) -> None:
        self.world.heal()
        for host in self.hosts:
            host.offset = 0.0
            if host.member is None:
                host.start()
        end = self.world.now + REST_MAX
        calm = 0
        while calm < 20:
            self._run_for(0.1)
            calm = calm + 1 if are_equal(self.hosts) else 0
            if self.world.now > end:
                vectors = "; ".join(f"{h.node}: {h.table.vector()}" for h in self.hosts)
                raise Violated(
                    "equal", f"maps differ after {REST_MAX:g} s without faults: {vectors}"
                )
        for host in self.hosts:
            if host.replica.counters["garbage"]:
                raise Violated("understood", f"host {host.node} could not read a message")
