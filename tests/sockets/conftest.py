"""Real sockets on loopback; a port and a group for each test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jgroups_py.driver import MulticastProbe, probe_multicast
from jgroups_py.tools.commands.mperf_ports import free_block

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "api"))  # toy.py


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.sockets)


@pytest.fixture
def port() -> int:
    """The first of twelve ports. FD_SOCK2 needs eight of them if its offset is 4."""
    return free_block(12)


@pytest.fixture(scope="session")
def multicast() -> MulticastProbe:
    probe = probe_multicast("127.0.0.1")
    if not probe:
        pytest.skip(probe.why)
    return probe
