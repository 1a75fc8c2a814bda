"""Whole simulated clusters under attack: an episode sets one up, strikes it, and checks it afterwards.

An episode is of one of two kinds. ``strangers``: packets that were replayed, truncated or reordered, packets of
strangers, and packets with numbers out of every range. Afterwards the members share one view and get each
other's messages once and in order. ``forgers``: honest packets altered, and control messages in members' names.
A group without encryption cannot keep its order then; members must live, stay small and within their invariants.

In both no exception leaves a machine, no input takes long, and a transport counts its drops.
"""

from __future__ import annotations

import functools
import logging
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.transport.base import TP
from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.explorer.bytes.attacks import (
    FORGED,
    HARMLESS,
    RELAY_FORGED,
    Attack,
    mutated,
)
from jgroups_py.testing.explorer.bytes.cluster import SETTLE, Cluster, Op, is_refused
from jgroups_py.testing.explorer.bytes.cover import Cover
from jgroups_py.testing.explorer.bytes.guard import HANG, Broken, Guard
from jgroups_py.testing.explorer.bytes.mutate import Mutator
from jgroups_py.testing.explorer.bytes.spots import spots_of
from jgroups_py.testing.explorer.bytes.work import (
    TRACED_EVERY,
    ChunkDone,
    Corpus,
    FuzzFinding,
    FuzzWork,
    Tell,
)
from jgroups_py.testing.explorer.shrink import Shrinker
from jgroups_py.testing.sim import World
from jgroups_py.wire.text.kinds import KINDS

EPISODE: Final = 1000
"""Hostile inputs of an episode."""
RECOVERY: Final = 10.0
"""Virtual seconds after the last hostile packet before the cluster is looked at."""
GROWTH_MAX: Final = 20_000_000
"""Bytes that a member may hold more than before the attack: limits bound the number of strangers' messages
(design/limits.md), which are short here."""
SHRINK_TRIES: Final = 60
"""Episodes that are played to make one smaller; one takes a second or two."""
_HOSTILE: Final = ("udp", "tcp")
"""Ops that are inputs; the others are the cluster's own life."""
_COUNTED: Final = 8
"""The counter of the drop is checked for one packet in this number."""
_SEED: Final = 1
"""The seed of the world: always the same, so that packets of an earlier episode have a meaning in a later one."""


@dataclass(frozen=True, slots=True)
class FuzzedStack:
    """The settings of a cluster."""

    name: str
    make: Callable[[], Cluster]
    forged: tuple[Attack, ...]


def _hosts(world: World, member: str) -> dict[str, str]:
    return {"jgroups.tcpping.initial_hosts": ",".join(f"10.0.0.{n}[7800]" for n in (1, 2, 3))}


def _bridge(world: World, member: str) -> dict[str, str]:
    site, _, name = member.partition("/")
    hosts = [world.host_address(s, f"{n}{s}") for s in ("NYC", "SFO") for n in "ABC"]
    return {
        "relay.site": site,
        "relay.bridge.bind_addr": world.host_address(site, name),
        "jgroups.bind_addr": world.host_address(site, name),
        "relay.bridge.hosts": ",".join(f"{host}[7900]" for host in hosts),
    }


def _two_sites() -> Cluster:
    return Cluster(
        _SEED,
        "relay-udp.xml",
        attributes={"RELAY.sites": "NYC,SFO"},
        properties=_bridge,
        sites=("NYC", "SFO"),
    )


SCENES: Final[tuple[FuzzedStack, ...]] = (
    FuzzedStack("udp", lambda: Cluster(_SEED, "udp.xml"), FORGED),
    FuzzedStack("tcp", lambda: Cluster(_SEED, "tcp.xml", properties=_hosts), FORGED),
    FuzzedStack("relay", _two_sites, RELAY_FORGED),
)


class Episode(msgspec.Struct, frozen=True):
    """The steps done to a cluster, so that it can be done again."""

    scene: str
    forgers: bool
    ops: list[Op]


