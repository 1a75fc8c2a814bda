"""The cost of buddy replication, counted on simulated clusters: messages, packets, bytes, memory.

Whole caches on the channels and protocols of udp.xml, on a network in memory, in virtual time. A
multicast is one packet, as on a network that has it. The traffic of an idle cluster (heartbeats, announcements) is
counted for the same time and subtracted.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from jgroups_py.cache import BuddyReplicationConfig, CacheSettings, TreeCache, open_tree_cache
from jgroups_py.drill.run.requests import DrillRequest, Load, Requests, home
from jgroups_py.driver import MemoryNetwork
from jgroups_py.driver.memory import MemoryDriver
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import Out, SendTo, Write

RATE = 100.0
"""Operations a second of virtual time: few enough that each travels alone."""
WINDOW = 8.0
"""Seconds in which operations are counted, and before them the same time of silence. It is the time between two
heartbeats of a member, so that both windows have as many."""
REST = 2.0
"""Seconds left in a window after the last operation, for acknowledgements that are sent together."""
PROTECTED_SECONDS = 60.0


class CountingNetwork(MemoryNetwork):
    """Counts the output of drivers: datagrams, and writes to connections."""

    def __init__(self) -> None:
        super().__init__()
        self.packets = 0
        self.bytes = 0

    def driver(self, machine: Machine) -> MemoryDriver:
        return _CountingDriver(self, machine, self.limits)


class _CountingDriver(MemoryDriver):
    network: CountingNetwork

    def execute(self, outs: Sequence[Out]) -> None:
        for out in outs:
            if isinstance(out, SendTo | Write):
                self.network.packets += 1
                self.network.bytes += len(out.data)
        super().execute(outs)


@dataclass(frozen=True)
class Cost:
    """The cost of one operation, the mean of many. ``messages``: messages of the cache by kind, without those to
    oneself."""

    messages: dict[str, float]
    packets: float
    bytes: float

    @property
    def total(self) -> float:
        return sum(self.messages.values())


@dataclass(frozen=True)
class Memory:
    """Bytes of names and values, as the caches count them. ``own``: X, the mean of what members own;
    ``held``: own and backups together, by member."""

    own: float
    held: list[int]

    def ratio(self, buddies: int) -> tuple[float, float, float]:
        """Least, mean, most of what a member holds, as a part of (b + 1) X."""
        expected = (buddies + 1) * self.own
        return (
            min(self.held) / expected,
            statistics.fmean(self.held) / expected,
            max(self.held) / expected,
        )


@dataclass
class CountedCluster:
    """The caches on one network, in the order in which they joined."""

    buddies: int
    network: CountingNetwork
    caches: list[TreeCache] = field(default_factory=list)
    _silence: tuple[int, int] | None = None
    """Packets and bytes of a window without operations."""

    def sent(self) -> dict[str, int]:
        """Messages of all caches so far, by kind."""
        found: dict[str, int] = {}
        for cache in self.caches:
            for name, count in cache.buddies.machine.statistics.items():
                if name.startswith("sent_"):
                    kind = name.removeprefix("sent_")
                    found[kind] = found.get(kind, 0) + count
        return found

    async def protected(self) -> None:
        for cache in self.caches:
            await cache.wait_protected(timeout=PROTECTED_SECONDS)

    async def cost(self, count: int, operation: Callable[[int], Awaitable[None]]) -> Cost:
        """Return the cost of ``count`` operations, one after the other, without the traffic of an idle cluster."""
        assert count <= (WINDOW - REST) * RATE
        if self._silence is None:
            await trio.sleep(
                WINDOW
            )  # until no message about joins or about earlier operations is on its way
            self._silence = await self._window(0, operation)
        before = self.sent()
        packets, size = await self._window(count, operation)
        after = self.sent()
        return Cost(
            {k: (n - before.get(k, 0)) / count for k, n in after.items() if n != before.get(k, 0)},
            (packets - self._silence[0]) / count,
            (size - self._silence[1]) / count,
        )

    async def _window(
        self, count: int, operation: Callable[[int], Awaitable[None]]
    ) -> tuple[int, int]:
        """Return the packets and bytes of a window of operations."""
        network, began = self.network, trio.current_time()
        packets, size = network.packets, network.bytes
        for number in range(count):
            await operation(number)
            await trio.sleep_until(began + (number + 1) / RATE)
        await trio.sleep_until(began + WINDOW)
        return network.packets - packets, network.bytes - size

    def memory(self) -> Memory:
        owned = [cache.statistics().bytes for cache in self.caches]
        kept = [cache.statistics().counters["backup_bytes"] for cache in self.caches]
        held = [a + b for a, b in zip(owned, kept, strict=True)]
        return Memory(statistics.fmean(owned), held)


@asynccontextmanager
async def cluster(members: int, buddies: int) -> AsyncIterator[CountedCluster]:
    """Run a settled cluster for as long as the block lasts."""
    config = CacheSettings(
        cache_mode="REPL_SYNC",
        stack="udp.xml",
        cluster_name="cost",
        buddy_replication_config=BuddyReplicationConfig(
            buddy_replication_enabled=True,
            buddy_locator_properties={"numBuddies": str(buddies)},
            auto_data_gravitation=True,
        ),
    )
    network = CountingNetwork()
    found = CountedCluster(buddies, network)

    async def run(name: str, *, task_status: trio.TaskStatus[None]) -> None:
        async with open_tree_cache(config, name=name, transport=network) as cache:
            found.caches.append(cache)
            task_status.started()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for number in range(members):
            await nursery.start(run, f"M{number}")
        await found.protected()
        yield found
        nursery.cancel_scope.cancel()


async def operations(
    found: CountedCluster, count: int, size: int, kinds: int = 4
) -> dict[str, Cost]:
    """Return the cost of each kind of operation. The members in the middle do them, not the coordinator. ``kinds``: the
    number of kinds."""
    at = len(found.caches) // 2
    owner, other = found.caches[at], found.caches[at + 1]
    value = bytes(size)
    await owner.put("/own", "k", value)
    await found.protected()

    async def write(_: int) -> None:
        await owner.put("/own", "k", value)

    async def create(number: int) -> None:
        await owner.put(f"/n/{number}", "k", value)

    async def create_new(number: int) -> None:
        await owner.put(f"/new/{number}", "k", value, new=True)

    async def gravitate(number: int) -> None:
        assert await other.get(f"/n/{number}", "k") == value

    chosen = {
        "write": write,
        "create, new=True": create_new,
        "create": create,
        "gravitate": gravitate,
    }
    return {name: await found.cost(count, chosen[name]) for name in [*chosen][:kinds]}


async def memory(found: CountedCluster, keys: int, seed: int = 1) -> Memory:
    """Measure the memory after ``keys`` nodes of 50 to 150 bytes, drawn at random, were put at each member. It is
    measured first while the cluster is empty."""
    chance = random.Random(seed)
    for number, cache in enumerate(found.caches):
        async with cache.batch(new=True) as batch:
            for key in range(keys):
                batch.put(f"/{number}/{key}", "key", bytes(chance.randrange(50, 151)))
    await found.protected()
    return found.memory()


@dataclass(frozen=True)
class Sticky:
    """The mean cost of a request with a given stickiness."""

    stickiness: float
    astray: float
    """Part of the requests that came to another member than the key's home."""
    gravitations: float
    messages: float
    packets: float
    bytes: float


async def stickiness(found: CountedCluster, load: Load, requests: int, seed: int = 1) -> Sticky:
    """A workload of all members in turn, after every key was put where it is at home."""
    names = [f"M{number}" for number in range(len(found.caches))]
    value = bytes(load.value_size)
    for key in range(load.keys):
        cache = found.caches[names.index(home(key, names))]
        await cache.put(f"/s/{key}", "k", value)
    await found.protected()
    sources = [Requests(load, name, random.Random(f"{seed}/{name}")) for name in names]
    moved = _gravitations(found)
    drawn: list[DrillRequest] = []

    async def one(number: int) -> None:
        at = number % len(names)
        request = sources[at].next(names)
        drawn.append(request)
        path = f"/s/{request.key}"
        if request.read:
            assert await found.caches[at].get(path, "k") == value
        else:
            await found.caches[at].put(path, "k", value)

    cost = await found.cost(requests, one)
    return Sticky(
        load.stickiness,
        sum(not request.at_home for request in drawn) / requests,
        (_gravitations(found) - moved) / requests,
        cost.total,
        cost.packets,
        cost.bytes,
    )


def _gravitations(found: CountedCluster) -> int:
    return sum(c.buddies.machine.statistics.get("gravitations", 0) for c in found.caches)
