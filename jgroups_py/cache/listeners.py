"""Listening: every change of the tree, in order, as a stream with a bounded buffer.

    async with cache.listen("/sessions") as changes:
        async for item in changes:
            match item:
                case NodeChanged(path, kind): ...
                case Missed(count): ...        # here ``count`` changes were lost: look again

A slow listener loses changes; the cache's memory does not grow. A ``Missed`` stands in the stream where the gap is. A
listener never holds up a writer.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import trio

from jgroups_py.cache.changes import Changes, NodeChange
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.node import Node
from jgroups_py.errors import CacheClosed


class EventKind(enum.Enum):
    """The kinds of events of a node."""

    CREATED = "created"
    MODIFIED = "modified"
    REMOVED = "removed"
    EVICTED = "evicted"
    """The node left memory. With a store it comes back on demand."""
    LOADED = "loaded"
    """The node came into memory from the store."""
    TAKEN = "taken"
    """This member took over the node from another member (gravitation, adoption)."""
    GIVEN = "given"
    """Another member owns the node now."""


CHANGES = frozenset({EventKind.CREATED, EventKind.MODIFIED, EventKind.REMOVED})


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """One node changed. Nodes that changed together carry the same ``batch`` number."""

    path: Fqn
    kind: EventKind
    keys: tuple[str, ...]
    """Attributes that were set, changed or removed."""
    local: bool
    """True: a call on this cache made the change, not another member."""
    batch: int


@dataclass(frozen=True, slots=True)
class Missed:
    """The number of changes that are missing at this place, because the listener's buffer was full."""

    count: int


Item = NodeChanged | Missed


class Listener:
    """A stream of changes; made by ``TreeCache.listen``. For one task."""

    def __init__(
        self, owner: CacheListeners, path: Fqn, kinds: frozenset[EventKind], limit: int
    ) -> None:
        self._owner = owner
        self._path = path
        self._kinds = kinds
        self._limit = limit
        self._items: deque[NodeChanged] = deque()
        self._gaps: deque[tuple[int, int]] = deque()  # (changes before the gap, missing changes)
        self._put = 0
        self._taken = 0
        self._missing = 0
        self._ended = False
        self._wake = trio.Event()

    def offer(self, item: NodeChanged) -> None:
        """Take a change, or count it as missed."""
        if item.kind not in self._kinds or not item.path.is_within(self._path):
            return
        if len(self._items) >= self._limit:
            self._missing += 1
            self._owner.missed += 1
        else:
            self._close_gap()
            self._items.append(item)
            self._put += 1
        self._wake.set()

    def end(self) -> None:
        """End the stream. Buffered changes can still be read."""
        self._ended = True
        self._wake.set()

    def _close_gap(self) -> None:
        if self._missing:
            self._gaps.append((self._put, self._missing))
            self._missing = 0

    def take_nowait(self) -> Item:
        """Return the next item. trio.WouldBlock: there is none yet."""
        if self._gaps and self._gaps[0][0] == self._taken:
            return Missed(self._gaps.popleft()[1])
        if self._items:
            self._taken += 1
            return self._items.popleft()
        if self._missing:
            count, self._missing = self._missing, 0
            return Missed(count)
        raise trio.WouldBlock

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            try:
                return self.take_nowait()
            except trio.WouldBlock:
                if self._ended:
                    raise StopAsyncIteration from None
            self._wake = trio.Event()
            await self._wake.wait()

    async def __aenter__(self) -> Self:
        self._owner.add(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._owner.remove(self)
        self.end()


class CacheListeners:
    """All listeners of a cache."""

    def __init__(self) -> None:
        self._listeners: dict[Listener, None] = {}
        self._batch = 0
        self._closed = False
        self.missed = 0
        """Changes that listeners missed."""

    def add(self, listener: Listener) -> None:
        """Add a listener. CacheClosed: the cache is closed."""
        if self._closed:
            raise CacheClosed("the cache is closed")
        self._listeners[listener] = None

    def remove(self, listener: Listener) -> None:
        """Remove a listener."""
        self._listeners.pop(listener, None)

    def changed(self, changes: Changes, *, local: bool) -> None:
        """Report nodes that were written or removed together."""
        if not self._listeners or not changes:
            return
        self._batch += 1
        self._offer(
            NodeChanged(c.path, _kind_of(c), _keys_of(c), local, self._batch) for c in changes
        )

    def moved(self, path: Fqn, kind: EventKind) -> None:
        """Report a node that was evicted, loaded, taken or given: no write."""
        if self._listeners:
            self._batch += 1
            self._offer((NodeChanged(path, kind, (), True, self._batch),))

    def _offer(self, items: Iterable[NodeChanged]) -> None:
        listeners = tuple(self._listeners)
        for item in items:
            for listener in listeners:
                listener.offer(item)

    def close(self) -> None:
        """End all streams after their buffered changes."""
        self._closed = True
        for listener in self._listeners:
            listener.end()
        self._listeners.clear()


def _kind_of(change: NodeChange) -> EventKind:
    if change.after is None:
        return EventKind.REMOVED
    return EventKind.CREATED if change.before is None else EventKind.MODIFIED


def _keys_of(change: NodeChange) -> tuple[str, ...]:
    before = _attributes(change.before)
    after = _attributes(change.after)
    keys = [key for key, value in after.items() if before.get(key) != value]
    keys += [key for key in before if key not in after]
    return tuple(keys)


def _attributes(node: Node | None) -> dict[str, bytes]:
    return {} if node is None else dict(node.attributes)
