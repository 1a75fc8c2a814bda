"""Tree: the container, and the observers of every change to it, local or remote."""

from __future__ import annotations

from collections.abc import Callable

from jgroups_py.cache.changes import Changes, NodeChange
from jgroups_py.cache.container import Container
from jgroups_py.cache.eviction import Evictor
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.listeners import CacheListeners, EventKind
from jgroups_py.cache.node import Node

Observer = Callable[[Changes, tuple[str, int] | None], None]
"""Called in the step that applied the changes, with the batch's (origin, number) if it has one."""


class Tree:
    """Applies changes of this member and of others, each in one synchronous step."""

    def __init__(self, container: Container, evictor: Evictor, listeners: CacheListeners) -> None:
        self.container = container
        self.evictor = evictor
        self.listeners = listeners
        self.observers: list[Observer] = []
        evictor.forgotten = self._forgotten

    def apply(
        self, changes: Changes, *, local: bool, origin: tuple[str, int] | None = None
    ) -> None:
        """Apply changes, then notify policies and listeners. ``origin``: the batch's origin and number, if all members
        know it by these."""
        self.container.apply(changes)
        for change in changes if self.evictor.has_regions else ():
            if change.after is None:
                self.evictor.gone(change.path)
            else:
                self.evictor.touched(change.path, change.after, written=True)
        self.listeners.changed(changes, local=local)
        for observer in self.observers:
            observer(changes, origin)

    def moved(self, changes: Changes, *, remove: bool) -> None:
        """Note nodes that came from other members or went to them. ``remove``: remove them from the store, too."""
        self.container.apply(changes)
        for change in changes:
            if change.after is None:
                self.evictor.given(change.path, remove=remove)
            else:
                self.evictor.taken(change.path, change.after)
            self.listeners.moved(change.path, EventKind.TAKEN if change.after else EventKind.GIVEN)

    def arrived(self, changes: Changes) -> None:
        """Note that another site has written nodes of this member."""
        self.container.apply(changes)
        for change in changes:
            if change.after is None:
                self.evictor.given(change.path, remove=True)
            else:
                self.evictor.taken(change.path, change.after)
        self.listeners.changed(changes, local=False)
        for observer in self.observers:
            observer(changes, None)

    def _forgotten(self, path: Fqn, node: Node) -> None:
        """Report an evicted node as gone: there is no store."""
        for observer in self.observers:
            observer((NodeChange(path, node, None),), None)

    def load(self, path: Fqn, node: Node) -> None:
        """Take a node that came back from the store."""
        self.container.load(path, node)
        self.evictor.touched(path, node, written=False)
        self.listeners.moved(path, EventKind.LOADED)

    def was_read(self, path: Fqn) -> None:
        """Note that a call read a node."""
        node = self.container.get(path)
        if node is not None:
            self.evictor.touched(path, node, written=False)
