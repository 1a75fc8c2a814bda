"""Random schedules of a bucket store in virtual time: clients at all nodes, kills, cuts, moves, recreations, cancelled moves; and their judge.

A node is killed or cut off only while every pair has its backup, so nothing that was answered may be lost. These
properties must hold at the end:

- each answered token is in its entry once, at the place that was answered;
- no token is there twice, despite repeated requests;
- each read shows a beginning of the final list, and in it all that was answered before the read began. So no two masters answer;
- every request has an end within ``ANSWER_MAX``, and both copies of each pair are equal.

``BucketCase`` has the requests and the faults, with times, so that a failing schedule can be made smaller. The target
of a fault is drawn while the schedule runs, from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.digest import bucket_of, digest_of
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.errors import BucketError, OutcomeUnknown
from jgroups_py.buckets.index import IndexCopy
from jgroups_py.buckets.machine import BucketMachine
from jgroups_py.buckets.messages import BucketRow, EntryChange
from jgroups_py.buckets.plugin import ReadAt, Request
from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.explorer.buckets.ledger import NEW, OLD, TokenLedger, ledger
from jgroups_py.testing.explorer.buckets.world import BucketWorld, full_member

NODES = ("n1", "n2", "n3", "n4")
BESIDE = ("n1+", "n2+")
"""Members with the newer version on the nodes of n1 and n2."""
BUCKETS = 8
KEYS = tuple(f"key-{n}" for n in range(10))
ANSWER_MAX = 30.0
"""The most seconds for a request (A20)."""
SECONDS = 40.0
MOVE_SECONDS: Final = 0.04
"""A move takes about as long here, so faults and requests in this time meet each of its steps."""
FILLED: Final = 8.0
"""Seconds of requests before a re-partition begins."""
WHOLE_WITHIN: Final = 120.0
"""Seconds after the last fault in which every pair gets a slave."""
KIND: Final = "buckets"
LATE_SHARES: Final = (0.01, 0.05, 0.2)
LATE_SECONDS: Final = (0.05, 0.2, 0.5)
FAULTS: Final = ("lose", "move", "move", "cut_off")
"""The faults to draw from; moves are twice as likely."""

PlannedAsk = tuple[float, str, str, str]
"""When, at which node's router, for which key, and the token that is added; "" reads."""
PlannedFault = tuple[float, str]
"""When, and which of ``FAULTS``."""


