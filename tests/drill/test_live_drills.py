"""Drills of live and backup: in virtual time, with real processes, and with planted faults that the verdict
must show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from played_drill import play, refuse, slow_to_suspect

from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.file.live_keys import LiveLoad
from jgroups_py.drill.judge.live_judge import LiveVerdict
from jgroups_py.drill.run.live_user import DrillLog
from jgroups_py.driver import probe_multicast
from jgroups_py.livebackup.applier import Applier
from jgroups_py.livebackup.confirming import Confirming
from jgroups_py.livebackup.objects import Space
from jgroups_py.tools.cli import run

DRILL = """\
seed: 1
workload: livebackup
sites:
  NYC: {{members: [A, B, C]}}
livebackup: {{quorum: 2, abandon_timeout: {abandon}}}
set: {{FD_ALL3.timeout: 500ms, FD_ALL3.interval: 100ms, VERIFY_SUSPECT2.timeout: 100ms, MERGE3.min_interval: 100ms, MERGE3.max_interval: 300ms}}
traffic:
  - {{site: NYC, rate: 30/s, objects: 5, width: 2, step: {step}, stop: 2s}}
timeline:
{timeline}
settle: 1.5s
expect: {{lost: 0, undone: 0, half: 0, duplicated: 0, diverged: 0}}
"""
KILL = "  - {at: 1s, crash: NYC.A}"
KILL_BACKUP = """\
  - {at: 0.4s, crash: NYC.C}
  - {at: 0.8s, restart: NYC.C}"""
CUT = "  - {at: 0.3s, partition: [[NYC.A], [NYC.B, NYC.C]], for: 1s}"
CUT_AND_KILLED = f"{CUT}\n  - {{at: 0.5s, crash: NYC.A}}"


def text(timeline: str, step: str = "1ms", abandon: str = "1s") -> str:
    return DRILL.format(timeline=timeline, step=step, abandon=abandon)


def played(
    timeline: str, change: Callable[[str], str] = str, **more: str
) -> tuple[LiveVerdict, dict[str, Any]]:
    """Return the verdict and the result of a simulated run."""
    return play(change(text(timeline, **more)), LiveVerdict)


@pytest.mark.seed("P9", "P13")
def test_confirmed_operations_survive_the_kill_of_a_backup_and_then_of_the_live_node() -> None:
    verdict, found = played(f"{KILL_BACKUP}\n{KILL}")
    assert verdict.passed, found["expectations"]
    numbers = found["sites"]["NYC"]
    assert numbers["confirmed"] > 30 and numbers["terms"] == 2 and numbers["turned_away"] > 50
    assert len(found["judged"]) == 2 and len(found["takeover_s"]) == 1
    assert 0 < found["takeover_s"][0] < 1 and found["rto_s"] < 1
    again = played(f"{KILL_BACKUP}\n{KILL}")[1]
    for result in (found, again):
        del result["wall_s"]
    assert again == found  # a run depends on its seed only


def test_a_live_node_that_is_cut_off_confirms_nothing() -> None:
    verdict, found = played(CUT)
    assert verdict.passed, found["expectations"]
    assert found["sites"]["NYC"]["terms"] == 2 and len(found["judged"]) == 3
    assert any(role["role"] == "fenced" for role in found["roles"])


def test_slow_operations_are_reversed_as_a_whole() -> None:
    verdict, found = played(KILL, step="200ms", abandon="100ms")
    assert verdict.passed, found["expectations"]


def test_the_command_shows_the_fate_of_operations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drill, out, report = (tmp_path / name for name in ("live.yaml", "out.json", "a.html"))
    log = tmp_path / "a.jsonl"
    drill.write_text(text(CUT).replace("quorum: 2", "quorum: 0"))
    options = ["--json", str(out), "--report", str(report), "--log", str(log)]
    assert run(["drill", str(drill), *options]) == 1
    shown = capsys.readouterr().out
    assert "operations with something wrong" in shown and "goes on after" in shown
    assert "verdict: FAIL" in shown and "replay:" in shown
    page = report.read_text()
    for words in ("Undone", "By half", "Confirmed p50 / p99", "operations confirmed", "Roles"):
        assert words in page
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert {"put", "acked", "failed", "role", "census", "partition", "heal"} <= set(events)


# --- planted faults that the verdict must find


def test_without_a_quorum_both_sides_confirm_and_one_of_them_is_undone() -> None:
    verdict, found = played(CUT, lambda drill: drill.replace("quorum: 2", "quorum: 0"))
    assert not verdict.passed and found["lost"]


def test_clients_that_are_answered_too_early_lose_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = Confirming.sent

    def answered_at_once(self: Any, number: int, size: int, now: float) -> list[int]:
        usual(self, number, size, now)
        self._open.pop(number, None)
        return [number]

    monkeypatch.setattr(Confirming, "sent", answered_at_once)
    verdict, found = played(CUT_AND_KILLED)
    assert not verdict.passed and found["lost"]
    monkeypatch.undo()
    assert played(CUT_AND_KILLED)[0].passed


def test_a_backup_that_reverses_nothing_shows_operations_by_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Applier, "abandon", lambda self: [])
    verdict, found = played(KILL, step="200ms", abandon="100ms")
    assert not verdict.passed and found["half"]


def test_a_snapshot_without_an_object_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Space.load

    async def forget(self: Space, key: str, state: Any) -> None:
        await load(self, key, {"entries": []} if key == "DrillLog/0" else state)

    monkeypatch.setattr(Space, "load", forget)
    verdict, found = played(KILL_BACKUP)
    assert not verdict.passed and found["diverged"] == [0] and found["lost"]
    assert {at for one in found["lost"] for at in one["at"]} == {"NYC.C#2"}


def test_a_node_that_does_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    append, calls = DrillLog.append, iter(range(10_000))

    def twice(self: DrillLog, origin: str, number: int) -> Any:
        found = append(self, origin, number)
        if next(calls) % 7 == 6:
            append(self, origin, number)
        return found

    monkeypatch.setattr(DrillLog, "append", twice)
    verdict, found = played(KILL)
    assert not verdict.passed and found["duplicated"] and found["diverged"]


# --- the file


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("quorum: 2", "quorom: 2", 5, "livebackup.quorom: no such key (did you mean \"quorum\"?)"),
        ("quorum: 2", "quorum: two", 5, "livebackup.quorum: 'two' is not a whole number from 0 to 1000"),
        ("quorum: 2", "confirm: some", 5, "livebackup.confirm: 'some' is none of all, quorum, first"),
        ("abandon_timeout: 1s", "abandon_timeout: 0s", 5, "livebackup.abandon_timeout: '0s' must be more than 0s"),
        ("width: 2", "width: 21", 8, "traffic[0].width: '21' is not a whole number from 1 to 20"),
        ("step: 1ms", "step: 11s", 8, "traffic[0].step: '11s' is too long; at most 10s"),
        ("objects: 5", "keys: 5", 8, "traffic[0].keys: no such key"),
        ("crash: NYC.A", "fail_site: NYC", 10, "timeline[0].fail_site: no such key"),
        ("lost: 0", "stale: 0", 12, "expect.stale: no such key"),
        ("  NYC: {", "  SFO: {members: [S]}\n  NYC: {", 5, "more than 1 site: a live node and its backups are of one site"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_told_with_its_place(old: str, new: str, line: int, words: str) -> None:
    refuse(text(KILL), old, new, line, words)


def test_settings_reach_the_plan() -> None:
    planned = plan.build(loader.loads(text(KILL)))
    assert planned.settings == (("quorum", 2), ("abandon_timeout", 1.0))
    assert planned.loads[0].asks == LiveLoad(5, 2, 0.001)


# --- with real processes


@pytest.mark.sockets
@pytest.mark.skipif(not probe_multicast("127.0.0.1"), reason="no multicast")
def test_a_real_drill_kills_the_live_node(tmp_path: Path) -> None:
    drill, out = tmp_path / "live.yaml", tmp_path / "out.json"
    drill.write_text(slow_to_suspect(text(KILL)).replace("settle: 1.5s", "settle: 5s"))
    assert run(["drill", str(drill), "--real", "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["mode"] == "real" and found["sites"]["NYC"]["confirmed"] > 10
