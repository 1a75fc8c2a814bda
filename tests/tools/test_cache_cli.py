"""``jgroups-py cache``: commands by arguments and by lines, JSON, exit codes, several members."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.tools import cli
from jgroups_py.tools.commands.cache_shell import Unknown, json_of, text_of, words_of

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def stored(tmp_path: Path) -> list[str]:
    """Return a cache of one process, whose nodes stay in a file."""
    return ["cache", "--cache", "passivation.xml", "-D", f"cache.file={tmp_path / 'store.db'}"]


def shell(monkeypatch: pytest.MonkeyPatch, args: list[str], *lines: str) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    return cli.run(args)


def test_one_command_by_arguments(stored: list[str], capsys: Captured) -> None:
    assert cli.run([*stored, "put", "/users/7", "name", "Ada Lovelace"]) == 0
    assert cli.run([*stored, "put", "/users/7", "visits", "[1, 2]"]) == 0
    assert cli.run([*stored, "get", "/users/7", "name"]) == 0
    assert cli.run([*stored, "get", "/users/7"]) == 0
    assert cli.run([*stored, "tree"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Ada Lovelace",
        "name=Ada Lovelace",
        "visits=[1, 2]",
        "/users/7  name=Ada Lovelace  visits=[1, 2]",
    ]


@pytest.mark.parametrize(
    "words", [["get", "/x"], ["get", "/x", "k"], ["rm", "/x"], ["rm", "-r", "/x"], ["ls", "/x"]]
)
def test_a_missing_node_is_exit_1(words: list[str], capsys: Captured) -> None:
    assert cli.run(["cache", "--cache", "local.xml", *words]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("not there: /x") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--cache", "nope.xml", "get", "/x"], "no cache file"),
        (["nope"], 'no command "nope"'),
        (["get"], "usage: get PATH [KEY]"),
        (["--cache", "local.xml", "get", "/a//b"], "a part of a path is not empty"),
        (["--cache", "local.xml", "put", "/", "k", "1"], "root"),
        (["--cache", "local.xml", "buddies"], "buddy replication is not configured"),
        (["--cache", "local.xml", "owners"], "buddy replication is not configured"),
        (["--bind-addr", "host", "members"], "bind_addr must be a numeric address"),
    ],
)
def test_a_command_that_cannot_run_is_one_line_and_exit_2(
    args: list[str], said: str, capsys: Captured
) -> None:
    assert cli.run(["cache", *args]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("jgroups-py: ") and said in err and err.count("\n") == 1


def test_lines_of_standard_input_are_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    local = ["cache", "--cache", "local.xml"]
    lines = ["put /a/b k 1", "# a comment", "", 'put /a/c k "two words"', "ls /a", "get /a/c k"]
    assert shell(monkeypatch, local, *lines, "rm /a/b k", "rm -r /a", "help") == 0
    out = capsys.readouterr().out
    assert out.startswith("b\nc\ntwo words\n2 nodes\nget PATH")
    assert shell(monkeypatch, local, "get /nope", "put /a k 1", "get /a k", "quit", "no") == 1
    alone = (
        "jgroups-py: this cache is local and has no store: what was put is gone when it leaves\n"
    )
    assert capsys.readouterr() == ("1\n", f"not there: /nope\n{alone}")
    assert shell(monkeypatch, local, "nope", 'get "/a', "put /a k 1", "get /a k", "get /b") == 2
    out, err = capsys.readouterr()
    assert out == "1\n" and len(err.replace(alone, "").splitlines()) == 3


def test_json_is_an_object_for_each_command(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    local = ["cache", "--cache", "local.xml", "--json"]
    lines = ["put /a/b k 1", "get /a/b k", "get /a/b", "get /no k", "ls", "tree", "rm -r /a"]
    assert shell(monkeypatch, local, *lines, "members", "stats") == 1
    got: list[Any] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert got[:8] == [
        {"path": "/a/b", "key": "k", "value": 1},
        {"path": "/a/b", "key": "k", "found": True, "value": 1},
        {"path": "/a/b", "attributes": {"k": 1}},
        {"path": "/no", "key": "k", "found": False},
        {"path": "/", "children": ["a"]},
        {"path": "/", "nodes": {"/a/b": {"k": 1}}, "complete": True},
        {"path": "/a", "key": None, "removed": 1},
        {"members": []},
    ]
    assert got[8]["nodes"] == 0 and got[8]["writes"] == 2


def test_values_are_shown_without_moving_the_cursor() -> None:
    assert text_of("a\x1b[2Jb") == "a�[2Jb" and text_of({"a": b"\x01"}) == '{"a": {"bytes": "01"}}'
    assert json_of("ä") == '"ä"'
    assert words_of("put /a 'b c' \"d\"  # e") == ["put", "/a", "b c", "d"]
    with pytest.raises(Unknown, match="No closing quotation"):
        words_of("get '/a")


@pytest.mark.sockets
@pytest.mark.parametrize("file", ["replicated.xml", "buddy.xml"])
def test_two_members_share_a_cache(file: str) -> None:
    """One member stays in its shell; another one joins for a command and sees the first one's writes."""
    common = [sys.executable, "-m", "jgroups_py.tools", "cache", "--cache", file]
    common += ["--cluster", f"cache-cli-{os.getpid()}-{file}"]
    common += ["--set", "GMS.join_timeout=20s"]  # a busy machine may not run the shell for seconds
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*common, "--name", "A"], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as shell:
        assert shell.stdin is not None and shell.stdout is not None
        shell.stdin.write("put /a k hello\nget /a k\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == "hello\n"
        for words, said in ((["get", "/a", "k"], "hello\n"), (["members"], "A\nB\n")):
            done = subprocess.run(
                [*common, "--name", "B", *words],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert (done.stdout, done.returncode) == (said, 0), done.stderr
        owners = "owners /a" if file == "buddy.xml" else ""  # B gave it back when it left
        out, err = shell.communicate(f"get /a k\n{owners}\n", timeout=60)
        said = "hello\n" + ("/a  A  copies: none told\n" if owners else "")
        assert (out, shell.returncode) == (said, 0), err
