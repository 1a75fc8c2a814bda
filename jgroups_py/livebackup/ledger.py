"""Ledger: which operations may be confirmed (P9).

An operation depends on the operations that made the change before each of its own, and on their dependencies. Two
operations may depend on each other: A = S1(12), Q1(102) and B = Q1(101), S1(13). Confirmation is prefix-closed: an
operation is confirmed when it and all its dependencies are complete. A confirmed operation is therefore never reversed,
whichever node is lost.

Cost: a completed operation walks over its complete dependencies up to the first incomplete one, and again when that one
is confirmed. A walk is at most as long as the lag, which the live node limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from jgroups_py.livebackup.tickets import Record


class _Kept(msgspec.Struct, gc=False):
    """An unconfirmed operation."""

    record: Record
    complete: bool = False
    waiting: list[int] = []  # msgspec gives each instance its own copy
    """Complete operations to check again when this one is confirmed."""


class Ledger:
    """Operations have numbers that the caller chooses. The ledger forgets an operation when it is confirmed."""

    def __init__(self) -> None:
        self.kept: dict[int, _Kept] = {}
        """Unconfirmed operations by number. For reading only."""
        self._made_by: dict[tuple[str, int], int] = {}
        """Ticket -> the unconfirmed operation that has it. A plain tuple finds it too, and is made faster."""
        self.owner: Callable[[tuple[str, int]], int | None] = self._made_by.get
        """Returns the unconfirmed operation that has a ticket."""

    def __len__(self) -> int:
        return len(self.kept)

    def __contains__(self, op: int) -> bool:
        return op in self.kept

    def __iter__(self) -> Iterator[int]:
        return iter(tuple(self.kept))

    def record(self, op: int) -> Record:
        return self.kept[op].record

    def is_complete(self, op: int) -> bool:
        return self.kept[op].complete

    def add(self, op: int, record: Record) -> None:
        """Add an incomplete operation. The caller has checked that its tickets are free."""
        assert op not in self.kept, op
        self.kept[op] = _Kept(record)
        for ticket in record:
            assert ticket not in self._made_by, ticket
            self._made_by[ticket] = op

    def completed(self, op: int) -> dict[int, Record]:
        """Note that all changes of ``op`` are made. Return the operations that this confirms, with their records, by
        number."""
        kept = self.kept[op]
        assert not kept.complete, op
        kept.complete = True
        record = kept.record
        if len(record) == 1 and not kept.waiting:  # as below, in fewer calls
            (ticket,) = record
            if (ticket[0], ticket[1] - 1) not in self._made_by:
                del self.kept[op], self._made_by[ticket]
                return {op: record}
        if not kept.waiting and not self._before(op):
            return {op: self._forget(op)}
        confirmed: dict[int, Record] = {}
        todo = [op]
        while todo:
            one = todo.pop()
            if one in self.kept:
                todo += self._look_at(one, confirmed)
        return dict(sorted(confirmed.items())) if len(confirmed) > 1 else confirmed

    def _look_at(self, op: int, confirmed: dict[int, Record]) -> list[int]:
        """Confirm ``op`` and its dependencies, or let it wait for the first incomplete one. Return the operations that
        waited for newly confirmed ones."""
        closed = {op: None}
        todo = [op]
        while todo:
            for other in self._before(todo.pop()):
                if other in closed:
                    continue
                if not self.kept[other].complete:
                    self.kept[other].waiting.append(op)
                    return []
                closed[other] = None
                todo.append(other)
        waiting = [one for member in closed for one in self.kept[member].waiting]
        for member in closed:
            confirmed[member] = self._forget(member)
        return waiting

    def _before(self, op: int) -> list[int]:
        """Return the unconfirmed operations that made the change before each change of ``op``."""
        found = []
        for name, number in self.kept[op].record:
            other = self._made_by.get((name, number - 1))
            if other is not None and other != op:
                found.append(other)
        return found

    def drop(self, op: int) -> None:
        """Forget an incomplete operation that was given up."""
        self._forget(op)

    def _forget(self, op: int) -> Record:
        record = self.kept.pop(op).record
        for ticket in record:
            del self._made_by[ticket]
        return record

    def check(self) -> None:
        """Check invariants, for tests and simulations."""
        for ticket, op in self._made_by.items():
            assert ticket in self.kept[op].record, (ticket, op)
        waiting = [one for kept in self.kept.values() for one in kept.waiting]
        complete = [op for op, kept in self.kept.items() if kept.complete]
        assert sorted(waiting) == sorted(complete), (waiting, complete)
