"""Buddy replication on whole simulated clusters: its machine on the real stack, with faults from a seed.

In ``jgroups_py.testing.explorer.buddies.explore`` every message is a step, and the explorer keeps the promises of a
group to the machine. Here GMS, NAKACK2, UNICAST3 and the rest have to keep them. The same invariants are judged: never
two owners in one view (after each step), no acknowledged write lost by crashes that must do no harm, values that merges
drop are listed, all backups equal at rest, every call ends.
"""

from __future__ import annotations

import random as _random
from collections.abc import Mapping
from typing import Any, Final

from jgroups_py.buddy.call import BuddyCall
from jgroups_py.buddy.codec import decode, encode
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.outputs import BuddyEvent, BuddyOutcome, Completed, SendMessage
from jgroups_py.buddy.values import Path, Wanted, covers
from jgroups_py.testing.check.violation import Violated, violations_in
from jgroups_py.testing.explorer.buddies.oracle import Oracle
from jgroups_py.testing.explorer.clusters import QUICK, SECONDS
from jgroups_py.testing.explorer.lab import RunOutcome
from jgroups_py.testing.sim import Member, World
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Flag
from jgroups_py.values.view import View

PATHS: Final[tuple[Path, ...]] = (("a",), ("a", "b"), ("c",), ("d",))
MEMBERS_MAX: Final = 6
REST_MAX: Final = 300.0
"""Virtual time in which all members must have come to rest."""
STEP: Final = 0.05


def explore_cluster(seed: int) -> RunOutcome:
    """Explore one cluster: even seeds with crashes, leaves and joins, odd ones with partitions that heal. Its
    steps are packets and timers; it has no schedule but its seed."""
    return _Cluster(seed).run()


class _Peer:
    """A member's machine on its stack."""

    def __init__(self, cluster: _Cluster, member: Member) -> None:
        self.cluster = cluster
        self.member = member
        self.machine = BuddyMachine(member.address, cluster.config, name=member.name)
        self.going = False
        member.keep_batches = False
        member.on_view = self._view
        member.on_batch = self._batch

    @property
    def now(self) -> float:
        return self.cluster.world.now

    def _view(self, member: Member, view: View) -> None:
        self.machine.install(view, self.now)
        self.after()

    def _batch(self, member: Member, batch: Batch) -> None:
        assert batch.src is not None
        for payload in batch.payloads:
            tag, message = decode(bytes(payload))
            self.machine.receive(batch.src, tag, message, self.now)
            self.after()

    def after(self) -> None:
        """Take the machine's output, and judge it."""
        machine = self.machine
        for out in machine.take():
            if isinstance(out, SendMessage):
                payload = encode(out.tag, out.message)
                for to in machine.members if out.to is None else (out.to,):
                    if to != machine.me:
                        self.member.send(payload, to=to, flags=Flag.NO_RELAY)
            elif isinstance(out, Completed):
                self.cluster.completed(out)
            elif isinstance(out, BuddyEvent):
                self._event(out)
        self.cluster.judge(machine)
        if machine.push(self.now):
            self.after()

    def _event(self, event: BuddyEvent) -> None:
        oracle = self.cluster.oracle
        oracle.resolve()
        if event.kind == "may_leave":
            self.going = True
        elif event.kind == "purged":
            oracle.was_purged(*event.detail)
        elif event.kind == "discarded":
            oracle.was_listed(event.detail.path, event.detail.stamp)


