"""Processes over TCP on loopback: one of three is killed; one of two sites is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from jgroups_py.config.settings import load_stack, with_attributes
from jgroups_py.config.write import to_xml
from jgroups_py.tools.commands.mperf_ports import free_block, private_attributes

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(300)]
FILE = """
cache:
  CacheMode: REPL_SYNC
  ClusterName: sessions
  ClusterConfig: {stack}
  BuddyReplicationConfig: {{buddyReplicationEnabled: true}}
"""


class Peer:
    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self._rest = b""

    async def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        line = json.dumps([method, arguments, options]).encode() + b"\n"
        await self.process.stdin.send_all(line)
        while b"\n" not in self._rest:
            more = await self.process.stdout.receive_some()
            assert more, f"the process has ended with {await self.process.wait()}"
            self._rest += more
        answer, _, self._rest = self._rest.partition(b"\n")
        return json.loads(answer)


@asynccontextmanager
async def peers(names: str, file: Path) -> AsyncIterator[list[Peer]]:
    started: list[Peer] = []
    try:
        for name in names:
            command = [sys.executable, str(Path(__file__).parent / "cache_peer.py")]
            started.append(
                Peer(
                    await trio.lowlevel.open_process(
                        [*command, str(file), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                    )
                )
            )
            await started[-1].call("protected", len(started))
        yield started
    finally:
        for peer in started:
            peer.process.kill()
        with trio.CancelScope(
            shield=True
        ):  # after a time-out, too: no process stays for the next test
            for peer in started:
                await peer.process.wait()


async def kept(*members: Peer) -> list[list[str]]:
    """Return the owners whose nodes each member keeps, when all members are protected: an owner that is not may not have
    nominated its buddy yet."""
    for _ in range(2):
        found = [await member.call("protected", len(members)) for member in members]
    return found


@pytest.mark.seed("B7", "B8", "B23")
async def test_nodes_of_a_killed_process_are_found_and_owned_by_the_member_that_asks(
    tmp_path: Path,
) -> None:
    config = load_stack("tcp.xml")
    stack, file = tmp_path / "stack.xml", tmp_path / "cache.yaml"
    # Each process waits for the answer of the first one, and is not alone meanwhile: a merge may bring the members in another
    # order, with other buddies.
    own = private_attributes(config, 3) | {"GMS.join_timeout": "30s"}
    stack.write_text(to_xml(with_attributes(config, own)))
    file.write_text(FILE.format(stack=stack))
    with trio.fail_after(240):
        async with peers("ABC", file) as (a, b, c):
            assert await kept(a, b, c) == [["C"], ["A"], ["B"]]
            for n in range(100):
                await a.call("put", f"/session/{n}", "user", f"user {n}")
            a.process.kill()
            await a.process.wait()
            assert await kept(b, c) == [["C"], ["B"]]
            assert await c.call("get", "/session/7", "user") is None
            assert await c.call("get", "/session/7", "user", gravitation=True) == "user 7"
            assert await c.call("get", "/session/7", "user") == "user 7"
            await c.call("put", "/session/7", "user", "another")
            assert await c.call("children", "/session") == ["7"]
            assert len(await b.call("children", "/session")) == 99
            assert await b.call("get", "/session/7", "user", gravitation=True) == "another"


@pytest.mark.slow
@pytest.mark.seed("R17", "R19")
async def test_a_killed_site_lives_on_at_the_other_one(tmp_path: Path) -> None:
    bridge = free_block(4)
    files = {}
    for site in ("NYC", "SFO"):
        config = load_stack("relay-tcp.xml", {"relay.site": site, "relay.sites": "NYC,SFO"})
        properties = {
            "relay.bridge.port": str(bridge),
            "relay.bridge.port_range": "3",
            "relay.bridge.hosts": f"127.0.0.1[{bridge}]",
        }
        attributes = {
            **private_attributes(config, 2),
            "RELAY.bridge_properties": ";".join(f"{k}={v}" for k, v in properties.items()),
        }
        stack, files[site] = tmp_path / f"{site}.xml", tmp_path / f"{site}.yaml"
        stack.write_text(to_xml(with_attributes(config, attributes)))
        files[site].write_text(FILE.format(stack=stack))
    with trio.fail_after(240):
        async with peers("AB", files["NYC"]) as (a, b), peers("ST", files["SFO"]) as (s, t):
            await b.call("site", "linked", "SFO")
            await t.call("site", "linked", "NYC")
            for n in range(40):
                await (a, b)[n % 2].call("put", f"/session/{n}", "user", f"user {n}")
            for peer in (a, b):
                assert await peer.call("site", "sent", "SFO") == []
            for peer in (a, b):
                peer.process.kill()
                await peer.process.wait()
            await t.call("site", "promote", "NYC")
            users = [
                await t.call("get", f"/session/{n}", "user", gravitation=True) for n in range(40)
            ]
            assert users == [f"user {n}" for n in range(40)]
            await s.call("put", "/session/7", "user", "later", gravitation=True)
            assert await s.call("site", "unsent", "NYC") == ["/session/7"]
