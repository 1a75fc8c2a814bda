"""Containers of nodes in memory. ``MemoryTree`` is the usual one; buddy replication brings its own, which shows a
member's own nodes and, under ``/_buddy_backup_``, its copies for others.

A container is synchronous: a call computes and applies its changes in one step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from jgroups_py.cache.changes import Changes
from jgroups_py.cache.fqn import BACKUP_ROOT, ROOT, Fqn
from jgroups_py.cache.node import Node


class Container(ABC):
    """Nodes by path."""

    @abstractmethod
    def get(self, path: Fqn) -> Node | None:
        """Return the node. None: no node was put there (a prefix of nodes is no node)."""

    def owned(self, path: Fqn) -> Node | None:
        """Return the node like ``get``, but no backup and no node loaded for one call only."""
        return self.get(path)

    @abstractmethod
    def within(self, path: Fqn) -> Sequence[Fqn]:
        """Return the paths of the nodes at and below ``path``, parents before children. Backups are not below the root:
        they are no part of this member's data."""

    @abstractmethod
    def children(self, path: Fqn) -> Sequence[str]:
        """Return the names directly below ``path`` that are nodes or lead to nodes."""

    @abstractmethod
    def nodes(self) -> dict[Fqn, Node]:
        """Return a new dict of all nodes of the application's data."""

    @abstractmethod
    def apply(self, changes: Changes) -> None:
        """Apply every ``after``."""

    @abstractmethod
    def load(self, path: Fqn, node: Node) -> None:
        """Take a node that came back from a store. This is not a write."""

    def unload(self, path: Fqn) -> None:
        """Note the end of the call that had ``path`` loaded. Loaded nodes that are not owned may leave memory."""

    def may_discard(self, path: Fqn) -> bool:
        """Would ``discard`` succeed now?"""
        return True

    @abstractmethod
    def discard(self, path: Fqn) -> bool:
        """Free the memory of a node (eviction). This is not a removal.

        False: this container must keep it.
        """

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of all attribute names and values held."""

    @abstractmethod
    def __len__(self) -> int:
        """Nodes held."""


class MemoryTree(Container):
    """A dict of nodes by path, and for each path the names below it."""

    def __init__(self) -> None:
        self._nodes: dict[Fqn, Node] = {}
        self._names: dict[Fqn, dict[str, None]] = {}  # only paths with nodes below
        self._size = 0

    def get(self, path: Fqn) -> Node | None:
        return self._nodes.get(path)

    def within(self, path: Fqn) -> Sequence[Fqn]:
        found: list[Fqn] = []
        waiting = [path]
        while waiting:
            here = waiting.pop()
            if here in self._nodes:
                found.append(here)
            names = self._names.get(here)
            if names:
                waiting.extend(here.child(name) for name in reversed(names))
            if here == path == ROOT and BACKUP_ROOT in waiting:
                waiting.remove(BACKUP_ROOT)
        return found

    def children(self, path: Fqn) -> Sequence[str]:
        return tuple(self._names.get(path, ()))

    def nodes(self) -> dict[Fqn, Node]:
        return self._nodes.copy()  # a million take about 30 ms

    def apply(self, changes: Changes) -> None:
        for change in changes:
            if change.after is None:
                self._remove(change.path)
            else:
                self._install(change.path, change.after)

    def load(self, path: Fqn, node: Node) -> None:
        self._install(path, node)

    def discard(self, path: Fqn) -> bool:
        self._remove(path)
        return True

    @property
    def size(self) -> int:
        return self._size

    def __len__(self) -> int:
        return len(self._nodes)

    def _install(self, path: Fqn, node: Node) -> None:
        old = self._nodes.get(path)
        self._nodes[path] = node
        self._size += node.size - (old.size if old else 0)
        if old is None and path:
            names = self._names.get(path[:-1])  # type: ignore[call-overload]  # equal to its Fqn
            if names:
                names[path[-1]] = None
                return
            child = path
            for parent in path.ancestors:
                names = self._names.setdefault(parent, {})
                known = bool(names)
                names[child.name] = None
                if known:
                    break  # then the parents have their names, too
                child = parent

    def _remove(self, path: Fqn) -> None:
        old = self._nodes.pop(path, None)
        if old is None:
            return
        self._size -= old.size
        child = path
        for parent in path.ancestors:
            if child in self._nodes or child in self._names:
                break
            names = self._names[parent]
            del names[child.name]
            if names:
                break
            del self._names[parent]
            child = parent

    def check(self) -> None:
        """Check, for tests, that the index matches the nodes."""
        expected: dict[Fqn, set[str]] = {}
        for path in self._nodes:
            child = path
            for parent in path.ancestors:
                expected.setdefault(parent, set()).add(child.name)
                child = parent
        assert {path: set(names) for path, names in self._names.items()} == expected
        assert self._size == sum(node.size for node in self._nodes.values())