class _Cluster:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = _random.Random(f"cluster:{seed}")
        self.merges = seed % 2 == 1
        self.buddies = random.choice((1, 1, 2))
        self.config = BuddyConfig(
            locator_properties={"numBuddies": str(self.buddies)},
            leave_timeout=1e9,
            communication_timeout=1e9,
        )
        self.oracle = Oracle(values=not self.merges, merges=self.merges)
        self.world = World(seed, check=False)
        self.peers: dict[Address, _Peer] = {}
        self.pending: dict[int, tuple[Address, list[Path]]] = {}
        self.calls = self.faults = self.names = 0
        self.split = False
        self.spent = 0
        self.allowed = 0
        self.call_rate = random.choice((0.1, 0.3, 0.8))
        self.fault_rate = random.choice((0.01, 0.03, 0.06))
        self.problem: Violated | None = None

    def run(self) -> RunOutcome:
        problems = violations_in(self._run, lambda: self.world.now)
        self.world.close()
        return RunOutcome(
            self.seed,
            problems,
            faults=self.faults,
            events=self.world.events,
            virtual_s=self.world.now,
        )

    def _run(self) -> None:
        for _ in range(self.random.randint(3, 5)):
            self._join()
            self.world.run_for(0.5)
        self._wait(lambda: self.protected, "never protected")
        end = self.world.now + SECONDS
        while self.world.now < end:
            self._one()
            self._run_for(STEP)
        self._rest()

    def _run_for(self, seconds: float) -> None:
        before = int(self.world.now)
        self.world.run_for(seconds)
        if int(self.world.now) > before:
            for peer in list(self.peers.values()):
                if peer.machine.members:
                    peer.machine.advance(self.world.now)
                    peer.after()
        self._go()
        if self.problem is not None:
            raise self.problem

    # --- events

    def _one(self) -> None:
        random = self.random
        if random.random() < self.fault_rate:
            self._fault()
        if random.random() < self.call_rate:
            self._call()
        if not self.merges:
            self.look_whether_protected()

    def _join(self) -> None:
        self.names += 1
        member = self.world.start(f"M{self.names}", "sim.xml", "buddies", attributes=QUICK)
        self.peers[member.address] = _Peer(self, member)

    def _fault(self) -> None:
        random = self.random
        alive = list(self.peers.values())
        if random.random() < 0.3 and len(alive) < MEMBERS_MAX:
            self.faults += 1
            self._join()
        elif self.merges:
            self.faults += 1
            if not self.split:
                side = random.sample(alive, random.randint(1, len(alive) - 1))
                others = [peer for peer in alive if peer not in side]
                self.world.partition([p.member for p in side], [p.member for p in others])
                self.split = True
            else:
                self.world.heal()
                self.split = False
        elif random.random() < 0.3:
            peer = random.choice(alive)
            if len(alive) > self.buddies + 2 and peer.machine.members:
                self.faults += 1
                peer.machine.leave(self.world.now)
                peer.after()
        elif len(alive) > 1 and self.spent < min(self.allowed, len(alive) - 1):
            self.faults += 1
            self.spent += 1
            peer = random.choice(alive)
            peer.member.crash()
            self._gone(peer)

    def _go(self) -> None:
        """Members that may leave do so. Below b + 1 members that would count as a crash."""
        for peer in list(self.peers.values()):
            if peer.going and peer.machine.leaving.may_go() and self._may_shrink:
                peer.member.leave()
                self._gone(peer)

    def _gone(self, peer: _Peer) -> None:
        del self.peers[peer.machine.me]
        peer.member.on_view = peer.member.on_batch = None
        for id in [i for i, (member, _) in self.pending.items() if member == peer.machine.me]:
            del self.pending[id]

    def _call(self) -> None:
        random = self.random
        peer = random.choice(list(self.peers.values()))
        machine = peer.machine
        if not machine.members:
            return
        self.calls += 1
        id = self.calls
        kind = random.choice(("write", "write", "write", "read", "remove"))
        wanted: tuple[Wanted, ...] = ((random.choice(PATHS), False),)
        if random.random() < 0.15:
            wanted = tuple((path, False) for path in random.sample(PATHS, 2))
        elif random.random() < 0.15 and kind != "write":
            wanted = ((("a",), True),)
        acked = dict(self.oracle.acked)
        explicit = [path for path, _ in wanted]

        def change(old: Mapping[Path, Any]) -> Mapping[Path, Any]:
            known = [path for path in acked if covers(wanted, path)]
            found = {}
            for path in dict.fromkeys([*explicit, *old, *known]):
                must = acked.get(path, frozenset())
                found[path] = self.oracle.before(machine, path, must)
            if kind == "read":
                return {}
            value = id if kind == "write" else None
            written = explicit if kind == "write" else [p for p in found if p in machine.own]
            for path in written:
                self.oracle.writes(call, path, found[path] | {id}, value)
            self.pending[id] = (machine.me, written)
            return {path: value for path in written}

        call = BuddyCall(id, wanted, change)
        self.pending[id] = (machine.me, [])
        machine.submit(call, self.world.now)
        peer.after()

    def completed(self, out: Completed) -> None:
        _, written = self.pending.pop(out.call)
        if isinstance(out.error, Violated):
            self.problem = self.problem or out.error
        elif out.outcome is BuddyOutcome.DONE:
            for path in written:
                self.oracle.acknowledged(path, out.call)

    # --- judging

    def judge(self, machine: BuddyMachine) -> None:
        try:
            self.oracle.resolve()
            self.oracle.single_owner(machine, [p.machine for p in self.peers.values()])
        except Violated as violation:
            self.problem = self.problem or violation

    @property
    def protected(self) -> bool:
        here = set(self.peers)
        return all(
            p.machine.protected and set(p.machine.members) == here for p in self.peers.values()
        )

    def look_whether_protected(self) -> None:
        if self.protected:
            self.spent = 0
            self.allowed = min(self.buddies, len(self.peers) - 1)

    def _wait(self, condition: Any, problem: str) -> None:
        end = self.world.now + REST_MAX
        while not condition():
            if self.world.now > end:
                raise Violated("end", problem)
            self._run_for(0.1)

    def _rest(self) -> None:
        self.world.heal()
        self._wait(self._at_rest, "no rest")
        self._run_for(1.0)
        self._wait(self._at_rest, "no rest after a second")
        self.oracle.at_rest([peer.machine for peer in self.peers.values()])

    def _at_rest(self) -> bool:
        leaving = any(peer.machine.leaving.begun for peer in self.peers.values())
        return self.protected and not self.pending and not (leaving and self._may_shrink)

    @property
    def _may_shrink(self) -> bool:
        return len(self.peers) > self.buddies + 1
