"""Output files of long commands are tried before the commands begin, and results are never lost at the end."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest

from jgroups_py.tools.cli import run
from jgroups_py.tools.options import JsonCommand, Time, json_option
from jgroups_py.tools.outputs import OutFile, rewritten, write

LONG = {
    "simulate": ["simulate", "--seeds", "1..100000"],
    "fuzz": ["fuzz", "--inputs", "1000000000"],
    "longlife": ["longlife", "--for", "1000h"],
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


def test_the_trial_leaves_no_file(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text("as it was")
    for out in (kept, tmp_path / "new" / "x.json"):
        assert OutFile().convert(str(out), None, None) == str(out)
    assert OutFile().convert("-", None, None) == "-"
    assert [f.name for f in tmp_path.iterdir()] == ["kept.json"]
    assert kept.read_text() == "as it was"


def test_a_result_that_cannot_be_written_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(str(tmp_path / "new" / "x.json"), "result")
    assert (tmp_path / "new" / "x.json").read_text() == "result"
    assert capsys.readouterr().out == ""
    with pytest.raises(OSError):
        write(str(tmp_path / "new" / "x.json" / "y.json"), "result")
    assert capsys.readouterr().out == "result"


@pytest.mark.parametrize("value", ["nan", "inf", "-1s", "0s", "x", "1", "0.9s", "999ms", "2h", ""])
def test_a_time_has_a_unit_and_is_within_its_range(value: str) -> None:
    with pytest.raises(click.BadParameter):
        Time(1, 3600).convert(value, None, None)
    assert Time(1, 3600).convert("1.5s", None, None) == 1.5
    assert Time(1, 3600).convert("1h", None, None) == 3600
    assert Time().convert("500ms", None, None) == 0.5


@pytest.mark.parametrize(
    ("words", "arguments", "out"),
    [
        ("--json a.xml", ["a.xml"], "-"),
        ("a.xml --json", ["a.xml"], "-"),
        ("a.xml --json -", ["a.xml"], "-"),
        ("--json a.xml b.xml", ["a.xml", "b.xml"], "-"),
        ("--json o.json a.xml", ["a.xml"], "o.json"),
        ("--json=o a.xml", ["a.xml"], "o"),
        ("--json o.json", ["o.json"], "-"),
        ("--json --name n a.xml", ["a.xml"], "-"),
        ("--name --json a.xml", ["a.xml"], None),
        ("--json -- a.json b.json", ["a.json", "b.json"], "-"),
    ],
)
def test_json_takes_the_next_word_only_where_that_is_no_argument(
    words: str, arguments: list[str], out: str | None, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)

    @click.command(cls=JsonCommand)
    @click.argument("files", nargs=-1, required=True)
    @click.option("--name")
    @json_option
    def command(files: tuple[str, ...], name: str | None, json_out: str | None) -> object:
        return [*files], json_out

    assert command.main(words.split(), standalone_mode=False) == (arguments, out)


@pytest.mark.parametrize(
    ("words", "file", "out"),
    [
        ("--json f", "f", "-"),
        ("f --json o", "f", "o"),
        ("--json o f", "f", "o"),
        ("--json -", "-", "-"),
    ],
)
def test_json_works_for_a_command_with_one_argument(
    words: str, file: str, out: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)

    @click.command(cls=JsonCommand)
    @click.argument("file")
    @json_option
    def command(file: str, json_out: str | None) -> object:
        return file, json_out

    assert command.main(words.split(), standalone_mode=False) == (file, out)


@pytest.mark.parametrize(
    "arguments",
    [
        ["fuzz", "--for", "nan"],
        ["longlife", "--for", "nan"],
        ["longlife", "--cycle", "nan"],
        ["longlife", "--sites", "0"],
        ["memory", "--for", "inf"],
    ],
)
def test_a_number_of_the_wrong_kind_is_wrong_usage(
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


def test_the_former_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text("as it was")
    kept.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(kept)
    with suppress(InterruptedError), rewritten(str(link)) as out:
        out.write("half of the res")
        out.flush()
        assert kept.read_text() == "as it was"
        raise InterruptedError
    assert kept.read_text() == "as it was"
    with rewritten(str(link)) as out:
        out.write("all of it")
    assert link.is_symlink() and kept.read_text() == "all of it"
    assert kept.stat().st_mode & 0o777 == 0o640
    assert sorted(f.name for f in tmp_path.iterdir()) == ["kept.json", "link.json"]


def test_a_device_and_a_file_in_a_closed_folder_are_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with rewritten(str(pipe)) as out:
        out.write("for a reader")
    assert os.read(end, 100) == b"for a reader" and pipe.is_fifo()
    os.close(end)

    kept = tmp_path / "kept.json"
    kept.write_text("as it was")
    opened = Path.open

    def refuses_new_files(self: Path, mode: str = "r", **words: Any) -> Any:
        if mode == "x":
            raise PermissionError(13, "Permission denied")
        return opened(self, mode, **words)

    monkeypatch.setattr(Path, "open", refuses_new_files)
    with rewritten(str(kept)) as out:
        out.write("new")
    assert kept.read_text() == "new"


def test_a_mounted_file_that_cannot_be_replaced_gets_the_whole_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text("as it was")

    def busy(self: Path, target: Path) -> Path:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(Path, "replace", busy)
    write(str(kept), "new")
    assert kept.read_text() == "new" and [f.name for f in tmp_path.iterdir()] == ["kept.json"]
