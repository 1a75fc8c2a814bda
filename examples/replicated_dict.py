"""A dictionary that every member has: changes are multicast, a joiner gets the state first.

Three members in one process; C joins late and still has everything.

    python examples/replicated_dict.py
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import trio

from jgroups_py import Channel, Message, open_channel

GOAL = {"colour": "green", "size": "large"}


class ReplicatedDict:
    """Last writer of a key wins, where "last" is the order in which a member receives."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}

    async def state(self) -> AsyncIterator[bytes]:
        """For joiners. Runs when our reader reaches the request, so it is exact."""
        yield json.dumps(self.data).encode()

    async def put(self, channel: Channel, key: str, value: str) -> None:
        await channel.send(json.dumps([key, value]).encode())

    async def run(self, channel: Channel) -> None:
        async for item in channel:
            if isinstance(item, Message):
                key, value = json.loads(item.payload)
                self.data[key] = value

    async def load(self, channel: Channel) -> None:
        chunks = [chunk async for chunk in channel.fetch_state()]
        self.data.update(json.loads(b"".join(chunks) or b"{}"))


async def main() -> None:
    a, b, c = ReplicatedDict(), ReplicatedDict(), ReplicatedDict()
    async with (
        open_channel("udp.xml", cluster="dict", name="A", state=a.state) as one,
        open_channel("udp.xml", cluster="dict", name="B", state=b.state) as two,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(a.run, one)
        nursery.start_soon(b.run, two)
        await a.put(one, "colour", "blue")
        await b.put(two, "size", "large")
        async with open_channel("udp.xml", cluster="dict", name="C", state=c.state) as three:
            await c.load(three)
            nursery.start_soon(c.run, three)
            await a.put(one, "colour", "green")
            with trio.fail_after(10):
                while not a.data == b.data == c.data == GOAL:  # noqa: ASYNC110
                    await trio.sleep(0.01)
            print("all three have", c.data)
            nursery.cancel_scope.cancel()


trio.run(main)
