"""ItemStore: runs requests to items. MemoryStore: keeps items in this process, for tests and for trying out clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol as Interface

import trio

from jgroups_py.buckets.items.behaviour import Item, ItemLimits, perform
from jgroups_py.buckets.items.requests import Outcome, Stamped
from jgroups_py.errors import JGroupsError


class StoreUnavailable(JGroupsError):
    """A request got no outcome. ``definite``: it certainly made no change. ``retry_after``: seconds after which a
    repeat may pass."""

    def __init__(self, problem: str, *, definite: bool = False, retry_after: float = 1.0) -> None:
        self.definite = definite
        self.retry_after = retry_after
        super().__init__(problem)


class ItemStore(Interface):
    """Runs requests to items. Several may run at once; those to one key run one after another."""

    async def perform(self, asked: Stamped) -> Outcome:
        """Run a request and return its outcome.

        Raises:
            StoreUnavailable: there is no outcome.
        """

    def statistics(self) -> Mapping[str, int]:
        """Return counters by name. Names are lower-case words with underscores."""


class MemoryStore:
    """Items in a dictionary, at most ``items_max``; a further one is refused, none is evicted (A4)."""

    def __init__(self, limits: ItemLimits | None = None, *, items_max: int = 1_000_000) -> None:
        self.items: dict[str, Item] = {}
        self._limits = limits or ItemLimits()
        self._items_max = items_max
        self._counters = {"items_refused": 0}

    async def perform(self, asked: Stamped) -> Outcome:
        """See ``ItemStore``."""
        await trio.lowlevel.checkpoint()
        key = asked.request.key
        before = self.items.get(key)
        after, outcome = perform(before, asked, self._limits)
        if after is None:
            self.items.pop(key, None)
        elif after is not before:
            if before is None and len(self.items) >= self._items_max:
                self._counters["items_refused"] += 1
                raise StoreUnavailable(
                    f"{self._items_max} items are stored (items_max)", definite=True
                )
            self.items[key] = after
        return outcome

    def statistics(self) -> Mapping[str, int]:
        """See ``ItemStore``."""
        return {**self._counters, "curr_items": len(self.items)}
