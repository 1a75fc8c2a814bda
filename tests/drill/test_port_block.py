"""Ports of drills with real processes: no two drills have the same ports."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import ExitStack
from itertools import pairwise

import pytest

from jgroups_py.drill.run import port_block as module
from jgroups_py.drill.run.port_block import GUARD_OFFSET, MEMBERS_MAX, port_block
from jgroups_py.drill.run.resolve import DrillError

pytestmark = pytest.mark.sockets


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process a host of its own. Otherwise the drill of another process may take a block between two lines of a
    test. Only Linux has all addresses of 127.0.0.0/8."""
    if sys.platform == "linux":
        pid = os.getpid()
        host = f"127.{64 + (pid >> 16) % 64}.{(pid >> 8) % 256}.{pid % 256}"
        monkeypatch.setattr(module, "HOST", host)


def test_drills_at_one_time_have_blocks_apart() -> None:
    """This holds although neither drill has bound a port of its members yet."""
    with ExitStack() as stack:
        bases = sorted(stack.enter_context(port_block(5)) for _ in range(6))
        assert all(b - a > GUARD_OFFSET for a, b in pairwise(bases))


@pytest.mark.usefixtures("alone")
def test_a_block_is_free_again_after_its_drill(monkeypatch: pytest.MonkeyPatch) -> None:
    with port_block(2) as free:
        pass
    monkeypatch.setattr(module, "BASES", [free])
    with port_block(2) as base:
        assert base == free
        with pytest.raises(DrillError, match="no block of free ports"), port_block(2):
            pass
    with port_block(2) as base:
        assert base == free


@pytest.mark.usefixtures("alone")
def test_a_block_of_which_a_port_is_used_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with port_block(MEMBERS_MAX) as free:
        pass
    monkeypatch.setattr(module, "BASES", [free])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as user:
        user.bind((module.HOST, free + 302))
        with pytest.raises(DrillError), port_block(3):
            pass
        with port_block(2) as base:
            assert base == free
