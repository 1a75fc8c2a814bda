"""The judge of bucket stores: made-up histories of three members, each with one fault or none."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from jgroups_py.drill.file.model import Expectation, FilePlace
from jgroups_py.drill.judge.bucket_judge import BucketVerdict, figures, judge
from jgroups_py.drill.judge.bucket_result import result
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.log import DrillRecord
from jgroups_py.drill.report.bucket_report import show


class Store:
    """Members A, B and C. Additions are written ``A1``."""

    def __init__(self) -> None:
        self.records: list[DrillRecord] = []
        for name in "ABC":
            self.add(-2.0, name, "join")
            self.add(-1.5, name, "view", id="A#1|3", members=["A#1", "B#1", "C#1"])

    def add(self, t: float, who: str, event: str, entry: str | None = None, **detail: Any) -> None:
        origin, seqno = (None, None) if entry is None else _parted(entry)
        self.records.append(DrillRecord(t, "NYC", who, event, origin, seqno, detail or None))

    def write(
        self, t: float, entry: str, place: int, before: str | None, took: float = 0.1, key: int = 7
    ) -> None:
        """``took`` 0: the addition got no answer."""
        self.add(t, entry[0], "put", entry, keys=[key])
        if took:
            at = [[place, list(_parted(before)) if before else None]]
            self.add(t + took, entry[0], "acked", entry, keys=[key], at=at)

    def read(self, t: float, who: str, found: str, took: float = 0.1) -> None:
        """An addition that began at ``t``."""
        entries = [list(_parted(one)) for one in found.split()]
        self.add(t + took, who, "got", key=7, took=took, length=len(entries), newest=entries[-1:])

    def end(self, found: str, *expect: Expectation, alone: int = 0, **others: Any) -> BucketVerdict:
        """Judge an end at 9 s in which all members but ``others`` read this; None: they cannot read it."""
        for name in "ABC":
            got = others.get(name, found)
            owned = {} if got is None else {"7": [list(_parted(one)) for one in got.split()]}
            missing = [7] if got is None else []
            self.add(9.0, name, "census", owned=owned, missing=missing, alone=alone)
        return self.judged(*expect)

    def judged(self, *expect: Expectation) -> BucketVerdict:
        records = sorted(self.records, key=lambda record: record.t)
        return judge(Evidence.of(records, ["NYC"]), expect=expect)


def _parted(entry: str) -> tuple[str, int]:
    return f"{entry[0]}#1", int(entry[1:])


def _limit(name: str, limit: float = 0, compare: str = "=") -> Expectation:
    return Expectation(name, compare, limit, f"{compare} {limit:g}", FilePlace("f", 1, 1))


def _kinds(verdict: BucketVerdict) -> list[tuple[str, str, int]]:
    return [(one.kind, *one.entry) for one in verdict.findings]


def _two(store: Store) -> None:
    store.write(1.0, "A1", 0, None)
    store.write(2.0, "B1", 1, "A1")


def test_an_answered_request_is_present() -> None:
    store = Store()
    _two(store)
    store.read(3.0, "C", "A1 B1")
    verdict = store.end("A1 B1")
    assert not verdict.findings and not verdict.stale and verdict.alone == 0
    numbers = verdict.sites["NYC"]
    assert (numbers.modifications, numbers.answered, numbers.reads) == (2, 2, 1)
    assert figures(verdict).latency_p99 == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("found", "kinds"),
    [
        ("A1", [("lost", "B#1", 1)]),
        ("", [("lost", "A#1", 1), ("lost", "B#1", 1)]),
        ("B1 A1", [("undone", "A#1", 1), ("undone", "B#1", 1)]),
        ("A1 B1 B1", [("duplicated", "B#1", 1)]),
        ("A1 B1 C9", [("half", "C#1", 9)]),
    ],
)
def test_final_reads_of_members_are_compared(found: str, kinds: list[Any]) -> None:
    store = Store()
    _two(store)
    names = ("lost", "undone", "half", "duplicated")
    verdict = store.end("A1 B1", *map(_limit, names), C=found)
    assert _kinds(verdict) == kinds and all(one.at == ("NYC.C#1",) for one in verdict.findings)
    assert not verdict.passed
    shown = result(verdict, name="n", mode="m", seed=1, virtual_s=None, wall_s=0.0)
    assert [one["why"] for kind in names for one in shown[kind]]


def test_a_modification_without_an_answer_is_there_once_or_not() -> None:
    for found, kinds in (("A1", []), ("A1 B1", []), ("A1 B1 B1", [("duplicated", "B#1", 1)])):
        store = Store()
        store.write(1.0, "A1", 0, None)
        store.write(2.0, "B1", 1, "A1", took=0)
        assert _kinds(store.end(found)) == kinds


def test_a_request_that_certainly_was_not_carried_out_is_absent() -> None:
    store = Store()
    store.add(1.0, "A", "put", "A1", keys=[7])
    store.add(1.1, "A", "failed", "A1", keys=[7], why="busy", definite=True)
    assert _kinds(store.end("A1")) == [("half", "A#1", 1)]


def test_a_read_has_all_items_answered_before_it_began() -> None:
    store = Store()
    _two(store)
    store.read(2.05, "C", "A1")  # B1 is under way
    assert not store.end("A1 B1").stale
    store = Store()
    _two(store)
    store.read(2.2, "C", "A1")
    verdict = store.end("A1 B1", _limit("stale"))
    assert verdict.stale == [7] and not verdict.passed


def test_a_read_has_all_items_of_earlier_reads() -> None:
    """Unanswered changes belong to the value, too."""
    store = Store()
    store.write(1.0, "A1", 0, None)
    store.write(2.0, "B1", 1, "A1", took=0)
    store.read(2.1, "C", "A1 B1")
    store.read(2.15, "A", "A1")  # both are under way
    assert not store.end("A1 B1").stale
    store.read(2.3, "A", "A1")
    assert store.judged().stale == [7]


def test_a_read_shows_nothing_that_is_gone_later() -> None:
    store = Store()
    store.write(1.0, "A1", 0, None, took=0)
    store.read(1.5, "C", "A1")
    assert store.end("").stale == [7]


def test_entries_that_cannot_be_read_and_buckets_with_one_copy_are_reported() -> None:
    store = Store()
    _two(store)
    limits = [_limit("unavailable"), _limit("alone"), _limit("lost")]
    verdict = store.end("A1 B1", *limits, alone=2, B=None)
    assert verdict.unavailable == [7] and verdict.alone == 2
    assert [j.measured for j in verdict.expectations] == [1, 2, 0]


def test_no_loss_is_measured_where_no_node_is_left() -> None:
    store = Store()
    _two(store)
    verdict = store.judged(_limit("lost"), _limit("alone"))
    assert not verdict.passed and [j.measured for j in verdict.expectations] == [None, None]


def test_the_interruption_is_that_of_the_entry_that_waited_longest() -> None:
    store = Store()
    store.add(2.0, "C", "crash")
    store.write(2.1, "A1", 0, None, took=0.2, key=1)
    store.write(2.5, "A2", 0, None, took=1.5, key=7)
    store.write(2.9, "B1", 1, "A2", took=1.2, key=7)
    verdict = store.judged(_limit("interruption", 1.4, "<="))
    assert verdict.recoveries[0].seconds == pytest.approx(1.5)
    assert not verdict.passed


def test_a_store_that_does_not_go_on_has_no_interruption_that_holds() -> None:
    store = Store()
    store.add(1.0, "C", "crash")
    store.write(1.1, "A1", 0, None, key=1)
    store.add(2.0, "B", "crash")
    store.write(2.1, "A2", 0, None, took=0)
    verdict = store.judged(_limit("interruption", 9, "<="))
    assert verdict.expectations[0].measured is None and not verdict.passed
    assert figures(verdict).not_recovered[0].name == "crash NYC.B"


def test_the_interruption_of_each_entry_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    store = Store()
    store.add(2.0, "C", "crash")
    store.write(2.1, "A1", 0, None, took=0.2, key=1)
    store.write(2.5, "A2", 0, None, took=1.5, key=7)
    store.write(2.9, "B1", 1, "A2", took=1.2, key=7)
    store.write(3.0, "B2", 0, None, took=0, key=9)
    store.write(1.0, "B3", 0, None, key=11)
    verdict = store.judged()
    shown = result(verdict, name="n", mode="m", seed=1, virtual_s=None, wall_s=0.0)
    (told,) = shown["interruptions"]
    assert (told["at_s"], told["event"], told["who"]) == (2.0, "crash", "NYC.C#1")
    assert told["seconds_by_key"] == pytest.approx({"1": 0.2, "7": 1.5})
    assert told["unanswered"] == [9]
    show(Console(width=120), "title", verdict)
    out = capsys.readouterr().out
    assert "crash NYC.C: entries that waited longest: 7 (1.500 s), 1 (0.200 s)" in out
    assert "crash NYC.C: 1 entries without an answer: 9" in out
