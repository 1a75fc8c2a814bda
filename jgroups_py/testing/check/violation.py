"""Violation: the one type for findings of checks, and the exception that ends a run.

May import: nothing of testing.
Imported by: all checkers and judges.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Violation:
    """A check that does not hold.

    ``check``: its name. ``detail``: the observation, and the member that made it. ``at``: virtual seconds since the run
        began.
    ``replay``: the command that shows it again.
    """

    check: str
    detail: str
    at: float = 0.0
    replay: str = ""

    def __str__(self) -> str:
        return f"{self.check}: {self.at:.3f} {self.detail}"


class Violated(AssertionError):
    """A check does not hold, and the run cannot go on."""

    def __init__(self, check: str, detail: str, at: float = 0.0, text: str = "") -> None:
        super().__init__(text or f"{check}: {detail}")
        self.violation = Violation(check, detail, at)


def violation_of(error: Exception, at: float = 0.0) -> Violation:
    """Turn an error that ended a run into a violation: of a check, an invariant of a protocol, or a bug in a
    handler."""
    if isinstance(error, Violated):
        return error.violation
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    if isinstance(error, AssertionError):
        return Violation("invariant", f"{where}: {error or place.line}", at)
    return Violation("exception", f"{where}: {type(error).__name__}: {error}", at)


def violations_in(
    run: Callable[[], object], now: Callable[[], float] = lambda: 0.0
) -> list[Violation]:
    """Run ``run``. Return no violation, or the one that ended it. ``now``: the virtual time then."""
    try:
        run()
    except Exception as error:  # any error is a bug, the object of the search
        return [violation_of(error, now())]
    return []