class BucketCase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One schedule. ``blips``: cuts are so short that the views of both sides hardly last. ``versions``: two nodes have a second
    manager with a newer version of the plug-in, and buckets move between the versions, up and down. ``repartition``: the entries go into
    another instance meanwhile (repartition.py). ``late``: the share of late messages, and the most seconds; then half of the reads are for
    slaves. ``orders``: an administrator gives orders to an instance without faults (administered.py)."""

    kind: str
    seed: int
    blips: bool
    versions: bool
    asks: tuple[PlannedAsk, ...]
    faults: tuple[PlannedFault, ...]
    repartition: bool = False
    late: tuple[float, float] = (0.0, 0.0)
    orders: bool = False


def draw(
    seed: int,
    *,
    blips: bool = False,
    versions: bool = False,
    repartition: bool = False,
    late: bool = False,
    orders: bool = False,
) -> BucketCase:
    """Draw the schedule of a seed."""
    asks, faults = _drawn(_chance(seed))
    if repartition:
        asks = [ask for ask in asks if ask[0] < FILLED]
    chance = random.Random(f"buckets-late/{seed}")
    tail = (chance.choice(LATE_SHARES), chance.choice(LATE_SECONDS)) if late else (0.0, 0.0)
    return BucketCase(
        KIND, seed, blips, versions, tuple(asks), tuple(faults), repartition, tail, orders
    )


def _chance(seed: int) -> random.Random:
    return random.Random(f"buckets/{seed}")


def _drawn(chance: random.Random) -> tuple[list[PlannedAsk], list[PlannedFault]]:
    asks: list[PlannedAsk] = []
    at = 0.0
    while at < SECONDS:
        at += chance.uniform(0.01, 0.12)
        token = f"t{len(asks) + 1}" if chance.random() < 0.7 else ""
        asks.append((at, chance.choice(NODES[:3]), chance.choice(KEYS), token))
    faults: list[PlannedFault] = []
    at = chance.uniform(0.5, 2.0)
    while at < SECONDS - 10:
        faults.append((at, chance.choice(FAULTS)))
        at += chance.uniform(0.05, 3.0)
    return asks, faults


@dataclass
class Asked:
    """A request and its end."""

    key: str
    added: str
    """The text that is added; "" of a read."""
    began: float
    member: str
    """The member whose router was asked."""
    ended: float = -1.0
    answer: str | BucketError = ""


@dataclass
class Run:
    """The result of a schedule."""

    seed: int
    asked: list[Asked] = field(default_factory=list)
    problems: list[Violation] = field(default_factory=list)
    kills: int = 0
    cuts: int = 0
    moves: int = 0
    story: list[str] = field(default_factory=list)

    def violated(self, check: str, detail: str) -> None:
        self.problems.append(Violation(check, detail))


class Stage:
    """One schedule while it is played. ``contents``: the first entries, by bucket."""

    def __init__(
        self,
        case: BucketCase,
        *,
        buckets: int = BUCKETS,
        contents: Mapping[int, list[EntryChange]] | None = None,
    ) -> None:
        self.random = _chance(case.seed)
        # This draw keeps later ones the same, even when parts were taken out of the case.
        _drawn(self.random)
        self.blips = case.blips
        self.buckets, self.contents = buckets, contents or {}
        self.final: dict[str, Asked] = {}
        """The last read of each key."""
        self.names = NODES + BESIDE if case.versions else NODES
        placement = {
            bucket: (f"m/{NODES[bucket % 4]}", f"m/{NODES[(bucket + 1 + bucket // 4) % 4]}")
            for bucket in range(buckets)
        }
        self.settings = InstanceSettings(
            buckets=buckets, index_copies=tuple(f"i/{n}" for n in NODES[:3]), lease=1.0
        )
        self.placement = placement
        self.world = BucketWorld(self.settings, case.seed, late=case.late)
        self.at_slaves = random.Random(f"reads/{case.seed}") if case.late[0] else None
        self.run = Run(case.seed, story=self.world.story)
        self.busy = False
        """True while a node is away."""
        self.clients_work = True
        """True: faults come with many requests for their bucket."""
        self.keys = {
            bucket: [k for k in KEYS if bucket_of(digest_of(k), buckets) == bucket]
            for bucket in range(buckets)
        }
        self.bursts = 0
        for name in self.names:
            self.start(name)
        self.world.run(1.0)

    # --- the instance

    def start(self, name: str) -> None:
        plugin = ledger(NEW if name in BESIDE else OLD)
        build = full_member(plugin, name, self.settings, self.placement)

        def filled(machine: BucketMachine) -> None:
            build(machine)
            for manager in machine.managers.values():
                manager.contents = dict(self.contents)

        self.world.start(name, filled, node=name.rstrip("+"))

    def index(self) -> IndexCopy | None:
        """Return an index copy with a majority."""
        for name in NODES[:3]:
            member = self.world.alive(name)
            if member is not None:
                index = self.world.machines[member].indices.get(f"i/{name}")
                if index is not None and index.has_quorum:
                    return index
        return None

    def rows(self) -> list[BucketRow]:
        index = self.index()
        return [] if index is None else list(index.state.rows.values())

    def is_whole(self) -> bool:
        """Does every pair have its two copies, at living managers?"""
        rows = self.rows()
        living = {self.world.alive(n) for n in self.names}
        return len(rows) == self.buckets and all(
            row.slave is not None and {row.master.member, row.slave.member} <= living
            for row in rows
        )

    def ask(self, name: str, key: str, token: str) -> None:
        member = self.world.alive(name)
        if member is None or not self.world.machines[member].routers:
            return
        asked = Asked(key, token, self.world.now, member)
        self.run.asked.append(asked)

        def answered(answer: Any) -> None:
            asked.ended = self.world.now
            if isinstance(answer, BucketError):
                asked.answer = answer
            else:
                asked.answer = answer[0][1].decode() if answer else ""

        read_at: ReadAt | None = None
        if self.at_slaves is not None and not token and self.at_slaves.random() < 0.5:
            read_at = "slave"
        body = f"+{token}".encode() if token else b"?"
        self.world.request(member, Request(body, key, read_at=read_at), answered)

    def operate(self, what: str, *arguments: Any, **options: Any) -> None:
        """Do an administrator's operation at any router."""
        for name in self.random.sample(NODES[:3], 3):
            member = self.world.alive(name)
            if member is not None:
                router = self.world.machines[member].routers[f"r/{name}"]
                getattr(router, what)(*arguments, lambda _: None, **options)
                self.world.flush(member)
                return

    # --- events

    def plan(self, case: BucketCase) -> None:
        """Plan the clients' requests and the faults at their times."""
        self.plan_asks(case.asks)
        self.plan_faults(case.faults)

    def plan_asks(self, asks: Iterable[PlannedAsk]) -> None:
        for at, name, key, token in asks:
            self.world.at(at, lambda n=name, k=key, t=token: self.ask(n, k, t))  # type: ignore[misc]

    def plan_faults(self, faults: Iterable[PlannedFault]) -> None:
        does = {"lose": self.lose, "move": self.move, "cut_off": self.cut_off}
        for at, fault in faults:
            self.world.at(at, does[fault])

    def lose(self) -> None:
        if self.busy or not self.is_whole():
            return
        name = self.random.choice(self.names)
        member = self.world.alive(name)
        assert member is not None
        self.busy = True
        self.run.kills += 1
        for row in self.rows():
            if member in (row.master.member, row.slave and row.slave.member):
                self.burst(row.bucket)
        self.world.kill(member)
        for asked in self.run.asked:
            if asked.member == member and asked.ended < 0:  # the client is gone with its node
                asked.ended, asked.answer = self.world.now, OutcomeUnknown("killed")
        self.world.at(self.random.uniform(3.0, 6.0), lambda: self.back(name))

    def back(self, name: str) -> None:
        self.start(name)
        self.world.at(3.0, self.mend)

    def cut_off(self) -> None:
        if self.busy or not self.is_whole():
            return
        members = [m for n in self.names if (m := self.world.alive(n)) is not None]
        alone = self.random.choice(members)
        self.busy = True
        self.run.cuts += 1
        unaware = [alone] if self.blips and self.random.random() < 0.5 else []
        self.world.cut([[alone], [m for m in members if m != alone]], unaware)
        # longer than detection: after a shorter cut a channel sends again
        seconds = self.random.uniform(2.05, 2.3) if self.blips else self.random.uniform(2.5, 6.0)
        self.world.at(seconds, self.heal)

    def heal(self) -> None:
        # In blips the group merges before or while it reacts to the loss.
        self.world.heal((0.03, 0.8) if self.blips else None)
        self.world.at(4.0, self.mend)

    def move(self) -> None:
        rows = self.rows()
        if not rows:
            return
        row = self.random.choice(rows)
        to = self.manager(self.random.choice(self.names))
        if to is None:
            return
        self.run.moves += 1
        self.burst(row.bucket)
        if self.random.random() < 0.2:
            self.world.at(self.random.uniform(0.0, MOVE_SECONDS), self.lose)
        lock_first = self.random.random() < 0.2
        if self.random.random() < 0.5 or row.slave is None:
            self.operate(
                "migrate_master_bucket", row.master, to, bucket=row.bucket, lock_first=lock_first
            )
        else:
            self.operate(
                "migrate_slave_bucket", row.slave, to, bucket=row.bucket, lock_first=lock_first
            )
        if self.random.random() < 0.3:
            delay = self.random.uniform(0.0, MOVE_SECONDS)
            self.world.at(delay, lambda: self.operate("cancel", row.bucket))

    def burst(self, bucket: int) -> None:
        """Make many requests for one bucket, in the time that a move takes."""
        clients = self.clients_work and self.keys[bucket]
        for _ in range(self.random.randrange(12) if clients else 0):
            self.bursts += 1
            token = f"b{self.bursts}" if self.random.random() < 0.8 else ""
            name, key = self.random.choice(NODES[:3]), self.random.choice(self.keys[bucket])
            at = self.random.uniform(0.0, MOVE_SECONDS)
            self.world.at(at, lambda n=name, k=key, t=token: self.ask(n, k, t))  # type: ignore[misc]

    def manager(self, name: str) -> Cep | None:
        member = self.world.alive(name)
        return None if member is None else Cep(member, f"m/{name}")

    def mend(self) -> None:
        """Recreate slaves, as an administrator, until every pair has one."""
        if self.is_whole():
            self.busy = False
            return
        for row in self.rows():
            if row.slave is None:
                homes = [c for n in self.names if (c := self.manager(n)) and c != row.master]
                self.operate("recreate_bucket", self.random.choice(homes), bucket=row.bucket)
        self.world.at(1.0, self.mend)

    # --- the end

    def finish(self) -> None:
        until = self.world.now + WHOLE_WITHIN
        while not self.world.run(1.0, lambda: not self.busy and self.is_whole()):
            if self.world.now >= until:
                self.run.violated(
                    "backups", f"not every pair has one {WHOLE_WITHIN:g} s after the last fault"
                )
                return
            if not self.busy:  # a late settling has taken slaves away after the last look
                self.busy = True
                self.mend()
        self.world.run(3.0)
        last = len(self.run.asked)
        for key in KEYS:
            self.ask("n1", key, "")
        self.world.run(ANSWER_MAX)
        self.final = {a.key: a for a in self.run.asked[last:]}
        for key in KEYS:
            self.judge(key, self.final[key])
        self.judge_copies()

    def judge(self, key: str, final: Asked) -> None:
        violated = self.run.violated
        if isinstance(final.answer, BucketError) or final.ended < 0:
            violated("end", f"{key} cannot be read at the end: {final.answer!r}")
            return
        tokens = final.answer.split()
        if len(set(tokens)) != len(tokens):
            violated("once", f"{key}: a token is there twice: {tokens}")
        done: list[Asked] = []
        for asked in (a for a in self.run.asked if a.key == key):
            took = asked.ended - asked.began
            if asked.ended < 0 or took > ANSWER_MAX:
                violated("answers", f"{key}: the request at {asked.began:.3f} had no end in time")
            elif isinstance(asked.answer, BucketError):
                continue
            elif asked.added:
                done.append(asked)
                place = int(asked.answer)
                if tokens[place : place + 1] != [asked.added]:
                    violated(
                        "kept",
                        f"{key}: {asked.added}, answered with place {place} at {asked.ended:.3f}, is not there",
                    )
            else:
                self.judge_read(asked, tokens, done)

    def judge_read(self, read: Asked, tokens: list[str], done: list[Asked]) -> None:
        seen = str(read.answer).split()
        if seen != tokens[: len(seen)]:
            self.run.violated("reads", f"{read.key}: the read at {read.began:.3f} saw {seen[-3:]}")
        missing = [a.added for a in done if a.ended < read.began and a.added not in seen]
        if missing:
            self.run.violated(
                "reads", f"{read.key}: the read at {read.began:.3f} did not see {missing}"
            )

    def judge_copies(self) -> None:
        for row in self.rows():
            states = []
            for cep in (row.master, row.slave):
                assert cep is not None
                copies = self.world.machines[cep.member].managers[cep.component].copies
                copy = copies.get(row.bucket)
                states.append(None if copy is None else tokens_of(copy.bucket))
            if states[0] is None or states[0] != states[1]:
                self.run.violated("copies", f"the copies of bucket {row.bucket} differ")


def tokens_of(bucket: Bucket) -> dict[str, list[str]]:
    """Return the tokens of a copy, written in any version."""
    entries = {key: bucket.entry(key) for key in sorted(bucket.all_keys())}
    return {
        key: list(entry.tokens) for key, entry in entries.items() if isinstance(entry, TokenLedger)
    }


def play(case: BucketCase) -> Run:
    """Play one schedule and judge it."""
    stage = Stage(case)
    stage.plan(case)
    stage.world.run(SECONDS)
    stage.finish()
    return stage.run
