"""jgroups-py keys: makes, rotates and shows a ring."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jgroups_py.protocols.seal.ring import read_ring
from jgroups_py.tools.cli import run


def test_a_ring_is_made_added_to_and_rotated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "ring.keys")
    assert run(["keys", "new", file]) == 0
    first = read_ring(file).writer
    assert capsys.readouterr().out == f"{file} is made with key {first.id.hex()}, which encrypts\n"
    assert Path(file).stat().st_mode & 0o777 == 0o600

    assert run(["keys", "new", file]) == 0
    ring = read_ring(file)
    assert ring.writer == first and len(ring.keys) == 2
    assert f"new key {ring.keys[1].id.hex()}, which only decrypts" in capsys.readouterr().out

    assert run(["keys", "rotate", file]) == 0
    assert read_ring(file).keys == (ring.keys[1], first)
    assert run(["keys", "new", file]) == run(["keys", "rotate", file]) == 0
    assert first not in read_ring(file).keys
    assert f"key {first.id.hex()} is dropped and decrypts no packet" in capsys.readouterr().out


def test_show_tells_ids_ages_and_which_key_writes_and_no_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "ring.keys")
    run(["keys", "new", file])
    run(["keys", "new", file])
    capsys.readouterr()
    assert run(["keys", "show", file]) == run(["keys", "show", file, "--json"]) == 0
    out = capsys.readouterr().out
    ring = read_ring(file)
    lines = out.splitlines()
    for key, line, does in zip(ring.keys, lines, ("writes and reads", "reads"), strict=False):
        assert line.startswith(f"{key.id.hex()}  made {key.made_text}  ") and line.endswith(does)
        assert key.secret.hex() not in out
    told = json.loads(out.partition("{")[1] + out.partition("{")[2])
    assert [entry["id"] for entry in told["keys"]] == [key.id.hex() for key in ring.keys]


def test_rotate_without_a_new_key_gives_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "ring.keys")
    run(["keys", "new", file])
    before = Path(file).read_bytes()
    assert run(["keys", "rotate", file]) == 2
    assert "has no key newer than" in capsys.readouterr().err
    assert Path(file).read_bytes() == before


def test_a_bad_ring_is_one_line_and_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ring.keys"
    file.write_text("# mine\nsecret\n")
    file.chmod(0o600)
    for command in ("new", "rotate", "show"):
        assert run(["keys", command, str(file)]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"jgroups-py: {file}:2: is not a line of a key ring")
    assert file.read_text() == "# mine\nsecret\n"
