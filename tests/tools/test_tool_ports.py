"""Ports that tools take for their members: no other process gets them meanwhile."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest

from jgroups_py.config.settings import load_stack
from jgroups_py.tools.commands import mperf_ports
from jgroups_py.tools.commands.mperf_ports import (
    FIRST,
    HELD_MAX,
    SLOT,
    free_block,
    private_attributes,
)

ANOTHER = """
from jgroups_py.tools.commands import mperf_ports
mperf_ports.FIRST, mperf_ports.LAST = {first}, {last}
print(mperf_ports.free_block(4))
"""


@pytest.fixture
def first() -> int:
    """The first of two slots that no other run of these tests has now."""
    found = free_block(2 * SLOT)
    mperf_ports._release(mperf_ports._held.pop())
    return found


def chosen_by_another_process(first: int) -> subprocess.CompletedProcess[str]:
    text = ANOTHER.format(first=first, last=first + 2 * SLOT)
    command = [sys.executable, "-c", text]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.sockets
def test_blocks_of_one_process_lie_apart() -> None:
    size = SLOT + 4
    blocks = sorted(free_block(size) for _ in range(HELD_MAX))
    assert all(b - a >= size for a, b in pairwise(blocks))
    assert all((block - FIRST) % SLOT == 0 for block in blocks)


@pytest.mark.sockets
def test_two_processes_do_not_choose_the_same_ports(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """This holds although no port of it is bound yet. Both slots of a block are held."""
    with monkeypatch.context() as small:
        small.setattr(mperf_ports, "FIRST", first)
        small.setattr(mperf_ports, "LAST", first + 2 * SLOT)
        assert free_block(SLOT + 1) == first
    other = chosen_by_another_process(first)
    assert other.returncode == 1
    assert f"no 4 free consecutive ports within {first}..{first + 2 * SLOT}" in other.stderr
    for _ in range(HELD_MAX):
        free_block(1)
    assert int(chosen_by_another_process(first).stdout) in (first, first + SLOT)


@pytest.mark.sockets
def test_a_port_that_somebody_has_is_in_no_block(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr(mperf_ports, "FIRST", first)
    monkeypatch.setattr(mperf_ports, "LAST", first + SLOT)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 3))
        with pytest.raises(OSError, match="no 4 free consecutive ports"):
            free_block(4)
        assert free_block(3) == first


@pytest.mark.sockets
def test_without_an_address_for_guards_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mperf_ports, "GUARD_HOST", "203.0.113.1")
    assert FIRST <= free_block(3) < mperf_ports.LAST


@pytest.mark.sockets
def test_a_test_that_opens_sockets_without_the_marker_fails(request: pytest.FixtureRequest) -> None:
    """The rule of tests/conftest.py finds sockets of the internet, and does not blame a test for Unix sockets."""
    plugins: list[Any] = list(request.config.pluginmanager.get_plugins())
    watch = next(plugin.SOCKETS for plugin in plugins if hasattr(plugin, "SOCKETS"))
    watch.forbid("some test")
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"\0jgroups-py-test-{os.getpid()}")
        watch.check()
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
        with pytest.raises(pytest.fail.Exception, match=r"some test opens sockets \(socket\.bind"):
            watch.check()
    finally:
        watch.allow()


@pytest.mark.sockets
def test_all_ports_of_a_tcp_group_are_within_its_block() -> None:
    """The ports of FD_SOCK2 are within it, too; by default they would be 100 above, in the block of another group."""
    members = 6
    attributes = private_attributes(load_stack("tcp.xml"), members)
    first, offset = int(attributes["TCP.bind_port"]), int(attributes["FD_SOCK2.offset"])
    transport = range(first, first + int(attributes["TCP.port_range"]) + 1)
    detection = {port + offset for port in transport}
    assert not detection & set(transport)
    assert max(detection) < first + 2 * members + 2
    assert "FD_SOCK2.offset" not in private_attributes(load_stack("udp.xml"), members)
