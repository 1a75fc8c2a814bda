"""The judge of maps: made-up histories of two sites, each with one fault or none."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.drill.file.model import Expectation, FilePlace
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.map_judge import MapKey, MapVerdict, differing, judge, lags_by_time
from jgroups_py.drill.judge.map_result import result
from jgroups_py.drill.log import DrillRecord

SIDES = [["NYC.A", "NYC.B"], ["SFO.S"]]


class Maps:
    """Hosts NYC.A, NYC.B and SFO.S; one key, 7. Values are written ``A1``, or ``S#2-1`` for one of S's second life."""

    def __init__(self) -> None:
        self.records: list[DrillRecord] = []
        for name in "ABS":
            self.opened(-1.0, name)

    def add(
        self, t: float, who: str, event: str, version: str | None = None, **detail: Any
    ) -> None:
        name, _, life = who.partition("#")
        origin, seqno = (None, None) if version is None else _parted(version)
        if origin is not None and _site(origin) != _site(name):
            detail["from"] = _site(origin)
        self.records.append(
            DrillRecord(t, _site(name), name, event, origin, seqno, detail or None, int(life or 1))
        )

    def opened(self, t: float, who: str, **owned: str) -> None:
        self.add(t, who, "join")
        self.add(t, who, "census", first=True, owned=_owned(owned.get("has")))

    def put(self, t: float, version: str, took: float = 0.01, **detail: Any) -> None:
        who = version.partition("-")[0] if "-" in version else version[0]
        self.add(t, who, "put", version, key=7, **detail)
        if took:
            self.add(t + took, who, "acked", version, key=7)

    def seen(self, t: float, who: str, version: str | None) -> None:
        self.add(t, who, "seen", version, key=7)

    def note(self, t: float, event: str, **detail: Any) -> None:
        self.records.append(DrillRecord(t, None, None, event, None, None, detail))

    def end(self, *expect: Expectation, **found: str | None) -> MapVerdict:
        """Judge an end at 9 s in which each host has these values."""
        for who, version in found.items():
            self.add(9.0, who.replace("_", "#"), "census", owned=_owned(version))
        records = sorted(self.records, key=lambda record: record.t)
        return judge(Evidence.of(records, ["NYC", "SFO"]), expect=expect)

    def key(self, **found: str | None) -> MapKey:
        (key,) = self.end(**found).keys
        return key


def _site(name: str) -> str:
    return "SFO" if name[0] == "S" else "NYC"


def _parted(version: str) -> tuple[str, int]:
    if "-" in version:
        origin, _, seqno = version.partition("-")
        return origin, int(seqno)
    return f"{version[0]}#1", int(version[1:])


def _owned(version: str | None) -> dict[str, Any]:
    return {} if version is None else {"7": [*_parted(version), _site(version)]}


def _limit(name: str, limit: float, compare: str = "=") -> Expectation:
    return Expectation(name, compare, limit, f"{compare} {limit:g}", FilePlace("f", 1, 1))


def _spread(maps: Maps, t: float, version: str, *hosts: str) -> None:
    maps.put(t, version)
    for number, host in enumerate(hosts, 1):
        maps.seen(t + 0.01 + 0.05 * number, host, version)


def test_the_last_put_at_all_hosts_is_well() -> None:
    maps = Maps()
    _spread(maps, 1.0, "A1", "B", "S")
    _spread(maps, 2.0, "S1", "A", "B")
    verdict = maps.end(A="S1", B="S1", S="S1")
    (key,) = verdict.keys
    assert not key.bad and key.puts == 2 and not verdict.unsent
    assert [round(lag.seconds, 3) for lag in verdict.lags] == [0.05, 0.1, 0.05, 0.1]
    assert [(round(d.start, 3), round(d.end, 3)) for d in verdict.differences] == [
        (1.01, 1.11),
        (2.01, 2.11),
    ]
    assert verdict.divergence == pytest.approx(0.1)
    assert [numbers.puts for numbers in verdict.sites.values()] == [1, 1]


