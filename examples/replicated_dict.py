"""A dictionary that every member has: changes are multicast, a joiner gets the state first.

Messages of one sender come in the order in which they were sent. Messages of different senders come in any order, so
two members may receive the writes of two others in different orders. So each write carries a stamp: of two writes to
a key the one with the higher stamp wins at every member. All members end with the same content, also after a merge of
groups that were apart.

Three members in one process write the same keys at the same time; C joins late and still has all entries.

    python examples/replicated_dict.py
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import trio

from jgroups_py import Channel, MergeView, Message, open_channel

Entry = tuple[int, str, str]
"""A stamp: count and writer, compared in this order. No two writes have the same count and writer."""


class ReplicatedDict:
    """The write with the highest stamp wins. A count is higher than all counts that its writer had seen."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._count = 0

    @property
    def data(self) -> dict[str, str]:
        return {key: value for key, (_, _, value) in sorted(self._entries.items())}

    async def put(self, channel: Channel, key: str, value: str) -> None:
        """Return when the write has been sent. It takes effect when it comes back to its sender."""
        self._count += 1
        await self._say(channel, {key: (self._count, str(channel.address), value)})

    async def state(self) -> AsyncIterator[bytes]:
        """Give joiners the state. The provider runs when the reader reaches the request, so the state is exact."""
        yield json.dumps(self._entries).encode()

    async def load(self, channel: Channel) -> None:
        chunks = [chunk async for chunk in channel.fetch_state()]
        self._take(b"".join(chunks) or b"{}")

    async def run(self, channel: Channel) -> None:
        async for item in channel:
            match item:
                case Message(payload=payload):
                    self._take(payload)
                case MergeView(subgroups=groups):
                    # Send all entries again, because the other groups lack them. One member of each group sends.
                    if any(channel.address == group.coordinator for group in groups):
                        await self._say(channel, self._entries)

    async def _say(self, channel: Channel, entries: dict[str, Entry]) -> None:
        await channel.send(json.dumps(entries).encode())

    def _take(self, text: bytes) -> None:
        for key, (count, writer, value) in json.loads(text).items():
            self._count = max(self._count, count)
            entry = (count, writer, value)
            self._entries[key] = max(self._entries.get(key, entry), entry)


async def main() -> None:
    a, b, c = ReplicatedDict(), ReplicatedDict(), ReplicatedDict()
    async with (
        open_channel("udp.xml", cluster="dict", name="A", state=a.state) as one,
        open_channel("udp.xml", cluster="dict", name="B", state=b.state) as two,
        trio.open_nursery() as readers,
    ):
        readers.start_soon(a.run, one)
        readers.start_soon(b.run, two)
        await a.put(one, "size", "large")
        async with open_channel("udp.xml", cluster="dict", name="C", state=c.state) as three:
            await c.load(three)
            readers.start_soon(c.run, three)
            async with trio.open_nursery() as writers:
                for copy, channel in ((a, one), (b, two), (c, three)):
                    for number in range(100):
                        writers.start_soon(copy.put, channel, "colour", f"{channel.name} {number}")
            for copy, channel in ((a, one), (b, two), (c, three)):
                await copy.put(channel, f"{channel.name} is done", "yes")
            with trio.fail_after(10):
                while not (len(a.data) == len(b.data) == len(c.data) == 5):  # noqa: ASYNC110
                    await trio.sleep(0.01)
            print("all three have the same:", a.data == b.data == c.data, c.data["size"])
            readers.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
