"""The live broker's process is killed under load of stomp.py's clients (make broker-kills: 50 times)."""

from __future__ import annotations

from pathlib import Path

import pytest
from kill_brokers import run

from jgroups_py.tools.commands.mperf_ports import free_block

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(200)]


def test_answers_to_clients_hold_when_the_live_broker_is_killed(tmp_path: Path) -> None:
    first, log = free_block(2), tmp_path / "log"
    try:
        found = run(2, 50, [first, first + 1], log)
    finally:
        if log.exists():
            print(log.read_text())  # pytest shows it if the test fails
    assert found["problems"] == [] and found["sent"] >= 150
