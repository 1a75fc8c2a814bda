"""The first program of the README, started twice: both print the other's messages."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
PATIENCE = 60.0
"""Seconds. Members that did not find each other meet after up to 30."""


def program() -> str:
    blocks: list[str] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    return next(block for block in blocks if "open_channel" in block)


@pytest.mark.sockets
def test_two_processes_of_the_first_program_hear_each_other(tmp_path: Path) -> None:
    file = tmp_path / "ten_lines.py"
    file.write_text(program().replace('"demo"', f'"readme-{tmp_path.name}"'))
    started = [
        subprocess.Popen(
            [sys.executable, "-u", str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(2)
    ]
    heard: list[str] = []

    def read(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        heard.append(process.stdout.readline())

    readers = [threading.Thread(target=read, args=(process,), daemon=True) for process in started]
    try:
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(PATIENCE)
    finally:
        for process in started:
            process.send_signal(signal.SIGINT)
        for process in started:
            process.communicate(timeout=PATIENCE)
    assert len(heard) == 2, "one has printed nothing"
    assert all(line.endswith(" says hello everyone\n") for line in heard), heard
    assert heard[0] != heard[1], "both names are the same: one has heard itself"
