"""A node of the bench of live and backup in a process of its own: ``livebackup.py`` starts it. Its argument is JSON.

The first one becomes live, says so, waits for its backups, runs the load and prints the figures. A backup goes on until it is killed.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any

import trio

from jgroups_py.livebackup import LiveBackupSettings, open_livebackup
from jgroups_py.tools.bench.livebackup import (
    BARE,
    PROCESSES,
    STACK,
    Disk,
    Engine,
    Load,
    run_load,
    turn,
    write,
)
from jgroups_py.tools.bench.livebackup_bare import HOST, back_up_bare, run_bare

LIFETIME = 300.0
"""Seconds after which a node ends if the bench has not ended it."""


async def main() -> None:
    given = json.loads(sys.argv[1])
    if given["mode"] == BARE:
        with trio.move_on_after(LIFETIME):
            await bare(given)
        return
    settings = LiveBackupSettings(mode=given["mode"], processes=PROCESSES)
    load = Load(**given["load"])
    with trio.move_on_after(LIFETIME):
        async with open_livebackup(
            STACK,
            cluster="bench",
            kinds=[Engine if load.cpu else Disk],
            operations=[turn if load.cpu else write],
            settings=settings,
            attributes=given["attributes"],
        ) as node:
            if given["is_backup"]:
                await node.wait_role("backup")
                prepare(given["realtime"])
                await trio.sleep_forever()
            await node.wait_role("live")
            print("live", flush=True)
            await node.wait_backups(given["backups"])
            prepare(given["realtime"])
            print(json.dumps(await run_load(node, load)), flush=True)


async def bare(given: dict[str, Any]) -> None:
    """Be one side of the load with bare tasks."""
    load = Load(**given["load"]).bare
    if given["is_backup"]:
        async with await trio.open_tcp_stream(HOST, given["port"]) as stream:
            prepare(given["realtime"])
            await back_up_bare(load, stream)
        return
    (listener,) = await trio.open_tcp_listeners(given["port"], host=HOST)
    async with listener:
        print("live", flush=True)
        way = await listener.accept() if given["backups"] else None
        prepare(given["realtime"])
        print(json.dumps(await run_bare(load, way)), flush=True)


def prepare(realtime: bool) -> None:
    """Make this process ready to be measured. The garbage collector skips the objects of the start: scanning them stops a node for 25
    ms, once in a run. ``realtime``: this process goes before all others."""
    gc.collect()
    gc.freeze()
    if realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


if __name__ == "__main__":
    trio.run(main)
