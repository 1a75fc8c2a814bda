"""``jgroups-py simulate``: output, exit codes, replays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jgroups_py.testing.explorer.many import write
from jgroups_py.testing.explorer.stacks.back_end import Stacks
from jgroups_py.testing.explorer.stacks.draw import draw
from jgroups_py.tools import cli

ONE = ["simulate", "--profile", "state", "--members", "2..2"]


def run(*args: str) -> int:
    return cli.run([*ONE, *args])


def test_json_alone_stands_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--seeds", "2..2", "--json", "-") == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result) == ["runs", "violations", "events", "virtual_s", "wall_s"]
    assert result["runs"] == 1
    assert result["violations"] == []
    assert result["virtual_s"] >= 60
    assert result["events"] > 100


def test_a_violation_is_exit_code_1_and_says_how_to_replay_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from jgroups_py.protocols.membership.gms.protocol import GMS

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jgroups_py.testing.explorer.shrink.SECONDS_MAX", 0.0)
    monkeypatch.setattr(GMS, "check", lambda self: 1 / 0)
    assert run("--seeds", "2..2", "--json", "out/result.json") == 1
    (violation,) = json.loads(Path("out/result.json").read_text())["violations"]
    assert violation["check"] == "exception"
    assert violation["replay"] == ("jgroups-py simulate --replay 2 --profile state --members 2..2")
    captured = capsys.readouterr()
    assert violation["replay"] in captured.out
    assert "--replay build/simulate/2.json" in captured.err
    assert cli.run(violation["replay"].split()[1:]) == 1
    assert cli.run(["simulate", "--replay", "build/simulate/2.json"]) == 1


def test_a_replay_shows_the_events(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("--replay", "2") == 0
    told = capsys.readouterr()
    assert "the core is repaired" in told.err
    file = write(Stacks(), draw(2, "state"), tmp_path, "2.json")
    assert cli.run(["simulate", "--replay", str(file)]) == 0


def test_no_seed_is_begun_after_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--seeds", "2..1000000", "--for", "1ms", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["runs"] <= 8


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--seeds", "5"], "'5' is not A..B"),
        (["--seeds", "5..4"], "'5..4' is not A..B"),
        (["--members", "0..3"], "members: N..M with 1 <= N"),
        (["--sites", "10"], "--sites"),
        (["--profile", "chaos"], "--profile"),
        (["--for", "soon"], "--for"),
        (["--replay", "1", "--seeds", "1..2"], "--replay goes without"),
        (["--replay", "no/such.json"], "no/such.json"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    args: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["simulate", *args]) == 2
    err = capsys.readouterr().err
    assert problem in err
    assert len(err.strip().splitlines()) == 1


def test_a_file_that_is_no_schedule_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    file.write_text("{}")
    assert cli.run(["simulate", "--replay", str(file)]) == 2
    assert "x.json: not a schedule" in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--profile", "all"], ["--sites", "2"], ["--members", "2..3"]])
def test_a_file_needs_nothing_drawn(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["simulate", "--replay", "x.json", *more]) == 2
    assert "FILE has them" in capsys.readouterr().err
