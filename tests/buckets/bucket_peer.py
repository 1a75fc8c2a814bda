"""A node of the explorer's application in a process of its own. Its argument is (node, stack, attributes, version,
beside) as JSON. With ``beside`` it is the new version beside the old one: it starts with a manager, and has an index
copy once the old process has left. It prints "ready"."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parent))

from seed_instance import BUSY_DETECTION_MAX, BUSY_MACHINE, PLACEMENT, seed_settings

from jgroups_py.buckets import NodeParts, Refused, open_buckets
from jgroups_py.testing.explorer.buckets.ledger import ledger

LIFETIME = 600.0  # seconds


async def main() -> None:
    name, stack, attributes, version, beside = json.loads(sys.argv[1])
    settings = seed_settings(detection_max=BUSY_DETECTION_MAX)
    parts = NodeParts.of(name, settings)
    if beside:
        parts = NodeParts(node=name, managers=(f"m/{name}-{version}",))
    with trio.move_on_after(LIFETIME):
        async with open_buckets(
            stack,
            cluster="buckets",
            name=f"{name}-{version}",
            plugin=ledger(version),
            settings=settings,
            parts=parts,
            placement=PLACEMENT,
            attributes={**BUSY_MACHINE, **attributes},
        ) as node:
            await node.wait_ready()
            print("ready", flush=True)
            while beside:
                try:
                    await node.create_index(f"i/{name}")
                    beside = False
                except Refused:
                    await trio.sleep(0.2)
            await trio.sleep_forever()


trio.run(main)
