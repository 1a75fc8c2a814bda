"""The ports that the tests of this process give to members with the shipped stacks."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
import worker_ports
from worker_ports import BLOCK, FD_SOCK2_OFFSET, FIRST_PORTS, claim, ports

from jgroups_py.protocols.failure.fd_sock2_config import FdSock2Config

SHARED = Path(__file__).parent.parent / "shared"


@pytest.mark.sockets
@pytest.mark.skipif(sys.platform != "linux", reason="there is no address for guards")
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


@pytest.mark.sockets
@pytest.mark.skipif(sys.platform != "linux", reason="there is no address for guards")
@pytest.mark.parametrize(
    ("kind", "offset"),
    [
        (socket.SOCK_STREAM, 1),
        (socket.SOCK_STREAM, 1 + FD_SOCK2_OFFSET),
        (socket.SOCK_DGRAM, 1),
    ],
)
def test_a_block_with_a_member_of_a_killed_run_is_left_out(
    kind: socket.SocketKind, offset: int
) -> None:
    first, guard = claim()
    with socket.socket(socket.AF_INET, kind) as member:
        member.bind(("127.0.0.1", first + offset))
        if kind == socket.SOCK_STREAM:
            member.listen()
        guard.close()
        other, guard = claim()
        guard.close()
        assert other != first


@pytest.mark.sockets
def test_without_an_address_for_guards_the_block_is_that_of_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_ports, "GUARD_HOST", "203.0.113.1")
    for number in (0, 3, len(FIRST_PORTS)):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{number}")
        first, guard = claim()
        guard.close()
        assert first == FIRST_PORTS[number % len(FIRST_PORTS)]


def test_no_block_has_the_ports_of_fd_sock2_of_another_one() -> None:
    blocks = {first + number for first in FIRST_PORTS for number in range(BLOCK)}
    assert len(blocks) == BLOCK * len(FIRST_PORTS)
    assert FdSock2Config.offset == FD_SOCK2_OFFSET
    assert not blocks & {port + FdSock2Config.offset for port in blocks}
