"""The sizes measured at a calm moment, kept outside memory, and the comparison of two times.

The means of two windows are compared: a twelfth of the run up to its first quarter (of 24 hours: 4:00 to 6:00), and the
last twelfth. Growth of at most ``TOLERANCE``, or of ``slack``, is accepted (a table of three entries may have a
fourth). Shrinking is always accepted.

    all tables        of all members together, by name; their sum in entries and in bytes
    elders' tables    of each process that lived through both windows, by name
    figures           of the process or processes: memory, open files, threads
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jgroups_py.drill.soak.tables import Tables, TableSize

TOLERANCE: Final = 0.05
SLACK_ENTRIES: Final = 8
"""Allowed new entries of a table of one process; the sum of all members may have one more for each
member."""
SLACK_INNER: Final = 32
"""The same for tables inside the entries of a table."""
WINDOW: Final = 12
"""A window is the run divided by this; three samples at least."""
PROCESS: Final = "process"
"""The owner of tables that belong to no member."""


@dataclass(frozen=True, slots=True)
class SoakSample:
    """Seconds since the start; the entries and bytes of each table of each member (name#incarnation); figures."""

    t: float
    members: dict[str, dict[str, tuple[int, int]]]
    figures: dict[str, float]
    """Figures of the whole run."""
    each: dict[str, dict[str, float]] = field(default_factory=dict)
    """Figures of each process (real runs)."""

    def total(self) -> dict[str, TableSize]:
        """Return all members' tables by name."""
        total: dict[str, TableSize] = {}
        for tables in self.members.values():
            for name, (length, size) in tables.items():
                total.setdefault(name, TableSize()).add(TableSize(length, size))
        return total

    def tables(self, who: str) -> dict[str, TableSize]:
        return {name: TableSize(*entry) for name, entry in self.members[who].items()}


def plain(tables: Tables) -> dict[str, tuple[int, int]]:
    return {name: (table.length, table.size) for name, table in tables.found.items()}


class Samples:
    """Samples in a file: measuring must not make memory grow."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile("w+", prefix="jgroups-longlife-")  # noqa: SIM115
        self.count = 0

    def add(self, sample: SoakSample) -> None:
        json.dump([sample.t, sample.members, sample.figures, sample.each], self._file)
        self._file.write("\n")
        self.count += 1

    def __iter__(self) -> Iterator[SoakSample]:
        self._file.seek(0)
        for line in self._file:
            t, members, figures, each = json.loads(line)
            yield SoakSample(t, members, figures, each)

    def close(self) -> None:
        self._file.close()


@dataclass
class SoakRun:
    """The result of a run."""

    samples: Samples = field(default_factory=Samples)
    problems: list[str] = field(default_factory=list)
    """Violations: a message lost or repeated, no common view, a broken invariant."""
    notes: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    cycles: int = 0
    events: int = 0
    """Packets handled and timers fired (simulated)."""
    sent: int = 0
    deliveries: int = 0
    wall_s: float = 0.0
    virtual_s: float = 0.0

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1


@dataclass(frozen=True, slots=True)
class Compared:
    """One quantity at both times. ``kind``: sum, figure, table (of all members) or elder's table."""

    kind: str
    name: str
    early: float
    late: float
    slack: float

    @property
    def growth(self) -> float:
        """Return the growth as a fraction of the early value."""
        return self.late / self.early - 1 if self.early else float(self.late > 0)

    @property
    def holds(self) -> bool:
        return self.late <= max(self.early * (1 + TOLERANCE), self.early + self.slack)

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "early": round(self.early, 1),
            "late": round(self.late, 1),
            "holds": self.holds,
        }

    def __str__(self) -> str:
        return f"{self.name}: {self.early:,.0f} -> {self.late:,.0f} ({self.growth:+.1%})"


def compare(samples: list[SoakSample], end: float, slacks: Mapping[str, float]) -> list[Compared]:
    """Compare all samples at a quarter of ``end`` with those at ``end``. ``slacks``: of figures of one process, by name."""
    early, late = window(samples, end / 4), window(samples, end)
    members = max(len(sample.members) for sample in samples)
    totals = [sample.total() for sample in early], [sample.total() for sample in late]
    found = [
        _between(
            "sum", f"sum of {what}", [[sum(map(value, t.values())) for t in p] for p in totals]
        )
        for what, value in (("entries", _length), ("bytes", _size))
    ]
    for name in late[-1].figures:
        values = [[sample.figures[name] for sample in part] for part in (early, late)]
        found.append(_between("figure", name, values, slacks.get(name, 0.0)))
    elders = [w for w in late[-1].members if all(w in s.members for s in (*early, *late))]
    for who in elders:
        for name in late[-1].each.get(who, ()):
            values = [[sample.each[who][name] for sample in part] for part in (early, late)]
            found.append(_between("figure", f"{who} {name}", values, slacks.get(name, 0.0)))
    found += _tables("table", "", totals, max(1.0, members / 8))
    for who in elders:
        tables = [sample.tables(who) for sample in early], [sample.tables(who) for sample in late]
        # After a split another member may be relay for a while and have the bridge's stack.
        always = set.intersection(*[set(map(_stack, t)) for part in tables for t in part])
        parts: list[list[dict[str, TableSize]]] = [
            [{n: t[n] for n in t if _stack(n) in always} for t in part] for part in tables
        ]
        found += _tables("elder's table", f"{who} ", parts, 1.0)
    return found


def _stack(table: str) -> str:
    """Return the owner of the table: "" for the first stack, else the stack's cluster."""
    return table.rpartition(":")[0]


def window(samples: list[SoakSample], end: float) -> list[SoakSample]:
    """Return the samples that count for ``end``."""
    before = [s for s in samples if s.t <= end + 1e-6]
    return before[-max(3, len(samples) // WINDOW) :]


def _length(table: TableSize) -> int:
    return table.length


def _size(table: TableSize) -> int:
    return table.size


def _between(
    kind: str, name: str, values: Sequence[Sequence[float]], slack: float = 0.0
) -> Compared:
    early, late = map(statistics.fmean, values)
    return Compared(kind, name, early, late, slack)


def _tables(
    kind: str, prefix: str, parts: Sequence[Sequence[dict[str, TableSize]]], slack: float
) -> Iterator[Compared]:
    none = TableSize()
    for name in dict.fromkeys(name for part in parts for tables in part for name in tables):
        values = [[tables.get(name, none).length for tables in part] for part in parts]
        entries = SLACK_INNER if "[]" in name else SLACK_ENTRIES
        yield _between(kind, prefix + name, values, slack * entries)
