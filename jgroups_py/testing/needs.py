"""Hypothesis, for the parts of the kit that need it. If it is missing, the error names the package to install."""

from __future__ import annotations

try:
    from hypothesis import given, settings
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "jgroups_py.testing.strategies, .stateful, and check_rule with a strategy need hypothesis: "
        "pip install 'jgroups_py[testing]'",
        name=error.name,
    ) from error

__all__ = [
    "RuleBasedStateMachine",
    "given",
    "initialize",
    "precondition",
    "rule",
    "settings",
    "st",
]
