"""The health file of a member, and the command that reads it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
import trio

from jgroups_py import ConfigError, MemoryNetwork, open_channel
from jgroups_py.tools.cli import run

PATIENT = {"GMS.join_timeout": "20s", "SHARED_LOOPBACK_PING.wait": "20s"}
"""A second member waits for the answer of the first one, however busy the machine is. Otherwise it may be alone until a merge."""


def check(*words: object) -> int:
    return run(["health", *map(str, words)])


async def test_a_member_tells_its_view_and_that_it_has_gone(tmp_path: Path) -> None:
    network, file = MemoryNetwork(), tmp_path / "health.json"
    async with open_channel(
        "sim.xml", cluster="demo", name="A", transport=network, health_file=file
    ):
        told = json.loads(file.read_text())
        assert (told["name"], told["members"], told["size"]) == ("A", ["A"], 1)
        assert file.stat().st_mode & 0o777 == 0o600
        assert await trio.to_thread.run_sync(check, file) == 0
        assert await trio.to_thread.run_sync(check, "--members", "2", file) == 1
        async with open_channel(
            "sim.xml", cluster="demo", name="B", transport=network, attributes=PATIENT
        ):
            with trio.fail_after(60):
                while json.loads(file.read_text())["size"] != 2:  # noqa: ASYNC110 - a file
                    await trio.sleep(0.05)
            assert await trio.to_thread.run_sync(check, "--members", "2", file) == 0
    assert os.listdir(tmp_path) == []
    assert check(file) == 1


async def test_the_environment_names_a_file_for_each_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JGROUPS_HEALTH_FILE", str(tmp_path / "{cluster}.json"))
    async with open_channel("sim.xml", cluster="a/b", transport=MemoryNetwork()):
        assert os.listdir(tmp_path) == ["a-b.json"]
    assert os.listdir(tmp_path) == []


async def test_the_file_stays_fresh_while_the_loop_runs(tmp_path: Path) -> None:
    file = tmp_path / "health.json"
    async with open_channel(
        "sim.xml", cluster="demo", transport=MemoryNetwork(), health_file=str(file)
    ):
        os.utime(file, (0, 0))
        with trio.fail_after(60):
            while file.stat().st_mtime == 0:  # noqa: ASYNC110 - a file
                await trio.sleep(0.05)
        assert time.time() - file.stat().st_mtime < 60


async def test_a_health_file_that_cannot_be_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "health.json"
    with pytest.raises(ConfigError, match=f'health_file must be a file.*"{file}"'):
        async with open_channel(
            "sim.xml", cluster="demo", transport=MemoryNetwork(), health_file=file
        ):
            pass
    with pytest.raises(TypeError, match="health_file is a str or a Path, got"):
        async with open_channel("sim.xml", cluster="demo", health_file=7):  # type: ignore[arg-type]
            pass


GOOD = {"name": "A", "cluster": "demo", "coordinator": "B", "view": 7, "size": 3}


@pytest.mark.parametrize(
    ("text", "age", "words", "code", "said"),
    [
        (json.dumps(GOOD), 0, (), 0, "A of demo has view 7 with 3 members, coordinator B"),
        (json.dumps(GOOD), 0, ("--members", "4"), 1, "at least 4 wanted"),
        (json.dumps(GOOD), 60, (), 1, "A of demo has written nothing for 6"),
        (json.dumps(GOOD), 60, ("--max-age", "2m"), 0, "view 7"),
        ("", 0, (), 1, "is no health file"),
        ("[" * 10_000, 0, (), 1, "is no health file"),
        (json.dumps({**GOOD, "size": "3"}), 0, (), 1, "is no health file"),
        ('{"name": "A"}', 0, (), 1, "is no health file"),
        (None, 0, (), 1, "no member has written"),
    ],
)
def test_the_command_tells_why(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str | None,
    age: float,
    words: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    file = tmp_path / "health.json"
    if text is not None:
        file.write_text(text)
        os.utime(file, (time.time() - age,) * 2)
    assert check(*words, file) == code
    out, err = capsys.readouterr()
    assert said in (err if code else out)


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_the_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert check(tmp_path / "pipe") == 1


def test_without_a_file_the_command_names_its_argument(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JGROUPS_HEALTH_FILE", raising=False)
    assert check() == 2
    assert "JGROUPS_HEALTH_FILE" in capsys.readouterr().err
