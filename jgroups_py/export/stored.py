"""StoredRows: the part of a snapshot that was in a cache's store only, read page by page by place."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Final

from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.node import Node, node_from_bytes
from jgroups_py.cache.store import StorePicture
from jgroups_py.errors import StoreError
from jgroups_py.export.errors import UnknownSnapshot

STEP: Final = 1000
"""Rows between two marks: who begins in the middle reads so many in vain at most."""


Place = tuple[int, Fqn | None]
"""Number of a root, and the row before."""


class StoredRows:
    """``roots``: rows at and below them, but not below ``hidden``, and not ``left_out``."""

    def __init__(
        self,
        picture: StorePicture,
        roots: Sequence[Fqn],
        hidden: Fqn,
        left_out: Sequence[Collection[Fqn]],
    ) -> None:
        self._picture = picture
        self._roots = [r for r in roots if not any(r != o and r.is_within(o) for o in roots)]
        self._hidden = hidden
        self._left_out = left_out
        self._marks: list[Place] = []
        self._closed = False
        self.count = 0

    async def begin(self) -> None:
        """Counts them. StoreError."""
        place: Place | None = (0, None) if self._roots else None
        while place is not None:
            number, after = place
            page, place = await self._page(place, values=False)
            for path, _ in page:
                if self._counts(path):
                    if not self.count % STEP:
                        self._marks.append((number, after))
                    self.count += 1
                after = path

    async def rows(self, start: int, stop: int) -> AsyncGenerator[list[tuple[Fqn, Node]], None]:
        """Those from ``start`` to ``stop``, as they come.

        Raises:
            UnknownSnapshot: it was closed meanwhile.
            StoreError: the store fails, or a row of it is damaged.
        """
        stop = min(stop, self.count)
        at = start // STEP * STEP
        place = self._marks[start // STEP] if start < stop else None
        while place is not None and at < stop:
            page, place = await self._page(place, values=True)
            found = [(path, data) for path, data in page if self._counts(path)]
            wanted = found[max(0, start - at) : stop - at]
            at += len(found)
            if wanted:
                yield [(path, _node(path, data)) for path, data in wanted]

    async def aclose(self) -> None:
        self._closed = True
        await self._picture.aclose()

    def _counts(self, path: Fqn) -> bool:
        return not (path.is_within(self._hidden) or any(path in of for of in self._left_out))

    async def _page(
        self, place: Place, *, values: bool
    ) -> tuple[Sequence[tuple[Fqn, bytes]], Place | None]:
        """The rows after a place, at most ``STEP``, and where the next ones are."""
        if self._closed:
            raise UnknownSnapshot("the snapshot was closed while it was read")
        number, after = place
        page = await self._picture.page(self._roots[number], after, STEP, values=values)
        if len(page) == STEP:
            return page, (number, page[-1][0])
        return page, (number + 1, None) if number + 1 < len(self._roots) else None


def _node(path: Fqn, data: bytes) -> Node:
    try:
        return node_from_bytes(data)
    except ValueError as error:
        raise StoreError(f"the row of {path} in the store is damaged: {error}") from None
