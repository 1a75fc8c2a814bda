"""Drills of bucket stores: in virtual time, with real processes, and with planted faults that the verdict must show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from played_drill import play, refuse, slow_to_suspect

from jgroups_py.drill import judged
from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.file.bucket_keys import BucketWorkload
from jgroups_py.drill.judge.bucket_judge import BucketVerdict
from jgroups_py.drill.run.bucket_user import (
    NEW,
    OLD,
    DrillEntry,
    DrillProvider,
)
from jgroups_py.driver import probe_multicast
from jgroups_py.errors import ConfigError
from jgroups_py.tools.cli import run

DRILL = """\
seed: 1
workload: buckets
sites:
  NYC: {{members: [A, B, C]}}
buckets: {{buckets: 6, lease: 500ms, moves: 4/s}}
set: {{FD_ALL3.timeout: 500ms, FD_ALL3.interval: 100ms, VERIFY_SUSPECT2.timeout: 100ms, MERGE3.min_interval: 100ms, MERGE3.max_interval: 300ms}}
traffic:
  - {{site: NYC, rate: 30/s, keys: 12, read_ratio: 30%, stop: 2s}}
timeline:
{timeline}
settle: 3s
expect: {{lost: 0, undone: 0, half: 0, duplicated: 0, stale: 0, unavailable: 0}}
"""
KILL = "  - {at: 800ms, crash: NYC.B}"
BACK = f"{KILL}\n  - {{at: 1.5s, restart: NYC.B}}"
CUT_AND_KILLED = """\
  - {at: 500ms, partition: [[NYC.B], [NYC.A, NYC.C]], for: 1s}
  - {at: 900ms, crash: NYC.B}"""


def text(timeline: str) -> str:
    """Return the text of a drill. With a cut the store is busier, and no bucket moves away from the cut-off node."""
    drill = DRILL.format(timeline=timeline)
    if timeline == CUT_AND_KILLED:
        drill = drill.replace("rate: 30/s", "rate: 90/s").replace("moves: 4/s", "moves: 0/s")
    return drill


def played(timeline: str) -> tuple[BucketVerdict, dict[str, Any]]:
    """Return the verdict and the result of a simulated run."""
    return play(text(timeline), BucketVerdict)


def test_a_node_is_killed_while_copies_move_and_nothing_answered_is_lost() -> None:
    verdict, found = played(BACK)
    assert verdict.passed, found["expectations"]
    numbers = found["sites"]["NYC"]
    assert numbers["answered"] > 80 and numbers["reads"] > 30 and numbers["orders"] > 3
    assert found["alone"] == 0 and len(found["judged"]) == 3 and 0 < found["rto_s"] < 2
    again = played(BACK)[1]
    for result in (found, again):
        del result["wall_s"]
    assert again == found  # a run depends on its seed only


def test_the_command_shows_the_fate_of_entries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DrillProvider, "backup", "after_reply")
    drill, out, report = (tmp_path / name for name in ("b.yaml", "out.json", "a.html"))
    log = tmp_path / "a.jsonl"
    drill.write_text(text(CUT_AND_KILLED))
    options = ["--json", str(out), "--report", str(report), "--log", str(log)]
    assert run(["drill", str(drill), *options]) == 1
    shown = capsys.readouterr().out
    assert "operations with something wrong" in shown and "verdict: FAIL" in shown
    page = report.read_text()
    for words in ("Interruption", "Twice", "Requests a second", "Operations with something wrong"):
        assert words in page
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert {"put", "acked", "got", "ordered", "census", "crash", "partition"} <= set(events)
    assert json.loads(out.read_text())["lost"]


def test_members_that_come_back_with_another_version_take_over_and_give_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions = DRILL.replace("moves: 4/s", "moves: 8/s, versions: yes")
    monkeypatch.setitem(globals(), "DRILL", versions.replace("stop: 2s", "stop: 4s"))
    written: set[int] = set()
    serialise = DrillEntry.serialise

    def noted(self: DrillEntry, version: int) -> bytes:
        written.add(version)
        return serialise(self, version)

    monkeypatch.setattr(DrillEntry, "serialise", noted)
    verdict, found = played(BACK)
    assert verdict.passed, found["expectations"]
    assert written == {OLD, NEW} and found["alone"] == 0
    (told,) = [one for one in found["interruptions"] if one["event"] == "crash"]
    assert max(told["seconds_by_key"].values()) == found["rto_s"]

    def forgets_downwards(self: DrillEntry, version: int) -> bytes:
        if self._version == NEW and version == OLD:
            return json.dumps(self.entries[:-1]).encode()
        return serialise(self, version)

    monkeypatch.setattr(DrillEntry, "serialise", forgets_downwards)
    assert not played(BACK)[0].passed


# --- planted faults that the verdict must find


def test_answers_before_the_copy_has_it_lose_modifications(monkeypatch: pytest.MonkeyPatch) -> None:
    assert played(CUT_AND_KILLED)[0].passed
    monkeypatch.setattr(DrillProvider, "backup", "after_reply")
    verdict, found = played(CUT_AND_KILLED)
    assert not verdict.passed and found["lost"]


def test_a_copy_that_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: DrillEntry, data: bytes, version: int) -> None:
        self.entries = json.loads(data)[:-1]  # only the old version is running here

    monkeypatch.setattr(DrillEntry, "unserialise", forget)
    verdict, found = played(KILL)
    assert not verdict.passed and found["lost"]


def test_a_modification_that_is_carried_out_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    manipulate, calls = DrillEntry.manipulate, iter(range(100_000))

    def twice(self: DrillEntry, bucket: Any, request: Any, proxy_id: Any) -> None:
        if request.body != b"?" and next(calls) % 20 == 7:
            manipulate(self, bucket, request, None)
        manipulate(self, bucket, request, proxy_id)

    monkeypatch.setattr(DrillEntry, "manipulate", twice)
    verdict, found = played(KILL)
    assert not verdict.passed and found["duplicated"]


# --- the file


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("lease: 500ms", "leese: 500ms", 5, "buckets.leese: no such key (did you mean \"lease\"?)"),
        ("buckets: 6", "buckets: 0", 5, "buckets.buckets: '0' is not a whole number from 1 to 65536"),
        ("moves: 4/s", "moves: 101/s", 5, "buckets.moves: '101/s' is too much; at most 100/s"),
        ("moves: 4/s", "repair: maybe", 5, "buckets.repair: 'maybe' is none of yes, no"),
        ("keys: 12", "width: 2", 8, "traffic[0].width: no such key"),
        ("crash: NYC.B", "promote: NYC", 10, "timeline[0].promote: no such key"),
        ("lost: 0", "takeover: <= 1s", 12, "expect.takeover: no such key"),
        ("  NYC: {", "  SFO: {members: [S]}\n  NYC: {", 5, "more than 1 site: the members of a bucket store are of one site"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_told_with_its_place(old: str, new: str, line: int, words: str) -> None:
    refuse(DRILL.format(timeline=KILL), old, new, line, words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("buckets: 6", "index_copies: 4", "4 index copies, but there are 3 members"),
        ("members: [A, B, C]", "members: [B]", "a bucket store needs two members"),
    ],
)
def test_an_instance_that_cannot_be_is_refused(old: str, new: str, words: str) -> None:
    planned = plan.build(loader.loads(DRILL.format(timeline=KILL).replace(old, new)))
    with pytest.raises(ConfigError, match=words):
        judged.check(planned)


def test_settings_reach_the_plan() -> None:
    planned = plan.build(loader.loads(DRILL.format(timeline=KILL)))
    assert planned.settings == (("buckets", 6), ("lease", 0.5), ("moves", 4.0))
    assert planned.loads[0].asks == BucketWorkload(12, 0.3)


# --- with real processes


@pytest.mark.sockets
@pytest.mark.skipif(not probe_multicast("127.0.0.1"), reason="no multicast")
def test_a_real_drill_kills_a_node(tmp_path: Path) -> None:
    drill, out = tmp_path / "b.yaml", tmp_path / "out.json"
    text = slow_to_suspect(DRILL.format(timeline=KILL))
    drill.write_text(text.replace("settle: 3s", "settle: 6s"))
    assert run(["drill", str(drill), "--real", "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["mode"] == "real" and found["sites"]["NYC"]["answered"] > 10
