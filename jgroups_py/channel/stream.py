"""ItemStream: views and batches that wait for the reader of a channel, in one order.

The order is that in which the stack handed them up, so a message can never be seen in the wrong view. Views with
nothing between them merge into the newest. A MergeView stays: only it names the sides, and an application that does not
see it keeps the state of its own side. Flow control bounds the bytes: credits go back only when an item is taken.
Messages that came without credits are counted against a limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import trio

from jgroups_py.channel.backlog import PackedRuns, is_worth_packing
from jgroups_py.values.batch import Batch
from jgroups_py.values.view import MergeView, View

T = TypeVar("T")
PACK_MESSAGES = 20_000
PACK_ITEMS = 500
"""Small messages are packed when more messages or items wait than this (backlog.py)."""


class ItemStream:
    """A queue for one reader. After ``end`` earlier items are still delivered.

    ``uncredited_max`` bytes may wait without flow-control credits.
    """

    __slots__ = (
        "_error",
        "_items",
        "_reader",
        "length",
        "merged_views",
        "taken",
        "taken_at",
        "uncredited",
        "uncredited_max",
    )

    def __init__(self, uncredited_max: int) -> None:
        self._items: deque[Any] = deque()
        self._error: Exception | None = None
        self._reader: trio.lowlevel.Task | None = None
        self.length = 0
        """The number of messages that wait."""
        self.uncredited = 0
        self.uncredited_max = uncredited_max
        self.merged_views = 0
        self.taken = 0
        """The number of items taken so far."""
        self.taken_at = trio.current_time()

    def __len__(self) -> int:
        """Return the number of items that wait."""
        return len(self._items)

    @property
    def is_overfull(self) -> bool:
        return self.uncredited > self.uncredited_max

    @property
    def is_waited_for(self) -> bool:
        """True when a task waits for the next item."""
        return self._reader is not None

    def put_batch(self, batch: Batch) -> None:
        if not self._items:
            self.taken_at = trio.current_time()
        items = self._items
        self.length += len(batch.payloads)
        if not batch.credits:
            self.uncredited += batch.length
        if (self.length > PACK_MESSAGES or len(items) > PACK_ITEMS) and is_worth_packing(batch):
            if not items or type(items[-1]) is not PackedRuns or items[-1].is_full:
                items.append(PackedRuns())
            items[-1].add(batch)
        else:
            items.append(batch)
        if self._reader is not None:
            self._wake()

    def put(self, item: Any) -> None:
        """Append a view, or an item that is handled when the reader reaches it."""
        items = self._items
        if not items:
            self.taken_at = trio.current_time()
        last = items[-1] if items else None
        if isinstance(item, View) and isinstance(last, View) and not isinstance(last, MergeView):
            items[-1] = item
            self.merged_views += 1
        else:
            items.append(item)
        if self._reader is not None:
            self._wake()

    def put_back(self, item: Any) -> None:
        """Put ``item`` first again. ``take`` has just given it, and it is not a batch."""
        self._items.appendleft(item)
        if self._reader is not None:
            self._wake()

    def end(self, error: Exception) -> None:
        """End the stream with ``error``. The first error stays."""
        if self._error is None:
            self._error = error
            if self._reader is not None:
                self._wake()

    def take(self) -> Any:
        """Return the next item, or None if there is none now. Raise the error of the end."""
        if not self._items:
            if self._error is not None:
                raise self._error
            return None
        item = self._items[0]
        if type(item) is PackedRuns:
            packed, item = item, item.take()
            if not packed:
                self._items.popleft()
        else:
            self._items.popleft()
        self.taken += 1
        self.taken_at = trio.current_time()
        if type(item) is Batch:
            self.length -= len(item.payloads)
            if not item.credits:
                self.uncredited -= item.length
        return item

    def clear(self) -> list[Any]:
        """Remove and return all items."""
        items: list[Any] = []
        for item in self._items:
            if type(item) is PackedRuns:
                while item:
                    items.append(item.take())
            else:
                items.append(item)
        self._items.clear()
        self.length = self.uncredited = 0
        return items

    def drop_multicasts(self, first: Any = None) -> list[Batch]:
        """Remove and return the multicasts, which a state contains. Put ``first`` before all other items."""
        waiting = self.clear()
        dropped: list[Batch] = []
        if first is not None:
            self.put(first)
        for item in waiting:
            if type(item) is not Batch:
                self.put(item)
            elif item.dest is None:
                dropped.append(item)
            else:
                self.put_batch(item)
        return dropped

    async def wait(self) -> None:
        """Return when ``take`` has an item to give or an error to raise."""
        if self._reader is not None:
            raise trio.BusyResourceError("another task is reading this channel")
        self._reader = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._reader = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            trio.lowlevel.reschedule(reader)


class Iterated(Generic[T]):
    """``async for`` over the results of a function. It ends with the exception that the function raises, and may be iterated again after it."""

    def __init__(self, following: Callable[[], Awaitable[T]]) -> None:
        self._following = following

    def __aiter__(self) -> Iterated[T]:
        return self

    async def __anext__(self) -> T:
        return await self._following()
