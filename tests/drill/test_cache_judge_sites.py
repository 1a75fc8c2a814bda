"""The judge of caches at several sites: made-up histories, each with one fault or none."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.drill.judge.cache_judge import CacheVerdict, KeyFate, judge
from jgroups_py.drill.judge.cache_result import result
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.log import DrillRecord

SITES = {"NYC": ("A", "B"), "SFO": ("S", "T")}


class Caches:
    """Two members at each of two sites; one key, 7. Versions: ``NYC.A1``."""

    def __init__(self) -> None:
        self.records: list[DrillRecord] = []
        for site, names in SITES.items():
            members = [f"{name}#1" for name in names]
            for name in names:
                self.add(-1.0, f"{site}.{name}", "join")
                self.add(-0.5, f"{site}.{name}", "view", id=f"{members[0]}|2", members=members)

    def add(
        self, t: float, who: str, event: str, version: str | None = None, **detail: Any
    ) -> None:
        site, _, name = who.partition(".")
        origin = seqno = None
        if version is not None:
            origin, seqno = _parts(version)[:2]
            if _parts(version)[2] != site:
                detail["from"] = _parts(version)[2]
        record = DrillRecord(t, site, name or None, event, origin, seqno, detail or None)
        self.records.append(record)

    def write(
        self, version: str, began: float, acked: float | None, over: str | None = "", **more: Any
    ) -> None:
        who = version[:-1]
        self.add(began, who, "put", version, key=7, **more)
        if over != "":
            replaced = None if over is None else list(_parts(over))
            self.add(began + 0.01, who, "over", version, key=7, over=replaced)
        if acked is not None:
            self.add(acked, who, "acked", version, key=7)

    def read(self, who: str, t: float, found: str | None, **more: Any) -> None:
        self.add(t, who, "got", found, key=7, took=0.0, **more)

    def unsent(self, t: float, site: str, *keys: int) -> None:
        for name in SITES[site]:
            to = next(other for other in SITES if other != site)
            self.add(t, f"{site}.{name}", "unsent", to=to, keys=dict.fromkeys(map(str, keys), 1))

    def fail(self, t: float, site: str, *unsent: int) -> None:
        self.add(t, site, "fail_site", how="vanish")
        self.unsent(t, site, *unsent)
        for name in SITES[site]:
            self.add(t, f"{site}.{name}", "vanish", by="fail_site")

    def holds(self, t: float, site: str, failed: str, found: str | None) -> None:
        for number, name in enumerate(SITES[site]):
            owned = {"7": list(_parts(found))} if found is not None and number == 0 else {}
            self.add(t, f"{site}.{name}", "holds", failed=failed, owned=owned)

    def end(self, unsent: dict[str, list[int]] | None = None, **found: str | None) -> CacheVerdict:
        """Judge an end: the values found at each site, and the values that its members report as lost."""
        for site, version in found.items():
            members = [f"{name}#1" for name in SITES[site]]
            for number, name in enumerate(SITES[site]):
                owned = {"7": list(_parts(version))} if version and number == 0 else {}
                self.add(20.0, f"{site}.{name}", "census", members=members, owned=owned)
            self.unsent(20.0, site, *(unsent or {}).get(site, []))
            self.read(f"{site}.{SITES[site][1]}", 20.5, version, last=True)
        records = sorted(self.records, key=lambda record: record.t)
        return judge(Evidence.of(records, list(SITES)))


def _parts(version: str) -> tuple[str, int, str]:
    site, _, name = version.partition(".")
    return f"{name[0]}#1", int(name[1:]), site


def keys(verdict: CacheVerdict) -> dict[str, KeyFate]:
    return {key.site: key for key in verdict.keys}


def test_a_write_that_both_sites_have_is_well() -> None:
    caches = Caches()
    caches.write("NYC.A1", 1.0, 1.1)
    verdict = caches.end(NYC="NYC.A1", SFO="NYC.A1")
    assert not any(key.bad for key in verdict.keys) and len(verdict.keys) == 2
    assert keys(verdict)["SFO"].found == "NYC.A#1/1" and keys(verdict)["SFO"].acknowledged == 0
    assert verdict.rpo is None and verdict.unrelayed == []


@pytest.mark.parametrize("there", ["NYC.A1", None])
def test_a_missing_value_is_lost_unless_it_is_named(there: str | None) -> None:
    for named in ([], [7], [8]):
        caches = Caches()
        caches.write("NYC.A1", 1.0, 1.1)
        caches.write("NYC.A2", 2.0, 2.1)
        verdict = caches.end({"NYC": named}, NYC="NYC.A2", SFO=there)
        key = keys(verdict)["SFO"]
        assert (key.lost > 0) is (named != [7])
        assert key.diverged == ("NYC",)  # this holds in any case: the sites reach each other
        assert keys(verdict)["NYC"].lost == 0
        assert verdict.sites["SFO"].diverged == verdict.sites["NYC"].diverged == 1


def test_sites_that_are_cut_off_need_not_be_equal() -> None:
    caches = Caches()
    caches.add(0.5, "", "partition", groups=[["NYC.A", "NYC.B"], ["SFO.S", "SFO.T"]])
    caches.records[-1] = caches.records[-1]._replace(site=None)
    caches.write("NYC.A1", 1.0, 1.1)
    verdict = caches.end({"NYC": [7]}, NYC="NYC.A1", SFO=None)
    assert not any(key.bad for key in verdict.keys)


def test_values_that_the_other_site_had_not_when_one_failed_are_told_by_key() -> None:
    caches = Caches()
    for number in (1, 2, 3):
        caches.write(f"NYC.A{number}", number, number + 0.1)
    caches.fail(4.0, "NYC", 7)
    verdict = caches.end(SFO="NYC.A1")
    assert not any(key.bad for key in verdict.keys) and list(keys(verdict)) == ["SFO"]
    (entry,) = verdict.unrelayed
    assert (entry.site, entry.at, entry.key, entry.writes) == ("NYC", "SFO", 7, 2)
    assert entry.last == ("NYC", "A#1", 3) and entry.age == verdict.rpo == 2.0
    said = result(verdict, name="n", mode="m", seed=1, virtual_s=None, wall_s=0.0)
    assert said["unrelayed"] == 1 and said["rpo_s"] == 2.0
    assert said["unrelayed_keys"] == [
        {
            "site": "NYC",
            "at": "SFO",
            "key": 7,
            "writes": 2,
            "origin": "A#1",
            "seqno": 3,
            "age_s": 2.0,
        }
    ]


def test_messages_that_the_failed_site_did_not_name_are_lost() -> None:
    caches = Caches()
    caches.write("NYC.A1", 1.0, 1.1)
    caches.write("NYC.A2", 2.0, 2.1)
    caches.fail(4.0, "NYC")
    verdict = caches.end(SFO="NYC.A1")
    assert keys(verdict)["SFO"].lost == 1 and keys(verdict)["SFO"].missing == "NYC.A#1/2"
    assert verdict.unrelayed == [] and verdict.rpo == 0.0


def test_later_writes_of_survivors_hide_nothing_that_was_seen_right_after_the_failure() -> None:
    for held, writes in (("NYC.A1", 1), ("NYC.A2", 0), (None, 2)):
        caches = Caches()
        caches.write("NYC.A1", 1.0, 1.1)
        caches.write("NYC.A2", 2.0, 2.1)
        caches.fail(4.0, "NYC", 7)
        caches.holds(5.0, "SFO", "NYC", held)
        caches.write("SFO.S1", 6.0, 6.1)
        verdict = caches.end(SFO="SFO.S1")
        assert not any(key.bad for key in verdict.keys)
        assert sum(entry.writes for entry in verdict.unrelayed) == writes


def test_a_missing_value_may_be_a_removal_that_arrived() -> None:
    for removed, writes in ((False, 3), (True, 1)):
        caches = Caches()
        caches.write("NYC.A1", 1.0, 1.1)
        caches.write("NYC.A2", 2.0, 2.1, removed=removed)
        caches.write("NYC.A3", 3.0, 3.1)
        caches.fail(4.0, "NYC", 7)
        caches.read("SFO.T", 2.5, None)
        caches.write("SFO.S1", 4.5, 4.6)
        caches.holds(5.0, "SFO", "NYC", "SFO.S1")
        (entry,) = caches.end(SFO="SFO.S1").unrelayed
        assert entry.writes == writes and entry.age == (1.0 if removed else 3.0)


def test_messages_of_a_member_that_fell_just_before_its_site_are_asked_of_its_last_list() -> None:
    for adopted in (False, True):
        caches = Caches()
        caches.write("NYC.A1", 1.0, 1.1)
        caches.add(2.0, "NYC.A", "unsent", to="SFO", keys={"7": 1})
        caches.add(2.0, "NYC.A", "crash")
        if adopted:  # B has the value, and it was acknowledged
            caches.add(2.5, "NYC.B", "buddies", protected=True, members=["B#1"], gravitations=0)
        else:
            caches.add(
                1.5, "NYC.B", "buddies", protected=True, members=["A#1", "B#1"], gravitations=0
            )
        caches.add(3.0, "NYC.B", "unsent", to="SFO", keys={})
        caches.add(3.0, "NYC.B", "crash")
        verdict = caches.end(SFO=None)
        assert bool(keys(verdict)["SFO"].lost) is adopted
        assert len(verdict.unrelayed) == (not adopted)


def test_writes_of_two_sites_that_had_not_heard_of_each_other_may_win_or_lose() -> None:
    for found in ("NYC.A1", "SFO.S1"):
        caches = Caches()
        caches.write("NYC.A1", 1.0, 1.1)
        caches.write("SFO.S1", 2.0, 2.1)
        assert not any(key.bad for key in caches.end(NYC=found, SFO=found).keys)


def test_a_write_must_not_be_undone_by_the_value_that_it_replaces() -> None:
    caches = Caches()
    caches.write("NYC.A1", 1.0, 1.1)
    caches.write("SFO.S1", 2.0, 2.1, over="NYC.A1")
    assert not any(key.bad for key in caches.end(NYC="SFO.S1", SFO="SFO.S1").keys)
    caches = Caches()
    caches.write("NYC.A1", 1.0, 1.1)
    caches.write("SFO.S1", 2.0, 2.1, over="NYC.A1")
    verdict = caches.end(NYC="NYC.A1", SFO="NYC.A1")
    assert all(key.lost == 1 and key.missing for key in verdict.keys)


def test_a_write_that_was_lost_and_replaced_before_anybody_read_shows() -> None:
    for over, stale in (("NYC.A2", 0), ("NYC.A1", 1), (None, 1)):
        caches = Caches()
        caches.write("NYC.A1", 1.0, 1.1)
        caches.write("NYC.A2", 2.0, 2.1)
        caches.write("NYC.B1", 3.0, 3.1, over=over)
        verdict = caches.end(NYC="NYC.B1", SFO="NYC.B1")
        assert keys(verdict)["NYC"].stale == stale and not keys(verdict)["NYC"].lost


def test_a_removal_is_a_write() -> None:
    for found, bad in ((None, False), ("NYC.A1", True)):
        caches = Caches()
        caches.write("NYC.A1", 1.0, 1.1)
        caches.write("NYC.A2", 2.0, 2.1, removed=True)
        caches.read("NYC.B", 3.0, found)
        verdict = caches.end(NYC=found, SFO=found)
        assert all((key.lost > 0) is bad for key in verdict.keys)
        assert keys(verdict)["NYC"].stale == bad
    caches = Caches()
    caches.write("NYC.A1", 1.0, 1.1, removed=True)
    caches.write("NYC.A2", 2.0, 2.1)
    caches.read("NYC.B", 3.0, None)
    verdict = caches.end(NYC=None, SFO=None)
    assert all(key.lost == 1 for key in verdict.keys) and keys(verdict)["NYC"].stale == 1


def test_a_site_that_was_built_anew_must_have_everything_once_it_was_sent() -> None:
    for sent in (False, True):
        caches = Caches()
        caches.write("SFO.S1", 1.0, 1.1)
        caches.fail(4.0, "NYC")
        for name in SITES["NYC"]:
            caches.add(6.0, f"NYC.{name}", "restart")
            caches.records[-1] = caches.records[-1]._replace(incarnation=2)
            caches.add(6.0, f"NYC.{name}", "view", id="A#2|1", members=["A#2", "B#2"])
            caches.records[-1] = caches.records[-1]._replace(incarnation=2)
        if sent:
            caches.add(8.0, "NYC", "bootstrap")
            under_way: dict[str, Any] = {
                "protected": True,
                "members": ["S#1", "T#1"],
                "gravitations": 0,
            }
            caches.add(7.9, "SFO.S", "buddies", **under_way, bootstraps=1)  # an earlier value
            caches.add(8.1, "SFO.S", "buddies", **under_way, bootstraps=1)
            caches.add(8.7, "SFO.S", "buddies", **under_way, bootstraps=2)
        for name in SITES["NYC"]:
            caches.add(20.0, f"NYC.{name}", "census", members=["A#2", "B#2"], owned={})
            caches.records[-1] = caches.records[-1]._replace(incarnation=2)
        verdict = caches.end(SFO="SFO.S1")
        assert bool(keys(verdict)["NYC"].diverged) is sent and not keys(verdict)["NYC"].lost
        assert [m.seconds for m in verdict.bootstraps] == ([pytest.approx(0.7)] if sent else [])
