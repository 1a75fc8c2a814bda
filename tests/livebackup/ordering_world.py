"""A live node, a backup and what is on the way between them, as one value that can be copied: for model checks and random schedules.

An object's state is a hash of its history: which operation changed it, and all that the operation had read before. So two objects are
equal only if they were changed in one order by operations that saw the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from jgroups_py.livebackup.applier import Applier, Step
from jgroups_py.livebackup.tickets import Counters, Record, Ticket

Graph = tuple[tuple[str, ...], ...]
"""For each operation the objects that it changes, in its order."""
Action = tuple[str, int]


def change(state: int, op: int, seen: int) -> int:
    return crc32(f"{state} {op} {seen}".encode())


@dataclass
class Run:
    """An operation that is under way on one side."""

    made: int = 0
    seen: int = 0
    record: list[Ticket] = field(default_factory=list)


class World:
    """``act`` takes one of ``actions``. Both sides may crash once; then ``ended`` is true after the judge has looked."""

    def __init__(self, graph: Graph, *, crashes: bool = True, rejoin: bool = True) -> None:
        self.graph = graph
        self.crashes, self.rejoin = crashes, rejoin
        self.live_up = True
        self.counters = Counters()
        self.objects: dict[str, int] = {}
        self.runs = {op: Run() for op in range(len(graph))}
        self.history: dict[Ticket, int] = {}
        """State of each object after each change on the live node."""
        self.on_the_way: list[tuple[int, Record]] = []  # of numbers, as in the applier
        self.confirms: list[int] = []
        self.answered: set[int] = set()
        self.sent: dict[int, Record] = {}
        """By number, from 1 on."""
        self.done: set[int] = set()
        self.numbers: dict[int, int] = {}
        self.backup = Applier()
        self.copies: dict[str, int] = {}
        self.applying: dict[int, Run] = {}
        self.ready: dict[int, Step] = {}
        self.confirmed: set[int] = set()
        self.contained = 0
        """The newest operation of the snapshot that the backup began with."""

    def copy(self) -> World:
        other = World.__new__(World)
        other.__dict__ |= self.__dict__
        other.counters = Counters(self.counters.vector().items())
        other.objects, other.history = dict(self.objects), dict(self.history)
        other.runs = {op: Run(r.made, r.seen, list(r.record)) for op, r in self.runs.items()}
        other.done, other.answered = set(self.done), set(self.answered)
        other.on_the_way, other.confirms = list(self.on_the_way), list(self.confirms)
        other.sent, other.numbers = dict(self.sent), dict(self.numbers)
        other.copies, other.ready = dict(self.copies), dict(self.ready)
        other.applying = {op: Run(r.made, r.seen) for op, r in self.applying.items()}
        other.confirmed = set(self.confirmed)
        other.backup = copy_of(self.backup)
        return other

    def key(self) -> object:
        """Equal for worlds that cannot be told apart from now on."""
        return (
            self.live_up,
            self.rejoin,
            tuple(sorted(self.history.items())),
            tuple((r.made, tuple(r.record)) for r in self.runs.values()),
            tuple(self.on_the_way),
            tuple(self.confirms),
            frozenset(self.answered),
            tuple(sorted(self.backup.vector().items())),
            tuple((op, r.made) for op, r in sorted(self.applying.items())),
            frozenset(self.confirmed),
            self.contained,
        )

    # --- what can happen

    def actions(self) -> list[Action]:
        found: list[Action] = []
        if self.live_up:
            found += [
                ("live", op)
                for op, run in self.runs.items()
                if op not in self.done and run.made < len(self.graph[op])
            ]
            found += [
                ("empty", op) for op in self.runs if not self.graph[op] and op not in self.done
            ]
            if self.confirms:
                found.append(("answer", 0))
            if self.crashes:
                found.append(("lose live", 0))
            if self.rejoin and self.is_quiet:
                found.append(("lose backup", 0))
        if self.on_the_way:
            found.append(("arrive", 0))
        found += [("apply", op) for op in self.ready]
        return found

    @property
    def is_quiet(self) -> bool:
        """No operation is under way on the live node: a snapshot can be made."""
        return all(op in self.done or not run.made for op, run in self.runs.items())

    def act(self, action: Action) -> None:
        kind, op = action
        match kind:
            case "live":
                self._live(op)
            case "empty":
                self._send(op)
            case "answer":
                self.answered.add(self.confirms.pop(0))
            case "arrive":
                self._arrive()
            case "apply":
                self._apply(op)
            case "lose live":
                self.live_up = False
                self.confirms.clear()
                self.on_the_way.clear()  # what had come before was another order's "arrive"
            case "lose backup":
                self._begin_anew()

    def _live(self, op: int) -> None:
        run = self.runs[op]
        name = self.graph[op][run.made]
        ticket = self.counters.next(name)
        state = change(self.objects.get(name, 0), op, run.seen)
        self.objects[name] = self.history[ticket] = run.seen = state
        run.record.append(ticket)
        run.made += 1
        if run.made == len(self.graph[op]):
            self._send(op)

    def _send(self, op: int) -> None:
        number = len(self.sent) + 1
        self.done.add(op)
        self.sent[number] = tuple(self.runs[op].record)
        self.numbers[number] = op
        self.on_the_way.append((number, self.sent[number]))

    def _arrive(self) -> None:
        op, record = self.on_the_way.pop(0)
        steps = self.backup.add(op, record)
        if steps is None:
            assert op <= self.contained, op
            return
        self.applying[op] = Run()
        self.ready |= {step.op: step for step in steps}
        if not record:
            self._end(op)

    def _apply(self, op: int) -> None:
        step = self.ready.pop(op)
        name = step.ticket.object
        run = self.applying[op]
        before = self.copies.get(name, 0)
        self.copies[name] = run.seen = change(before, self.numbers[op], run.seen)
        assert self.copies[name] == self.history[step.ticket], f"{step.ticket} differs from live"
        run.made += 1
        self.ready |= {one.op: one for one in self.backup.done(step, (name, before))}
        if run.made == len(self.sent[op]):
            self._end(op)

    def _end(self, op: int) -> None:
        del self.applying[op]
        confirmed = self.backup.ended(op)
        assert not self.confirmed & set(confirmed), "confirmed twice"
        self.confirmed |= set(confirmed)
        if self.live_up:
            self.confirms += list(confirmed)
        self.check()

    def _begin_anew(self) -> None:
        """The backup died; another one has the live node's snapshot and vector, and what is on the way comes to it, too."""
        self.rejoin = False
        self.backup = Applier(self.counters.vector(), len(self.sent))
        self.copies = dict(self.objects)
        self.contained = len(self.sent)
        self.confirmed = set(self.sent)
        self.confirms = sorted(set(self.sent) - self.answered)
        self.applying.clear()
        self.ready.clear()

    # --- what must hold

    def check(self) -> None:
        """Confirmed operations form a prefix: with each one also whoever made the change before."""
        self.backup.check()
        by_ticket = {ticket: op for op, record in self.sent.items() for ticket in record}
        for op in self.confirmed:
            for name, number in self.sent[op]:
                if number > 1:
                    before = by_ticket.get(Ticket(name, number - 1))
                    assert before in self.confirmed, f"{op} is confirmed and {before} is not"
        assert self.answered <= self.confirmed, "an answer without a confirmation"

    def judge(self) -> None:
        """Nothing can happen any more: nothing hangs, or the live node is lost and what is left of it is reversed."""
        assert not self.on_the_way and not self.ready
        if self.live_up:
            assert not self.applying, f"{sorted(self.applying)} hang: {self.backup.waits()}"
            assert self.confirmed == self.answered == set(range(1, len(self.graph) + 1))
            assert self.copies == self.objects
            assert self.backup.vector() == self.counters.vector() and not len(self.backup)
            return
        for reversal in self.backup.abandon():
            name, before = reversal.undo
            assert reversal.step.op not in self.confirmed, "a confirmed operation is reversed"
            assert self.copies[name] == self.history[reversal.step.ticket], "not the newest change"
            self.copies[name] = before
        assert not len(self.backup) and not self.backup.waits()
        assert self.answered <= self.confirmed
        # What is left is what the confirmed operations did, nothing of others.
        kept: dict[str, int] = {}
        for op in self.confirmed:
            for name, number in self.sent[op]:
                kept[name] = max(kept.get(name, 0), number)
        assert self.backup.vector() == kept
        state = {name: state for name, state in self.copies.items() if state}
        assert state == {name: self.history[Ticket(name, n)] for name, n in kept.items()}


