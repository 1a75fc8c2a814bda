"""A live node, a backup and the messages between them, as one value that can be copied: for model checks and random
schedules.

An object's state is a hash of its history: the operations that changed it, and everything that each had read before. So
two objects are equal only if they were changed in one order by operations that saw the same. A step "A" changes object
A, a step "A-" removes it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from jgroups_py.livebackup.applier import Applier, Step
from jgroups_py.livebackup.changed import Changed
from jgroups_py.livebackup.tickets import Counters, Record, Ticket

Graph = tuple[tuple[str, ...], ...]
"""The steps of each operation, in its order."""
Action = tuple[str, int]
Sent = tuple[int, Record, tuple[str, ...]]
"""The number, the record, and the names of forgotten objects."""
WRONG = -1
"""State of an object that an operation has made wrong."""


def change(state: int, op: int, seen: int) -> int:
    return crc32(f"{state} {op} {seen}".encode())


def changed_objects(objects: dict[str, int], step: str, op: int, seen: int) -> int:
    """Carry out the step. Return everything that the operation has read up to then."""
    name = step.rstrip("-")
    before = objects.get(name, 0)
    if step.endswith("-"):
        objects.pop(name, None)
        return change(int(before != 0), op, seen)
    objects[name] = change(before, op, seen)
    return objects[name]


@dataclass
class Run:
    """A running operation on one side."""

    made: int = 0
    seen: int = 0
    record: list[Ticket] = field(default_factory=list)
    removed: dict[str, int] = field(default_factory=dict)
    begun_after: int = 0
    """The newest operation that was sent before it began, on the live node."""

    def copy(self) -> Run:
        return Run(self.made, self.seen, list(self.record), dict(self.removed), self.begun_after)


@dataclass(frozen=True)
class Made:
    """A change as the live node made it."""

    op: int
    place: int
    number: int
    state: int
    """0: the object does not exist."""
    seen: int


class World:
    """``act`` takes one of ``actions``. Each side may crash once, and one operation may differ on the backup, which
    then takes its objects anew."""

    def __init__(
        self, graph: Graph, *, crashes: bool = True, rejoin: bool = True, differs: bool = False
    ) -> None:
        self.graph = graph
        self.crashes, self.rejoin, self.differs = crashes, rejoin, differs
        self.live_up = True
        self.counters = Counters()
        self.changed = Changed(self.counters)
        self.objects: dict[str, int] = {}
        self.runs = {op: Run() for op in range(len(graph))}
        self.history: dict[str, tuple[Made, ...]] = {}
        """The changes of each object on the live node, in their order."""
        self.order: tuple[int, ...] = ()
        """The operations that made those changes, in the order of all changes."""
        self.on_the_way: list[Sent] = []  # of numbers, as in the applier
        self.confirms: list[int] = []
        self.answered: set[int] = set()
        self.alone: set[int] = set()
        """Operations that were sent while there was no backup."""
        self.sent: dict[int, Record] = {}
        """The sent operations by number, from 1 on."""
        self.done: set[int] = set()
        self.numbers: dict[int, int] = {}
        self.backup = Applier()
        self.copies: dict[str, int] = {}
        self.applying: dict[int, Run] = {}
        self.ready: dict[int, Step] = {}
        self.confirmed: set[int] = set()
        self.contained = 0
        """The newest operation of the snapshot that the backup began with."""
        self.asked: int | None = None
        """The backup waits for the changes of this operation and of later ones."""
        self.kept: dict[str, int] = {}
        self.tail: list[Sent] = []

    def copy(self) -> World:
        other = World.__new__(World)
        other.__dict__ |= self.__dict__
        other.counters = Counters(self.counters.vector().items())
        other.changed = changed_copy(self.changed, other.counters)
        other.objects, other.history = dict(self.objects), dict(self.history)
        other.runs = {op: run.copy() for op, run in self.runs.items()}
        other.done, other.answered = set(self.done), set(self.answered)
        other.alone, other.tail = set(self.alone), list(self.tail)
        other.on_the_way, other.confirms = list(self.on_the_way), list(self.confirms)
        other.sent, other.numbers = dict(self.sent), dict(self.numbers)
        other.copies, other.ready = dict(self.copies), dict(self.ready)
        other.applying = {op: run.copy() for op, run in self.applying.items()}
        other.confirmed = set(self.confirmed)
        other.backup = copy_of(self.backup)
        return other

    def key(self) -> object:
        """Equal for worlds that cannot be told apart from now on."""
        return (
            (self.live_up, self.rejoin, self.differs, self.asked, self.contained),
            tuple(sorted(self.history.items())),
            tuple((r.made, tuple(r.record)) for r in self.runs.values()),
            tuple(self.on_the_way),
            tuple(self.tail),
            tuple(self.confirms),
            frozenset(self.answered),
            frozenset(self.alone),
            tuple(self.changed.removals.items()),
            tuple(sorted(self.runs[op].begun_after for op in self._under_way())),
            tuple(sorted(self.backup.vector().items())),
            tuple(sorted(self.copies.items())),
            tuple((op, r.made) for op, r in sorted(self.applying.items())),
            frozenset(self.confirmed),
        )

    # --- possible steps

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
            if self.is_quiet and self.asked is not None:
                found.append(("give", 0))
            elif self.rejoin and self.is_quiet:
                found.append(("lose backup", 0))
            if self.differs:
                found += [("differ", op) for op in self.ready]
        if self.on_the_way:
            found.append(("arrive", 0))
        found += [("apply", op) for op in self.ready]
        return found

    @property
    def is_quiet(self) -> bool:
        """True when no operation is under way on the live node, so that a snapshot can be made."""
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
            case "differ":
                self._differ(op)
            case "give":
                self._give()
            case "lose live":
                self.live_up = False
                self.confirms.clear()
                self.on_the_way.clear()  # the earlier arrival is the "arrive" of another order
            case "lose backup":
                self._begin_anew()

    # --- the live node

    def _live(self, op: int) -> None:
        run = self.runs[op]
        step = self.graph[op][run.made]
        if not run.made:
            run.begun_after = len(self.sent)
        ticket = self.counters.next(step.rstrip("-"))
        run.seen = changed_objects(self.objects, step, op, run.seen)
        if step.endswith("-"):
            run.removed[ticket.object] = ticket.number
        state = self.objects.get(ticket.object, 0)
        made = Made(op, run.made, ticket.number, state, run.seen)
        self.history[ticket.object] = (*self.history.get(ticket.object, ()), made)
        self.order += (op,)
        run.record.append(ticket)
        run.made += 1
        if run.made == len(self.graph[op]):
            self._send(op)

    def _send(self, op: int) -> None:
        number = len(self.sent) + 1
        oldest = min((self.runs[one].begun_after for one in self._under_way()), default=None)
        self.done.add(op)
        forgotten = tuple(self.changed.forgotten(lambda n: n in self.answered | self.alone, oldest))
        record = self.sent[number] = tuple(self.runs[op].record)
        self.changed.sent(number, record, self.runs[op].removed)
        self.numbers[number] = op
        self.on_the_way.append((number, record, forgotten))
        if self.asked is not None:
            self.alone.add(number)

    def _under_way(self) -> list[int]:
        return [op for op, run in self.runs.items() if run.made and op not in self.done]

    def _snapshot(self, since: int) -> tuple[dict[str, int], dict[str, int]]:
        """Return states and counters."""
        states = {n: s for n, s in self.objects.items() if self.changed.is_changed(n, since)}
        counters = {name: self.counters[name] for name in states}
        return states, counters | dict(self.changed.removed())

    # --- the backup

    def _arrive(self) -> None:
        sent = self.on_the_way.pop(0)
        if self.asked is not None:
            self.tail.append(sent)
        else:
            self._take(sent)

    def _take(self, sent: Sent) -> None:
        op, record, forgotten = sent
        if op > self.contained:
            assert not self.copies.keys() & forgotten, "an object is forgotten that is there"
            self.backup.forget(forgotten)
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
        number = self.numbers[op]
        run.seen = changed_objects(self.copies, self.graph[number][step.place], number, run.seen)
        made = self._made(op, step.place)
        assert self.copies.get(name, 0) == made.state, f"{step.ticket} differs from live"
        assert run.seen == made.seen, f"operation {op} saw something else at {step.ticket}"
        run.made += 1
        self.ready |= {one.op: one for one in self.backup.done(step, (name, before))}
        if run.made == len(self.sent[op]):
            self._end(op)

    def _made(self, op: int, place: int) -> Made:
        """Return the change as the live node made it."""
        for made in self.history[self.sent[op][place].object]:
            if (made.op, made.place) == (self.numbers[op], place):
                return made
        raise AssertionError(f"the live node did not make change {place} of {op}")

    def _end(self, op: int) -> None:
        del self.applying[op]
        confirmed = self.backup.ended(op)
        assert not self.confirmed & set(confirmed), "confirmed twice"
        self.confirmed |= set(confirmed)
        if self.live_up:
            self.confirms += list(confirmed)
        self.check()

    def _begin_anew(self) -> None:
        """The backup died; a new one has the live node's snapshot and vector, and gets the messages on their way,
        too."""
        self.rejoin = False
        states, counters = self._snapshot(0)
        assert states == self.objects
        self.copies = states
        self._back_up(counters)

    def _back_up(self, counters: dict[str, int]) -> None:
        self.backup = Applier(counters, len(self.sent))
        self.contained = len(self.sent)
        self.confirmed = set(self.sent)
        self.confirms = sorted(set(self.sent) - self.answered)
        self.applying.clear()
        self.ready.clear()

    def _differ(self, op: int) -> None:
        """Let an operation make its object wrong. Operations that were not confirmed end at once."""
        self.differs = False
        self.copies[self.ready[op].ticket.object] = WRONG
        self.asked = min([op, *self.backup.unconfirmed()])
        self.kept = {n: c for n, c in self.backup.vector().items() if n in self.copies}
        self.applying.clear()
        self.ready.clear()
        self.confirms.clear()
        self.alone |= set(self.sent)

    def _give(self) -> None:
        """Send some objects anew, or all of them if the live node has forgotten a removal that the backup may lack."""
        assert self.asked is not None
        since = self.changed.since(self.asked)
        states, counters = self._snapshot(since)
        if not since:
            self.kept, self.copies = {}, {}
        self.copies = {n: s for n, s in self.copies.items() if n not in counters} | states
        assert self.copies == self.objects, "an object was not taken anew"
        self._back_up(self.kept | counters)
        self.asked = None
        tail, self.tail = self.tail, []
        for sent in tail:
            self._take(sent)

    # --- invariants

    def check(self) -> None:
        """Confirmed operations form a prefix: with each confirmed operation, the operation with the change
        before it is also confirmed."""
        self.backup.check()
        by_op = {op: number for number, op in self.numbers.items()}
        for made in self.history.values():
            confirmed = [by_op.get(one.op) in self.confirmed for one in made]
            assert confirmed == sorted(confirmed, reverse=True), "no prefix is confirmed"
        assert self.answered <= self.confirmed, "an answer without a confirmation"

    def judge(self) -> None:
        """When no further step is possible, either no operation hangs, or the live node is lost and its unconfirmed
        changes are undone."""
        assert not self.on_the_way and not self.ready
        if self.live_up:
            assert not self.applying, f"{sorted(self.applying)} hang: {self.backup.waits()}"
            assert self.confirmed == self.answered == set(range(1, len(self.graph) + 1))
            assert self.copies == self.objects
            there = {n: c for n, c in self.backup.vector().items() if n in self.copies}
            counted = {n: c for n, c in self.counters.vector().items() if n in self.objects}
            assert there == counted and not len(self.backup)
            return
        if self.asked is not None:
            return  # the backup does not become live
        for reversal in self.backup.abandon():
            name, before = reversal.undo
            assert reversal.step.op not in self.confirmed, "a confirmed operation is reversed"
            made = self._made(reversal.step.op, reversal.step.place)
            assert self.copies.get(name, 0) == made.state, "not the newest change"
            self.copies[name] = before
        assert not len(self.backup) and not self.backup.waits()
        assert self.answered <= self.confirmed
        # The changes of confirmed operations remain, and no others.
        by_op = {op: number for number, op in self.numbers.items()}
        states: dict[str, int] = {}
        counters: dict[str, int] = {}
        for name, history in self.history.items():
            kept = [made for made in history if by_op.get(made.op) in self.confirmed]
            if kept and kept[-1].state:
                states[name], counters[name] = kept[-1].state, kept[-1].number
        self.copies = {name: state for name, state in self.copies.items() if state}
        assert self.copies == states
        assert {n: c for n, c in self.backup.vector().items() if n in self.copies} == counters


def changed_copy(changed: Changed, counters: Counters) -> Changed:
    other = Changed(counters)
    other._by, other.removals = dict(changed._by), dict(changed.removals)
    other._newest_forgotten = changed._newest_forgotten
    return other


def copy_of(applier: Applier) -> Applier:
    """Copy an applier without walking through values that never change, which takes most of copy.deepcopy's time."""
    other = Applier(applier.vector(), applier._contained)
    other._newest = applier._newest
    for name in ("_waiting", "_made"):
        setattr(other, name, dict(getattr(applier, name)))
    for op, running in applier.running.items():
        other.running[op] = type(running)(running.record, running.made, running.ready)
    ledger = other._ledger
    for op, kept in applier._ledger.kept.items():
        ledger.kept[op] = type(kept)(kept.record, kept.complete, list(kept.waiting))
    ledger._made_by |= applier._ledger._made_by
    return other


