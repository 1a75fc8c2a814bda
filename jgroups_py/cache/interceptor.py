"""Interceptors: each does one thing to a call and hands it to the next. They stand in the order in which things happen.

    alone           to all          with buddies
    Invocation      Invocation      Invocation      closed? statistics, room in memory
    Locking         Locking         Locking         everything the call touches, at once
    Loading                         Loading         nodes that are not in memory come from the store
    Gravitating     Gravitating                     nodes that this member lacks come from the others
    Computing       Computing                       the body runs: it reads, and returns modifications
                                    Owning          nodes of other owners come from these; the body runs
                                                    when it owns everything, and the change takes effect
    StoringFirst                                    the store gets the change: it has the only other copy
    Replicating                                     the change takes effect
                    Replicating                     the others have the change, and it takes effect at its place in
                                                    the order
                                    Replicating     the buddies have the change
                                    StoringLast     the store gets the change: it may fall behind

Loading and the two Storing are there only if there is a store. A loader may find the node before the cluster is asked, as in
the seed. ``Computing`` and ``Owning`` end a call that changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

from jgroups_py.cache.call import CacheCall


class Interceptor(ABC):
    """One step. ``chain`` sets ``next``."""

    next: Interceptor

    @abstractmethod
    async def handle(self, call: CacheCall) -> None:
        """Do this step, and nearly always ``await self.next.handle(call)``."""

    def statistics(self) -> dict[str, int]:
        """Counters by name."""
        return {}


class ChainEnd(Interceptor):
    """The end of the chain."""

    async def handle(self, call: CacheCall) -> None:
        pass


def chain(interceptors: Sequence[Interceptor]) -> Interceptor:
    """Connect the interceptors, first to last. Return the first."""
    for one, other in pairwise([*interceptors, ChainEnd()]):
        one.next = other
    return interceptors[0]
