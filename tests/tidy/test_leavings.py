"""Sockets and files that tests leave open are errors of a test, also at the end of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
LEAVES_A_SOCKET = """
import socket

class Cycle:
    pass

def test_leaves_a_socket():
    one = Cycle()
    one.itself = one
    one.socket = socket.socket()
"""


def test_a_socket_that_the_last_test_leaves_open_is_its_error(tmp_path: Path) -> None:
    """Nobody closes it until the collector of garbage runs."""
    (tmp_path / "test_last.py").write_text(LEAVES_A_SOCKET)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "conftest", "test_last.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "ERROR test_last.py::test_leaves_a_socket" in done.stdout, said
    assert "unclosed <socket.socket" in done.stdout, said
