"""OldRows: rows of a member's store that no member of the group owns, where it was not emptied when it was opened.

A row is a value, not ownership (B22): calls here find it, calls elsewhere do not, and nobody can say whether the node was
removed while this member was away. So who wants to tell of all nodes has to know that there are none.

Once each row has had an owner, it is never a node again that nobody else knows: its owner may remove it, and tells nobody
who has an old row.
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
"""Rows of which others are asked at once."""
FOUND_MAX: Final = 1000
"""So many are enough."""
LOOKS: Final = 5
"""So often nobody must own a row: a node's owner removes it first, and its row a little later."""
AGAIN_AFTER: Final = 0.2
"""Seconds between two of these looks."""

Owned = Callable[[Sequence[Path]], Awaitable[Collection[Path]]]
"""Those of some paths that somebody owns. CacheError: not everybody has answered."""


class OldRows:
    """``known``: what this member knows of, removed nodes included, now. ``owned``: asks everybody."""

    def __init__(self, keeper: Keeper, known: Callable[[], Collection[Path]], owned: Owned) -> None:
        self._keeper = keeper
        self._known = known
        self._owned = owned
        self._none: set[Fqn] = {Fqn()} if keeper.began_empty else set()
        """Below these there are none."""

    async def require_none(self, roots: Collection[Fqn], but: Fqn) -> None:
        """At and below ``roots``, but not below ``but``.

        Raises:
            CacheRefused: there are some.
            StoreError, ReplicationError: it is not known.
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
                " it was opened; whether they were removed since nobody knows. Here put_node(path, {}) makes one a node"
                " of this member's, remove_node(path) deletes it; with purgeOnStartup there are none"
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