@functools.cache
def honest_packets(scene: FuzzedStack) -> tuple[bytes, ...]:
    """Return the messages that the members of a scene send before they are attacked."""
    with _quiet():
        cluster = scene.make()
        packets = tuple(dict.fromkeys(cluster.packets))
        cluster.close()
    return packets


@dataclass(frozen=True, slots=True)
class StackTarget:
    """A scene under attack; a chunk is an episode."""

    scene: FuzzedStack
    weight: float
    chunk_size: int = EPISODE

    @property
    def name(self) -> str:
        return f"stack:{self.scene.name}"

    def begin(self) -> Corpus:
        return Corpus()

    def chunk(self, work: FuzzWork, guard: Guard, tell: Tell = lambda data: None) -> ChunkDone:
        with _quiet():
            return _Siege(self, work, guard, tell).run()

    def replay(self, data: bytes, guard: Guard) -> Violation | None:
        episode = msgspec.msgpack.decode(data, type=Episode)
        return self._play(episode, episode.ops, guard)

    def _play(self, episode: Episode, ops: list[Op], guard: Guard) -> Violation | None:
        with _quiet():
            cluster = self.scene.make()
            cluster.only_said = not episode.forgers
            try:
                for op in ops:
                    problem = guard.run(functools.partial(perform, cluster, op), ())
                    if problem is not None:
                        return problem
                return guard.run(lambda: aftermath(cluster, episode.forgers, guard.alive), ())
            finally:
                cluster.close()

    def smaller(self, data: bytes, guard: Guard, key: str) -> bytes:
        episode = msgspec.msgpack.decode(data, type=Episode)
        if key == HANG:
            return data

        numbered = list(enumerate(episode.ops))
        # Without messages of members hardly any packet would be a replay.
        stay = [] if episode.forgers else [i for i, op in numbered if op[0] not in _HOSTILE]
        may_go = [i for i in range(len(numbered)) if i not in stay]

        def ops_of(kept: Sequence[int]) -> list[Op]:
            return [episode.ops[i] for i in sorted((*stay, *kept))]

        def same(kept: Sequence[int]) -> bool:
            problem = self._play(episode, ops_of(kept), guard)
            return problem is not None and problem.check == key

        if not same(may_go):
            return data
        shrinker = Shrinker(may_go, same, SHRINK_TRIES, math.inf)
        shrinker.cut(lambda ops: ops, lambda _, kept: list(kept), whole=False)
        ops = ops_of(shrinker.best)
        return msgspec.msgpack.encode(Episode(episode.scene, episode.forgers, ops))


STACKS: Final = tuple(StackTarget(scene, 5.0) for scene in SCENES)


def perform(cluster: Cluster, op: Op, *, counted: bool = True) -> None:
    """Do one op. ``counted``: a datagram that is no packet must be counted as dropped."""
    if not (counted and op[0] == "udp" and is_refused(op[3])):
        cluster.perform(op)
        return
    transport = cluster.world.members[op[1]].stack.find(TP)
    assert transport is not None
    before = _dropped(transport)
    cluster.perform(op)
    if _dropped(transport) == before:
        raise Broken("a packet that cannot be read was dropped, and no counter says so")


def _dropped(transport: TP) -> float:
    counts = transport.statistics()
    return sum(counts[name] for name in ("dropped_garbage", "dropped_version"))


def aftermath(cluster: Cluster, forgers: bool, alive: Callable[[], None]) -> None:
    """Check the properties that must hold when the attack is over: see the module's docstring. ``alive`` is called as
    virtual time goes by, which it may do for two minutes."""
    cluster.world.heal()
    cluster.world.run_for(RECOVERY)
    if not forgers:
        for _ in range(round(SETTLE / RECOVERY)):
            alive()
            if cluster.is_settled:
                break
            cluster.world.run_for(RECOVERY)
        alive()
        cluster.talk()
        cluster.once_in_order()
    cluster.assert_small(GROWTH_MAX)


