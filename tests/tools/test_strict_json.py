"""Commands print JSON as RFC 8259 has it, whatever values users keep: NaN, infinity, bytes and times among them."""

from __future__ import annotations

import datetime
import io
import json
import math
import sys
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest

from jgroups_py import blocking
from jgroups_py.channel.flight import FORMAT
from jgroups_py.tools import cli
from jgroups_py.tools.strict_json import strict_json

Captured = pytest.CaptureFixture[str]


def strictly(text: str) -> Any:
    """Read JSON as other languages do. Python itself would accept NaN."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"not JSON: {word}")

    return json.loads(text, parse_constant=refuse)


class Sample(msgspec.Struct):
    rate: float
    raw: bytes
    at: datetime.datetime


def test_numbers_that_json_lacks_become_null_wherever_they_stand() -> None:
    value = {"a": [1.5, math.nan, (math.inf, "NaN")], "b": {"c": -math.inf}, "d": 2}
    assert strictly(strict_json(value)) == {
        "a": [1.5, None, [None, "NaN"]],
        "b": {"c": None},
        "d": 2,
    }
    assert strict_json({"ü": b"x"}, ascii_only=False, other=bytes.decode) == '{"ü": "x"}'


def test_keys_and_values_of_a_map_of_structs(tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "samples"
    at = datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)
    with blocking.open_map(folder, key=str, value=Sample) as m:
        m["a"] = Sample(math.nan, b"\x00\xff", at)
    assert cli.run(["maps", "ls", str(folder), "--json"]) == 0
    (row,) = strictly(capsys.readouterr().out)
    assert row == {"key": "a", "value": {"rate": None, "raw": "AP8=", "at": "2026-01-31T00:00:00Z"}}
    assert cli.run(["maps", "ls", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out.split("  ", 1)[1]) == row["value"]


def test_nan_is_a_text_for_the_cache_as_anything_else_that_is_no_json(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    lines = ["put /a x NaN", "put /a y [Infinity]", f"put /a z {'[' * 100_000}", "get /a"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    assert cli.run(["cache", "--cache", "local.xml", "--json"]) == 0
    told = [strictly(line) for line in capsys.readouterr().out.splitlines()]
    kept = {"x": "NaN", "y": "[Infinity]", "z": "[" * 100_000}
    assert [*told[-1]["attributes"].items()] == [*kept.items()]


def test_a_recording_with_nan(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "flight.json"
    head = {"format": FORMAT, "name": "A", "written": 5.0, "now": 1.0}
    event = {"at": 0.5, "by": "GMS", "what": "view", "details": {"lag": math.nan}}
    file.write_text(f"{json.dumps(head)}\n{json.dumps(event)}\n")
    assert cli.run(["flight", str(file), "--json"]) == 0
    assert strictly(capsys.readouterr().out)["details"] == {"lag": None}


@pytest.mark.parametrize("event", [{"action": {}, "t": "x"}, ["action"], "action", 5, None])
def test_an_event_of_a_conversation_that_is_none_is_named(
    event: object, tmp_path: Path, capsys: Captured
) -> None:
    file = tmp_path / "conversation.json"
    file.write_text(json.dumps({"events": [{"action": {}, "t": 1}, event]}))
    for more in ([], ["--json"]):
        assert cli.run(["decode", str(file), *more]) == 2
        assert "event 2 is not one" in capsys.readouterr().err
