"""Store: where nodes are kept outside memory. ``SqliteStore`` is ours; others may be plugged in.

A store is asked and told under the cache's locks; it need not know of concurrency. It tells
a failure with StoreError, and then it has done nothing (or it may have: then not ``definite``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.node import Node
from jgroups_py.errors import StoreError
from jgroups_py.stack.raised import said

R = TypeVar("R")
Row = tuple[Fqn, Node | None]
"""A node to write, or None: to delete."""


async def asked(call: Callable[..., Awaitable[R]], *args: Any, **options: Any) -> R:
    """The answers of a store. StoreError, also where a store of the user's raises something else."""
    try:
        return await call(*args, **options)
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(f"the store raised {said(error)}") from error


def checked_rows(rows: Any, what: str) -> list[tuple[Fqn, Node]]:
    """A store's answer. StoreError: it is none."""
    try:
        found = [(path, node) for path, node in rows]
    except Exception as error:
        raise StoreError(f"the store's {what}() gave no pairs: {said(error)}") from error
    for path, node in found:
        if not (isinstance(path, Fqn) and isinstance(node, Node)):
            kinds = f"({type(path).__name__}, {type(node).__name__})"
            raise StoreError(f"the store's {what}() gave {kinds}, not (Fqn, Node)")
    return found


class StorePicture(ABC):
    """All rows of a store as of one moment."""

    @abstractmethod
    async def page(
        self, path: Fqn, after: Fqn | None, limit: int, *, values: bool = True
    ) -> Sequence[tuple[Fqn, bytes]]:
        """Nodes at and below ``path``, as ``node_bytes``, in the store's order, from after ``after`` on: at most
        ``limit``; fewer are the last. ``values`` False: the bytes may be empty. StoreError."""

    @abstractmethod
    async def aclose(self) -> None:
        """Waits for a page that is being read."""


class Store(ABC):
    """Nodes by path, durable."""

    @abstractmethod
    async def open(self) -> None:
        """Ready for use. StoreError: it cannot be used, nothing was opened."""

    @abstractmethod
    async def aclose(self) -> None:
        """Gives up everything it holds. More than one call is fine."""

    @abstractmethod
    async def load(self, path: Fqn) -> Node | None:
        """The node; None when there is none."""

    async def load_many(self, paths: Sequence[Fqn]) -> Sequence[tuple[Fqn, Node]]:
        """Of these paths the nodes that there are."""
        found = [(path, await self.load(path)) for path in paths]
        return [(path, node) for path, node in found if node is not None]

    async def picture(self) -> StorePicture:
        """The rows that are there now, to be read while it changes. StoreError: this store cannot do that."""
        raise StoreError(
            f"a store of class {type(self).__name__} cannot be read as of one moment (picture)"
        )

    @abstractmethod
    async def load_within(self, path: Fqn, limit: int) -> Sequence[tuple[Fqn, Node]]:
        """Nodes at and below ``path``, at most ``limit``, in any order."""

    @abstractmethod
    async def names(self, path: Fqn) -> Sequence[str]:
        """Names directly below ``path`` that are nodes or lead to nodes."""

    @abstractmethod
    async def apply(self, rows: Sequence[Row]) -> None:
        """Writes and deletes, all or nothing; durable on return."""

    @abstractmethod
    async def purge(self) -> None:
        """Deletes everything."""
