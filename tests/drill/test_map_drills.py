"""Drills of maps: in virtual time, with real processes, and with planted faults that the verdict must show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from played_drill import play, refuse, slow_to_suspect

from jgroups_py.drill import judged
from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.file.map_keys import MapLoad
from jgroups_py.drill.judge.map_judge import MapVerdict
from jgroups_py.drill.run.map_simulated import SimulatedFile
from jgroups_py.driver import probe_multicast
from jgroups_py.errors import ConfigError
from jgroups_py.maps import replica as replicas
from jgroups_py.maps import rules
from jgroups_py.maps.repairs import MapRepairs
from jgroups_py.maps.table import MemoryTable
from jgroups_py.tools.cli import run

DRILL = """\
seed: {seed}
workload: map
sites:
  NYC: {{members: [A, B, C]}}
set: {{FD_ALL3.timeout: 1s, FD_ALL3.interval: 200ms, VERIFY_SUSPECT2.timeout: 300ms, MERGE3.min_interval: 200ms, MERGE3.max_interval: 500ms}}
traffic:
  - {{site: NYC, rate: 30/s, keys: 8, read_ratio: 30%, remove_ratio: 20%, stop: 2s}}
timeline:
{timeline}
settle: 2s
expect: {{lost: 0, diverged: 0, stale: 0, unsent: 0, healed: <= 2s}}
"""
KILL = """\
  - {at: 1.2s, crash: NYC.B}
  - {at: 1.6s, restart: NYC.B}"""
CUT = "  - {at: 0.3s, partition: [[NYC.A], [NYC.B, NYC.C]], for: 600ms}"
SITES = """\
seed: 3
workload: map
sites:
  NYC: {members: [A, B]}
  SFO: {members: [S, T]}
bridge: {latency: 5ms}
traffic:
  - {site: NYC, rate: 15/s, keys: 8, stop: 2s}
  - {site: SFO, rate: 15/s, keys: 8, stop: 2s}
timeline:
  - {at: 0.6s, crash: NYC.relay}
  - {at: 1s, restart: NYC.A}
