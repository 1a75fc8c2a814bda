"""BackupSide: runs the live node's operations again, each change in its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import trio

from jgroups_py.livebackup.applier import RECORD_MAX, Applier, Step
from jgroups_py.livebackup.crew import Crew
from jgroups_py.livebackup.cut import Copies
from jgroups_py.livebackup.errors import BadOperation, Diverged, LiveBackupError
from jgroups_py.livebackup.kinds import (
    REMOVAL,
    OperationOutcome,
    is_awaited,
    outcome_of,
    raise_cancelled,
)
from jgroups_py.livebackup.messages import Op
from jgroups_py.livebackup.objects import Space
from jgroups_py.livebackup.tickets import Ticket
from jgroups_py.livebackup.waiting import Change, WaitingChange, make_changes
from jgroups_py.livebackup.work import CURRENT, REST_EVERY, AloneWork, Work

_new: Final = tuple.__new__
"""Make a named tuple in half of the time."""


class _Turn(WaitingChange):
    """A change of operation ``number`` whose turn has not come."""

    __slots__ = ("follower", "number")

    def __init__(self, number: int, change: Change) -> None:
        super().__init__(change)
        self.number = number
        self.follower: _Turn | None = None
        """The turn that this change made possible."""


class BackupWork(Work):
    """An operation on the backup: each change waits for its turn."""

    def __init__(self, op: Op, side: BackupSide) -> None:
        self.name, self.now, self.seed = op.name, op.now, op.seed
        self._op, self._side = op, side
        self._running = side.applier.running[op.number]
        self._checksums = dict(op.checksums) if op.checksums else None

    async def change(self, key: str, method: str, arguments: tuple[Any, ...]) -> Any:
        """As in ``Work``, which makes all changes but the common one: that of an object that exists, in its turn. The common one
        calls as few functions as it can."""
        side, running = self._side, self._running
        place, number = running.made, self._changes + 1
        if (
            not running.ready
            or (ticket := running.record[place]).object != key
            or (found := side.find(key)) is None
            or not found.is_here
            or method == REMOVAL
            or self._checksums is not None
            or side.copies is not None
            or self._busy
            or CURRENT.get() is not self
            or not number % REST_EVERY
            or number > RECORD_MAX
        ):
            return await super().change(key, method, arguments)
        self._changes = number
        self._busy = True
        try:
            outcome, undo = await found.call_undoable(method, arguments)
            side.made(_new(Step, (self._op.number, place, ticket)), undo)
            if outcome.error is not None:
                raise outcome.error
            return outcome.value
        finally:
            self._busy = False

    async def make(self, key: str, method: str, arguments: tuple[Any, ...]) -> Any:
        side, number = self._side, self._op.number
        side.space.check(key, method, arguments)
        ticket = side.applier.next_ticket(number)
        if ticket is None or ticket.object != key:
            raise side.differs(
                self._op, f"change {self._running.made + 1} is of {key}, not {ticket or 'the end'}"
            )
        if side.applier.is_ready(number):
            return await self._change(ticket, method, arguments)
        return await side.in_turn(number, partial(self._change, ticket, method, arguments))

    async def _change(self, ticket: Ticket, method: str, arguments: tuple[Any, ...]) -> Any:
        """Make the change, in its turn."""
        side, place, key = self._side, self._running.made, ticket.object
        keep = None if side.copies is None else partial(side.copies.keep, ticket)
        outcome, undo = await side.space.change_undoable(key, method, arguments, keep)
        if self._checksums is not None and place in self._checksums:
            outcome, checksum = await side.space.checked(key, outcome)
            if checksum != self._checksums[place]:
                raise side.differs(
                    self._op,
                    f"change {place + 1}, {ticket} by {method}: the object is not what it is on the live node",
                )
        side.made(_new(Step, (self._op.number, place, ticket)), undo)
        return outcome.unwrap()


async def _repeat_effects(work: BackupWork, op: Op, side: BackupSide) -> None:
    """Repeat only the changes that the operation made on the live node."""
    for (method, arguments, expected), (key, number) in zip(
        op.effects or (), op.record or (), strict=True
    ):
        outcome = await outcome_of(work.change, key, method, tuple(arguments))
        if outcome.raised != expected:
            raise side.differs(
                op,
                f"{Ticket(key, number)} by {method} raised {outcome.raised or 'nothing'}, on the live node {expected or 'nothing'}",
            )


class BackupSide:
    """A backup in one term of the live node."""

    def __init__(
        self,
        space: Space,
        counters: dict[str, int],
        last: int,
        nursery: trio.Nursery,
        *,
        readable: bool = False,
        on_confirmed: Callable[[list[int], int], None],
        on_diverged: Callable[[LiveBackupError], None],
    ) -> None:
        """``on_confirmed`` gets confirmed operations and the number of unconfirmed ones."""
        self.space, self.find = space, space.find
        self._operations = space.catalogue.operations
        self.applier = Applier(counters, last)
        self.copies = Copies() if readable else None
        """The states for readers. None: readers are not allowed."""
        self._crew = Crew()
        nursery.start_soon(self._crew.stay)
        self._on_confirmed, self._on_diverged = on_confirmed, on_diverged
        self._turns: dict[int, _Turn] = {}
        self._chained: dict[int, _Turn] = {}
        """The turn of an operation while a chain makes it, by number."""
        self._moving = 0
        """Running operations that do not wait for a turn."""
        self._still: trio.Event | None = None
        """Set when no operation moves. None: no caller waits for it."""
        self._alone = last + 1
        """The operation whose turn it is, in the reference mode."""
        self._next = trio.Event()
        self.failed = False
        self.torn = False
        """Was an operation of the reference mode cancelled half-way?"""
        self.confirmed = last
        """Operations of the term that are confirmed, those of the snapshot included."""
        self._contained = self._newest = last

    def take(self, op: Op) -> None:
        """Take an operation. It runs soon."""
        if self.failed:
            return
        number = op.number
        if number <= self._contained:
            return
        self._newest += 1
        if number != self._newest:
            self._fail(BadOperation(f"operation {number} comes, and not {self._newest}"))
            return
        if op.name not in self._operations:
            self.differs(op, "there is no operation of that name")
            return
        if op.effects is not None and len(op.effects) != len(op.record or ()):
            self._fail(BadOperation(f"operation {op.number} has {len(op.effects)} effects"))
            return
        if op.record is not None:
            try:
                if op.forgotten:
                    self._forget(op)
                self.applier.add(number, op.record)
            except LiveBackupError as error:
                self._fail(error)
                return
        self._moving += 1
        self._crew.start(partial(self._run, op))

    def _forget(self, op: Op) -> None:
        for key in op.forgotten:
            if self.space.find(key) is not None:
                raise BadOperation(f"operation {op.number} forgets {key}, which is there")
        self.applier.forget(op.forgotten)

    async def _run(self, op: Op) -> None:
        try:
            if op.record is None:
                await self._run_alone(op)
                return
            work = BackupWork(op, self)
            CURRENT.set(work)
            if op.effects is None:
                function = self._operations[op.name]
                try:
                    outcome = OperationOutcome(await function(work, *op.arguments), None)
                except Exception as error:
                    outcome = OperationOutcome(None, error)
                except BaseExceptionGroup as group:
                    raise_cancelled(group)
            else:
                outcome = await outcome_of(_repeat_effects, work, op, self)
            if not self.failed:
                self._has_run(op, outcome)
        finally:
            self._moving -= 1
            if self._still is not None:
                self._look_still()

    def _has_run(self, op: Op, outcome: OperationOutcome) -> None:
        """Compare how an operation ended with the live node, and confirm what is complete."""
        raised = "" if outcome.error is None else outcome.raised
        applier, number = self.applier, op.number
        running = applier.running[number]
        if running.made < len(running.record):
            rest = running.record[running.made]
            self.differs(op, f"it ended before {rest}, raising {raised or 'nothing'}")
        elif raised != op.outcome and op.effects is None:
            self.differs(
                op, f"it raised {raised or 'nothing'}, on the live node {op.outcome or 'nothing'}"
            )
        else:
            confirmed = applier.ended(number)
            if self.copies is not None:
                self.copies.confirmed(ticket for record in confirmed.values() for ticket in record)
            if confirmed:
                self.confirmed += len(confirmed)
                self._on_confirmed(list(confirmed), len(applier.kept))

    async def _run_alone(self, op: Op) -> None:
        while self._alone != op.number:
            await self._next.wait()
        work = AloneWork(op.name, op.now, op.seed, self.space)
        done = False
        try:
            function = self._operations[op.name]
            await outcome_of(work.run, function, tuple(op.arguments))
            done = True
        finally:
            self.torn = self.torn or not done
        self._alone += 1
        self._next.set()
        self._next = trio.Event()
        self.confirmed += 1
        self._on_confirmed([op.number], 0)

    # --- turns

    @property
    def in_line(self) -> int:
        """Count the operations that wait for their turn at an object."""
        return len(self._turns)

    async def in_turn(self, number: int, change: Change) -> Any:
        """Make the next change of this operation when its turn comes; return its value."""
        turn = self._turns[number] = _Turn(number, change)
        self._moving -= 1
        self._look_still()
        return await turn.result(partial(self._turns.pop, number, None))

    def made(self, step: Step, undo: Any) -> None:
        for ready in self.applier.done(step, undo):
            turn = self._turns.pop(ready.op, None)
            if turn is not None:
                self._moving += 1
                before = self._chained.pop(step.op, None)
                if before is not None:
                    before.follower = turn
                else:
                    self._crew.start_next(partial(make_changes, self._chain(turn)))

    def _chain(self, turn: _Turn | None) -> Iterator[_Turn]:
        """Yield this turn, and then each turn that the one before it made possible."""
        while turn is not None:
            self._chained[turn.number] = turn
            yield turn
            self._chained.pop(turn.number, None)
            turn = turn.follower

    def _look_still(self) -> None:
        if self._still is not None and not self._moving:
            self._still.set()

    # --- operations that differ

    def differs(self, op: Op, what: str) -> Diverged:
        objects = tuple(dict.fromkeys(key for key, _ in op.record or ()))
        text = f"operation {op.name} ({op.number}): {what}"
        error = Diverged(text, op.name, op.number, objects)
        self._fail(error)
        return error

    def _fail(self, error: LiveBackupError) -> None:
        if not self.failed:
            self.failed = True
            self._on_diverged(error)

    # --- the live node is lost

    async def abandon(self, timeout: float) -> int:
        """Finish the operations that can go on, cancel the others and reverse all unconfirmed changes (P13). Return the
        number of operations given up."""
        with trio.move_on_after(timeout):
            if self._moving:
                self._still = trio.Event()
                await self._still.wait()
        await self.cancel()
        given_up = len(self.applier)
        for reversal in self.applier.abandon():
            done = reversal.undo()
            if is_awaited(done):
                await done
        return given_up

    async def cancel(self) -> None:
        """End all operations that run."""
        self.failed = True
        self._turns.clear()
        await self._crew.cancel()
