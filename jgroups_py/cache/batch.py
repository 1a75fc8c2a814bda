"""CacheBatch: several changes that take effect together, here and at every member that has copies.

    async with cache.batch() as batch:
        balance = await batch.get("/accounts/7", "balance")
        batch.put("/accounts/7", "balance", balance - 10)
        batch.put("/accounts/8", "credit", 10)

Nothing is locked while the block runs. At its end the batch locks and owns all nodes that it read and wrote, in one step. It
compares the values that it read and makes all changes. A batch is therefore serial, and two batches never wait for each
other. BatchConflict: a value that it read has changed; run it again. Leaving the block with an error changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jgroups_py.cache.accepted import Values, writable
from jgroups_py.cache.call import CacheCall
from jgroups_py.cache.changes import (
    Drop,
    Modification,
    Put,
    Remove,
    RemoveTree,
    fold,
)
from jgroups_py.cache.container import Container
from jgroups_py.cache.fqn import AnyPath, Fqn, as_fqn
from jgroups_py.cache.locks import Scope
from jgroups_py.cache.node import Node, checked_key
from jgroups_py.cache.options import Options
from jgroups_py.errors import BatchConflict, CacheRefused

ReadNode = Callable[[Fqn, Options], Awaitable[Node | None]]
"""The function with which a batch reads a node of its cache, as stored."""


class CacheBatch:
    """``TreeCache.batch`` makes it. Its writing methods are not async, because they only note the changes."""

    def __init__(self, values: Values, read: ReadNode, limit: int, options: Options) -> None:
        self._values = values
        self._read = read
        self._limit = limit
        self.options = options
        self.first_read: Callable[[Fqn], Awaitable[None]] | None = None
        """Awaited once, before the first node is read."""
        self._reads: dict[Fqn, Node | None] = {}
        self._modifications: list[Modification] = []
        self._by_path: dict[Fqn, list[int]] = {}
        self._trees: list[int] = []
        self._ended = False

    # --- reading, the batch's own changes included

    async def get(self, path: AnyPath, key: str, default: Any = None) -> Any:
        """Return the value of an attribute, or ``default``."""
        node = await self._node(as_fqn(path))
        data = None if node is None else node.attributes.get(checked_key(key))
        return default if data is None else self._values.decode(data)

    async def get_node(self, path: AnyPath) -> dict[str, Any] | None:
        """Return all attributes of a node. None: there is no node."""
        node = await self._node(as_fqn(path))
        if node is None:
            return None
        return self._values.decode_all(node)

    async def exists(self, path: AnyPath) -> bool:
        """Return whether there is a node."""
        return await self._node(as_fqn(path)) is not None

    # --- writing

    def put(self, path: AnyPath, key: str, value: Any) -> None:
        """Set one attribute. Create the node if it is missing."""
        self.put_node(path, {key: value})

    def put_node(
        self, path: AnyPath, attributes: Mapping[str, Any], *, replace: bool = False
    ) -> None:
        """Set attributes. ``replace``: remove all others."""
        fqn = writable(path)
        self._note(Put(fqn, self._values.encode_all(attributes), replace))

    def put_encoded(self, path: Fqn, node: Node, *, replace: bool = False) -> None:
        """Do as ``put_node`` with encoded values. Nobody checks whether the codec can read them."""
        self._note(Put(writable(path), self._values.checked(node), replace))

    def remove(self, path: AnyPath, key: str) -> None:
        """Remove one attribute, if it exists. The node stays."""
        self._note(Drop(writable(path), (checked_key(key),)))

    def remove_node(self, path: AnyPath) -> None:
        """Remove a node, if it exists. Nodes below it stay."""
        self._note(Remove(writable(path)))

    def remove_tree(self, path: AnyPath) -> None:
        """Remove a node and all below it."""
        self._note(RemoveTree(writable(path, root=True)))

    def __len__(self) -> int:
        """Count the changes noted so far."""
        return len(self._modifications)

    # --- inside

    def _note(self, modification: Modification) -> None:
        if self._ended:
            raise CacheRefused("the batch has ended")
        if len(self._modifications) >= self._limit:
            raise CacheRefused(f"a batch has at most {self._limit} changes (max_call_nodes)")
        index = len(self._modifications)
        self._modifications.append(modification)
        if isinstance(modification, RemoveTree):
            self._trees.append(index)
        else:
            self._by_path.setdefault(modification.path, []).append(index)

    async def _node(self, path: Fqn) -> Node | None:
        if self._ended:
            raise CacheRefused("the batch has ended")
        if path not in self._reads:
            if len(self._reads) >= self._limit:
                raise CacheRefused(f"a batch reads at most {self._limit} nodes (max_call_nodes)")
            first, self.first_read = self.first_read, None
            if first is not None:
                await first(path)
            self._reads[path] = await self._read(path, self.options)
        read = self._reads[path]
        removed = [i for i in self._trees if path.is_within(self._modifications[i].path)]
        own = sorted(self._by_path.get(path, []) + removed)
        changes = fold([self._modifications[i] for i in own], {path: read}.get, lambda _: [path])
        return changes[0].after if changes else read

    def scopes(self) -> list[Scope]:
        """Return all nodes that were read or written. It is locked and owned at once."""
        written = {(m.path, isinstance(m, RemoveTree)): None for m in self._modifications}
        scopes = [Scope(path, deep=deep, write=True) for path, deep in written]
        return scopes + [Scope(p) for p in self._reads if (p, False) not in written]

    def reads(self) -> list[Scope]:
        """Return the nodes that were read."""
        return [Scope(path) for path in self._reads]

    def body(self, call: CacheCall, container: Container) -> list[Modification]:
        """Return the changes, at the end and under the locks. BatchConflict: a node that was read has changed."""
        for path, node in self._reads.items():
            if container.get(path) != node:
                raise BatchConflict(f"{path} was changed by another call since the batch read it")
        return self._modifications

    def end(self) -> None:
        """Refuse calls from now on."""
        self._ended = True
