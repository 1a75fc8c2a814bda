"""The interface of a way to run a plan, and its result.

A runner is ``run(plan, progress) -> RunLog``; it raises ``DrillError`` when the drill could not be
run. ``simulated`` and ``real`` are two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.log import DrillRecord


class Progress(Protocol):
    """A receiver of a drill's progress."""

    def at(self, t: float) -> None:
        """Note that the drill has come to ``t`` seconds."""

    def say(self, t: float, text: str) -> None:
        """Report an event for people."""


class NoProgress:
    """A ``Progress`` for tests and for many runs at once."""

    def at(self, t: float) -> None:
        pass

    def say(self, t: float, text: str) -> None:
        pass


@dataclass
class RunLog:
    """The log of a finished drill."""

    mode: str
    """``simulated`` or ``real``."""
    records: Callable[[], Iterator[DrillRecord]]
    """The records in the order of time; may be asked for more than once."""
    wall_s: float
    virtual_s: float | None = None
    notes: list[str] = field(default_factory=list)
    """Remarks for people about the run: another stack was taken, and why."""


Runner = Callable[[DrillPlan, Progress], RunLog]
