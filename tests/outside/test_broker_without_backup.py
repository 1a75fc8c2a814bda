"""A broker that must have a backup, and has none: its operator sees why no client gets in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jgroups_py.tools.commands.mperf_ports import free_block

ROOT = Path(__file__).parents[2]


@pytest.mark.sockets
def test_a_live_broker_without_its_backup_says_that_it_waits() -> None:
    port = str(free_block(1))
    command = [sys.executable, "-m", "examples.broker", "--name", "A", "--port", port]
    options = ["--cluster", f"waits-{port}", "--stack", "udp.xml", "--backups-min", "1"]
    with subprocess.Popen([*command, *options], cwd=ROOT, stderr=subprocess.PIPE, text=True) as one:
        try:
            assert one.stderr is not None
            said = one.stderr.readline()
        finally:
            one.kill()
    assert said == "A is live, and waits for confirmations: backups: 0\n"
