"""Strangers open hundreds of connections to a member that may have few files: others still join, and it still opens
files."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from jgroups_py import open_channel
from jgroups_py.tools.commands.mperf_ports import free_block
from jgroups_py.values.address import IpAddress
from jgroups_py.wire.connection import encode_handshake
from jgroups_py.wire.primitives import DEFAULT_VERSION

pytestmark = pytest.mark.sockets
FILES = 200
"""The number of files that the member may have open."""
CONNECTIONS = 300
"""A larger number of connections, at each of its ports."""
STACK = """<config>
  <TCP bind_addr="127.0.0.1" bind_port="{port}" port_range="1"/>
  <TCPPING initial_hosts="{hosts}" port_range="0"/>
  <FD_SOCK2 offset="2"/><VERIFY_SUSPECT2/>
  <pbcast.NAKACK2/><UNICAST3/><pbcast.STABLE/><pbcast.GMS join_timeout="30s"/>
  <UFC/><MFC/><FRAG2/>
</config>"""
MEMBER = """
import json, resource, sys, trio
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), most))
from jgroups_py import open_channel
async def main():
    async with open_channel(sys.argv[1], cluster="crowded", name="A") as channel:
        print(channel.physical_address.port, flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        files = [open("/dev/null") for _ in range(10)]
        print(json.dumps(dict(channel.statistics().turned_away)), flush=True)
        await trio.sleep_forever()
trio.run(main)
"""


def crowd(stack: ExitStack, port: int, handshakes: bool) -> None:
    """Open connections and leave them idle, after a handshake under an unused address."""
    for number in range(CONNECTIONS):
        one = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
        if handshakes:
            with suppress(OSError):  # the member has closed it already
                one.sendall(encode_handshake(DEFAULT_VERSION, IpAddress("127.0.0.1", 1 + number)))


async def test_a_newcomer_joins_a_member_that_is_crowded_by_strangers(tmp_path: Path) -> None:
    def line(process: subprocess.Popen[str]) -> Any:
        assert process.stdout is not None
        return json.loads(process.stdout.readline())

    first, second = tmp_path / "first.xml", tmp_path / "second.xml"
    port = free_block(8)
    first.write_text(STACK.format(port=port, hosts=""))
    command = [sys.executable, "-c", MEMBER, str(first), str(FILES)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with trio.fail_after(120), ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(command, **pipes))  # noqa: ASYNC220
        stack.callback(process.kill)
        assert await trio.to_thread.run_sync(line, process) == port
        for where, handshakes in ((port + 2, False), (port, True)):
            await trio.to_thread.run_sync(crowd, stack, where, handshakes)
        second.write_text(STACK.format(port=port, hosts=f"127.0.0.1[{port}]"))
        async with open_channel(second, cluster="crowded", name="B") as newcomer:
            await newcomer.wait_members(["A", "B"])
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            counted = await trio.to_thread.run_sync(line, process)
    for protocol in ("TCP", "FD_SOCK2"):
        causes = ("silent", "stranger", "late")
        assert sum(counted.get(f"{protocol}.{cause}", 0) for cause in causes) > 0
