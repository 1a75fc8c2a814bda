"""Made-up histories of the members A, B and C of NYC. Entries are written ``A1``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from jgroups_py.drill.file.model import Expectation, FilePlace
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.log import DrillRecord


class MadeUp:
    """``records``: in any order."""

    def __init__(self) -> None:
        self.records: list[DrillRecord] = []

    def start(self, name: str) -> None:
        self.add(-2.0, name, "join")
        self.add(-1.5, name, "view", id="A#1|3", members=["A#1", "B#1", "C#1"])

    def add(self, t: float, who: str, event: str, entry: str | None = None, **detail: Any) -> None:
        origin, seqno = (None, None) if entry is None else parted(entry)
        self.records.append(DrillRecord(t, "NYC", who, event, origin, seqno, detail or None))

    @property
    def evidence(self) -> Evidence:
        return Evidence.of(sorted(self.records, key=lambda record: record.t), ["NYC"])


class Finding(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def entry(self) -> tuple[str, int]: ...


def parted(entry: str) -> tuple[str, int]:
    return f"{entry[0]}#1", int(entry[1:])


def limit(name: str, value: float = 0, compare: str = "=") -> Expectation:
    """Return the expectation that ``name`` compares so with ``value``."""
    return Expectation(name, compare, value, f"{compare} {value:g}", FilePlace("f", 1, 1))


def kinds_of(findings: Iterable[Finding]) -> list[tuple[str, str, int]]:
    return [(one.kind, *one.entry) for one in findings]
