"""Linearizability of concurrent calls, for histories of your own and any object with a model.

    history = [
        Operation("A", Use("write", "x", 1), call=0.0, returned=1.0),
        Operation("B", Use("read", "x"), call=2.0, returned=3.0, result=None),
    ]
    print(check_history(history, Registers()))      not linearizable: B: read x -> None ...

A history is a list of operations with their times of call and return, on one clock. Leave out operations that certainly
did not happen; one that may have happened gets ``returned=NEVER, result=UNKNOWN``. A model defines the effect of a
single operation: ``Registers``, ``Nodes`` (a tree cache), or a subclass of ``Model``. The check is exact: it searches
for an order, up to ``steps_max`` steps. ``Verdict.linearizable`` is None, not True, if these were not enough.
"""

from jgroups_py.testing.histories.check import STEPS_MAX, Verdict, check_history
from jgroups_py.testing.histories.nodes import Call, Nodes
from jgroups_py.testing.histories.operation import NEVER, UNKNOWN, Model, Operation
from jgroups_py.testing.histories.register import Registers, Use

__all__ = [
    "NEVER",
    "STEPS_MAX",
    "UNKNOWN",
    "Call",
    "Model",
    "Nodes",
    "Operation",
    "Registers",
    "Use",
    "Verdict",
    "check_history",
]
