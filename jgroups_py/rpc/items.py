"""Items: views and messages of a channel that are not RPC, for the application, in one ordered stream.

The RPC reads the channel and moves items that it does not take here. Flow-control credits stay with the messages until
the application takes them. So a slow reader slows the senders of messages as it does on a channel, and calls go on
meanwhile. (Messages and replies share their credit: a member of which 4 MB of unicasts are unread cannot send its
replies, either.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from jgroups_py.channel.channel import BatchItem, Item
from jgroups_py.channel.stream import ItemStream
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Message


class Items:
    """A stream for one reader. ``give_back(batch)`` is called when a batch was consumed."""

    def __init__(self, uncredited_max: int, give_back: Callable[[Batch], None]) -> None:
        self._stream = ItemStream(uncredited_max)
        self._give_back = give_back
        self._rest: Batch | None = None
        self._index = 0
        self._reader_back = trio.lowlevel.ParkingLot()

    @property
    def is_overfull(self) -> bool:
        return self._stream.is_overfull

    @property
    def waiting(self) -> int:
        """Count the waiting messages."""
        return self._stream.length

    @property
    def position(self) -> tuple[int, int]:
        """Return a value that changes when the reader reads."""
        return self._stream.taken, self._index

    def put(self, item: BatchItem) -> None:
        if type(item) is Batch:
            self._stream.put_batch(item)
        else:
            self._stream.put(item)

    async def until_read(self) -> None:
        """Return when the reader has taken all items and waits for the next one."""
        while len(self._stream) or not self._stream.is_waited_for:
            await self._reader_back.park()

    async def next(self) -> Item:
        """Return the next view or message."""
        while True:
            rest = self._rest
            if rest is not None:
                payload = rest.payloads[self._index]
                self._index += 1
                if self._index == len(rest.payloads):
                    self._rest = None
                    self._give_back(rest)
                assert rest.src is not None
                return Message(rest.src, rest.bytes_of(payload), rest.dest, rest.flags)
            item = await self._take()
            if not isinstance(item, Batch):
                return item
            if item.payloads:
                self._rest, self._index = item, 0

    async def next_batch(self) -> BatchItem:
        """Return the next view or run of messages."""
        rest, self._rest = self._rest, None
        item = await self._take() if rest is None else rest.slice(self._index, len(rest))
        if isinstance(item, Batch):
            self._give_back(item)
        return item

    async def _take(self) -> BatchItem:
        stream = self._stream
        await trio.lowlevel.checkpoint_if_cancelled()
        while (item := stream.take()) is None:
            self._reader_back.unpark_all()
            await stream.wait()
        taken: BatchItem = item
        return taken

    def drop_multicasts(self) -> None:
        """Drop the multicasts, which a fetched state contains."""
        if self._rest is not None and self._rest.dest is None:
            self._give_back(self._rest)
            self._rest = None
        for batch in self._stream.drop_multicasts():
            self._give_back(batch)

    def end(self, error: Exception) -> None:
        """End the stream: no item comes any more."""
        self._stream.end(error)
        self._reader_back.unpark_all()

    def clear(self) -> list[Any]:
        """Remove and return the unread items."""
        rest, self._rest = self._rest, None
        unread = [] if rest is None else [rest.slice(self._index, len(rest))]
        return unread + self._stream.clear()