class _Siege:
    """One episode as it is made up: attacks see the cluster as it is."""

    def __init__(self, target: StackTarget, work: FuzzWork, guard: Guard, tell: Tell) -> None:
        self.target = target
        self.work = work
        self.guard = guard
        self.tell = tell
        self.forgers = work.number % 2 == 1
        self.cover = Cover()
        self.rng = work.random(target.name)
        self.mutator = Mutator(self.rng)
        self.cluster = target.scene.make()
        self.cluster.random = random.Random(self.rng.random())
        self.cluster.only_said = not self.forgers
        self.inputs = 0
        self.problem: Violation | None = None

    def run(self) -> ChunkDone:
        attacks: tuple[Attack, ...] = HARMLESS
        if self.forgers:
            attacks = (*self.target.scene.forged, *HARMLESS, *[self.altered] * 12)
        try:
            problem = self.guard.run(lambda: self.strike(attacks), (_Stop,)) or self.problem
            if problem is None:
                problem = self.guard.run(self.aftermath, ())
            episode = Episode(self.target.scene.name, self.forgers, self.cluster.ops)
        finally:
            self.cluster.close()
        findings = []
        if problem is not None:
            data = msgspec.msgpack.encode(episode)
            findings.append(FuzzFinding(self.target.name, data, problem))
        return ChunkDone(self.target.name, max(1, self.inputs), self.work.corpus, findings)

    def aftermath(self) -> None:
        aftermath(self.cluster, self.forgers, self.guard.alive)

    def strike(self, attacks: tuple[Attack, ...]) -> None:
        cluster, rng = self.cluster, self.rng
        while self.inputs < self.work.count:
            for _ in range(rng.choice((1, 5, 20))):
                if rng.random() < 0.05:
                    member = rng.choice(cluster.members)
                    self.hit(cluster.connection(member, cluster.stream_noise()), b"")
                else:
                    data = rng.choice(attacks)(cluster)
                    self.hit(cluster.delivery(rng.choice(cluster.members), data), data)
            self.guarded(lambda: cluster.breathe(talk=not self.forgers or rng.random() < 0.2))
            if rng.random() < 0.02:
                self.guarded(lambda: cluster.trouble(attacks))

    def hit(self, op: Op, data: bytes) -> None:
        """Send a hostile input. A share of the inputs is traced, and kept when it goes a new way."""
        if op[2] == 0:
            return  # no process listens there
        self.tell(data)
        counted = self.inputs % _COUNTED == 0
        self.inputs += 1
        traced = data and self.inputs % TRACED_EVERY == 0

        def act() -> None:
            perform(self.cluster, op, counted=counted)

        self.guarded((lambda: self.cover.watch(act)) if traced else act)
        if traced:
            corpus = self.work.corpus
            fresh = self.cover.edges - corpus.edges
            corpus.edges |= fresh
            if fresh:
                corpus.add(data, self.rng)

    def guarded(self, act: Callable[[], Any]) -> None:
        """Do an act within its own time. If something is wrong, it ends the episode."""
        self.problem = self.guard.run(act, ())
        if self.problem is not None:
            raise _Stop

    def altered(self, cluster: Cluster) -> bytes:
        """Return a packet that once went a new way, or an honest one, changed where its numbers are."""
        rng, entries = self.rng, self.work.corpus.entries
        one = rng.choice(entries) if entries and rng.random() < 0.5 else rng.choice(cluster.packets)
        other = rng.choice(cluster.packets)
        if rng.random() < 0.1:
            return mutated(cluster)
        data = self.mutator.mutate((one, _map(one)), (other, _map(other)))
        # With our version, because packets of another version are dropped at once.
        return b"\x29\x46" + data[2:] if rng.random() < 0.8 else data


class _Stop(Exception):
    """The episode is over: ``problem`` says why."""


@functools.lru_cache(maxsize=1000)
def _map(data: bytes) -> Any:
    try:
        return spots_of(data, KINDS["packet"][0])
    except RemoteProtocolError:
        return []


@contextmanager
def _quiet() -> Iterator[None]:
    """Run without warnings: an attack makes thousands."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
