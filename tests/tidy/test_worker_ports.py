"""The ports that the tests of this process give to members with the shipped stacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from worker_ports import claim, ports

SHARED = Path(__file__).parent.parent / "shared"


@pytest.mark.sockets
def test_two_processes_have_different_ports() -> None:
    first, guard = claim()
    try:
        other = subprocess.run(
            [sys.executable, "-c", "from worker_ports import claim; print(claim()[0])"],
            cwd=SHARED,
            capture_output=True,
            text=True,
            check=True,
        )
        mine = int(ports()["JGROUPS_UDP_MCAST_PORT"])
        assert len({first, mine, int(other.stdout)}) == 3
    finally:
        guard.close()
