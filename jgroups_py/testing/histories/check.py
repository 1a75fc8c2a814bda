"""The verdict on a history: is it linearizable?

    verdict = check_history(operations, Registers())
    assert verdict.linearizable, verdict

Operations that share keys, directly or through others, are one part of the history; each part is searched separately.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.testing.histories.explain import explain
from jgroups_py.testing.histories.operation import Model, Operation
from jgroups_py.testing.histories.search import search

STEPS_MAX: Final = 200_000
"""Operations tried for one history; then it is not decided."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``linearizable``: None when ``steps_max`` was reached before it was known.

    ``culprit``: the first operation, in order of return, with which there is no order any more;
    ``order``: an order that explains all operations that had returned before. ``text``: the same for people.
    ``steps``: operations that were tried.
    """

    linearizable: bool | None
    steps: int
    culprit: Operation | None = None
    order: tuple[Operation, ...] = ()
    text: str = ""

    def __str__(self) -> str:
        return self.text or f"linearizable ({self.steps} steps)"


def check_history(
    operations: Sequence[Operation], model: Model[Any], *, steps_max: int = STEPS_MAX
) -> Verdict:
    """Is there one order of all operations that have happened in which each has the result it had, and
    comes after those that had returned before it was called?

    Raises ``ValueError`` for an operation that returned before it was called.
    """
    for operation in operations:
        if operation.returned < operation.call:
            raise ValueError(f"it returned before it was called: {operation}")
    spent = 0
    open_parts = 0
    for part in parts(operations, model):
        found = search(part, model, steps_max - spent)
        spent += found.steps
        if found.complete:
            continue
        if found.exhausted:
            told = explain(part, model, steps_max)
            return Verdict(False, spent, told.culprit, told.order, told.text)
        open_parts += 1
        if spent >= steps_max:
            break
    if open_parts:
        text = f"not decided: {spent} steps were not enough (steps_max) for {len(operations)} operations"
        return Verdict(None, spent, text=text)
    return Verdict(True, spent)


def parts(operations: Sequence[Operation], model: Model[Any]) -> list[list[Operation]]:
    """Return operations grouped by shared keys, each part in the order given."""
    keys = [model.keys(op.what) for op in operations]
    if any(k is None for k in keys):
        return [list(operations)] if operations else []
    leader: dict[Hashable, Hashable] = {}

    def find(key: Hashable) -> Hashable:
        while leader.setdefault(key, key) != key:
            leader[key] = leader[leader[key]]
            key = leader[key]
        return key

    for touched in keys:
        assert touched is not None
        for key in touched[1:]:
            leader[find(key)] = find(touched[0])
    found: dict[Hashable, list[Operation]] = {}
    for operation, touched in zip(operations, keys, strict=True):
        assert touched is not None
        if touched:
            found.setdefault(find(touched[0]), []).append(operation)
    return list(found.values())
