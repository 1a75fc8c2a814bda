"""What long commands are told to write is tried before they begin, and never lost at the end."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from jgroups_py.tools.cli import run
from jgroups_py.tools.outputs import Finite, OutFile, write

LONG = {
    "simulate": ["simulate", "--seeds", "1..100000"],
    "fuzz": ["fuzz", "--inputs", "1000000000"],
    "longlife": ["longlife", "--hours", "1000"],
    "drill": ["drill", "no-such-drill.yaml"],
    "buddy-explore": ["buddy-explore", "--seeds", "1..100000"],
}


@pytest.mark.parametrize("command", LONG)
@pytest.mark.parametrize("where", ["", "folder", "file/x.json"])
def test_a_file_that_cannot_be_written_is_said_at_once(
    command: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("as it was")
    out = str(tmp_path / where) if where else ""
    assert run([*LONG[command], "--json", out]) == 2
    said = capsys.readouterr().err
    assert "'--json'" in said and repr(out) in said and said.count("\n") == 1


def test_nothing_is_left_of_the_trial(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text("as it was")
    for out in (kept, tmp_path / "new" / "x.json"):
        assert OutFile().convert(str(out), None, None) == str(out)
    assert OutFile().convert("-", None, None) == "-"
    assert [f.name for f in tmp_path.iterdir()] == ["kept.json"]
    assert kept.read_text() == "as it was"


def test_what_cannot_be_written_after_all_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(str(tmp_path / "new" / "x.json"), "result")
    assert (tmp_path / "new" / "x.json").read_text() == "result"
    assert capsys.readouterr().out == ""
    with pytest.raises(OSError):
        write(str(tmp_path / "new" / "x.json" / "y.json"), "result")
    assert capsys.readouterr().out == "result"


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "0", "x"])
def test_a_number_is_finite_and_within_its_range(value: str) -> None:
    with pytest.raises(click.BadParameter):
        Finite(min=1).convert(value, None, None)
    assert Finite(min=1).convert("1.5", None, None) == 1.5


@pytest.mark.parametrize(
    "arguments",
    [
        ["fuzz", "--for", "nan"],
        ["longlife", "--hours", "nan"],
        ["longlife", "--cycle", "nan"],
        ["longlife", "--sites", "0"],
        ["memory", "--seconds", "inf"],
    ],
)
def test_what_is_no_number_of_its_kind_is_wrong_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert arguments[-1] in said and said.count("\n") == 1


def test_too_many_members_are_said_with_the_sites_they_are_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["simulate", "--members", "50..60"]) == 2
    assert "50..60 in up to 3 sites: at most 33 each, 100 in all" in capsys.readouterr().err