@pytest.mark.parametrize("found", ["A1", None, "B9"])
def test_a_host_without_the_last_put_has_lost_it(found: str | None) -> None:
    """The host has an older value, none, or one that was never put."""
    maps = Maps()
    _spread(maps, 1.0, "A1", "B", "S")
    _spread(maps, 2.0, "S1", "A", "B")
    verdict = maps.end(_limit("lost", 0), _limit("diverged", 0), A="S1", B=found, S="S1")
    (key,) = verdict.keys
    assert key.lost_at == ["NYC.B"] and key.diverged
    assert key.lost == {"A1": 1, None: 2, "B9": 2}[found]
    assert not verdict.passed and [j.measured for j in verdict.expectations] == [1, 1]
    shown = result(verdict, name="n", mode="m", seed=1, virtual_s=None, wall_s=0.0)
    assert shown["verdict"] == "fail" and shown["workload"] == "map"
    (lost,) = shown["lost"]
    assert (lost["key"], lost["origin"], lost["seqno"], lost["site"]) == (7, "S#1", 1, "SFO")
    assert lost["at"] == ["NYC.B"] and shown["diverged"][0]["found"]["NYC.A"] == "SFO.S#1/1"


def test_all_hosts_may_have_lost_the_same_put() -> None:
    maps = Maps()
    maps.put(1.0, "A1")
    maps.put(2.0, "A2")
    key = maps.key(A="A1", B="A1", S="A1")
    assert key.lost == 1 and len(key.lost_at) == 3 and not key.diverged


def test_puts_that_overlap_may_win_in_any_order() -> None:
    for winner in ("A1", "S1"):
        maps = Maps()
        maps.put(1.0, "A1", took=0.05)
        maps.put(1.02, "S1")
        assert not maps.key(A=winner, B=winner, S=winner).bad


def test_the_older_of_two_hosts_puts_must_not_win() -> None:
    maps = Maps()
    maps.put(1.0, "A1")
    maps.put(1.2, "S1")
    assert maps.key(A="A1", B="A1", S="A1").lost == 1


def test_a_put_without_a_return_may_be_there_or_not() -> None:
    for found in ("A1", "A2"):
        maps = Maps()
        maps.put(1.0, "A1")
        maps.put(2.0, "A2", took=0)
        assert not maps.key(A=found, B=found, S=found).bad


def test_a_removed_key_must_not_come_back() -> None:
    maps = Maps()
    maps.put(1.0, "A1")
    maps.put(2.0, "B1", removed=True)
    assert not maps.key(A=None, B=None, S=None).bad
    maps = Maps()
    maps.put(1.0, "A1")
    maps.put(2.0, "B1", removed=True)
    assert maps.key(A="A1", B="A1", S="A1").lost_at


def test_a_missing_value_that_no_removal_can_have_removed_is_lost() -> None:
    maps = Maps()
    maps.put(1.0, "B1", removed=True)
    maps.put(2.0, "A1")
    assert maps.key(A=None, B=None, S=None).lost == 1


def test_hosts_that_are_still_cut_off_owe_nothing_to_each_other() -> None:
    maps = Maps()
    maps.note(0.5, "partition", groups=SIDES)
    maps.put(1.0, "A1")
    maps.seen(1.1, "B", "A1")
    assert not maps.key(A="A1", B="A1", S=None).bad
    maps = Maps()
    maps.note(0.5, "partition", groups=SIDES)
    maps.put(1.0, "A1")
    maps.note(3.0, "heal", groups=SIDES)
    key = maps.key(A="A1", B="A1", S=None)
    assert key.lost_at == ["SFO.S"] and key.diverged


def test_a_put_of_a_lost_host_is_owed_if_another_has_seen_it() -> None:
    def of(seen: bool, **found: str | None) -> MapVerdict:
        maps = Maps()
        maps.put(1.0, "A1")
        if seen:
            maps.seen(1.1, "B", "A1")
        maps.add(1.5, "A", "crash")
        return maps.end(**found)

    assert of(True, B="A1", S=None).keys[0].lost_at == ["SFO.S"]
    gone = of(False, B=None, S=None)
    assert not gone.keys[0].bad and [put.version for put in gone.unsent] == [("NYC", "A#1", 1)]
    assert not of(True, B="A1", S="A1").unsent


def test_a_file_brings_back_all_puts_of_its_process() -> None:
    maps = Maps()
    maps.put(1.0, "A1")
    maps.add(1.5, "A", "crash")
    maps.add(3.0, "A#2", "restart")
    maps.opened(3.5, "A#2")  # it has forgotten it
    verdict = maps.end(A_2=None, B=None, S=None)
    assert len(verdict.keys[0].lost_at) == 3  # missing: its host is present
    maps = Maps()
    maps.put(1.0, "A1")
    maps.add(1.5, "A", "crash")
    maps.add(3.0, "A#2", "restart")
    maps.opened(3.5, "A#2", has="A1")
    maps.seen(4.0, "B", "A1")
    maps.seen(4.5, "S", "A1")
    verdict = maps.end(A_2="A1", B="A1", S="A1")
    assert not verdict.keys[0].bad and not verdict.unsent
    (healed,) = verdict.healings
    assert healed.seconds == pytest.approx(1.5)  # from the restart until S has it, too


