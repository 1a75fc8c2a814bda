"""The judge of live and backup: made-up histories of three nodes, each with one fault or none."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.drill.file.model import Expectation, FilePlace
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.live_judge import LiveVerdict, figures, judge
from jgroups_py.drill.judge.live_result import result
from jgroups_py.drill.log import DrillRecord

Logs = dict[int, str]
"""Log -> the entries in it, as ``A1 A2``."""


class Nodes:
    """A is live, B and C are its backups. Entries are written ``A1``."""

    def __init__(self) -> None:
        self.records: list[DrillRecord] = []
        for name, role in zip("ABC", ("live", "backup", "backup"), strict=True):
            self.add(-2.0, name, "join")
            self.add(-1.5, name, "view", id="A#1|3", members=["A#1", "B#1", "C#1"])
            self.add(-1.0, name, "role", role=role, term=1)

    def add(self, t: float, who: str, event: str, entry: str | None = None, **detail: Any) -> None:
        origin, seqno = (None, None) if entry is None else _parted(entry)
        self.records.append(DrillRecord(t, "NYC", who, event, origin, seqno, detail or None))

    def run(self, t: float, entry: str, logs: Logs, took: float | None = 0.1) -> None:
        """An operation. ``logs``: the contents of each log at the end. ``took`` None: the outcome of the
        operation is unknown."""
        self.add(t, entry[0], "put", entry, keys=list(logs))
        if took is None:
            self.add(t + 1, entry[0], "failed", entry, keys=list(logs), why="?", definite=False)
            return
        at = []
        for entries in logs.values():
            found = entries.split()
            place = found.index(entry)
            at.append([place, list(_parted(found[place - 1])) if place else None])
        self.add(t + took, entry[0], "acked", entry, keys=list(logs), at=at)

    def census(self, t: float, who: str, role: str, logs: Logs, **more: Any) -> None:
        owned = {str(log): [list(_parted(e)) for e in of.split()] for log, of in logs.items()}
        self.add(t, who, "census", owned=owned, role=role, **more)

    def end(self, logs: Logs, *expect: Expectation, **others: Logs) -> LiveVerdict:
        """Judge an end at 9 s in which all nodes but ``others`` have these logs."""
        for name, role in zip("ABC", ("live", "backup", "backup"), strict=True):
            self.census(9.0, name, role, others.get(name, logs))
        return self.judged(*expect)

    def judged(self, *expect: Expectation) -> LiveVerdict:
        records = sorted(self.records, key=lambda record: record.t)
        return judge(Evidence.of(records, ["NYC"]), expect=expect)


def _parted(entry: str) -> tuple[str, int]:
    return f"{entry[0]}#1", int(entry[1:])


def _limit(name: str, limit: float = 0, compare: str = "=") -> Expectation:
    return Expectation(name, compare, limit, f"{compare} {limit:g}", FilePlace("f", 1, 1))


def _kinds(verdict: LiveVerdict) -> list[tuple[str, str, int]]:
    return [(one.kind, *one.entry) for one in verdict.findings]


def _two(nodes: Nodes) -> None:
    nodes.run(1.0, "A1", {0: "A1", 1: "A1"})
    nodes.run(2.0, "A2", {0: "A1 A2", 2: "A2"})


WELL: Logs = {0: "A1 A2", 1: "A1", 2: "A2"}


def test_a_confirmed_operation_is_present() -> None:
    nodes = Nodes()
    _two(nodes)
    verdict = nodes.end(WELL)
    assert not verdict.findings and not verdict.diverged and len(verdict.judged) == 3
    assert verdict.sites["NYC"].confirmed == 2 and verdict.sites["NYC"].terms == 1
    assert figures(verdict).latency_p50 == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("logs", "kinds"),
    [
        ({0: "A1", 1: "A1", 2: "A2"}, [("half", "A#1", 2), ("lost", "A#1", 2)]),
        ({0: "A1", 1: "A1"}, [("lost", "A#1", 2)]),
        ({0: "A2 A1", 1: "A1", 2: "A2"}, [("undone", "A#1", 1), ("undone", "A#1", 2)]),
        ({0: "A1 A2", 1: "A1", 2: "A2", 3: "A2"}, [("half", "A#1", 2)]),
        ({0: "A1 A2", 1: "A1 A1", 2: "A2"}, [("duplicated", "A#1", 1)]),
        ({0: "A1 A2 B7", 1: "A1", 2: "A2"}, [("half", "B#1", 7)]),
    ],
)
def test_a_node_that_has_something_else_is_found(logs: Logs, kinds: list[Any]) -> None:
    nodes = Nodes()
    _two(nodes)
    names = ("lost", "undone", "half", "duplicated", "diverged")
    verdict = nodes.end(WELL, *map(_limit, names), B=logs)
    assert _kinds(verdict) == kinds and all(one.at == ("NYC.B#1",) for one in verdict.findings)
    assert verdict.diverged and not verdict.passed
    measured = {j.expectation.name: j.measured for j in verdict.expectations}
    for name in names[:4]:
        assert measured[name] == sum(kind == name for kind, *_ in kinds)
    shown = result(verdict, name="n", mode="m", seed=1, virtual_s=None, wall_s=0.0)
    for kind, origin, seqno in kinds:
        assert (origin, seqno) in [(one["origin"], one["seqno"]) for one in shown[kind]]


def test_the_entry_before_it_must_be_the_one_that_its_client_was_told() -> None:
    nodes = Nodes()
    nodes.run(1.0, "A1", {0: "A1"}, took=None)
    nodes.run(2.0, "A2", {0: "A1 A2"})
    nodes.run(3.0, "B1", {0: "B1"}, took=None)
    verdict = nodes.end({0: "B1 A2"})
    assert _kinds(verdict) == [("undone", "A#1", 2)]  # it had read A1, which was lost


def test_an_operation_of_unknown_outcome_is_there_or_not_but_whole() -> None:
    for logs, kinds in (
        ({}, []),
        ({0: "A1", 1: "A1"}, []),
        ({0: "A1"}, [("half", "A#1", 1)]),
    ):
        nodes = Nodes()
        nodes.run(1.0, "A1", {0: "A1", 1: "A1"}, took=None)
        verdict = nodes.end(logs)
        assert _kinds(verdict) == kinds and verdict.sites["NYC"].unknown == 1


def test_an_operation_that_certainly_did_not_run_is_absent() -> None:
    nodes = Nodes()
    nodes.add(1.0, "A", "put", "A1", keys=[0])
    nodes.add(1.1, "A", "failed", "A1", keys=[0], why="not live", definite=True)
    assert _kinds(nodes.end({0: "A1"})) == [("half", "A#1", 1)]


def test_a_new_live_node_shows_nothing_by_half() -> None:
    nodes = Nodes()
    nodes.run(1.0, "A1", {0: "A1", 1: "A1"}, took=None)
    nodes.census(3.0, "B", "live", {0: "A1"}, first=True)
    verdict = nodes.end({})  # reversed later
    assert _kinds(verdict) == [("half", "A#1", 1)] and verdict.findings[0].at == ("NYC.B#1",)


def test_nodes_without_a_part_in_the_end_are_not_judged() -> None:
    nodes = Nodes()
    _two(nodes)
    for name in "AB":
        nodes.census(9.0, name, "backup", WELL)
    nodes.census(9.0, "C", "fenced", {})
    verdict = nodes.judged(_limit("lost"))
    assert verdict.passed and [str(who) for who in verdict.judged] == ["NYC.A#1", "NYC.B#1"]


def test_no_loss_is_measured_where_no_node_is_live_in_the_end() -> None:
    nodes = Nodes()
    _two(nodes)
    nodes.census(9.0, "A", "fenced", WELL)
    verdict = nodes.judged(_limit("lost"), _limit("diverged"))
    assert not verdict.passed and [j.measured for j in verdict.expectations] == [None, None]


def test_a_take_over_ends_with_an_operation_that_began_after_it() -> None:
    nodes = Nodes()
    nodes.run(1.0, "A1", {0: "A1"})
    nodes.run(1.9, "A2", {0: "A1 A2"}, took=0.2)
    nodes.add(2.0, "A", "crash")
    nodes.add(2.2, "B", "failed", keys=[0], why="not live", definite=True)
    nodes.add(2.5, "B", "role", role="live", term=2)
    nodes.run(2.7, "B1", {0: "A1 A2 B1"}, took=0.3)
    nodes.add(4.0, "C", "crash")
    nodes.run(4.5, "B2", {0: "A1 A2 B1 B2"}, took=0.1)
    nodes.census(9.0, "B", "live", {0: "A1 A2 B1 B2"})
    verdict = nodes.judged(_limit("takeover", 0.9, "<="), _limit("rto", 0.9, "<="))
    (taken,) = verdict.takeovers  # C was a backup
    assert taken.seconds == pytest.approx(1.0)
    assert [one.seconds for one in verdict.recoveries] == [pytest.approx(0.8), pytest.approx(0.1)]
    measured = {j.expectation.name: j.measured for j in verdict.expectations}
    assert measured["takeover"] == pytest.approx(1.0) and measured["rto"] == pytest.approx(0.8)
    assert [j.holds for j in verdict.expectations] == [False, True]
    assert verdict.sites["NYC"].turned_away == 1 and verdict.sites["NYC"].terms == 2


def test_a_service_that_does_not_go_on_has_no_rto() -> None:
    nodes = Nodes()
    nodes.add(1.0, "C", "crash")
    nodes.run(1.2, "A1", {0: "A1"})
    nodes.add(2.0, "A", "crash")
    nodes.add(2.2, "B", "failed", keys=[0], why="not live", definite=True)
    nodes.census(9.0, "B", "backup", {0: "A1"})
    verdict = nodes.judged(_limit("rto", 9, "<="), _limit("takeover", 9, "<="))
    assert verdict.recoveries[0].seconds is not None
    assert not verdict.passed and [j.measured for j in verdict.expectations] == [None, None]
    assert figures(verdict).not_recovered[0].name == "crash NYC.A"
