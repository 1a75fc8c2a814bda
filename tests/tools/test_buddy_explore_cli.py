"""The command that explores buddy replication."""

import json
from pathlib import Path

import pytest

from jgroups_py.buddy.handover import Handover
from jgroups_py.tools import cli


def test_seeds_are_explored_and_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["buddy-explore", "--seeds", "1..8", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["runs"] == 8 and told["steps"] > 800 and told["violations"] == []


def test_a_failing_schedule_is_told_written_and_played_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Handover, "say_taken_again", lambda self: None)
    args = ["buddy-explore", "--profile", "crashes", "--seeds", "0..3"]
    assert cli.run([*args, "--json", "out.json"]) == 1
    violation = json.loads(Path("out.json").read_text())["violations"][0]
    seed = str(violation["seed"])
    capsys.readouterr()
    assert cli.run(["buddy-explore", "--profile", "crashes", "--replay", seed]) == 1
    assert violation["check"] in capsys.readouterr().out
    assert cli.run(["buddy-explore", "--replay", violation["shrunk"]]) == 1
    assert violation["check"] in capsys.readouterr().out


@pytest.mark.parametrize(
    "args",
    [
        ["--seeds", "5..1"],
        ["--seeds", "x"],
        ["--profile", "none"],
        ["--replay", "1", "--seeds", "1..2"],
        ["--replay", "missing.json"],
    ],
)
def test_wrong_usage_is_one_line_and_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["buddy-explore", *args]) == 2
    error = capsys.readouterr().err
    assert error.startswith("jgroups-py: ") and error.count("\n") == 1
