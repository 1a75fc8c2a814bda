"""Saving to the store: write-through, passivation, and a store that fails.

A node in memory counts; a row of the store counts only for a node that is not in memory.

    write-through every change goes to the store as well; eviction only frees memory
    passivation     the store takes what is evicted; a row stays when its node is loaded again, and
                    evicting an unchanged node writes nothing

While the store fails: a write fails before it changes anything if the store would hold the only other copy. If other
members have copies, writes go on: unsaved nodes stay in memory, and removed nodes' rows are remembered and not read.
Both are counted and saved later.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import trio

from jgroups_py.cache.changes import Changes, NodeChange
from jgroups_py.cache.container import Container
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.locks import PathLocks, Scope
from jgroups_py.cache.node import Node
from jgroups_py.cache.store import Row, Store, StorePicture, asked, checked_rows
from jgroups_py.errors import StoreError
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.stack.raised import loggable

_log = logging.getLogger("jgroups_py.cache")
R = TypeVar("R")
FLUSH_ROWS = 1000
"""Rows of one transaction when much is to be written at once."""


def _chunks(paths: Sequence[Fqn]) -> Iterator[Sequence[Fqn]]:
    for start in range(0, len(paths), FLUSH_ROWS):
        yield paths[start : start + FLUSH_ROWS]


class Keeper:
    """A store, and this cache's knowledge of its rows.

    ``passivation``: see above. ``behind_max``: unsaved changes beyond which writes are refused. ``began_empty``: it has
    no rows of an earlier run.
    """

    def __init__(
        self,
        store: Store,
        *,
        passivation: bool,
        behind_max: int = 10_000,
        began_empty: bool = False,
    ) -> None:
        self.store = store
        self.began_empty = began_empty
        self.passivation = passivation
        self._behind_max = behind_max
        self._rows: set[Fqn] = set()  # in memory, and the store may have a row (of any age)
        self._unsaved: set[Fqn] = set()  # in memory, newer than the store
        self._ghosts: dict[Fqn, None] = {}  # rows of nodes that were removed
        self._late: dict[Fqn, None] = {}  # unsaved because the store failed
        self._writing: list[dict[Fqn, None]] = []  # moved paths, by running ``after``
        self.failing = False
        self._log_limit = LogLimit(trio.current_time)
        self.failures = 0
        self.loaded = 0
        self.saved = 0

    def statistics(self) -> dict[str, int]:
        """Counters by name."""
        return {
            "store_loads": self.loaded,
            "store_saves": self.saved,
            "store_failures": self.failures,
            "store_behind": len(self._late) + len(self._ghosts),
            "unsaved_nodes": len(self._unsaved),
        }

    # --- reading

    async def load(self, path: Fqn) -> Node | None:
        """Load a stored node. None: there is none. Raises StoreError."""
        if path in self._ghosts:
            return None
        node = await self._ask(self.store.load, path)
        if node is not None and not isinstance(node, Node):
            raise StoreError(f"the store's load() gave {type(node).__name__}, not Node or None")
        return node

    async def load_many(self, paths: Sequence[Fqn]) -> list[tuple[Fqn, Node]]:
        """Load those of the paths that are stored. Raises StoreError."""
        wanted = [path for path in paths if path not in self._ghosts]
        if not wanted:
            return []
        return checked_rows(await self._ask(self.store.load_many, wanted), "load_many")

    async def picture(self) -> tuple[StorePicture, Collection[Fqn]]:
        """Return the present rows, and the paths whose rows do not count. Raises StoreError."""
        return await self._ask(self.store.picture), frozenset(self._ghosts)

    async def load_within(self, path: Fqn, limit: int) -> list[tuple[Fqn, Node]]:
        """Load the stored nodes at and below a path. Raises StoreError."""
        rows = await self._ask(self.store.load_within, path, limit + len(self._ghosts))
        found = checked_rows(rows, "load_within")
        return [(p, node) for p, node in found if p not in self._ghosts]

    async def names(self, path: Fqn, limit: int) -> Sequence[str]:
        """Return the names below a path. Raises StoreError."""
        if any(ghost.is_within(path) for ghost in self._ghosts):
            rows = await self.load_within(path, limit)
            return list(dict.fromkeys(p[len(path)] for p, _ in rows if len(p) > len(path)))
        return await self._ask(self.store.names, path)

    def was_loaded(self, path: Fqn) -> None:
        """Note that the node is in memory, as the store has it."""
        self._rows.add(path)
        self.loaded += 1

    def has_row(self, path: Fqn) -> None:
        """Note that the node has a row, of whatever age."""
        self._rows.add(path)

    # --- writing

    async def before(self, changes: Changes) -> None:
        """Write changes before they are applied. StoreError (definite): the call must not go on."""
        rows = self._rows_of(changes)
        try:
            await self._write(rows)
        except BaseException:  # a cancelled write may have happened, too
            written = {path for path, _ in rows}
            self._distrust(c for c in changes if c.path in written)
            raise
        self._note(changes)

    async def after(self, changes: Changes) -> None:
        """Write changes after they were applied here and elsewhere: a failing store only falls behind.

        A node that moves during the write (``given``, ``taken``) keeps the note of its move: its written row is old.
        """
        moved: dict[Fqn, None] = {}
        self._writing.append(moved)
        try:
            await self._write(self._rows_of(changes))
        except StoreError:
            for change in [change for change in changes if change.path not in moved]:
                if change.after is None:
                    self._ghosts[change.path] = None
                    self._late.pop(change.path, None)
                    self._unsaved.discard(change.path)
                else:
                    self._ghosts.pop(change.path, None)
                    self._late[change.path] = None
                    self._unsaved.add(change.path)
                    self._rows.add(change.path)  # there may be an old row
        else:
            self._note([change for change in changes if change.path not in moved])
        finally:
            self._writing = [other for other in self._writing if other is not moved]

    def check_room(self) -> None:
        """Raise StoreError (definite) if the store lacks too many changes."""
        behind = len(self._late) + len(self._ghosts)
        if behind >= self._behind_max:
            raise StoreError(f"the store lacks {behind} changes already; nothing was changed")

    def is_saved(self, path: Fqn) -> bool:
        """Does the store have the present value of the node?"""
        return path not in self._unsaved

    async def save(self, nodes: Sequence[tuple[Fqn, Node]]) -> None:
        """Write the unsaved ones of these nodes (passivation). StoreError: none was written.

        During the write a node may move to another member and come back with another value. That is noted later
        (``given``, ``taken``), so the node does not count as saved.
        """
        rows: list[Row] = [(path, node) for path, node in nodes if path in self._unsaved]
        late = [path for path, _ in rows if path in self._late]
        ghosts = [path for path, _ in rows if path in self._ghosts]
        for path, _ in rows:
            self._rows.add(path)  # a failed write may have happened
            self._unsaved.discard(path)
            self._late.pop(path, None)
            self._ghosts.pop(path, None)
        try:
            await self._write(rows)
        except BaseException:
            self._unsaved.update(path for path, _ in rows if path in self._rows)
            self._late.update(dict.fromkeys(path for path in late if path in self._rows))
            self._ghosts.update(dict.fromkeys(path for path in ghosts if path in self._rows))
            raise

    def evicted(self, path: Fqn) -> None:
        """Note that a saved node has left memory."""
        assert path not in self._unsaved, path
        self._rows.discard(path)

    def taken(self, path: Fqn) -> None:
        """Note that the node came from another member: the store lacks it or has an old row."""
        self._moves(path)
        self._ghosts.pop(path, None)
        self._rows.add(path)
        self._unsaved.add(path)
        self._late[path] = None

    def given(self, path: Fqn, *, remove: bool) -> None:
        """Note that another member owns the node now. ``remove``: remove its row."""
        self._moves(path)
        if remove and (path in self._rows or not self.passivation):
            self._ghosts[path] = None
        self._rows.discard(path)
        self._unsaved.discard(path)
        self._late.pop(path, None)

    def _moves(self, path: Fqn) -> None:
        for moved in self._writing:
            moved[path] = None

    async def catch_up(self, container: Container, locks: PathLocks) -> None:
        """Write the changes that a failing store missed, busy paths left out. StoreError: the store still fails."""
        for paths in _chunks([*self._ghosts, *self._late]):
            held = [(p, locks.try_acquire((Scope(p, write=True),))) for p in paths]
            try:
                await self._make_good([p for p, lock in held if lock is not None], container)
            finally:
                for _, lock in held:
                    if lock is not None:
                        locks.release(lock)

    async def flush(self, container: Container) -> None:
        """Save all unsaved nodes, at the end and with no call running.

        StoreError says how much was not saved.
        """
        try:
            for paths in _chunks([*self._ghosts, *self._unsaved]):
                await self._make_good(paths, container)
        except StoreError as error:
            lacks = len(self._unsaved) + len(self._ghosts)
            raise StoreError(f"{error}; {lacks} changes are not in the store") from error

    async def aclose(self, container: Container) -> None:
        """Save all unsaved nodes and close the store, even if saving fails.

        StoreError says how much was not saved.
        """
        try:
            await self.flush(container)
        except StoreError as lost:  # an error of closing must not hide this error
            try:
                await asked(self.store.aclose)
            except StoreError as error:
                raise StoreError(f"{lost}; and the store was not closed: {error}") from lost
            raise
        except BaseException:
            await asked(self.store.aclose)
            raise
        await asked(self.store.aclose)

    async def _make_good(self, paths: Sequence[Fqn], container: Container) -> None:
        ghosts = [p for p in paths if p in self._ghosts and p not in self._unsaved]
        await self._write([(path, None) for path in ghosts])
        for path in ghosts:
            self._ghosts.pop(path, None)  # unless its node has come back meanwhile
        nodes = [(p, container.get(p)) for p in paths if p in self._unsaved]
        await self.save([(p, node) for p, node in nodes if node is not None])

    def _distrust(self, changes: Iterable[NodeChange]) -> None:
        """Mark nodes as unsaved after a failed write, because their rows are unknown."""
        for change in changes:
            if change.before is None:
                self._ghosts[change.path] = None
            else:
                self._unsaved.add(change.path)
                self._late[change.path] = None

    def _rows_of(self, changes: Changes) -> list[Row]:
        if self.passivation:
            return [(c.path, None) for c in changes if c.after is None and c.path in self._rows]
        return [(c.path, c.after) for c in changes]

    def _note(self, changes: Iterable[NodeChange]) -> None:
        for change in changes:
            path = change.path
            if change.after is None:
                self._rows.discard(path)
                self._unsaved.discard(path)
                self._late.pop(path, None)
            elif self.passivation:
                self._unsaved.add(path)
            else:
                self._rows.add(path)
                self._unsaved.discard(path)
                self._late.pop(path, None)
                self._ghosts.pop(path, None)

    async def _write(self, rows: Sequence[Row]) -> None:
        if rows:
            await self._ask(self.store.apply, rows)
            self.saved += len(rows)

    def _warn(self, what: str, text: str, cause: BaseException | None = None) -> None:
        """Log a warning, sparingly: a store that fails for a single path fails again and again."""
        if (left_out := self._log_limit.admit(what)) is not None:
            _log.warning("%s%s", text, left_out, exc_info=cause and loggable(cause))

    async def _ask(self, call: Callable[..., Awaitable[R]], *args: Any) -> R:
        try:
            answer = await asked(call, *args)
        except StoreError as error:
            self.failures += 1
            if not self.failing:
                self._warn("fails", f"the store fails: {error}", error.__cause__)
            self.failing = True
            raise
        if self.failing:
            self._warn("works", "the store works again")
        self.failing = False
        return answer
