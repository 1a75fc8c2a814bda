"""OwnedTree: the memory of a cache with buddies. It has this member's own nodes; backups can be looked at.

It follows the nodes of the machine (``Touched`` notes which have changed). A node that is granted to another member, or
removed, is not here, though the machine still keeps it. Backups are shown below ``/_buddy_backup_/<group>``. Nothing
there can be written, and no search or eviction sees it (B25, B26).

A node from a store is a value, not ownership: only the call that loaded it sees it (B22).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from jgroups_py.buddy.values import OwnedNode as Entry
from jgroups_py.buddy.values import Path
from jgroups_py.cache.changes import Changes
from jgroups_py.cache.container import Container, MemoryTree
from jgroups_py.cache.fqn import BACKUP_ROOT, Fqn
from jgroups_py.cache.node import Node

Backups = Callable[[], Mapping[str, Mapping[Path, Entry]]]
"""The nodes of each backup, by the name of its group."""


class Touched:
    """Notes the changes of a machine's nodes. ``moves``: how often a node came from another member, was granted to one, or
    was forgotten while it was ours. See ``Holding``."""

    def __init__(self) -> None:
        self.nodes: dict[Path, Entry | None] = {}
        """The former nodes of the paths that have changed since ``take``."""
        self.moves = 0

    def note(self, path: Path, before: Entry | None, after: Entry | None) -> None:
        """A node has changed."""
        self.nodes.setdefault(path, before)
        if after is None:
            # An own node that is forgotten was removed; others may create it now.
            self.moves += before is not None and before.to is None
        elif before is None:
            self.moves += after.giver is not None
        elif before.to != after.to or (after.giver is not None and before.giver != after.giver):
            self.moves += 1

    def take(self) -> dict[Path, Entry | None]:
        """Return the nodes that have changed since the last call."""
        taken, self.nodes = self.nodes, {}
        return taken


def shown(entry: Entry | None, written: Node | None = None) -> Node | None:
    """Return the node of an entry, as its owner has it. None: the node is removed, granted to another member, or not in memory. ``written``: returned itself if its attributes are equal."""
    if entry is None or entry.removed or entry.passive or entry.to is not None:
        return None
    if written is not None and written.attributes is entry.value:
        return written
    return Node(entry.value)


class Outside(Protocol):
    """The owned nodes that are in a store only."""

    def may(self, path: Fqn) -> bool:
        """Can the node leave memory?"""

    def put(self, path: Fqn) -> bool:
        """Let the node leave memory. False: the node must stay."""

    def take(self, path: Fqn, node: Node) -> bool:
        """Take a node that comes back. False: the node was not in the store only."""


class OwnedTree(Container):
    """See the module. ``backups`` gives this member's copies for others."""

    def __init__(self) -> None:
        self.mine = MemoryTree()
        self._loaded: dict[Fqn, Node] = {}
        self.backups: Backups = dict
        self.outside: Outside

    def owned(self, path: Fqn) -> Node | None:
        return self.mine.get(path)

    def get(self, path: Fqn) -> Node | None:
        node = self.mine.get(path)
        if node is not None:  # no backup is among those
            return node
        if path.is_within(BACKUP_ROOT):
            return dict(self._backup_nodes(path, deep=False)).get(path)
        return self._loaded.get(path)

    def within(self, path: Fqn) -> Sequence[Fqn]:
        if path.is_within(BACKUP_ROOT):
            return sorted(p for p, _ in self._backup_nodes(path))
        mine = self.mine.within(path)
        more = [p for p in self._loaded if p.is_within(path) and self.mine.get(p) is None]
        return sorted([*mine, *more]) if more else mine

    def children(self, path: Fqn) -> Sequence[str]:
        if path.is_within(BACKUP_ROOT):
            if path == BACKUP_ROOT:
                return tuple(self.backups())
            paths: Iterable[Fqn] = (p for p, _ in self._backup_nodes(path))
        else:
            paths = (p for p in self._loaded if p.is_within(path))
        names = dict.fromkeys(self.mine.children(path))
        names.update(dict.fromkeys(p[len(path)] for p in paths if len(p) > len(path)))
        return tuple(names)

    def nodes(self) -> dict[Fqn, Node]:
        return self.mine.nodes()

    def apply(self, changes: Changes) -> None:
        self.mine.apply(changes)
        for change in changes:
            self._loaded.pop(change.path, None)

    def load(self, path: Fqn, node: Node) -> None:
        if not self.outside.take(path, node):
            self._loaded[path] = node

    def unload(self, path: Fqn) -> None:
        self._loaded.pop(path, None)

    def may_discard(self, path: Fqn) -> bool:
        return self.outside.may(path)

    def discard(self, path: Fqn) -> bool:
        return self.outside.put(path)  # the entry stays: it is the ownership

    @property
    def size(self) -> int:
        return self.mine.size

    def __len__(self) -> int:
        return len(self.mine)

    def backup_size(self) -> tuple[int, int]:
        """Return the nodes and the bytes (names and values) kept for others."""
        nodes = [node for _, node in self._backup_nodes(BACKUP_ROOT)]
        return len(nodes), sum(node.size for node in nodes)

    def _backup_nodes(self, path: Fqn, *, deep: bool = True) -> Iterable[tuple[Fqn, Node]]:
        """Return nodes at, or at and below, a path below ``BACKUP_ROOT``. This is slow and meant for diagnosis."""
        below = path[2:]
        for group, entries in self.backups().items():
            if len(path) > 1 and path[1] != group:
                continue
            root = BACKUP_ROOT.child(group)
            for at, entry in entries.items():
                if at == below or (deep and at[: len(below)] == below):
                    node = shown(entry)
                    if node is not None:
                        yield _below(root, at), node


def _below(root: Fqn, path: Path) -> Fqn:
    """The result may be deeper than an application's path, so it is not checked."""
    return Fqn.of_checked((*root, *path))
