"""The number of listeners of a group on the loopback interface."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from jgroups_py import open_channel
from jgroups_py.driver import opening
from jgroups_py.driver.listeners import LOOKS_MAX, count, others
from jgroups_py.stack.ports import JoinGroup
from jgroups_py.tools.commands.mperf_ports import free_block

GROUP = "239.8.8.8"
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
REST = "00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0"


def table(*rows: tuple[str, str]) -> str:
    return HEAD + "".join(f"  1: {address} {REST} {inode}\n" for address, inode in rows)


def looks(*found: dict[str, int] | None) -> tuple[int | None, int]:
    """Return the result of ``count`` for port 7 and socket ``own`` with such a list, and the number of its reads."""
    left: Iterator[dict[str, int] | None] = iter(found)
    number = 0

    def look() -> dict[str, int] | None:
        nonlocal number
        number += 1
        return next(left)

    return count(look, 7, "own"), number


def test_sockets_of_the_port_count_whatever_their_address() -> None:
    alone, both = {"own": 7, "else": 8}, {"own": 7, "b": 7, "c": 7, "else": 8}
    assert looks(alone, alone) == (0, 2)
    assert looks(both, both) == (2, 2)


def test_a_list_that_changes_is_read_again_and_at_last_not_believed() -> None:
    alone, more = {"own": 7}, {"own": 7, "b": 7}
    assert looks(alone, more, more) == (1, 3)
    assert looks(*[alone, more] * LOOKS_MAX) == (None, LOOKS_MAX)


def test_a_list_without_our_own_socket_is_not_believed() -> None:
    assert looks({"b": 8}) == (None, 1)
    assert looks(None) == (None, 1)


@pytest.fixture
def group() -> Iterator[socket.socket]:
    sock = opening.open_group(JoinGroup(1, (GROUP, free_block(1)), "127.0.0.1"), 0)
    yield sock
    sock.close()


def test_only_the_loopback_interface_is_known(group: socket.socket) -> None:
    assert others(group, "10.1.2.3") is None
    assert others(group, "0.0.0.0") is None
    assert others(group, "fe80::1%eth0") is None


def test_files_of_both_families_are_read(group: socket.socket, tmp_path: Path) -> None:
    port, inode = (
        f"{group.getsockname()[1]:04X}",
        str(Path(f"/proc/self/fd/{group.fileno()}").stat().st_ino),
    )
    assert others(group, "127.0.0.1", tmp_path) is None
    (tmp_path / "udp").write_text(table((f"080808EF:{port}", inode), ("0100007F:0001", "5")))
    assert others(group, "127.0.0.1", tmp_path) == 0
    (tmp_path / "udp6").write_text(table((f"{'0' * 32}:{port}", "6")))
    assert others(group, "127.0.0.1", tmp_path) == 1
    (tmp_path / "udp").write_text(HEAD + "what\n")
    assert others(group, "127.0.0.1", tmp_path) is None


@pytest.mark.sockets
@pytest.mark.skipif(not Path("/proc/net/udp").exists(), reason="not Linux")
def test_the_kernel_tells_of_other_sockets(group: socket.socket) -> None:
    assert others(group, "127.0.0.1") == 0
    port = group.getsockname()[1]
    for family, host in ((socket.AF_INET, GROUP), (socket.AF_INET, "")):
        with socket.socket(family, socket.SOCK_DGRAM) as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((host, port))
            assert others(group, "127.0.0.1") == 1
    assert others(group, "127.0.0.1") == 0


@pytest.mark.sockets
@pytest.mark.skipif(not Path("/proc/net/udp").exists(), reason="not Linux")
async def test_a_member_alone_on_loopback_does_not_wait_and_one_beside_a_socket_does() -> None:
    port = free_block(1)
    attributes = {"UDP.mcast_port": str(port), "GMS.join_timeout": "300s"}
    where = {"bind_addr": "127.0.0.1", "attributes": attributes}
    with trio.fail_after(100):
        async with (
            open_channel("udp.xml", cluster="c", **where) as a,  # type: ignore[arg-type]
            open_channel("udp.xml", cluster="c", **where) as b,  # type: ignore[arg-type]
        ):
            assert b.view.members == (a.address, b.address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        silent.bind(("", port))
        with trio.move_on_after(0.5) as waited:
            async with open_channel("udp.xml", cluster="c", **where):  # type: ignore[arg-type]
                pass
        assert waited.cancelled_caught
