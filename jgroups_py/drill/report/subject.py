"""The contents of a drill's page, for any workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jgroups_py.drill.judge.cache_judge import KeyFate
from jgroups_py.drill.judge.verdict import Verdict
from jgroups_py.drill.report.panels import Panel


@dataclass(frozen=True)
class Headline:
    """A figure in large letters. ``words``: its meaning. ``more``: its origin."""

    name: str
    value: str
    words: str
    more: str = ""
    bad: bool = False


@dataclass(frozen=True)
class Grid:
    """A table: rows of text. ``bad_rows``: the marked ones. ``more``: the number of rows left out."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    bad_rows: Sequence[Sequence[str]] = ()
    more: int = 0


@dataclass(frozen=True)
class Subject:
    """The parts of a page that differ between workloads."""

    drawn: Verdict
    """The verdict with the data of the picture."""
    panels: list[Panel]
    edges: list[float]
    headlines: list[Headline]
    said: list[str]
    left_out: list[str]
    """Columns of the table of sites without use here."""
    then: str = "take-over"
    """Heading of the column after a fault's detection."""
    measured: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Rows of the faults: fault, detected after, ``then`` after, service goes on after."""
    grids: list[Grid] = field(default_factory=list)
    keys: list[KeyFate] = field(default_factory=list)
    findings: list[tuple[str, str, int, str]] = field(default_factory=list)
    unrelayed: list[tuple[str, ...]] = field(default_factory=list)
