"""The command ``drill``, with a runner that replays a made-up log."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.drill.report.progress import TerminalProgress
from jgroups_py.drill.run.runner import RunLog
from jgroups_py.tools.cli import INTERRUPTED, run
from jgroups_py.tools.commands import drill as cli

TEXT = """\
name: made up
sites:
  NYC: {members: [E, D, C]}
  SFO: {members: [T, S]}
expect: {lost: 0}
"""


@pytest.fixture
def drill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: Any) -> Any:
    """Runs ``jgroups-py drill`` on a drill that loses seqno ``seed`` if the seed is even."""
    path = tmp_path / "made-up.yaml"
    path.write_text(TEXT)

    def how(plan: Any, progress: Any) -> Any:
        progress.at(1.0)
        progress.say(1.0, "something happens")
        away = ["SFO.T", "SFO.S"] if plan.seed % 2 == 0 else []
        story.send(1.0, "NYC.E", skip=away, length=3)
        records = sorted(story.records, key=lambda record: record.t)
        return RunLog("simulated", lambda: iter(records), 0.5, 15.0)

    monkeypatch.setattr(cli, "runner_of", lambda plan, real: how)
    monkeypatch.setattr(cli, "cores", lambda: 1)
    return lambda *args: run(["drill", str(path), *args])


def test_pass_is_0_and_fail_is_1_with_the_command_that_replays_it(
    drill: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert drill("--seed", "1") == 0
    out, err = capsys.readouterr()
    assert "something happens" in out
    assert "verdict: PASS" in out
    assert err == ""
    assert drill("--seed", "2", "--set", "RELAY.buffering_members=1") == 1
    out, _ = capsys.readouterr()
    assert "verdict: FAIL" in out
    assert "--simulated --seed 2 --set RELAY.buffering_members=1" in out


def test_files_are_written(drill: Any, tmp_path: Path) -> None:
    outs = [tmp_path / "new" / name for name in ("a.json", "a.html", "a.jsonl")]
    args = [
        str(part)
        for pair in zip(("--json", "--report", "--log"), outs, strict=True)
        for part in pair
    ]
    assert drill("--seed", "1", *args) == 0
    assert json.loads(outs[0].read_text())["verdict"] == "pass"
    assert outs[1].read_text().startswith("<!doctype html>")
    lines = [json.loads(line) for line in outs[2].read_text().splitlines()]
    sends = [line for line in lines if line["event"] == "send"]
    assert [line["seqno"] for line in sends] == [1, 2, 3]
    assert sends[0] == {
        "t": 1.0,
        "site": "NYC",
        "member": "E",
        "event": "send",
        "origin": "E#1",
        "seqno": 1,
        "detail": None,
    }


@pytest.mark.parametrize("option", ["--json", "--report", "--log"])
def test_a_dash_is_standard_output_and_the_rest_goes_to_standard_error(
    drill: Any, capsys: pytest.CaptureFixture[str], option: Any
) -> None:
    assert drill("--seed", "1", option, "-") == 0
    out, err = capsys.readouterr()
    assert "verdict: PASS" in err
    assert "verdict: PASS" not in out
    if option == "--json":
        assert json.loads(out)["name"] == "made up"
    elif option == "--log":
        assert all(json.loads(line) for line in out.splitlines())
    else:
        assert out.rstrip().endswith("</html>")


def test_a_disk_that_is_full_is_named_after_the_verdict(
    drill: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    assert drill("--seed", "1", "--json", "/dev/full", "--report", str(page)) == 2
    out, err = capsys.readouterr()
    assert "verdict: PASS" in out
    assert err == "jgroups-py: /dev/full: No space left on device\n"
    assert page.exists()
    assert drill("--seeds", "1..1", "--report", "/dev/full") == 2
    out, err = capsys.readouterr()
    assert "1 passed, 0 failed: PASS" in out
    assert "/dev/full: No space left" in err


class _Closed(io.StringIO):
    """A pipe whose reader ends after some lines."""

    def __init__(self, lines: int) -> None:
        super().__init__()
        self.lines = lines

    def write(self, text: str) -> int:
        self.lines -= text.count("\n")
        if self.lines < 0:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        return len(text)

    def fileno(self) -> int:
        return self.spare

    spare = -1


@pytest.mark.parametrize("lines", [0, 1, 2, 4])
def test_a_closed_pipe_is_not_a_verdict(
    drill: Any, monkeypatch: pytest.MonkeyPatch, lines: int, tmp_path: Path
) -> None:
    closed = _Closed(lines)
    with (tmp_path / "spare").open("w") as spare:
        closed.spare = spare.fileno()
        monkeypatch.setattr("sys.stdout", closed)
        assert drill("--seed", "1") == 141


def test_a_line_on_a_terminal_leaves_nothing_of_the_one_that_counts() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    progress = TerminalProgress(out, 12.0)
    progress.at(2.2)
    progress.say(2.5, "crash NYC.E")
    said = "     2.500 s  crash NYC.E"
    assert f"\r\x1b[2K{said}\n" in out.getvalue()
    progress.at(2.6)
    progress.done()
    assert out.getvalue().rstrip("\n").endswith("\x1b[2K")


def test_an_interrupted_sweep_says_which_seeds_were_played_and_failed(
    drill: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object) -> Generator[tuple[int, Any], None, None]:
        yield 2, {"verdict": "fail"}
        yield 1, {"verdict": "pass"}
        yield 4, "cannot be run"
        raise KeyboardInterrupt

    monkeypatch.setattr("jgroups_py.tools.commands.drill.each", interrupted)
    assert drill("--seeds", "1..9") == INTERRUPTED
    assert "interrupted; seeds played: 1..2, 4; failed: 2, 4\n" in capsys.readouterr().out


def test_many_seeds_are_played(drill: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert drill("--seeds", "1..1", "--json", "-") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["passed"], result["failed"], result["verdict"]) == (1, 0, "pass")
    assert drill("--seeds", "2..2", "--json", "-") == 1
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert [r["seed"] for r in result["runs"]] == [2]
    assert (result["passed"], result["failed"], result["verdict"]) == (0, 1, "fail")
    assert "--seed 2" in err


@pytest.mark.parametrize(
    "args",
    [
        ["--seeds", "5..3"],
        ["--seeds", "x"],
        ["--seed", "1", "--seeds", "1..2"],
        ["--seeds", "1..2", "--log", "x"],
        ["--json", "-", "--log", "-"],
        ["--json", "x", "--report", "x"],
        ["--json", "x", "--log", "./x"],
        ["--set", "nonsense"],
        ["--set", "LON:RELAY.x=1"],
    ],
)
def test_wrong_options_are_2_and_one_line(
    drill: Any, capsys: pytest.CaptureFixture[str], args: Any
) -> None:
    assert drill(*args) == 2
    _, err = capsys.readouterr()
    assert err.count("\n") == 1


def test_a_wrong_file_is_2_and_names_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(TEXT + "expct: 1\n")
    assert run(["drill", str(path)]) == 2
    assert f'{path}:6:1: expct: no such key (did you mean "expect"?)' in capsys.readouterr().err
    assert run(["drill", str(tmp_path / "absent.yaml")]) == 2


def test_an_override_that_fits_no_protocol_names_the_drill_and_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(TEXT + "set:\n  RELAYY.buffering_members: 2\n")
    assert run(["drill", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f'jgroups-py: {path}:7: RELAYY.buffering_members: no protocol "RELAYY"')
    assert '"RELAY"' in err and err.count("\n") == 1
    path.write_text(TEXT + "bridge:\n  set: {FD_ALL3.timeot: 2s}\n")
    assert run(["drill", str(path), "--seeds", "1..9"]) == 2
    _, err = capsys.readouterr()
    assert f"{path}:7: FD_ALL3.timeot" in err and '"timeout"' in err and err.count("\n") == 1
