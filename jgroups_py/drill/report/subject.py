"""What a page shows of one drill, whatever its workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jgroups_py.drill.judge.cache_judge import KeyFate
from jgroups_py.drill.judge.verdict import Verdict
from jgroups_py.drill.report.panels import Panel


@dataclass(frozen=True)
class Headline:
    """``words`` says what the figure is; ``more`` what it comes from."""

    name: str
    value: str
    words: str
    more: str = ""
    bad: bool = False


@dataclass(frozen=True)
class Grid:
    """A table: rows of text. ``bad_rows``: those that are marked. ``more``: how many were left out."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    bad_rows: Sequence[Sequence[str]] = ()
    more: int = 0


@dataclass(frozen=True)
class Subject:
    """The parts of a page that differ between workloads."""

    drawn: Verdict
    """With what the picture needs."""
    panels: list[Panel]
    edges: list[float]
    headlines: list[Headline]
    said: list[str]
    left_out: list[str]
    """Columns of the table of sites that say nothing here."""
    then: str = "take-over"
    """Heading of what follows a fault's detection."""
    measured: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Of each fault: the fault, detected after, that, the service goes on after."""
    grids: list[Grid] = field(default_factory=list)
    keys: list[KeyFate] = field(default_factory=list)
    findings: list[tuple[str, str, int, str]] = field(default_factory=list)
    unrelayed: list[tuple[str, ...]] = field(default_factory=list)
