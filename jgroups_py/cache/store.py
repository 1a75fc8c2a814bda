"""Store: keeps nodes outside memory. ``SqliteStore`` comes with the package; others may be plugged in.

A store is called under the cache's locks; it need not handle concurrency. It reports a failure as StoreError:
``definite`` if it has certainly done nothing.
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
    """Await a call of a store. StoreError: the call failed, with whatever exception."""
    try:
        return await call(*args, **options)
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(f"the store raised {said(error)}") from error


def checked_rows(rows: Any, what: str) -> list[tuple[Fqn, Node]]:
    """Check the rows that a store returned. StoreError: the values are no rows."""
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
        """Return at most ``limit`` nodes at and below ``path``, as ``node_bytes`` and in the store's order, beginning
        behind ``after``. Fewer than ``limit``: these are the last. ``values`` False: the bytes may be empty. Raises
        StoreError."""

    @abstractmethod
    async def aclose(self) -> None:
        """Wait for a page that is being read, and close."""


class Store(ABC):
    """Nodes by path, durable."""

    @abstractmethod
    async def open(self) -> None:
        """Open the store. StoreError: the store cannot be used, and nothing was opened."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the store. More than one call is fine."""

    @abstractmethod
    async def load(self, path: Fqn) -> Node | None:
        """Load a node. None: there is none."""

    async def load_many(self, paths: Sequence[Fqn]) -> Sequence[tuple[Fqn, Node]]:
        """Load those nodes at these paths that exist."""
        found = [(path, await self.load(path)) for path in paths]
        return [(path, node) for path, node in found if node is not None]

    async def picture(self) -> StorePicture:
        """Return the present rows, readable while the store changes. StoreError: this store cannot do that."""
        raise StoreError(
            f"a store of class {type(self).__name__} cannot be read as of one moment (picture)"
        )

    @abstractmethod
    async def load_within(self, path: Fqn, limit: int) -> Sequence[tuple[Fqn, Node]]:
        """Load at most ``limit`` nodes at and below ``path``, in any order."""

    @abstractmethod
    async def names(self, path: Fqn) -> Sequence[str]:
        """Return the names directly below ``path`` that are nodes or lead to nodes."""

    @abstractmethod
    async def apply(self, rows: Sequence[Row]) -> None:
        """Write and delete, all or nothing; durable on return."""

    @abstractmethod
    async def purge(self) -> None:
        """Delete everything."""
