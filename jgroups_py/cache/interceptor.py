"""Interceptors: each does one thing to a call and hands it to the next.

    Invocation   closed? statistics, room in memory
    Locking      everything the call touches, at once
    Loading      what is not in memory comes from the store
    Gravitating  what this member does not own comes from who does
    Computing    the call's body: reads, and what is to change
    Storing      the store first, where it holds the only other copy
    Replicating  to the other members; then the change is true here

The order is the seed's: a loader or activation may find the node before the cluster is asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

from jgroups_py.cache.call import Call


class Interceptor(ABC):
    """One step. ``next`` is set by ``chain``."""

    next: Interceptor

    @abstractmethod
    async def handle(self, call: Call) -> None:
        """Does its part, and (nearly always) ``await self.next.handle(call)``."""

    def statistics(self) -> dict[str, int]:
        """Counters by name."""
        return {}


def chain(interceptors: Sequence[Interceptor]) -> Interceptor:
    """Connects them, first to last; returns the first."""
    for one, other in pairwise(interceptors):
        one.next = other
    return interceptors[0]
