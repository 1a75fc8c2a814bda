"""OldRows: rows in a member's store, left from an earlier run, that no member of the group owns.

A row is a value, not ownership (B22): only calls at this member find it, and the node may have been removed while the
member was away. A report on all nodes must therefore first make sure that there are no such rows.

A row that has had an owner once is checked no more. Its owner may remove the node without notice to members with old
rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

import trio

from jgroups_py.buddy.values import Path
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.saving import Keeper
from jgroups_py.cache.store import asked
from jgroups_py.errors import CacheRefused

PAGE: Final = 1000
"""The most rows in one question to the others."""
FOUND_MAX: Final = 1000
"""Number of found rows at which the search ends."""
LOOKS: Final = 10
"""Number of looks in which a row must have no owner: an owner removes a node first, and its row a little later. A node that is made
and removed all the time, in a slow store, was without one in three looks in a row in one of six runs."""
AGAIN_AFTER: Final = 0.2
"""Seconds between two of these looks."""

Owned = Callable[[Sequence[Path]], Awaitable[Collection[Path]]]
"""Returns those of some paths that any member owns. CacheError: not all members have answered."""


class OldRows:
    """``known``: the nodes that this member knows now, removed ones included. ``owned``: asks all members."""

    def __init__(self, keeper: Keeper, known: Callable[[], Collection[Path]], owned: Owned) -> None:
        self._keeper = keeper
        self._known = known
        self._owned = owned
        self._none: set[Fqn] = {Fqn()} if keeper.began_empty else set()
        """Paths below which there are no such rows."""

    async def require_none(self, roots: Collection[Fqn], but: Fqn) -> None:
        """Check that there are no such rows at and below ``roots``, except at ``but``.

        Raises:
            CacheRefused: there are some.
            StoreError, ReplicationError: the answer is not known.
        """
        wanted = [r for r in roots if not any(map(r.is_within, self._none))]
        if not wanted:
            return
        found = await self._find(wanted, but)
        for _ in range(LOOKS - 1):
            if found:
                await trio.sleep(AGAIN_AFTER)
                found &= await self._find(wanted, but)
        if found:
            many = f"{FOUND_MAX} or more" if len(found) >= FOUND_MAX else len(found)
            raise CacheRefused(
                f"this member's store has rows of {many} nodes that nobody owns, {min(found)} among them, from before"
                " it was opened; it is unknown whether they were removed since. At this member put_node(path, {}) takes"
                " a node over, and remove_node(path) deletes it; with purgeOnStartup there are none"
            )
        self._none.update(wanted)

    async def _find(self, roots: Collection[Fqn], but: Fqn) -> set[Fqn]:
        picture, gone = await self._keeper.picture()
        found: set[Fqn] = set()
        try:
            for root in roots:
                after: Fqn | None = None
                while len(found) < FOUND_MAX:
                    page = await asked(picture.page, root, after, PAGE, values=False)
                    known = self._known()
                    rows = [p for p, _ in page if p not in known and p not in gone]
                    rows = [p for p in rows if not p.is_within(but)]
                    if rows:
                        owned = await self._owned([tuple(p) for p in rows])
                        found.update(p for p in rows if p not in owned)
                    if len(page) < PAGE:
                        break
                    after = page[-1][0]
        finally:
            await picture.aclose()
        return found