def explore(
    graph: Graph, *, crashes: bool = True, rejoin: bool = True, differs: bool = False
) -> int:
    """Play all steps in every order. Return the number of different worlds."""
    first = World(graph, crashes=crashes, rejoin=rejoin, differs=differs)
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


def play(graph: Graph, choice: random.Random, *, lost: str = "", differs: bool = False) -> World:
    """Play one random order. ``lost`` is "live", "backup", "both" or an empty text."""
    world = World(
        graph,
        crashes=lost in ("live", "both"),
        rejoin=lost in ("backup", "both"),
        differs=differs,
    )
    weight = {"lose live": choice.choice((0.02, 0.1, 0.5)), "lose backup": 0.3, "differ": 0.3}
    while actions := world.actions():
        world.act(choice.choices(actions, [weight.get(kind, 1.0) for kind, _ in actions])[0])
    world.judge()
    return world


def random_graph(choice: random.Random) -> Graph:
    names = [f"O{n}" for n in range(choice.randint(1, 6))]
    removals = choice.choice((0.0, 0.2, 0.5))

    def step() -> str:
        return choice.choice(names) + ("-" if choice.random() < removals else "")

    return tuple(
        tuple(step() for _ in range(choice.randint(0, 5))) for _ in range(choice.randint(1, 12))
    )


def small_graphs(
    operations: int, steps: int, objects: Sequence[str], *, removals: bool = False
) -> Iterator[Graph]:
    """Yield all graphs with this number of operations and of steps each, up to a renaming of objects."""
    choices = [*objects, *(f"{name}-" for name in objects)] if removals else list(objects)

    def rows(length: int) -> Iterator[tuple[str, ...]]:
        if not length:
            yield ()
            return
        for row in rows(length - 1):
            for step in choices:
                yield (*row, step)

    def graphs(count: int) -> Iterator[Graph]:
        if not count:
            yield ()
            return
        for graph in graphs(count - 1):
            for row in rows(steps):
                yield (*graph, row)

    for graph in graphs(operations):
        order = dict.fromkeys(step.rstrip("-") for row in graph for step in row)
        if list(order) == list(objects[: len(order)]):
            yield graph
