"""A node of the explorer's application in a process of its own. Its argument is (node, stack, attributes) as JSON. It prints "ready"."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parent))

from seed_instance import PLACEMENT, seed_settings

from jgroups_py.buckets import FAST_DETECTION, NodeParts, open_buckets
from jgroups_py.testing.explorer.buckets.ledger import ledger

LIFETIME = 120.0  # seconds


async def main() -> None:
    name, stack, attributes = json.loads(sys.argv[1])
    settings = seed_settings()
    with trio.move_on_after(LIFETIME):
        async with open_buckets(
            stack,
            cluster="buckets",
            name=name,
            plugin=ledger(),
            settings=settings,
            parts=NodeParts.of(name, settings),
            placement=PLACEMENT,
            attributes={**FAST_DETECTION, **attributes},
        ) as node:
            await node.wait_ready()
            print("ready", flush=True)
            await trio.sleep_forever()


trio.run(main)
