"""``jgroups-py validate``: the meaning of a stack, its ignored attributes, its times of detection."""

import json
from pathlib import Path

import pytest

from jgroups_py.config.settings import StackConfig, load_stack
from jgroups_py.tools import cli
from jgroups_py.tools.commands.validate import report

OWN = """
from dataclasses import dataclass
from typing import ClassVar
from jgroups_py.config.settings import Bytes, Seconds
from jgroups_py.stack.protocol import Protocol

class FD_ALL3(Protocol):
    protocol_id = 3001
    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        timeout: Seconds = 40.0
        interval: Seconds = 8.0
        ignored: ClassVar[frozenset[str]] = frozenset({"thread_pool.*"})

class VERIFY_SUSPECT2(Protocol):
    protocol_id = 3002
    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        timeout: Seconds = 1.0
        window: Seconds = 0.1

class REST(Protocol):
    protocol_id = 3003
    provides = ("transport", "views")
"""
STACK = """<config>
  <seen_by_validate.REST/>
  <seen_by_validate.FD_ALL3 timeout="${t:5s}" interval="1s" thread_pool.x="3"/>
  <seen_by_validate.VERIFY_SUSPECT2 timeout="500"/>
</config>
"""


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "seen_by_validate.py").write_text(OWN)
    (tmp_path / "stack.xml").write_text(STACK)
    monkeypatch.syspath_prepend(str(tmp_path))
    return str(tmp_path / "stack.xml")


def test_validate_prints_protocols_attributes_and_detection(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["validate", "--json", stack]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["protocols"][1] == {
        "name": "FD_ALL3",
        "attributes": {"timeout": "5s", "interval": "1s"},
        "given": ["timeout", "interval", "thread_pool.x"],
    }
    assert report["ignored"] == ["FD_ALL3.thread_pool.x=3"]
    assert report["detection_s"] == pytest.approx({"crash": 6.6, "silent": 6.6})


def test_validate_prints_for_people(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["validate", stack]) == 0
    out = capsys.readouterr().out
    assert "FD_ALL3              timeout=5s interval=1s\n" in out
    assert "worst-case detection: crash 6.6 s, silent 6.6 s" in out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--goal", "10s"], 0),
        (["--goal", "6.6s"], 0),
        (["--goal", "6s"], 1),
        (["--goal", "6s", "--set", "FD_ALL3.timeout=4s"], 0),
        (["--goal", "10s", "-D", "t=20s"], 1),
        (["--goal", "soon"], 2),
        (["--set", "FD_ALL3.timeout"], 2),
        (["--set", "FD_ALL3.timeuot=1"], 2),
    ],
)
def test_a_goal_is_held_or_not(stack: str, arguments: list[str], code: int) -> None:
    assert cli.run(["validate", *arguments, stack]) == code


def test_validate_writes_the_stack_in_the_other_language(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["validate", "--as", "yaml", stack]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "protocols:\n- seen_by_validate.REST\n- seen_by_validate.FD_ALL3:\n    timeout: 5s\n"
    )


def test_attributes_without_effect_are_named() -> None:
    path = Path(__file__).resolve().parents[2] / "stacks" / "udp.xml"

    whole = load_stack(path, environment={})
    kept = [p for p in whole if p.name not in ("VERIFY_SUSPECT2", "MERGE3")]
    found = report(StackConfig(tuple(kept), "thin"))["warnings"]
    assert found == [
        "FD_SOCK2: no verification of suspicions in the stack (VERIFY_SUSPECT2), asked for by "
        "FD_SOCK2, FD_ALL3: a suspicion is final at once",
        "pbcast.GMS: no merging in the stack (MERGE3), asked for by GMS: a group that was split "
        "stays split",
    ]
    assert report(whole)["warnings"] == []
