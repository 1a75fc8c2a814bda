"""A live node in a process of its own, killed under load; its backup is here. Real sockets."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
from livebackup_group import KINDS, OPERATIONS, put, states

from jgroups_py.config.settings import load_stack
from jgroups_py.livebackup import LiveBackupNode, open_livebackup
from jgroups_py.tools.commands.mperf_ports import private_attributes

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(300)]
STACK = "tcp.xml"


class Lines:
    """The lines that a process writes."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._rest = b""
        self.seen: list[str] = []

    async def read(self) -> bool:
        """Read lines. Return False at the end. An incomplete line is not an answer."""
        data = await self._stream.receive_some(65536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.seen += [line.decode() for line in lines]
        return bool(data)

    async def until(self, number: int) -> None:
        while len(self.seen) < number:
            assert await self.read(), "the process has ended"


async def open_backup(opened: AsyncExitStack, attributes: dict[str, str]) -> LiveBackupNode:
    """Open a backup. On a busy machine it may be alone at first and become the live node; then it is opened again."""
    while True:
        mine = AsyncExitStack()
        node = await mine.enter_async_context(
            open_livebackup(
                STACK,
                cluster="livebackup",
                name="B",
                kinds=KINDS,
                operations=OPERATIONS,
                attributes=attributes,
            )
        )
        await node.channel.wait_members(2, timeout=120)
        if await node.wait_role("live", "backup") == "backup":
            await opened.enter_async_context(mine)
            return node
        await mine.aclose()


@pytest.mark.seed("P9", "P13")
async def test_a_backup_has_all_answered_operations_of_a_killed_live_process() -> None:
    # The live node may not run for seconds. The backup waits for its answer, and is not alone meanwhile.
    attributes = private_attributes(load_stack(STACK), 2) | {"GMS.join_timeout": "30s"}
    peer = [sys.executable, str(Path(__file__).parent / "livebackup_peer.py")]
    process = await trio.lowlevel.open_process(
        [*peer, json.dumps([STACK, attributes])], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    lines = Lines(process.stdout)
    try:
        with trio.fail_after(240):
            await lines.until(1)
            async with AsyncExitStack() as opened:
                backup = await open_backup(opened, attributes)
                await lines.until(60)
                process.kill()
                while await lines.read():
                    pass
                await backup.wait_role("live")
                found = states(backup)
                a, b = (found[f"Queue/{name}"]["messages"] for name in "ab")
                answered = [line for line in lines.seen if line != "live"]
                assert sorted(a) == sorted(b) and len(set(a)) == len(a)
                assert set(answered) <= set(a)
                size = len(a)
                assert await backup.run(put, "a", "after") == size + 1
    finally:
        process.kill()
        await process.wait()
