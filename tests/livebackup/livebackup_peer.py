"""A node in a process of its own, with clients that put numbers into two queues and print each answered number.

Its argument is (stack, attributes) as JSON. It prints "live" when clients begin.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "shared"))

from livebackup_group import KINDS, OPERATIONS, put_both

from jgroups_py.livebackup import LiveBackupNode, NotLive, OutcomeUnknown, open_livebackup

LIFETIME = 300.0  # seconds
CLIENTS = 8


async def client(node: LiveBackupNode, number: int) -> None:
    for n in range(1_000_000):
        message = f"{number}-{n}"
        while True:
            await node.wait_role("live")
            await node.wait_backups(1)
            try:
                await node.run(put_both, "a", "b", message, 0.001)
                break
            except NotLive:
                continue
            except OutcomeUnknown:
                message += "+"  # not the same number twice
        print(message, flush=True)


async def main() -> None:
    stack, attributes = json.loads(sys.argv[1])
    with trio.move_on_after(LIFETIME):
        async with (
            open_livebackup(
                stack,
                cluster="livebackup",
                name="A",
                kinds=KINDS,
                operations=OPERATIONS,
                attributes=attributes,
            ) as node,
            trio.open_nursery() as nursery,
        ):
            await node.wait_role("live")
            print("live", flush=True)
            for number in range(CLIENTS):
                nursery.start_soon(client, node, number)


trio.run(main)
