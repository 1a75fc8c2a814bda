"""The drill report against the drill's judge, on logs of drills and on logs that were tampered with."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.judge import verdict as judge
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.log import DrillRecord, read_log

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("default"),  # Spark's own
    pytest.mark.timeout(600),
]
DRILL = """
name: small
primary: NYC
sites:
  NYC: {members: [C, B, A], stack: relay-udp.xml}
  SFO: {members: [T, S, U], stack: relay-udp.xml}
bridge: {stack: relay-bridge-tcp.xml, latency: 20ms}
traffic:
  - {site: NYC, members: all, rate: 20/s, size: 100B, start: 0s, stop: 7s}
timeline:
  - {at: 1s, crash: NYC.relay}
  - {at: 2s..3s, crash: SFO.T}
  - {at: 3s, partition: [[SFO.S], [SFO.U]], for: 1s}
  - {at: 6s, fail_site: NYC}
settle: 9s
grace: 1s
expect: {lost: 0, lost_inside: 0, duplicated: 0, out_of_order: 0, detection: <= 10s, takeover: <= 30s,
         unrelayed_at_site_failure: <= 1s}
"""
Change = Callable[[list[DrillRecord], random.Random], list[DrillRecord]]


def lose(records: list[DrillRecord], chance: random.Random) -> list[DrillRecord]:
    """Return the deliveries of all members or of one."""
    who = chance.choice("TSUCBA")
    return [
        r
        for r in records
        if r.event != "deliver" or chance.random() > (0.05 if r.member == who else 0.002)
    ]


def lose_abroad(records: list[DrillRecord], chance: random.Random) -> list[DrillRecord]:
    """Deliver some messages everywhere but at home, and some everywhere."""
    gone = {n: chance.random() < 0.5 for n in chance.sample(range(1, 140), 12)}
    return [
        r
        for r in records
        if r.event != "deliver" or r.seqno not in gone or (r.site == "NYC" and gone[r.seqno])
    ]


def repeat(records: list[DrillRecord], chance: random.Random) -> list[DrillRecord]:
    """Repeat deliveries, and deliver late."""
    found: list[DrillRecord] = []
    held: list[DrillRecord] = []
    for record in records:
        if record.event == "deliver" and chance.random() < 0.02:
            held.append(record)
            if chance.random() < 0.5:
                found.append(record)
            continue
        found.append(record)
        if held and chance.random() < 0.05:
            found += [one._replace(t=record.t) for one in held]
            held.clear()
    return found


def promote(records: list[DrillRecord], chance: random.Random) -> list[DrillRecord]:
    """Another site becomes the primary in the middle; a member is paused; a view comes late."""
    at = chance.randrange(len(records) // 2, len(records))
    t = records[at].t
    more = [
        DrillRecord(t, "SFO", None, "promote", incarnation=0),
        DrillRecord(t, "SFO", "S", "pause"),
        DrillRecord(t, None, None, "partition", detail={"groups": [["NYC.A"], ["SFO.U", "SFO.S"]]}),
    ]
    return [*records[:at], *more[: chance.randrange(1, 4)], *records[at:]]


def vanish(records: list[DrillRecord], chance: random.Random) -> list[DrillRecord]:
    """A member has ended, though its log goes on."""
    at = chance.randrange(len(records) // 3, len(records))
    record = DrillRecord(records[at].t, "NYC", chance.choice("AB"), "vanish")
    return lose([*records[:at], record, *records[at:]], chance)


def no_first_view(records: list[DrillRecord], chance: random.Random) -> list[DrillRecord]:
    """Leave out some views of a member."""
    return [
        r
        for r in lose(records, chance)
        if r.event != "view" or chance.random() > 0.15 or r.t < -0.5
    ]


CHANGES: dict[str, Change] = {
    change.__name__: change
    for change in (lose, lose_abroad, repeat, promote, vanish, no_first_view)
}


def judged(file: Path, drill: Path) -> dict[str, Any]:
    loaded = loader.load(str(drill))
    planned = plan.build(loaded, loaded.seed, ())
    evidence = Evidence.of(read_log(file), [site.name for site in planned.sites])
    verdict = judge.judge(
        evidence,
        primary=planned.primary,
        grace=planned.grace,
        expect=planned.expect,
        primary_only=planned.primary_only,
    )
    return judge.result(verdict, name="", mode="", seed=0, virtual_s=None, wall_s=0.0)


@pytest.mark.parametrize("many", [3])
def test_the_same_verdict_as_the_judge(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], many: int
) -> None:
    from jgroups_py.spark.drill_report import FINDINGS, drill_report
    from jgroups_py.tools.cli import run

    drill, logs = tmp_path / "small.yaml", tmp_path / "logs"
    drill.write_text(DRILL)
    logs.mkdir()
    whole = logs / "whole.jsonl"
    assert run(["drill", str(drill), "--simulated", "--seed", "3", "--log", str(whole)]) == 0
    records = list(read_log(whole))
    for name, change in CHANGES.items():
        for seed in range(many):
            changed = change(list(records), random.Random(f"{name}{seed}"))
            text = "".join(record.to_json() + "\n" for record in changed)
            (logs / f"{name}{seed}.jsonl").write_text(text)
    with (logs / "lose0.jsonl").open("a") as cut:
        cut.write('{"t":1.0,"site":"NY')  # by a kill

    report = drill_report(spark, str(drill), [str(logs)], str(tmp_path / "report"))
    found = Counter[str]()
    named = spark.read.parquet(str(tmp_path / "report" / "findings.parquet")).collect()
    for one in report.runs:
        theirs = judged(logs / one["log"], drill)
        for key in ("verdict", "expectations", "detection_s", "takeover_s", "rpo_s", "unrelayed"):
            assert one[key] == theirs[key], (one["log"], key)
        for what in FINDINGS:
            at = "missing_at" if what.startswith("lost") else "at"
            wanted = [(f["site"], f["origin"], f["seqno"], f[at]) for f in theirs[what]]
            mine = [
                (row.origin_site, row.origin, row.seqno, row.at)
                for row in named
                if row.what == what and row.run.endswith("/" + one["log"])
            ]
            assert sorted(mine) == sorted(wanted), (one["log"], what)
            assert one[what] == len(wanted)
            found[what] += len(wanted)
        for site, numbers in one["sites"].items():
            assert numbers == {key: theirs["sites"][site][key] for key in numbers}, one["log"]
        found[one["verdict"]] += 1
        found["unrelayed"] += one["unrelayed"]
    assert len(report.runs) == 1 + many * len(CHANGES)
    assert all(found[name] for name in (*FINDINGS, "pass", "fail", "unrelayed")), found

    capsys.readouterr()
    words = ["spark", "drill-report", str(drill), str(whole), "--to", str(tmp_path / "one")]
    assert run(words) == 0
    said = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert said["events"] == len(records) and said["failed"] == []
    check_lags(said["lags"], Evidence.of(records))
    svg = (tmp_path / "one" / "report.svg").read_text()
    assert svg.count("<path") >= 8 and "crash NYC.C" in svg
    assert run(words) == 2
    assert "is there already" in capsys.readouterr().err
    assert run([*words[:3], str(logs / "lose0.jsonl")]) == 1
    capsys.readouterr()
    assert run([*words[:3], str(drill)]) == 2
    assert "are no records of a drill" in capsys.readouterr().err
    assert run([*words[:3], "/nowhere.jsonl"]) == 2
    assert "no such log" in capsys.readouterr().err


def check_lags(lags: list[dict[str, Any]], evidence: Evidence) -> None:
    """Each value is within 2 % of the exact one."""
    assert {(lag["site"], lag["origin_site"]) for lag in lags} == {("NYC", "NYC"), ("SFO", "NYC")}
    for lag in lags:
        took = sorted(
            t - evidence.sent[origin][n]
            for who, of in evidence.delivered.items()
            if who.site == lag["site"]
            for origin, delivered in of.items()
            for n, t in enumerate(delivered.times)
            if t < float("inf") and n < len(evidence.sent.get(origin, ()))
        )
        assert lag["deliveries"] == len(took)
        for name, part in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            exact = took[min(len(took) - 1, -int(-len(took) * part // 1) - 1)]
            assert max(exact, 1e-6) == pytest.approx(lag[name], rel=0.025), (lag, name)
