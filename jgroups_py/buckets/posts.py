"""Posts: messages to other members, in order for each. A member that does not read does not hold up others.

No message is dropped while the member is in the view: components rely on that. With a full queue new requests of
clients are refused instead (node.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import trio

from jgroups_py.channel.channel import Channel
from jgroups_py.values.address import Address


class Posts:
    """``waiting``: bytes that wait because their member has no room for them."""

    def __init__(self, channel: Channel, nursery: trio.Nursery) -> None:
        self._channel, self._nursery = channel, nursery
        self._queues: dict[Address, deque[bytes]] = {}
        self.waiting = 0

    def send(self, data: bytes, to: Address) -> None:
        """Send at once, or behind waiting messages for this member."""
        queue = self._queues.get(to)
        if queue is None:
            try:
                self._channel.send_nowait(data, to)
                return
            except trio.WouldBlock:
                queue = self._queues[to] = deque()
                self._nursery.start_soon(self._work_off, to, queue)
        queue.append(data)
        self.waiting += len(data)

    def view(self, members: Iterable[Address]) -> None:
        """Drop waiting messages for members that are gone."""
        for to in self._queues.keys() - set(members):
            queue = self._queues.pop(to)
            self.waiting -= sum(map(len, queue))
            queue.clear()

    async def _work_off(self, to: Address, queue: deque[bytes]) -> None:
        while queue:
            data = queue[0]
            await self._channel.send(data, to)
            if queue:  # the member is still there
                queue.popleft()
                self.waiting -= len(data)
        if self._queues.get(to) is queue:
            del self._queues[to]