def test_a_host_does_not_go_back() -> None:
    maps = Maps()
    maps.put(1.0, "A1")
    maps.put(2.0, "A2")
    maps.add(2.5, "A", "got", "A1", key=7, took=0.0)
    maps.seen(3.0, "B", "A2")
    maps.seen(3.5, "B", "A1")
    maps.seen(4.0, "B", "A2")
    maps.add(5.0, "S", "got", "A1", key=7, took=0.0)  # it has no newer information
    key = maps.key(A="A2", B="A2", S="A2")
    assert key.stale == ["NYC.A", "NYC.B"] and key.bad and not key.lost_at


def test_times_of_differences_and_healing() -> None:
    maps = Maps()
    maps.note(0.5, "partition", groups=SIDES)
    maps.put(1.0, "A1", took=0.0001)
    maps.seen(1.5, "B", "A1")
    maps.note(3.0, "heal", groups=SIDES)
    maps.seen(3.4, "S", "A1")
    limits = [
        _limit("lag", 2.0, "<="),
        _limit("healed", 0.5, "<="),
        _limit("divergence", 3.0, "<="),
    ]
    verdict = maps.end(*limits, A="A1", B="A1", S="A1")
    measured = {j.expectation.name: j.measured for j in verdict.expectations}
    assert measured["lag"] == pytest.approx(2.4, abs=0.01) and not verdict.passed
    assert measured["healed"] == pytest.approx(0.4) and measured["divergence"] == pytest.approx(
        2.4, abs=0.01
    )
    assert [m.site for m in verdict.healings] == ["NYC | SFO"]
    edges = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert differing(verdict, edges) == [0, 1, 1, 1, 0]
    assert lags_by_time(verdict.lags, edges, 1.0)[1] == pytest.approx(2.4, abs=0.01)


def test_an_older_value_that_comes_late_does_not_end_the_lag() -> None:
    maps = Maps()
    maps.put(1.0, "S1")
    maps.put(1.5, "A1")
    maps.seen(1.6, "B", "S1")
    maps.seen(2.0, "B", "A1")
    verdict = maps.end(A="A1", B="A1", S="A1")
    lags = {lag.origin.name: lag.seconds for lag in verdict.lags if lag.target.name == "B"}
    assert lags == {"S": pytest.approx(0.59), "A": pytest.approx(0.49)}


def test_a_key_that_differs_to_the_end_is_not_healed() -> None:
    maps = Maps()
    maps.note(0.5, "partition", groups=SIDES)
    maps.put(1.0, "A1")
    maps.note(3.0, "heal", groups=SIDES)
    verdict = maps.end(
        _limit("healed", 5, "<="), _limit("divergence", 9, "<="), A="A1", B="A1", S=None
    )
    assert [j.measured for j in verdict.expectations] == [None, None] and not verdict.passed


def test_a_paused_host_is_not_compared() -> None:
    maps = Maps()
    maps.add(0.5, "S", "pause")
    _spread(maps, 1.0, "A1", "B")
    maps.add(3.0, "S", "resume")
    maps.seen(3.5, "S", "A1")
    verdict = maps.end(A="A1", B="A1", S="A1")
    spans = [(round(d.start, 2), round(d.end, 2)) for d in verdict.differences]
    assert spans == [(1.01, 1.06), (3.0, 3.5)]
    assert verdict.healings[0].seconds == pytest.approx(0.5)


def test_a_removal_of_nothing_changes_nothing() -> None:
    maps = Maps()
    maps.add(1.0, "A", "put", "A1", key=7, removed=True)
    maps.add(1.0, "A", "acked", "A1", key=7, nothing=True)
    verdict = maps.end(A=None, B=None, S=None)
    assert verdict.keys[0].puts == 0 and not verdict.keys[0].bad


def test_events_of_one_instant_are_in_the_order_of_the_log() -> None:
    maps = Maps()
    maps.put(1.0, "A1")
    maps.add(1.5, "A", "crash")
    maps.add(2.0, "A#2", "restart")
    maps.opened(2.5, "A#2", has="A1")
    maps.put(2.5, "A#2-1", took=1e-12)
    assert not maps.key(A_2="A#2-1", B="A#2-1", S="A#2-1").bad
