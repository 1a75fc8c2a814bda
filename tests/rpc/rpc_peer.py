"""A member in a process of its own that can be called; its argument is (stack, attributes) as JSON."""

from __future__ import annotations

import json
import os
import sys

import trio

from jgroups_py import open_channel, open_rpc

LIFETIME = 180.0  # seconds


class Target:
    def process(self) -> int:
        return os.getpid()

    def reversed(self, data: bytes) -> bytes:
        return data[::-1]

    async def never(self) -> None:
        await trio.sleep_forever()


async def main() -> None:
    stack, attributes = json.loads(sys.argv[1])
    with trio.move_on_after(LIFETIME):
        async with (
            open_channel(stack, cluster="calls", name="B", attributes=attributes) as channel,
            open_rpc(channel, Target()),
        ):
            await trio.sleep_forever()


trio.run(main)
