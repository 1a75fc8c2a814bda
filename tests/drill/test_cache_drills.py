"""Drills of caches: in virtual time, with real processes, and with planted faults that the judge must find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from played_drill import SLOW_TO_SUSPECT

from jgroups_py.buddy.backups import Backup
from jgroups_py.cache import TreeCache
from jgroups_py.cache.buddy_replication import BuddyReplication
from jgroups_py.drill.file import loader, plan
from jgroups_py.driver import probe_multicast
from jgroups_py.errors import ConfigError
from jgroups_py.tools.cli import run

DRILL = """\
seed: 1
workload: cache
sites:
  NYC: {{members: [A, B, C, D], stack: udp.xml, properties: {{cache.buddies: {buddies}}}}}
set: {{FD_ALL3.timeout: 1s, FD_ALL3.interval: 200ms, VERIFY_SUSPECT2.timeout: 300ms}}
network: {{latency: 0.3ms, jitter: 0.2ms, loss: {loss}}}
traffic:
  - {{site: NYC, rate: 15/s, keys: 20, read_ratio: 60%, remove_ratio: 0%, stickiness: 0.8, value_size: 100B, stop: {stop}}}
timeline:
{timeline}
settle: 2s
expect: {{lost: 0, stale: 0, doubly_owned: 0}}
"""
CRASH = "  - {at: 1.5s, crash: NYC.B}"
TWO = "  - {at: 1.5s, crash: [NYC.B, NYC.C]}"
MANY = """\
  - {at: 1s, leave: NYC.A}
  - {at: 2s, pause: NYC.C, for: 500ms}
  - {at: 3s, restart: NYC.A}
  - {at: 4s, vanish: NYC.D}
  - {at: 5s, partition: [[NYC.A], [NYC.B, NYC.C]], for: 300ms}"""


@pytest.fixture
def drill(tmp_path: Path) -> Any:
    """Run a drill. Return the exit code and the result."""

    def how(
        timeline: str, *options: str, buddies: int = 1, loss: str = "0%", stop: str = "3s"
    ) -> tuple[int, Any]:
        path, out = tmp_path / "cache.yaml", tmp_path / "out.json"
        path.write_text(DRILL.format(timeline=timeline, buddies=buddies, loss=loss, stop=stop))
        code = run(["drill", str(path), "--json", str(out), *options])
        return code, json.loads(out.read_text())

    return how


def test_a_crash_that_the_buddies_bear_loses_nothing(drill: Any, tmp_path: Path) -> None:
    report, log = tmp_path / "a.html", tmp_path / "a.jsonl"
    code, found = drill(CRASH, "--report", str(report), "--log", str(log))
    assert code == 0 and found["verdict"] == "pass" and found["workload"] == "cache"
    assert {key["key"] for key in found["keys"]} == set(range(20))
    assert all(key["present"] == (key["acknowledged"] > 0) for key in found["keys"])
    assert all(len(key["owners"]) == (key["acknowledged"] > 0) for key in found["keys"])
    numbers = found["sites"]["NYC"]
    assert numbers["acknowledged"] > 30 and numbers["reads"] > 60 and numbers["gravitations"] > 5
    assert len(found["unprotected_s"]) == 1 and 0 < found["unprotected_s"][0] < 1
    page = report.read_text()
    assert "unprotected for" in page and "<td>NYC 19</td>" in page
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert {"put", "acked", "got", "buddies", "census", "crash", "view"} <= set(events)
    again = drill(CRASH)[1]
    for result in (found, again):
        del result["wall_s"]
    assert again == found  # a run depends on its seed only


def test_faults_of_every_kind_lose_nothing(drill: Any) -> None:
    code, found = drill(MANY, buddies=2, loss="0.5%", stop="7s")
    assert code == 0, found
    assert found["sites"]["NYC"]["acknowledged"] > 60


def test_too_few_buddies_for_the_falls_are_found_out(
    drill: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = drill(TWO, stop="1.5s")  # lost values are not written again
    assert code == 1 and found["verdict"] == "fail" and found["lost"]
    lost = {entry["key"] for entry in found["lost"]}
    assert lost == {key["key"] for key in found["keys"] if key["lost"]}
    assert all(entry["origin"] and entry["seqno"] for entry in found["lost"])
    out, _ = capsys.readouterr()
    assert "keys with something wrong" in out and "verdict: FAIL" in out and "replay:" in out


def test_enough_buddies_lose_nothing_in_the_same_drill(drill: Any) -> None:
    assert drill(TWO, buddies=2, stop="1.5s")[0] == 0


def test_a_buddy_that_forgets_acknowledged_changes_is_found(
    drill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = Backup.apply

    def forget(self: Backup, changes: Any) -> None:
        apply(self, tuple(c for c in changes if c[0] not in self.nodes or c[1] is None))

    monkeypatch.setattr(Backup, "apply", forget)
    code, found = drill(CRASH)
    assert code == 1 and found["stale"]


def test_two_owners_are_found_out(drill: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put = TreeCache.put

    async def blind(self: TreeCache, *args: Any) -> None:
        await put(self, *args, new=True)  # like a caller that knows that no member has the key

    monkeypatch.setattr(TreeCache, "put", blind)
    code, found = drill(CRASH)
    assert code == 1 and found["doubly_owned"]
    assert all(len(entry["owners"]) > 1 for entry in found["doubly_owned"])


def test_a_reader_that_is_told_old_values_is_found_out(
    drill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, Any] = {}
    get = TreeCache.get

    async def old(self: TreeCache, path: str, key: str, **options: Any) -> Any:
        value = await get(self, path, key, **options)
        return kept.setdefault(path, value) if value is not None and not options else value

    monkeypatch.setattr(TreeCache, "get", old)
    code, found = drill(CRASH)
    assert code == 1 and found["stale"] and not found["doubly_owned"]


def test_all_members_of_the_only_site_crash_and_its_values_are_lost(drill: Any) -> None:
    all_fall = "  - {at: 1.5s, crash: [NYC.A, NYC.B, NYC.C, NYC.D]}"
    for restart in ("", "\n  - {at: 2s, restart: [NYC.A, NYC.B]}"):
        code, found = drill(all_fall + restart, stop="2s")
        assert code == 1 and found["lost"]
        assert all(
            key["lost"] for key in found["keys"] if key["acknowledged"] and not key["present"]
        )


MERGES_SOON = ("--set", "MERGE3.min_interval=200ms", "--set", "MERGE3.max_interval=500ms")
SPLIT = "  - {at: 500ms, partition: [[NYC.A, NYC.B], [NYC.C, NYC.D]], for: 2500ms}"


def test_values_that_a_merge_drops_are_listed_or_else_lost(
    drill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = drill(SPLIT, *MERGES_SOON, stop="3500ms")
    assert code == 0 and found["discarded"] and not found["lost"]
    assert found["sites"]["NYC"]["discarded"] == len(found["discarded"])
    monkeypatch.setattr(BuddyReplication, "_drop", lambda self, dropped: None)
    code, found = drill(SPLIT, *MERGES_SOON, stop="3500ms")
    assert code == 1 and found["lost"] and not found["discarded"]


@pytest.mark.sockets
def test_a_crash_in_real_processes_loses_nothing(drill: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("IP_MULTICAST_IF", "127.0.0.1")
    probe = probe_multicast("127.0.0.1")
    if not probe:
        pytest.skip(probe.why)
    slow = [word for limit in SLOW_TO_SUSPECT.items() for word in ("--set", "=".join(limit))]
    code, found = drill(CRASH, "--real", *slow)
    assert code == 0 and found["mode"] == "real" and found["virtual_s"] is None
    assert found["sites"]["NYC"]["acknowledged"] > 20
    assert sum(key["present"] for key in found["keys"]) > 10
    assert found["unprotected_s"][0] > 0


def test_many_seeds_are_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], drill: Any
) -> None:
    code, found = drill(CRASH, "--seeds", "1..2", stop="1s")
    assert code == 0 and [r["seed"] for r in found["runs"]] == [1, 2]
    assert "unprotected: median" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "instead", "place", "words"),
    [
        (
            "workload: cache",
            "workload: caches",
            2,
            "'caches' is no workload (did you mean \"cache\"?)",
        ),
        ("keys: 20", "keys: 0", 8, "traffic[0].keys: '0' is not a number of keys"),
        ("keys: 20", "keys: many", 8, "not a number of keys, 1 to 100000"),
        ("read_ratio: 60%", "read_ratio: 160%", 8, "traffic[0].read_ratio: '160%' is more"),
        ("stickiness: 0.8", "stickiness: 1.8", 8, "'1.8' is not a part such as 80% or 0.8"),
        ("stickiness: 0.8", "sticky: 0.8", 8, 'sticky: no such key (did you mean "stickiness"?)'),
        ("value_size: 100B", "value_size: 8B", 8, "8 B; from 64 B"),
        ("value_size: 100B", "size: 100B", 8, 'size: no such key (did you mean "site"?)'),
        ("lost: 0", "takeover: 0s", 12, "takeover: no such key"),
        ("value_size: 100B", "workload: messages", 8, "messages, but the drill has cache"),
        ("  - {at: 1.5s, crash: NYC.B}", "  - {at: 1s, bootstrap: NYC}", 10, "no other site"),
        ("  - {at: 1.5s, crash: NYC.B}", "  - {at: 1s, promote: NYC}", 10, "no other site"),
        ("remove_ratio: 0%", "remove_ratio: 2", 8, "'2' is not a part such as 80% or 0.8"),
    ],
)
def test_mistakes_name_file_line_and_key(line: str, instead: str, place: int, words: str) -> None:
    text = DRILL.format(timeline=CRASH, buddies=1, loss="0%", stop="3s")
    assert line in text
    with pytest.raises(ConfigError) as caught:
        loader.loads(text.replace(line, instead), "x.yaml")
    said = str(caught.value)
    assert said.startswith(f"x.yaml:{place}:") and words in said and "\n" not in said


def test_needs_of_caches_are_asked_of_the_cache_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = DRILL.format(timeline=CRASH, buddies=1, loss="0%", stop="3s")
    path = tmp_path / "x.yaml"
    for cache, words in (("local.xml", "is one of buddies"), ("nowhere.xml", "nowhere.xml")):
        path.write_text(text.replace("stack: udp.xml,", f"stack: udp.xml, cache: {cache},"))
        assert run(["drill", str(path)]) == 2
        assert words in capsys.readouterr().err
    path.write_text(text.replace("cache.buddies: 1", "cache.buddies: none"))
    assert run(["drill", str(path)]) == 2
    assert "numBuddies" in capsys.readouterr().err


def test_workload_may_stand_in_the_lines_of_traffic() -> None:
    text = DRILL.format(timeline=CRASH, buddies=1, loss="0%", stop="3s")
    text = text.replace("workload: cache\n", "").replace("rate: 15/s", "workload: cache, rate: 1/s")
    drill = loader.loads(text)
    assert drill.workload == "cache" and drill.traffic[0].asks is not None


def test_parts_may_be_ranges_drawn_from_the_seed() -> None:
    text = DRILL.format(timeline=CRASH, buddies=1, loss="0%", stop="3s")
    text = text.replace("read_ratio: 60%", "read_ratio: 20..40%")
    loads = [plan.build(loader.loads(text), seed).loads for seed in (1, 2)]
    drawn = [{load.asks.read_ratio for load in each if load.asks} for each in loads]
    assert drawn[0] != drawn[1] and all(len(each) == 1 for each in drawn)
    assert all(0.2 <= part <= 0.4 for each in drawn for part in each)
    assert all(load.asks and load.asks.stickiness == 0.8 for load in loads[0])
