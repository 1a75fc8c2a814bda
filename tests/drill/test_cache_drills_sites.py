"""Drills of caches at several sites: they find planted faults, and correct caches pass them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.buddy.arrivals import Arrivals
from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.surveyor import Surveyor
from jgroups_py.driver.multicast import probe_multicast
from jgroups_py.tools.cli import run

QUICK = (
    "{FD_ALL3.timeout: 1s, FD_ALL3.interval: 200ms, VERIFY_SUSPECT2.timeout: 300ms,"
    " MERGE3.min_interval: 200ms, MERGE3.max_interval: 500ms}"
)
DRILL = """\
seed: {seed}
workload: cache
sites:
  NYC: {{members: [A, B], cache: {cache}}}
  SFO: {{members: [S, T], cache: {cache}}}
{more}
bridge: {{latency: 20ms, set: {quick}}}
set: {quick}
traffic:
  - {{site: NYC, rate: {rate}, keys: 20, read_ratio: 50%, remove_ratio: {removed}, stop: 2s}}
  - {{site: SFO, rate: 10/s, keys: 20, read_ratio: 100%, stop: 2s}}
{traffic}
timeline:
{timeline}
settle: {settle}
expect: {{lost: 0, stale: 0, doubly_owned: 0, diverged: 0{expect}}}
"""
CACHE = """\
<cache>
    <CacheMode>REPL_SYNC</CacheMode>
    <ClusterName>drill</ClusterName>
    <attribute name="BuddyReplicationConfig">
        <config>
            <buddyReplicationEnabled>true</buddyReplicationEnabled>
            <autoDataGravitation>true</autoDataGravitation>
            <unsentRemovalsMax>1</unsentRemovalsMax>
        </config>
    </attribute>
