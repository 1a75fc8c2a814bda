"""Eviction policies: they choose the nodes of a region that leave memory.

A policy keeps its own order of the nodes reported to it; it touches no tree. ``TimeToLive`` and ``LeastRecentlyUsed``
are here. A policy of your own implements ``EvictionPolicy``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence

from jgroups_py.cache.fqn import Fqn

SLACK = 20
"""When a limit is exceeded, 1/20 of it is evicted together, in one transaction of the store."""


class EvictionPolicy(ABC):
    """The policy for a region's nodes. Times are seconds of the clock the evictor uses."""

    @abstractmethod
    def touched(self, path: Fqn, size: int, now: float, *, written: bool) -> None:
        """Note that a node was read or written. ``size``: its bytes now."""

    @abstractmethod
    def gone(self, path: Fqn) -> None:
        """Note that a node is no longer in memory."""

    @abstractmethod
    def victims(self, now: float, can_take: Callable[[Fqn], bool]) -> list[Fqn]:
        """Return the nodes to evict now, in order. ``can_take`` locks a node and returns whether it may go; the others
        stay."""

    @abstractmethod
    def is_over(self, now: float) -> bool:
        """Return whether memory has more than the policy allows."""


class LeastRecentlyUsed(EvictionPolicy):
    """At most ``max_nodes`` nodes and ``max_bytes`` bytes of names and values; 0: no such limit."""

    def __init__(self, max_nodes: int = 0, max_bytes: int = 0) -> None:
        self.max_nodes = max_nodes
        self.max_bytes = max_bytes
        self._sizes: OrderedDict[Fqn, int] = OrderedDict()
        self._bytes = 0

    def touched(self, path: Fqn, size: int, now: float, *, written: bool) -> None:
        self._bytes += size - self._sizes.get(path, 0)
        self._sizes[path] = size
        self._sizes.move_to_end(path)

    def gone(self, path: Fqn) -> None:
        self._bytes -= self._sizes.pop(path, 0)

    def is_over(self, now: float) -> bool:
        return (0 < self.max_nodes < len(self._sizes)) or (0 < self.max_bytes < self._bytes)

    def victims(self, now: float, can_take: Callable[[Fqn], bool]) -> list[Fqn]:
        if not self.is_over(now):
            return []
        nodes = self.max_nodes - self.max_nodes // SLACK if self.max_nodes else len(self._sizes)
        size = self.max_bytes - self.max_bytes // SLACK if self.max_bytes else self._bytes
        left_nodes, left_bytes = len(self._sizes), self._bytes
        chosen = []
        for path, own in self._sizes.items():
            if left_nodes <= nodes and left_bytes <= size:
                break
            if can_take(path):
                chosen.append(path)
                left_nodes -= 1
                left_bytes -= own
        return chosen


class TimeToLive(EvictionPolicy):
    """Nodes leave ``idle`` seconds after their last use, ``max_age`` after their last write; 0: never
    for that reason."""

    def __init__(self, idle: float = 0.0, max_age: float = 0.0) -> None:
        self.idle = idle
        self.max_age = max_age
        self._used: OrderedDict[Fqn, float] = OrderedDict()
        self._written: OrderedDict[Fqn, float] = OrderedDict()

    def touched(self, path: Fqn, size: int, now: float, *, written: bool) -> None:
        self._used[path] = now
        self._used.move_to_end(path)
        if written or path not in self._written:
            self._written[path] = now
            self._written.move_to_end(path)

    def gone(self, path: Fqn) -> None:
        self._used.pop(path, None)
        self._written.pop(path, None)

    def is_over(self, now: float) -> bool:
        return any(
            limit and table and now - next(iter(table.values())) > limit
            for limit, table in ((self.idle, self._used), (self.max_age, self._written))
        )

    def victims(self, now: float, can_take: Callable[[Fqn], bool]) -> list[Fqn]:
        due: dict[Fqn, None] = {}
        for limit, table in ((self.idle, self._used), (self.max_age, self._written)):
            if limit:
                for path, at in table.items():
                    if now - at <= limit:
                        break
                    due[path] = None
        return [path for path in due if can_take(path)]


class AllOf(EvictionPolicy):
    """Several policies for one region. A node leaves when one of them evicts it."""

    def __init__(self, policies: Sequence[EvictionPolicy]) -> None:
        self._policies = tuple(policies)

    def touched(self, path: Fqn, size: int, now: float, *, written: bool) -> None:
        for policy in self._policies:
            policy.touched(path, size, now, written=written)

    def gone(self, path: Fqn) -> None:
        for policy in self._policies:
            policy.gone(path)

    def is_over(self, now: float) -> bool:
        return any(policy.is_over(now) for policy in self._policies)

    def victims(self, now: float, can_take: Callable[[Fqn], bool]) -> list[Fqn]:
        chosen: dict[Fqn, None] = {}
        for policy in self._policies:
            for path in policy.victims(now, lambda p: p in chosen or can_take(p)):
                chosen[path] = None
        return list(chosen)
