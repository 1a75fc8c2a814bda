"""BulkWrites: writes many nodes as one batch, past locks and interceptors, where those add nothing.

alone        there are no copies, no store and no other call under way: it is one step of this member
replicated   everybody has everything. A batch that has read nothing depends on nothing, so it is proposed
             as it is. Calls here and the batch do not wait for each other, as with a batch of another member
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from jgroups_py.cache.accepted import Values, writable
from jgroups_py.cache.changes import Modification, NodeChange, Put, Remove
from jgroups_py.cache.eviction import Evictor
from jgroups_py.cache.fqn import BACKUP_ROOT, Fqn
from jgroups_py.cache.full_replication import FullReplication
from jgroups_py.cache.garbage import no_collection
from jgroups_py.cache.node import MAX_KEY_BYTES, Node
from jgroups_py.cache.replication import LocalReplication, MemberReplication
from jgroups_py.cache.steps import Invocation

Rows = Sequence[tuple[Fqn, Node | None]]
"""None: the node is removed."""


class BulkWrites:
    """``stored``: the cache has a store. ``small``: the most bytes of a name or a value."""

    def __init__(
        self,
        values: Values,
        replication: MemberReplication,
        invocation: Invocation,
        evictor: Evictor,
        *,
        stored: bool,
        small: int,
    ) -> None:
        self._values = values
        self._replication = replication
        self._invocation = invocation
        self._evictor = evictor
        self._stored = stored
        self._small = min(small, MAX_KEY_BYTES)

    async def write(self, rows: Rows, *, replace: bool) -> bool:
        """See ``TreeCache.put_at_once``."""
        if isinstance(self._replication, FullReplication):
            with no_collection():
                modifications = self._modifications(rows, replace)
            async with self._invocation.around_write():
                await self._replication.propose(modifications)
            return True
        if isinstance(self._replication, LocalReplication) and not self._stored:
            if not (self._invocation.is_idle() and self._in_one_step(rows, replace)):
                return False
            if self._evictor.is_over():
                with trio.CancelScope(shield=True):
                    await self._evictor.make_room()
            return True
        return False

    def _check(self, path: Fqn, node: Node | None) -> None:
        """Check one row. CacheRefused: a batch would refuse it, too."""
        if node is not None and (node.size > self._small or "" in node.attributes):
            self._values.checked(node)  # else no name and no value can be too long
        if not path or path[0] == BACKUP_ROOT[0]:
            writable(path)

    def _modifications(self, rows: Rows, replace: bool) -> list[Modification]:
        found: list[Modification] = []
        for path, node in rows:
            self._check(path, node)
            found.append(Remove(path) if node is None else Put(path, node.attributes, replace))
        return found

    @no_collection()
    def _in_one_step(self, rows: Rows, replace: bool) -> bool:
        get = self._replication.tree.container.get
        changes: dict[Fqn, NodeChange] = {}
        for path, node in rows:
            self._check(path, node)
            before = get(path)
            if before is not None and node is not None and not replace:
                if not before.attributes.keys() <= node.attributes.keys():
                    node = before.with_attributes(node.attributes)
            changes[path] = NodeChange(path, before, node)
        if len(changes) < len(rows):
            return False  # a path twice: the later row builds on the earlier one
        self._invocation.count_write()
        there = [c for c in changes.values() if c.before is not None or c.after is not None]
        self._replication.tree.apply(tuple(there), local=True)
        return True
