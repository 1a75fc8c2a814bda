"""Passivation with buddies: an owned node's value leaves memory for the store and comes back.

    evictor --> OwnedTree.discard --> machine: passive, buddies keep their copies
    a call here --> Loading --> OwnedTree.load --> machine: active again
    a claim of another member, a new buddy --> event "activate" --> restore() --> machine goes on

While a node is passive, the row in the store is its value. Nobody else has a reason to write the row.

A picture of memory and rows needs no lock. Rows are read as of one moment, memory a little later. A node that was
passive at both moments still has its row. A node that left memory in between was noted then (``watched``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import trio

from jgroups_py.buddy.values import Path
from jgroups_py.cache.buddy_manager import BuddyManager
from jgroups_py.cache.container import MemoryTree
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.node import Node
from jgroups_py.cache.picture import CachePicture
from jgroups_py.cache.store import StorePicture
from jgroups_py.cache.tree import Tree
from jgroups_py.errors import StoreError

_log = logging.getLogger("jgroups_py.cache")
RETRY_AFTER: Final = 1.0
"""Seconds until a store that failed to load a value is asked again."""


class PassiveNodes:
    """``paths``: the passive nodes. ``mine``: the nodes that this member owns and has in memory. ``tree`` is called
    when there are nodes."""

    def __init__(self, manager: BuddyManager, mine: MemoryTree, tree: Callable[[], Tree]) -> None:
        self._tree = tree
        self.paths: dict[Path, None] = {}
        self.failures = 0
        self._manager = manager
        self._mine = mine
        self._needed: dict[Path, None] = {}
        self._wake = trio.Event()
        self._watching: list[dict[Fqn, Node]] = []

    # --- out of memory, and back

    def may(self, path: Fqn) -> bool:
        """Can the node leave memory now?"""
        return self._manager.machine.may_passivate(tuple(path))

    def put(self, path: Fqn) -> bool:
        """Drop a saved node from memory, unless it has moved or changed meanwhile."""
        if not self._manager.machine.passivate(tuple(path)):
            return False
        node = self._mine.get(path)
        if node is not None:
            for left in self._watching:
                left[path] = node
        self._mine.discard(path)
        self.paths[tuple(path)] = None
        return True

    def take(self, path: Fqn, node: Node) -> bool:
        """Take a row that a call has loaded. False: the node is not passive."""
        if tuple(path) not in self.paths:
            return False
        self._back({tuple(path): node})
        return True

    def _back(self, nodes: dict[Path, Node]) -> None:
        for path, node in nodes.items():
            self._mine.load(Fqn(path), node)
            self.paths.pop(path, None)
        self._manager.activate({path: dict(node.attributes) for path, node in nodes.items()})

    def check(self, path: Fqn) -> None:
        """Raise StoreError if the node is still passive after loading: its row, and so its value, is lost."""
        if tuple(path) in self.paths:
            raise StoreError(
                f"there is no row of {path}, which was passivated; nothing was changed"
            )

    def gone(self, path: Path) -> None:
        """Forget a node that has moved or that a merge has dropped."""
        self.paths.pop(path, None)
        self._tree().evictor.stored(Fqn(path))

    # --- all of this member's nodes

    @contextmanager
    def watched(self) -> Iterator[dict[Fqn, Node]]:
        """Note the nodes that leave memory during the block, as they were."""
        left: dict[Fqn, Node] = {}
        self._watching.append(left)
        try:
            yield left
        finally:
            self._watching = [each for each in self._watching if each is not left]

    def picture(self, stored: StorePicture, left: Mapping[Fqn, Node]) -> CachePicture:
        """Return the picture of this moment. ``stored``: the rows, taken after ``left`` began to be noted."""
        return CachePicture(
            self._mine.nodes(),
            stored,
            left={path: node for path, node in left.items() if path in self.paths},
            only=self.paths.keys() - left.keys(),
        )

    # --- values that the machine needs

    def need(self, paths: Iterable[Path]) -> None:
        """Load these values for the machine."""
        self._needed.update(dict.fromkeys(paths))
        self._wake.set()

    async def restore(self) -> None:
        """Load needed values as long as the cache is open."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._needed:
                try:
                    await self._restore()
                except StoreError as error:
                    self.failures += 1
                    if self.failures == 1:
                        _log.warning(
                            "others wait for nodes that the store does not give: %s", error
                        )
                    await trio.sleep(RETRY_AFTER)
            await self._tree().evictor.make_room()

    async def _restore(self) -> None:
        """Load all needed values at once, because a claim takes all its nodes in one step. StoreError: a row is
        missing."""
        own, loaded = self._manager.entries, {}
        problem: StoreError | None = None
        for path in [*self._needed]:
            entry = own.get(path)
            if entry is None or not entry.passive:
                del self._needed[path]
                continue
            try:
                node = await self._tree().evictor.load(Fqn(path))
            except StoreError as error:
                problem = error
                break
            now = own.get(path)
            if now is None or not now.passive or now.stamp != entry.stamp:
                continue  # the node changed meanwhile, and is examined again
            if node is None:  # the other nodes need not wait for it
                problem = StoreError(f"there is no row of {Fqn(path)}, which was passivated")
            else:
                loaded[path] = node
        # A node that changed meanwhile has its value, or is no longer needed.
        ready = {p: n for p, n in loaded.items() if p in own and own[p].passive}
        for path in ready:
            del self._needed[path]
        self._back(ready)
        for path, node in ready.items():
            self._tree().evictor.touched(Fqn(path), node, written=False)
        if problem is not None:
            raise problem