settle: 3s
expect: {lost: 0, diverged: 0, stale: 0, unsent: 0}
"""


def played(timeline: str = CUT, removed: str = "20%") -> tuple[MapVerdict, dict[str, Any]]:
    """Return the verdict and the result of a simulated run."""
    return play(DRILL.format(seed=1, timeline=timeline).replace("20%", removed), MapVerdict)


@pytest.mark.seed("K6")
def test_hosts_that_are_killed_and_cut_off_become_equal_and_lose_nothing() -> None:
    verdict, found = played(f"{KILL}\n{CUT}")
    assert verdict.passed, found["expectations"]
    assert found["verdict"] == "pass" and found["workload"] == "map"
    assert found["sites"]["NYC"]["puts"] > 50 and found["sites"]["NYC"]["seen"] > 80
    assert 0 < found["lag_p50_s"] < found["lag_p99_s"] <= found["lag_s"]
    assert (
        found["divergence_s"] > 0.4 and found["differed"] == 8
    )  # for the time in which they were cut off
    assert len(found["healed_s"]) == 2 and max(found["healed_s"]) < 2
    again = played(f"{KILL}\n{CUT}")[1]
    for result in (found, again):
        del result["wall_s"]
    assert again == found  # a run depends on its seed only


def test_sites_become_equal_when_a_relay_is_lost_and_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drill, out, report = (tmp_path / name for name in ("map.yaml", "out.json", "a.html"))
    log = tmp_path / "a.jsonl"
    drill.write_text(SITES)
    options = ["--json", str(out), "--report", str(report), "--log", str(log)]
    assert run(["drill", str(drill), *options]) == 0
    text = capsys.readouterr().out
    assert "hosts differed in" in text and "all equal after" in text and "verdict: PASS" in text
    page = report.read_text()
    for words in (
        "Divergence",
        "Lag p50 / p99 / most",
        "Puts and removals a second",
        "all equal after",
    ):
        assert words in page
    assert "RTO" not in page and "every site relays to the others" in page
    found = json.loads(out.read_text())
    assert found["sites"]["SFO"]["seen"] > 20 and found["rto_s"] is None
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert {"put", "acked", "got", "seen", "census", "crash", "restart", "view"} <= set(events)


# --- planted faults in the map that the verdict must find


def test_entries_that_a_host_drops_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = MemoryTable.apply

    def drop(self: MemoryTable, entries: Any, advance: Any) -> Any:
        return apply(self, [e for e in entries if e[0] != b"k3"], advance)

    monkeypatch.setattr(MemoryTable, "apply", drop)
    verdict, found = played()
    assert not verdict.passed and {entry["key"] for entry in found["lost"]} == {3}
    assert [entry["key"] for entry in found["diverged"]] == [3] and found["divergence_s"] is None


def test_an_older_value_that_wins_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def last_to_come(rule: Any, mine: Any, theirs: Any) -> Any:
        return theirs, False

    monkeypatch.setattr("jgroups_py.maps.table.join", last_to_come)
    verdict, found = played()
    assert not verdict.passed and (found["lost"] or found["stale"])


def test_a_removal_that_is_not_passed_on_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = MemoryTable.apply

    def keep(self: MemoryTable, entries: Any, advance: Any) -> Any:
        return apply(self, [e for e in entries if not e[1].removed], advance)

    monkeypatch.setattr(MemoryTable, "apply", keep)
    verdict, found = played(removed="80%")
    assert not verdict.passed and found["lost"] and found["diverged"]


def test_a_file_that_forgets_when_its_process_is_killed_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = SimulatedFile.opened

    def forget(self: SimulatedFile) -> None:
        for key, entry in self.entries.items():
            if entry.value is not None and not entry.value.startswith(b"[]"):
                forged = json.dumps(["NYC", "B#1", 1, ""]).encode()
                self.entries[key] = msgspec.structs.replace(entry, value=forged)
                break
        opened(self)

    monkeypatch.setattr(SimulatedFile, "opened", forget)
    verdict, found = played(KILL)
    assert not verdict.passed and (found["stale"] or found["lost"])


def test_changes_that_do_not_leave_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    flush = replicas.Replica._flush

    def silent(self: replicas.Replica) -> None:
        if self.settings.node != 2:
            flush(self)

    monkeypatch.setattr(replicas.Replica, "_flush", silent)
    monkeypatch.setattr(MapRepairs, "due", lambda *_: ())
    verdict, found = played()
    assert not verdict.passed
    assert {entry["origin"] for entry in found["lost"]} == {"B#1"}


# --- the file


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("traffic:", "map: {flush: 1s}\ntraffic:", 6, "flush: no such key"),
        ("traffic:", "map: {flush_interval: 0s}\ntraffic:", 6, "map.flush_interval: '0s' is too short; at least 1ms"),
        ("traffic:", "map: {window: 5}\ntraffic:", 6, "map.window: '5': no unit"),
        ("traffic:", "map: {window: 5B}\ntraffic:", 6, "map.window: 5 B; at least 1000 B"),
        ("traffic:", "primary: NYC\ntraffic:", 6, "primary: 'NYC', but every site relays what its map writes: 'all'"),
        ("keys: 8", "stickiness: 80%", 7, "traffic[0].stickiness: no such key"),
        ("keys: 8", "size: 1KB", 7, "traffic[0].size: no such key"),
        ("keys: 8", "keys: 0", 7, "traffic[0].keys: '0' is not a number of keys"),
        ("partition", "promote: NYC, partition", 9, "promote: no such key"),
        ("lost: 0", "takeover: <= 3s", 11, "expect.takeover: no such key"),
        ("members: [A, B, C]", "members: [A, B, C], cache: buddy.xml", 4, "cache: no such key"),
        ("workload: map", "workload: mop", 2, '\'mop\' is no workload (did you mean "map"?)'),
        ("workload: map", "workload: cache\nmap: {window: 1MB}", 3, "key 'map' goes with 'workload: map' only, this is cache"),
        ("[A, B, C]", "[" + ", ".join(f"A{n}" for n in range(128)) + "]", 4, "more than 127 members: hosts of a map have identifiers from 1 to 127"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_told_with_its_place(old: str, new: str, line: int, words: str) -> None:
    refuse(DRILL.format(seed=1, timeline=CUT), old, new, line, words)


def test_settings_reach_the_plan() -> None:
    text = DRILL.format(seed=1, timeline=CUT)
    text = text.replace("traffic:", "map: {flush_interval: 20ms, max_bandwidth: 1MB}\ntraffic:")
    planned = plan.build(loader.loads(text))
    assert planned.settings == (("flush_interval", 0.02), ("max_bandwidth", 1_000_000))
    assert planned.loads[0].asks == MapLoad(8, 0.3, 0.2, 100)
    assert planned.primary is None and planned.site("NYC").stack.endswith("udp.xml")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("members: [A, B]", "members: [A, B], stack: udp.xml", "no RELAY: maps at several sites need it"),
        ("bridge:", "set: {RELAY.primary: NYC}\nbridge:", "RELAY.primary is NYC: hosts of all sites write"),
    ],
)  # fmt: skip
def test_several_sites_need_relays_that_all_relay(old: str, new: str, words: str) -> None:
    planned = plan.build(loader.loads(SITES.replace(old, new, 1)))
    with pytest.raises(ConfigError, match=words):
        judged.check(planned)


# --- with real processes


@pytest.mark.sockets
@pytest.mark.skipif(not probe_multicast("127.0.0.1"), reason="no multicast")
def test_a_real_drill_kills_a_host_and_brings_back_its_file(tmp_path: Path) -> None:
    drill, out = tmp_path / "map.yaml", tmp_path / "out.json"
    text = slow_to_suspect(DRILL.format(seed=1, timeline=f"{KILL}\n{CUT}"))
    drill.write_text(text.replace(", healed: <= 2s", ""))
    assert run(["drill", str(drill), "--real", "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["mode"] == "real" and found["sites"]["NYC"]["puts"] > 30
    assert found["sites"]["NYC"]["seen"] > 40 and found["lag_s"] > 0.2


def test_the_rule_of_maps_is_that_of_the_judge() -> None:
    """The last writer wins: the verdict assumes that rule."""
    assert SimulatedFile(1).rule is rules.LAST_WRITER
