"""The search for an order, operation by operation.

An operation may come next if no open one must precede it. Failed attempts are remembered as the set of done operations
and the state, so that another path to the same pair is not tried. An attempt also ends when an open operation wants a
value that is gone and that no open one writes (``Model.wants``, ``gives``). An operation that may come next, has the right
result and changes nothing in any state with this result is taken at once: if there is an order, there is one in which it comes now.
A write of the value that is there already is no such operation, because it may belong after another write.

Source:  Wing, Gong: Testing and Verifying Concurrent Objects (1993), the search. Lowe: Testing for Linearizability
         (2016), the memory of tried steps. Horn, Kroening: Faster Linearizability Checking via P-compositionality
         (2015), parts by themselves (check.py).
Differs: an operation may be a read of a copy (``Operation.copy``), so the required order is a partial order and not
         only that of intervals.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jgroups_py.testing.histories.operation import Model, Operation


@dataclass(frozen=True, slots=True)
class FoundOrder:
    """``order``: the longest order that was found, as indices; of all operations if ``complete``.
    ``steps``: operations that were tried. Neither ``complete`` nor ``exhausted``: the limit was reached.
    """

    complete: bool
    exhausted: bool
    order: tuple[int, ...]
    steps: int


def search(operations: Sequence[Operation], model: Model[Any], steps_max: int) -> FoundOrder:
    """Return an order of ``operations`` in which each has its result. Operations that are not known may
    be left out of it."""
    return _Search(operations, model, steps_max).run()


class _Search:
    def __init__(self, operations: Sequence[Operation], model: Model[Any], steps_max: int) -> None:
        self.model = model
        self.steps_max = steps_max
        self.steps = 0
        # The operation that was called first is asked first; the one that returned first is tried first.
        by_call = sorted(range(len(operations)), key=lambda i: (operations[i].call, i))
        self.index = by_call
        self.ops = [operations[i] for i in by_call]
        self.before = [self._before(op) for op in self.ops]
        self.wanted = sum(1 << i for i, op in enumerate(self.ops) if op.known)
        self.tried: set[tuple[int, Any]] = set()
        self.never_changes = [
            op.known and model.never_changes(op.what, op.result) for op in self.ops
        ]
        self.wants = [model.wants(op.what, op.result) if op.known else () for op in self.ops]
        given = [model.gives(op.what) for op in self.ops]
        self.gives = [() if g is None else g for g in given]
        self.anything = sum(1 << i for i, g in enumerate(given) if g is None)
        self.wanted_facts = self._wanted_facts()

    def _wanted_facts(self) -> list[tuple[Hashable, int, int]]:
        """Return each fact with the operations that want it and those that may give it."""
        wanting: dict[Hashable, int] = {}
        giving: dict[Hashable, int] = {}
        for i in range(len(self.ops)):
            for fact in self.wants[i]:
                wanting[fact] = wanting.get(fact, 0) | 1 << i
            for fact in self.gives[i]:
                giving[fact] = giving.get(fact, 0) | 1 << i
        return [(f, mask, giving.get(f, 0) | self.anything) for f, mask in wanting.items()]

    def _hopeless(self, done: int, state: Any) -> bool:
        """Return whether a remaining operation needs a value that is gone for good."""
        if not self.wanted_facts:
            return False
        so = self.model.facts(state)
        left = ~done
        return any(
            wanting & left and not giving & left and fact not in so
            for fact, wanting, giving in self.wanted_facts
        )

    def _before(self, op: Operation) -> int:
        mask = 0
        for i, other in enumerate(self.ops):
            if other.call >= op.call:
                break
            if other.precedes(op):
                mask |= 1 << i
        return mask

    def run(self) -> FoundOrder:
        order: list[int] = []
        best: tuple[int, ...] = ()
        best_known = -1
        done, state = 0, self.model.initial()
        stack: list[tuple[int, Any, int, Iterator[tuple[int, Any]]]] = []
        while True:
            done, state = self._take_reads(done, state, order)
            known = (done & self.wanted).bit_count()
            if known > best_known:
                best_known, best = known, tuple(order)
            if done & self.wanted == self.wanted:
                return FoundOrder(True, True, self._named(order), self.steps)
            if (done, state) not in self.tried:
                self.tried.add((done, state))
                if not self._hopeless(done, state):
                    stack.append((done, state, len(order), self._next(done, state)))
            while stack:
                done, state, length, choices = stack[-1]
                del order[length:]
                choice = next(choices, None)
                if choice is not None:
                    break
                stack.pop()
            else:
                return FoundOrder(False, True, self._named(best), self.steps)
            if self.steps >= self.steps_max:
                return FoundOrder(False, False, self._named(best), self.steps)
            i, state = choice
            order.append(i)
            done |= 1 << i

    def _named(self, order: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.index[i] for i in order)

    def _may_be_next(self, done: int) -> list[int]:
        """Try known operations first, by the time of their return: this is mostly their order."""
        found: list[int] = []
        bound = float("inf")
        for i, op in enumerate(self.ops):
            if done >> i & 1:
                continue
            if op.call > bound:
                break
            if self.before[i] & ~done == 0:
                found.append(i)
            if not op.copy:
                bound = min(bound, op.returned)
        found.sort(key=lambda i: (self.ops[i].returned, i))
        return found

    def _take_reads(self, done: int, state: Any, order: list[int]) -> tuple[int, Any]:
        """Take all operations that may come now and never change anything."""
        again = True
        while again:
            again = False
            for i in self._may_be_next(done):
                op = self.ops[i]
                if not self.never_changes[i]:
                    continue
                self.steps += 1
                if self.model.step(state, op.what, op.result)[0]:
                    order.append(i)
                    done |= 1 << i
                    again = True
        return done, state

    def _next(self, done: int, state: Any) -> Iterator[tuple[int, Any]]:
        """Yield the operations to try now, first those that write a value for which another operation waits."""
        choices = self._may_be_next(done)
        if len(choices) > 1 and self.wanted_facts:
            choices = self._by_need(choices, state)
        for i in choices:
            op = self.ops[i]
            self.steps += 1
            allowed, after = self.model.step(state, op.what, op.result)
            # An unknown operation that changes nothing now does not help.
            if allowed and (op.known or after != state):
                yield i, after

    def _by_need(self, choices: Sequence[int], state: Any) -> list[int]:
        so = self.model.facts(state)
        missing = {f for i in choices for f in self.wants[i] if f not in so}
        return sorted(choices, key=lambda i: missing.isdisjoint(self.gives[i]))
