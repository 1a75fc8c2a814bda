"""Applier: the order in which the backup makes the changes of operations (P2, P11, P12).

    add         an operation has come, with its record
    ready       a step may be made: all steps of its operation before it are made, and its object's counter is one below its ticket
    done        a step is made: its object's counter moves on, which may make a step of another operation ready
    ended       an operation's function has returned; gives the operations that this confirms
    abandon     the live node is lost: unconfirmed changes are reversed, the newest first (P13)

A step holds its object while it runs and nothing while it waits. So no step hangs: of all open steps, the one that the
live node made first is ready as soon as its operation is here. This is true even for operations that wait for each
other: A = S1(12), Q1(102) and B = Q1(101), S1(13).

Source:  seed 002; ``requirements`` P2, P9, P11-P13.
Differs: the seed takes the locks of all objects of an operation and keeps them, so A and B would wait for ever.
Limits:  ``operations_max`` unconfirmed operations, ``record_max`` tickets of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from jgroups_py.livebackup.errors import BadOperation, LagFull
from jgroups_py.livebackup.ledger import Ledger
from jgroups_py.livebackup.tickets import Counters, Record, Ticket, write_record

OPERATIONS_MAX: Final = 100_000
"""The most unconfirmed operations that a backup holds. The live node slows down long before: see pace.py."""
RECORD_MAX: Final = 10_000
"""The most tickets of one operation."""
NUMBER_MAX: Final = 2**63 - 1


class Step(NamedTuple):
    """The ``place``-th change, counted from 0, of operation ``op``."""

    op: int
    place: int
    ticket: Ticket


_new: Final = tuple.__new__
"""Make a named tuple in half of the time."""


class Reversal(NamedTuple):
    """A change to be reversed, and the undo that ``done`` got."""

    step: Step
    undo: Any


class Running(msgspec.Struct, gc=False):
    """An operation whose function has not returned. The applier alone changes it."""

    record: Record
    made: int = 0
    """Finished steps."""
    ready: bool = False
    """May the next step run?"""


class Applier:
    """The order of one backup. The caller makes the steps; the applier says which ones may run."""

    def __init__(
        self,
        counters: Mapping[str, int] | None = None,
        last: int = 0,
        *,
        operations_max: int = OPERATIONS_MAX,
        record_max: int = RECORD_MAX,
    ) -> None:
        """``counters`` and ``last``, the number of the newest operation, are those of the snapshot that the objects come from."""
        self._contained = self._newest = last
        self._counters = Counters((counters or {}).items())
        self._ledger = Ledger()
        self.running: dict[int, Running] = {}
        """Operations whose functions have not returned, by number. For reading only."""
        self.kept = self._ledger.kept
        """Unconfirmed operations by number. For reading only."""
        self._waiting: dict[tuple[str, int], int] = {}
        """Ticket -> the operation whose step waits for its turn."""
        self._made: dict[Ticket, Reversal] = {}  # in the order of the changes
        self._operations_max = operations_max
        self._record_max = record_max

    # --- reading

    def __len__(self) -> int:
        """Count the unconfirmed operations."""
        return len(self._ledger)

    def unconfirmed(self) -> dict[int, Record]:
        """Return the records of unconfirmed operations, by number."""
        return {op: self._ledger.record(op) for op in self._ledger}

    def counter(self, name: str) -> int:
        """Return the number of an object's newest change."""
        return self._counters[name]

    def vector(self) -> dict[str, int]:
        return self._counters.vector()

    def waits(self) -> list[Step]:
        """Return the steps that wait for an earlier change (P11)."""
        return [
            Step(op, self.running[op].made, Ticket(*ticket)) for ticket, op in self._waiting.items()
        ]

    def is_ready(self, op: int) -> bool:
        """May the next step of ``op`` run?"""
        return self.running[op].ready

    def next_ticket(self, op: int) -> Ticket | None:
        """Return the ticket of the next step of ``op``. None: all are done."""
        running = self.running[op]
        return running.record[running.made] if running.made < len(running.record) else None

    # --- operations come, are made, and are confirmed

    def add(self, op: int, record: Iterable[Ticket]) -> list[Step] | None:
        """Take an operation. Return its first step if it is ready. None: the snapshot contains the operation.

        The live node numbers its operations from 1 on, in the order in which they ended, and sends them in that order.

        Raises BadOperation for an impossible record, and LagFull beyond ``operations_max``; nothing was changed.
        """
        if op <= self._contained:
            return None
        record = tuple(record)
        if not (
            len(record) == 1  # as the general checks, in fewer calls
            and op > self._newest
            and self._counters[record[0].object] < record[0].number <= NUMBER_MAX
            and self._ledger.owner(record[0]) is None
        ):
            self._check_record(op, record)
            self._check_free(op, record)
        if len(self.kept) >= self._operations_max:
            raise LagFull(f"{len(self.kept)} operations are not confirmed, no more may wait")
        self._newest = op
        self._ledger.add(op, record)
        self.running[op] = Running(record)
        return self._go_on(op)

    def forget(self, keys: Iterable[str]) -> None:
        """Forget objects whose removal is confirmed: their names begin anew.

        Raises BadOperation if one of them has unconfirmed changes; nothing was changed.
        """
        keys = tuple(keys)
        for key in keys:
            number = self._counters[key]
            for ticket in (Ticket(key, number), Ticket(key, number + 1)):
                other = self._ledger.owner(ticket)
                if other is not None:
                    raise BadOperation(
                        f"{key} cannot be forgotten: {ticket} of operation {other} is not confirmed"
                    )
        for key in keys:
            self._counters.forget(key)

    def _check_record(self, op: int, record: Record) -> None:
        if op <= self._newest:
            raise BadOperation(f"operation {op} comes after operation {self._newest}")
        if len(record) > self._record_max:
            raise BadOperation(
                f"operation {op} has {len(record)} tickets, at most {self._record_max} are taken"
            )
        last: dict[str, int] = {}
        for ticket in record:
            name, number = ticket
            if not last.get(name, 0) < number <= NUMBER_MAX:
                raise BadOperation(
                    f"operation {op}: {ticket} does not fit into {write_record(record[:20])}: numbers of an object grow"
                )
            last[name] = number

    def _check_free(self, op: int, record: Record) -> None:
        for ticket in record:
            other = self._ledger.owner(ticket)
            if other is not None:
                raise BadOperation(f"operation {op}: {ticket} belongs to operation {other}")
            if ticket.number <= self._counters[ticket.object]:
                raise BadOperation(
                    f"operation {op}: {ticket} is over, {ticket.object} is at {self._counters[ticket.object]}"
                )

    def _go_on(self, op: int) -> list[Step]:
        """Make the next step of ``op`` ready, or let it wait at its object."""
        running = self.running[op]
        if running.made == len(running.record):
            return []
        ticket = running.record[running.made]
        if self._counters[ticket.object] == ticket.number - 1:
            running.ready = True
            return [_new(Step, (op, running.made, ticket))]
        self._waiting[ticket] = op
        return []

    def done(self, step: Step, undo: Any = None) -> list[Step]:
        """Note a finished step. Return the steps that are ready now. ``abandon`` returns ``undo``."""
        op, place, ticket = step
        running, (name, number) = self.running[op], ticket
        assert running.ready and running.made == place and ticket == running.record[place], step
        assert self._counters[name] == number - 1, f"{ticket} is not the next change"
        self._counters[name] = number
        running.ready = False
        running.made = place + 1
        self._made[ticket] = _new(Reversal, (step, undo))
        ready = self._go_on(op) if running.made < len(running.record) else []
        if not self._waiting:
            return ready
        other = self._waiting.pop((name, number + 1), None)
        if other is not None:
            self.running[other].ready = True
            ready.append(Step(other, self.running[other].made, Ticket(name, number + 1)))
        return ready

    def ended(self, op: int) -> dict[int, Record]:
        """Note that the function of ``op`` has returned. Return the operations that this confirms, by number."""
        running = self.running[op]
        assert running.made == len(running.record), f"operation {op} has steps left"
        del self.running[op]
        confirmed = self._ledger.completed(op)
        for record in confirmed.values():
            for ticket in record:
                del self._made[ticket]
        return confirmed

    # --- the live node is lost

    def abandon(self) -> list[Reversal]:
        """Give up all unconfirmed operations. No step may be running. Return the changes that the caller must reverse,
        in order; the counters already count them as reversed."""
        reversals = list(reversed(self._made.values()))
        for reversal in reversals:
            self._counters.back(reversal.step.ticket)
        for op in list(self._ledger):
            self._ledger.drop(op)
        self._made.clear()
        self.running.clear()
        self._waiting.clear()
        return reversals

    def check(self) -> None:
        """Check invariants, for tests and simulations."""
        self._ledger.check()
        for name, number in self._made:
            assert number <= self._counters[name], (name, number)
        for (name, number), op in self._waiting.items():
            running = self.running[op]
            assert not running.ready and running.record[running.made] == (name, number), op
            assert self._counters[name] < number - 1, f"{name}({number}) waits for nothing"