</cache>
"""
FAILOVER = """\
  - {at: 1.6s, partition: [[NYC], [SFO]], for: 1s}
  - {at: 2s, fail_site: NYC, how: crash}
  - {at: 2.5s, promote: SFO}
  - {at: 4s, restart: [NYC.A, NYC.B], gap: 100ms}
  - {at: 5.5s, bootstrap: NYC}"""
WRITTEN = (
    "  - {site: SFO, rate: 10/s, keys: 20, read_ratio: 50%, remove_ratio: 10%, start: 3s, stop: 5s}"
)
CALM = "  - {at: 1s, pause: SFO.T, for: 50ms}"


@pytest.fixture
def drill(tmp_path: Path) -> Any:
    """Run a drill. Return the exit code and the result."""

    def how(timeline: str, *options: str, **more: Any) -> tuple[int, Any]:
        path, out = tmp_path / "cache.yaml", tmp_path / "out.json"
        given = {
            "seed": 1,
            "rate": "15/s",
            "cache": "buddy.xml",
            "more": "",
            "quick": QUICK,
            "removed": "0%",
            "traffic": "",
            "settle": "1500ms",
            "expect": "",
        }
        path.write_text(DRILL.format(timeline=timeline, **{**given, **more}))
        code = run(["drill", str(path), "--json", str(out), *options])
        return code, json.loads(out.read_text())

    return how


@pytest.mark.seed("R19")
def test_a_site_is_lost_another_takes_over_and_the_first_is_built_anew(
    drill: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, log = tmp_path / "a.html", tmp_path / "a.jsonl"
    code, found = drill(
        FAILOVER,
        "--report",
        str(report),
        "--log",
        str(log),
        traffic=WRITTEN,
        removed="10%",
        settle="3s",
        expect=", unrelayed_at_site_failure: <= 500ms, bootstrap: <= 2s",
    )
    assert code == 0, found
    # The writes of the 0.4 s in which no message reached SFO, and no earlier ones.
    assert found["unrelayed"] > 1 and 0.1 < found["rpo_s"] < 0.45
    assert {entry["at"] for entry in found["unrelayed_keys"]} == {"SFO"}
    assert found["sites"]["NYC"]["unrelayed"] == found["unrelayed"]
    there: dict[str, dict[int, bool]] = {site: {} for site in found["sites"]}
    for key in found["keys"]:
        there[key["site"]][key["key"]] = key["present"]
    assert there["NYC"] == there["SFO"] and sum(there["NYC"].values()) > 8
    assert found["sites"]["SFO"]["acknowledged"] > 10
    assert found["bootstrap_s"][0] > 0
    out, _ = capsys.readouterr()
    assert (
        "values that other sites lacked when a site failed" in out
        and "bootstrap NYC: complete" in out
    )
    page = report.read_text()
    assert "<th>not at</th>" in page and "differs from" in page
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert {"over", "unsent", "holds", "bootstrap", "promote"} <= set(events)


@pytest.mark.seed("R19")
def test_removals_that_overflow_while_a_site_is_away_are_made_good_by_comparing(
    drill: Any, tmp_path: Path
) -> None:
    (tmp_path / "small.xml").write_text(CACHE)
    log = tmp_path / "a.jsonl"
    cut = "  - {at: 500ms, partition: [[NYC], [SFO]], for: 3s}"
    code, found = drill(
        cut, "--log", str(log), cache="small.xml", rate="50/s", removed="50%", settle="4s"
    )
    assert code == 0, found
    said = [json.loads(line) for line in log.read_text().splitlines()]
    told = [(r["t"], r["detail"]) for r in said if r["event"] == "buddies" and r["site"] == "NYC"]
    assert any("SFO" in detail["out_of_sync"] for _, detail in told)
    assert any(detail["under_way"] == {"SFO": "reconcile"} for t, detail in told if t > 3.5)
    assert told[-1][1]["out_of_sync"] == [] and told[-1][1]["under_way"] == {}
    assert sum(not key["present"] and key["acknowledged"] > 1 for key in found["keys"]) > 3


def test_a_site_that_acknowledges_dropped_writes_is_found_out(
    drill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_newer = Arrivals._is_newer

    def forget(self: Arrivals, site: str, sent: Any) -> Any:
        return sent.path not in self._ownership.nodes and is_newer(self, site, sent)

    monkeypatch.setattr(Arrivals, "_is_newer", forget)
    code, found = drill(CALM)
    assert code == 1
    assert {entry["site"] for entry in found["lost"]} == {"SFO"}
    assert {entry["key"] for entry in found["lost"]} <= {e["key"] for e in found["diverged"]}


def test_a_site_that_names_less_than_it_has_not_sent_is_found_out(
    drill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BuddyMachine, "missing", lambda self, site, **_: {})
    code, found = drill(FAILOVER.split("\n  - {at: 4s")[0])
    assert code == 1 and {entry["site"] for entry in found["lost"]} == {"SFO"}
    assert found["unrelayed"] == 0


def test_a_bootstrap_that_leaves_something_out_is_found_out(
    drill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = Surveyor._mark

    def some(self: Surveyor, site: str, paths: list[Any]) -> None:
        mark(self, site, [path for path in paths if not path[-1].endswith("5")])

    monkeypatch.setattr(Surveyor, "_mark", some)
    code, found = drill(FAILOVER, settle="2s")
    assert code == 1 and {entry["key"] for entry in found["diverged"]} == {5, 15}


@pytest.mark.slow
def test_two_of_three_sites_write(drill: Any) -> None:
    code, found = drill(
        "  - {at: 1s, crash: LON.relay}\n  - {at: 1.5s, fail_site: SFO}",
        more="  LON: {members: [X, Y], cache: buddy.xml}",
        traffic="  - {site: LON, rate: 10/s, keys: 20, read_ratio: 60%, stop: 2s}",
    )
    assert code == 0, found
    assert {key["site"] for key in found["keys"]} == {"NYC", "LON"}


@pytest.mark.slow
@pytest.mark.sockets
def test_a_site_is_lost_with_real_processes(drill: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("IP_MULTICAST_IF", "127.0.0.1")
    probe = probe_multicast("127.0.0.1")
    if not probe:
        pytest.skip(probe.why)
    code, found = drill(FAILOVER, "--real", traffic=WRITTEN, settle="12s")
    assert code == 0, found
    assert found["mode"] == "real" and found["rpo_s"] is not None
    assert found["sites"]["SFO"]["acknowledged"] > 5 and found["bootstrap_s"][0] > 0
    assert found["unrelayed"] > 0 and 0 < found["rpo_s"] < 2


def test_sites_without_relay_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "workload: cache\nsites:\n  NYC: {members: [A], stack: udp.xml}\n  SFO: {members: [S]}\n"
    )
    assert run(["drill", str(path)]) == 2
    said = capsys.readouterr().err
    assert "no RELAY: caches at several sites need it" in said and said.count("\n") == 1
