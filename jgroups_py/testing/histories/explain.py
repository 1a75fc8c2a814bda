"""Explains why a history has no order: by its shortest beginning that has none, without reads that do not matter.

A beginning ends with a return. A call that had not returned by then may have happened. If a beginning has no order, no
longer one has any. So the shortest is found by halving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from jgroups_py.testing.histories.operation import NEVER, UNKNOWN, Model, Operation
from jgroups_py.testing.histories.search import search

SHOWN_MAX: Final = 40
"""The most operations in a time line; of more the last ones are shown."""
WIDTH: Final = 36
"""Characters of the time line itself."""
TRIES_MAX: Final = 200
"""The most searches to leave reads out."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """See ``Verdict``."""

    culprit: Operation
    order: tuple[Operation, ...]
    text: str


def explain(operations: Sequence[Operation], model: Model[Any], steps_max: int) -> Explanation:
    """Explain operations that have no order. A history that ``steps_max`` leaves undecided counts as having one."""

    def fails(history: Sequence[Operation]) -> bool:
        found = search(history, model, steps_max)
        return found.exhausted and not found.complete

    returns = sorted({op.returned for op in operations if op.known})
    low, high = 0, len(returns) - 1  # the beginning up to ``high`` has no order
    while low < high:
        middle = (low + high) // 2
        if fails(beginning(operations, returns[middle])):
            high = middle
        else:
            low = middle + 1
    history = beginning(operations, returns[high])
    last = [op for op in history if op.returned == returns[high]]
    culprit = next(
        (op for op in last if fails([o for o in history if o not in last or o is op])), last[-1]
    )
    tries = 0
    for op in list(history):
        if op is culprit or not model.only_reads(op.what) or tries >= TRIES_MAX:
            continue
        tries += 1
        if not op.known or fails([o for o in history if o is not op]):
            history = [o for o in history if o is not op]
    others = [op for op in history if op is not culprit]
    order = tuple(others[i] for i in search(others, model, steps_max).order)
    return Explanation(culprit, order, _text(history, culprit, order, model))


def beginning(operations: Sequence[Operation], end: float) -> list[Operation]:
    """Return the history up to a moment."""
    return [
        op if op.returned <= end else replace(op, returned=NEVER, result=UNKNOWN)
        for op in operations
        if op.call <= end
    ]


def _text(
    history: Sequence[Operation],
    culprit: Operation,
    order: Sequence[Operation],
    model: Model[Any],
) -> str:
    def said(op: Operation) -> str:
        return model.text(op.what, op.result)

    lines = [
        f"not linearizable: {culprit.caller}: {said(culprit)}, returned at {culprit.returned:.6f},"
        " fits nowhere"
    ]
    shown = sorted(history, key=lambda op: op.call)[-SHOWN_MAX:]
    if len(shown) < len(history):
        lines.append(f"  {len(history) - len(shown)} earlier operations are not shown")
    begin = min(op.call for op in shown)
    end = max([op.returned for op in shown if op.known])
    scale = (WIDTH - 1) / (end - begin) if end > begin else 0.0
    width = max(len(op.caller) for op in shown)
    for op in shown:
        left = round((op.call - begin) * scale)
        right = round((min(op.returned, end) - begin) * scale)
        bar = " " * left + ("|" if right == left else "[" + "-" * (right - left - 1) + "]")
        if not op.known:
            bar = " " * left + "[" + "-" * (WIDTH - 2 - left) + ">"
        mark = ">" if op is culprit else " "
        until = f"{op.returned:.6f}" if op.known else "?"
        lines.append(
            f"{mark} {op.caller:{width}}  {op.call:>12.6f} .. {until:>12}  {bar:{WIDTH}}  {said(op)}"
        )
    if order:
        tail = order[-SHOWN_MAX:]
        lines.append("  all before it in this order:" + (" ..." if len(tail) < len(order) else ""))
        lines += [f"    {op.caller:{width}}  {said(op)}" for op in tail]
    return "\n".join(lines)
