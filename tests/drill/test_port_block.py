"""Ports of drills with real processes: no two drills have the same ports."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from itertools import pairwise

import pytest

from jgroups_py.drill.run import port_block as module
from jgroups_py.drill.run.port_block import GUARD_OFFSET, HOST, MEMBERS_MAX, port_block
from jgroups_py.drill.run.resolve import DrillError

pytestmark = pytest.mark.sockets


def test_drills_at_one_time_have_blocks_apart() -> None:
    """This holds although neither drill has bound a port of its members yet."""
    with ExitStack() as stack:
        bases = sorted(stack.enter_context(port_block(5)) for _ in range(6))
        assert all(b - a > GUARD_OFFSET for a, b in pairwise(bases))


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


def test_a_block_of_which_a_port_is_used_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with port_block(MEMBERS_MAX) as free:
        pass
    monkeypatch.setattr(module, "BASES", [free])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as user:
        user.bind((HOST, free + 302))
        with pytest.raises(DrillError), port_block(3):
            pass
        with port_block(2) as base:
            assert base == free
