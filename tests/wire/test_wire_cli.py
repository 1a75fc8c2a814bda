"""``jgroups-py decode`` and ``encode``."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jgroups_py.tools.cli import run

VECTORS = Path(__file__).parent / "vectors"
PACKETS = [v for v in json.loads((VECTORS / "frames.json").read_text()) if v["kind"] == "packet"]
LIST = next(v for v in PACKETS if v["name"] == "list_multicast")

Capture = pytest.CaptureFixture[str]


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


@pytest.mark.parametrize("vector", PACKETS, ids=lambda v: v["name"])
def test_packets_are_shown_from_the_command_line(vector: Any, capsys: Capture) -> None:
    assert run(["decode", "--json", vector["hex"]]) == 0
    assert json.loads(capsys.readouterr().out) == vector["fields"]


def test_the_text_names_the_meaning_of_numbers(capsys: Capture) -> None:
    assert run(["decode", LIST["hex"]]) == 0
    text = capsys.readouterr().out
    assert "NAKACK2(41) NakAckHeader2 MSG seqno=1" in text
    assert "src: 01020304-0506-0708-1112-131415161718" in text
    assert "type: 0 (BYTES)" in text
    assert "flags: 1 (OOB)" in text
    assert "5 bytes 68656c6c6f |hello|" in text


@pytest.mark.parametrize("file", sorted(VECTORS.glob("*.json")), ids=lambda file: file.stem)
def test_every_vector_as_text(file: Path, capsys: Capture) -> None:
    content = json.loads(file.read_text())
    vectors = content if isinstance(content, list) else []
    for vector in vectors:
        if vector["kind"] in ("sym_encrypt", "compress"):
            continue
        version = vector.get("version", "5.5.6")
        command = ["decode", vector["hex"], "--kind", vector["kind"], "--wire-version", version]
        if vector["hex"]:
            assert run(command) == 0, capsys.readouterr().err
    assert "\x1b" not in capsys.readouterr().out


def test_files_hold_hex_or_bytes(tmp_path: Path, capsys: Capture) -> None:
    text, raw = tmp_path / "packet.hex", tmp_path / "packet.bin"
    text.write_text(LIST["hex"][:30].upper() + "\n  " + LIST["hex"][30:] + "\n")
    raw.write_bytes(bytes.fromhex(LIST["hex"]))
    for command in ([str(text)], [str(raw), "--raw"]):
        assert run(["decode", "--json", *command]) == 0
        assert json.loads(capsys.readouterr().out) == LIST["fields"]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    feed(monkeypatch, LIST["hex"].encode())
    assert run(["decode", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == LIST["fields"]
    feed(monkeypatch, bytes.fromhex(LIST["hex"]))
    assert run(["decode", "--json", "--raw", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == LIST["fields"]
    feed(monkeypatch, json.dumps(LIST["fields"]).encode())
    assert run(["encode", "--kind", "packet", "-"]) == 0
    assert capsys.readouterr().out == LIST["hex"] + "\n"


def test_a_conversation_is_the_same_event_by_event(capsys: Capture) -> None:
    file = VECTORS / "conversation_tcp_basic.json"
    recorded = json.loads(file.read_text())["events"]
    assert run(["decode", "--json", str(file)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown) == len(recorded)
    for got, was in zip(shown, recorded, strict=True):
        assert {**got, **was} == {**was, **got}
    assert run(["decode", str(file)]) == 0
    text = capsys.readouterr().out
    assert "* A: connect demo" in text
    assert "payload of message 1, join_rsp:" in text


@pytest.mark.parametrize("file", sorted(VECTORS.glob("conversation_*.json")), ids=lambda f: f.stem)
def test_every_conversation_decodes(file: Path, capsys: Capture) -> None:
    assert run(["decode", str(file)]) == 0
    assert "not what its headers promise" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "problem", "offset"),
    [
        ([LIST["hex"] + "00"], "1 bytes left over", len(LIST["hex"]) // 2),
        ([LIST["hex"][:-2]], "3 bytes wanted, 2 left", len(LIST["hex"]) // 2 - 3),
        (["--kind", "header", "00390400"], "unknown magic id 1024", 2),
        (["--kind", "heder", "00"], "did you mean header?", 0),
        (["--kind", "message", "000900000000000000"], "unknown type 9", 0),
        (["--kind", "header", "--wire-version", "5.3", "004d00630101"], "unknown magic id 99", 2),
        (["no-such-file.hex"], "neither a file nor hex digits", 0),
        (["294"], "half a byte", 1),
    ],
)
def test_mistakes_are_one_line_with_the_offset(
    command: list[str], problem: str, offset: int, capsys: Capture
) -> None:
    assert run(["decode", *command]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert problem in captured.err
    assert captured.err.rstrip().endswith(f"(at offset {offset})")


def test_a_file_of_bytes_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    file = tmp_path / "packet.bin"
    file.write_bytes(bytes.fromhex(LIST["hex"]))
    assert run(["decode", str(file)]) == 2
    error = capsys.readouterr().err
    assert f"{file} has no hex digits (bytes need --raw)" in error
    assert error.count("\n") == 1
    assert run(["decode", "--raw", str(file)]) == 0
    feed(monkeypatch, b"\xff")
    assert run(["decode", "-"]) == 2
    assert "standard input has no hex digits (bytes need --raw)" in capsys.readouterr().err


def test_a_conversation_with_a_damaged_event_is_survived(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "damaged.json"
    events = [{"action": "x"}, {"kind": "packet", "hex": LIST["hex"] + "ff"}]
    file.write_text(json.dumps({"events": events}))
    assert run(["decode", "--json", str(file)]) == 2
    assert "event 2: 1 bytes left over" in capsys.readouterr().err
    for content in ("{}", "{", '{"events": [5]}', '{"events": [{"kind": "packet"}]}'):
        file.write_text(content)
        assert run(["decode", str(file)]) == 2


def test_encode_reads_a_file(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "fields.json"
    file.write_text('{"value": 322649}')
    assert run(["encode", "--kind", "long_compressed", str(file)]) == 0
    assert capsys.readouterr().out == "0359ec04\n"


@pytest.mark.parametrize("content", ["", "[1", "[]", '{"value": "x"}', '{"value": 1e400}'])
def test_encode_refuses(content: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "fields.json"
    file.write_text(content)
    assert run(["encode", "--kind", "long_compressed", str(file)]) == 2
    assert run(["encode", "--kind", "nothing", str(file)]) == 2
    assert run(["encode", "--kind", "packet", str(tmp_path / "absent")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 3


def test_the_wire_version_of_a_release_is_known(capsys: Capture) -> None:
    assert run(["decode", "--kind", "version", "--wire-version", "5.4", "290c"]) == 0
    assert run(["decode", "--kind", "version", "--wire-version", "five", "290c"]) == 2
    assert "five" in capsys.readouterr().err
