"""Store: where nodes are kept outside memory. ``SqliteStore`` is ours; others may be plugged in.

A store is asked and told under the cache's locks; it need not know of concurrency. What it cannot
do it says with StoreError, and then it has done nothing (or it may have: then not ``definite``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.node import Node
from jgroups_py.errors import StoreError

R = TypeVar("R")
Row = tuple[Fqn, Node | None]
"""A node to write, or None: to delete."""


async def asked(call: Awaitable[R]) -> R:
    """What a store answers. StoreError, also where a store of the user's raises something else."""
    try:
        return await call
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(f"the store raised {type(error).__name__}: {error}") from error


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
