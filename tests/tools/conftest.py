"""The common part of the tests of ``jgroups-py buckets``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jgroups_py.tools import cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``jgroups-py buckets`` with these arguments. Return the exit code, the output and the errors."""

    def run(*args: str) -> tuple[int, str, str]:
        code = cli.run(["buckets", *args])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def deployment(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a deployment file with this text."""

    def write(text: str) -> Path:
        path = tmp_path / "seats.yaml"
        path.write_text(text)
        return path

    return write
