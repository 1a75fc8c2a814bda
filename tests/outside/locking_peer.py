"""A node with callers, in a process of its own; it writes down each call and each return.

Arguments: stack file, name, nodes, callers, seed, file to write. It prints "ready" when it has a role with all nodes
present, waits for a line, and calls until the next line. Each line of the file is a call or a return in JSON, with the time of
the machine's monotonic clock. So a process that is killed leaves calls without returns. Callers call
without a pause, so that some calls wait in a process while it is stopped.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

import trio
from call_log import CallLog
from locking import OPERATIONS, Thing

from jgroups_py.livebackup import (
    LiveBackupNode,
    LiveBackupSettings,
    NotLive,
    OutcomeUnknown,
    open_livebackup,
)

NAMES = ("x", "y", "z")
LEASE = 0.5
PAUSE = 0.02


class Log(CallLog):
    async def ask(
        self, node: LiveBackupNode, caller: str, do: str, name: str, *arguments: Any
    ) -> Any:
        """Return the result. None: the operation did not run, or its outcome is unknown."""
        self.number += 1
        number = self.number
        self.write(number=number, caller=caller, do=do, name=name, arguments=arguments)
        try:
            result = await node.run(OPERATIONS[do], name, *arguments)
        except NotLive:
            self.write(number=number, definite=True)
            await trio.sleep(0.05)
            return None
        except OutcomeUnknown:
            return None
        self.write(number=number, result=result)
        return result


async def call(node: LiveBackupNode, log: Log, caller: str, chance: random.Random) -> None:
    while True:
        name = chance.choice(NAMES)
        match chance.choice(("add", "value", "value", "lock")):
            case "add":
                await log.ask(node, caller, "add", name, 1)
            case "value":
                await log.ask(node, caller, "value", name)
            case "lock":
                begun = time.monotonic()
                if await log.ask(node, caller, "take", name, caller, begun, LEASE):
                    await trio.sleep(chance.random() * PAUSE)
                    await log.ask(node, caller, "leave", name, caller)
        await trio.sleep(chance.random() * PAUSE)


async def line() -> None:
    await trio.to_thread.run_sync(sys.stdin.readline)


async def main(stack: str, name: str, nodes: int, callers: int, seed: str, out: str) -> None:
    log = Log(out, name)
    async with open_livebackup(
        stack,
        cluster="locks",
        name=name,
        kinds=[Thing],
        operations=OPERATIONS.values(),
        # Without backups_min a live node answers while the others have no state yet, and may be lost then.
        settings=LiveBackupSettings(quorum=nodes // 2 + 1, backups_min=1),
    ) as node:
        await node.wait_role("live", "backup")
        print("ready", flush=True)
        await line()
        async with trio.open_nursery() as nursery:
            for number in range(callers):
                caller = f"{name}/{number}"
                nursery.start_soon(call, node, log, caller, random.Random(f"{seed}/{caller}"))
            await line()
            nursery.cancel_scope.cancel()
        for thing in NAMES:
            await log.ask(node, f"{name}/last", "value", thing)
        print(json.dumps({"role": node.role, **node.statistics()}), flush=True)
        await line()


if __name__ == "__main__":
    stack, name, nodes, callers, seed, out = sys.argv[1:]
    trio.run(main, stack, name, int(nodes), int(callers), seed, out)
