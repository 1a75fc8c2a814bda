"""The judge of caches: made-up histories, each with one fault or none."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.drill.file.model import Expectation, FilePlace
from jgroups_py.drill.judge.cache_judge import KeyFate, judge
from jgroups_py.drill.judge.cache_result import result
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.log import DrillRecord


class Caches:
    """Members A, B, C of NYC; one key, 7, unless a test gives others."""

    def __init__(self) -> None:
        self.records: list[DrillRecord] = []
        for name in "ABC":
            self.add(-1.0, name, "join")
            self.add(-0.5, name, "view", id="A#1|3", members=["A#1", "B#1", "C#1"])

    def add(
        self,
        t: float,
        who: str,
        event: str,
        version: tuple[str | None, int | None] = (None, None),
        **detail: Any,
    ) -> None:
        self.records.append(
            DrillRecord(t, "NYC", who, event, version[0], version[1], detail or None)
        )

    def write(self, who: str, number: int, began: float, acked: float | None, key: int = 7) -> None:
        version = (f"{who}#1", number)
        self.add(began, who, "put", version, key=key)
        if acked is not None:
            self.add(acked, who, "acked", version, key=key)

    def refused(self, who: str, number: int, t: float, definite: bool) -> None:
        self.add(t, who, "put", (f"{who}#1", number), key=7)
        self.add(t, who, "failed", (f"{who}#1", number), key=7, why="?", definite=definite)

    def read(
        self, who: str, t: float, found: str | None, took: float = 0.0, last: bool = False
    ) -> None:
        more = {"last": True} if last else {}
        self.add(t, who, "got", _version(found), key=7, took=took, **more)

    def end(self, found: str | None, *owners: str) -> KeyFate:
        """Judge an end at 9 s: the owners of the key have ``found``, and the last read gets this answer."""
        for name in "ABC":
            owned = {"7": list(_version(found))} if name in owners else {}
            self.add(9.0, name, "census", members=["A#1", "B#1", "C#1"], owned=owned)
        self.read("A", 9.5, found, last=True)
        key: KeyFate
        (key,) = self.judged().keys
        return key

    def judged(self, *expect: Expectation) -> Any:
        records = sorted(self.records, key=lambda record: record.t)
        return judge(Evidence.of(records, ["NYC"]), expect=expect)


def _version(text: str | None) -> Any:
    return (None, None) if text is None else (f"{text[0]}#1", int(text[1:]))


def test_a_key_whose_last_write_is_found_is_well() -> None:
    caches = Caches()
    caches.write("A", 1, 1.0, 1.1)
    caches.write("B", 1, 2.0, 2.1)
    caches.read("C", 2.5, "B1")
    key = caches.end("B1", "B")
    assert key == KeyFate("NYC", 7, 2, True, found="B#1/1", owners=("B#1",)) and not key.bad


@pytest.mark.parametrize("found", ["A1", None])
def test_an_acknowledged_write_that_is_not_found_is_lost(found: str | None) -> None:
    caches = Caches()
    for number in (1, 2, 3):
        caches.write("A", number, number, number + 0.1)
    key = caches.end(found, *(["B"] if found else []))
    assert key.lost == (2 if found else 3) and key.missing == "A#1/3"
    assert key.present is (found is not None) and key.bad
    verdict = caches.judged(Expectation("lost", "=", 0, "= 0", FilePlace("f", 1, 1)))
    assert not verdict.passed
    shown = result(verdict, name="n", mode="m", seed=1, virtual_s=None, wall_s=0)
    assert shown["verdict"] == "fail" and shown["sites"]["NYC"]["lost"] == 1
    assert shown["lost"] == [
        {
            "site": "NYC",
            "key": 7,
            "origin": "A#1",
            "seqno": 3,
            "found": found and "A#1/1",
            "writes": key.lost,
        }
    ]


def test_values_that_a_merge_dropped_and_listed_are_not_lost() -> None:
    for listed in (None, "B1", "B2"):
        caches = Caches()
        caches.write("A", 1, 1.0, 1.1)
        caches.write("B", 1, 2.0, 2.1)
        caches.write("B", 2, 3.0, 3.1)
        caches.read("C", 4.0, "A1")
        if listed is not None:
            caches.add(5.0, "B", "discarded", _version(listed), key=7)
        key = caches.end("A1", "A")
        assert (key.lost, key.discarded, key.stale) == {
            None: (2, 0, 1),
            "B1": (1, 1, 1),
            "B2": (0, 2, 0),  # this value was also replaced by B2
        }[listed]
        assert key.bad is (listed != "B2")


def test_a_removal_of_nothing_is_a_read() -> None:
    for there, stale in ((False, 0), (True, 1)):
        caches = Caches()
        if there:
            caches.write("A", 1, 1.0, 1.1)
        caches.add(2.0, "B", "put", ("B#1", 1), key=7, removed=True)
        caches.add(2.1, "B", "acked", ("B#1", 1), key=7, nothing=True)
        caches.write("C", 1, 3.0, 3.1)
        key = caches.end("A1" if there else "C1", "A")
        assert key.stale == stale
        assert key.lost == there and key.acknowledged == 1 + there


@pytest.mark.parametrize(("before", "stale"), [(None, 0), ("crash", 1), ("pause", 1)])
def test_a_read_in_a_split_site_may_be_old(before: str | None, stale: int) -> None:
    caches = Caches()
    caches.write("A", 1, 1.0, 1.1)
    caches.write("A", 2, 2.0, 2.1)
    if before:
        caches.add(2.2, "A", before)
    caches.add(2.5, "B", "view", id="B#1|4", members=["B#1", "C#1"])
    caches.read("B", 3.0, "A1")
    assert caches.end("A2", "B").stale == stale


def test_a_removal_that_a_merge_dropped_is_listed_without_a_version() -> None:
    for at, lost in ((2.05, 1), (5.0, 0)):
        caches = Caches()
        caches.write("A", 1, 1.0, 1.1)
        caches.add(2.0, "B", "put", ("B#1", 1), key=7, removed=True)
        caches.add(2.1, "B", "acked", ("B#1", 1), key=7)
        caches.add(at, "B", "discarded", key=7)
        key = caches.end("A1", "A")
        assert (key.lost, key.discarded) == (lost, 1 - lost)


def test_writes_that_overlap_may_take_effect_in_any_order() -> None:
    for found in ("A1", "B1"):
        caches = Caches()
        caches.write("A", 1, 1.0, 2.0)
        caches.write("B", 1, 1.5, 1.7)
        caches.read("C", 3.0, found)
        assert not caches.end(found, "A").bad


def test_a_write_without_an_answer_may_be_found_or_not() -> None:
    for found in ("A1", "B1"):
        for definite in (None, False):
            caches = Caches()
            caches.write("A", 1, 1.0, 1.1)
            if definite is None:
                caches.write("B", 1, 2.0, None)
            else:
                caches.refused("B", 1, 2.0, definite)
            caches.read("C", 3.0, found)
            assert not caches.end(found, "B").bad


def test_writes_that_were_certainly_not_done_must_not_be_found() -> None:
    caches = Caches()
    caches.write("A", 1, 1.0, 1.1)
    caches.refused("B", 1, 2.0, definite=True)
    caches.read("C", 3.0, "B1")
    key = caches.end("B1", "B")
    assert key.stale == 1 and key.lost == 1


def test_a_read_of_a_value_that_was_replaced_before_is_stale() -> None:
    caches = Caches()
    caches.write("A", 1, 1.0, 1.1)
    caches.write("A", 2, 2.0, 2.1)
    caches.read("B", 2.05, "A1")  # not acknowledged yet
    caches.read("B", 2.5, "A1", took=0.45)  # the read began before the acknowledgement
    caches.read("B", 2.5, "A1", took=0.3)
    caches.read("B", 3.0, None)
    key = caches.end("A2", "A")
    assert key.stale == 2 and not key.lost
    assert caches.judged().sites["NYC"].misses == 1


def test_two_owners_of_one_key_are_found_and_members_of_other_views_are_not_asked() -> None:
    caches = Caches()
    caches.write("A", 1, 1.0, 1.1)
    assert caches.end("A1", "A", "C").owners == ("A#1", "C#1")
    caches = Caches()
    caches.write("A", 1, 1.0, 1.1)
    caches.add(8.9, "D", "census", members=["D#1"], owned={"7": ["A#1", 1]})
    caches.add(8.9, "D", "got", (None, None), key=7, took=0.0, last=True)
    assert caches.end("A1", "A").owners == ("A#1",)


def test_unprotected_lasts_until_the_last_survivor_has_its_copies() -> None:
    caches = Caches()
    caches.add(2.0, "C", "crash")
    for name, t in (("A", 3.0), ("B", 2.5)):
        caches.add(
            2.1, name, "buddies", protected=True, members=["A#1", "B#1", "C#1"], gravitations=0
        )
        caches.add(2.2, name, "buddies", protected=False, members=["A#1", "B#1"], gravitations=1)
        caches.add(t, name, "buddies", protected=True, members=["A#1", "B#1"], gravitations=4)
    verdict = caches.judged(Expectation("unprotected", "<=", 1.0, "<= 1s", FilePlace("f", 1, 1)))
    assert [m.seconds for m in verdict.unprotected] == [1.0] and verdict.passed
    assert verdict.sites["NYC"].gravitations == 8
    caches.records = [r for r in caches.records if not (r.member == "B" and r.t == 2.5)]
    verdict = caches.judged(Expectation("unprotected", "<=", 1.0, "<= 1s", FilePlace("f", 1, 1)))
    assert [m.seconds for m in verdict.unprotected] == [None] and not verdict.passed