def copy_of(applier: Applier) -> Applier:
    """Without walking through values that never change, which is most of copy.deepcopy's time."""
    other = Applier(applier.vector(), applier._contained)
    other._newest = applier._newest
    for name in ("_waiting", "_made"):
        setattr(other, name, dict(getattr(applier, name)))
    for op, running in applier._running.items():
        other._running[op] = type(running)(running.record, running.made, running.ready)
    ledger = other._ledger
    for op, kept in applier._ledger._kept.items():
        ledger._kept[op] = type(kept)(kept.record, kept.complete, list(kept.waiting))
    ledger._made_by = dict(applier._ledger._made_by)
    return other


def explore(graph: Graph, *, crashes: bool = True, rejoin: bool = True) -> int:
    """Every order in which everything can happen. Returns the number of different worlds."""
    first = World(graph, crashes=crashes, rejoin=rejoin)
    seen = {first.key()}
    todo = [first]
    while todo:
        world = todo.pop()
        actions = world.actions()
        if not actions:
            world.judge()
            continue
        for action in actions:
            other = world.copy()
            other.act(action)
            key = other.key()
            if key not in seen:
                seen.add(key)
                todo.append(other)
    return len(seen)


def play(graph: Graph, choice: random.Random, *, lost: str = "") -> World:
    """One random order. ``lost`` is "live", "backup", "both" or nothing."""
    world = World(graph, crashes=lost in ("live", "both"), rejoin=lost in ("backup", "both"))
    weight = {"lose live": choice.choice((0.02, 0.1, 0.5)), "lose backup": 0.3}
    while actions := world.actions():
        world.act(choice.choices(actions, [weight.get(kind, 1.0) for kind, _ in actions])[0])
    world.judge()
    return world


def random_graph(choice: random.Random) -> Graph:
    names = [f"O{n}" for n in range(choice.randint(1, 6))]
    return tuple(
        tuple(choice.choice(names) for _ in range(choice.randint(0, 5)))
        for _ in range(choice.randint(1, 12))
    )


def small_graphs(operations: int, steps: int, objects: Sequence[str]) -> Iterator[Graph]:
    """All graphs of so many operations of so many steps each, up to a renaming of objects."""

    def rows(length: int) -> Iterator[tuple[str, ...]]:
        if not length:
            yield ()
            return
        for row in rows(length - 1):
            for name in objects:
                yield (*row, name)

    def graphs(count: int) -> Iterator[Graph]:
        if not count:
            yield ()
            return
        for graph in graphs(count - 1):
            for row in rows(steps):
                yield (*graph, row)

    for graph in graphs(operations):
        order = dict.fromkeys(name for row in graph for name in row)
        if list(order) == list(objects[: len(order)]):
            yield graph
