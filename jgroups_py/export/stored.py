"""StoredRows: the rows of a snapshot that were only in a cache's store. They are read page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from itertools import islice
from typing import Final, NoReturn

import trio

from jgroups_py.buddy.values import Path
from jgroups_py.cache.fqn import ROOT, Fqn
from jgroups_py.cache.node import Node, node_from_bytes
from jgroups_py.cache.store import StorePicture, asked
from jgroups_py.errors import StoreError
from jgroups_py.export.errors import UnknownSnapshot

STEP: Final = 1000
"""Rows between two marks. A reader that begins in the middle reads at most this many rows in vain."""
YIELD_EVERY: Final = 10_000
"""The most paths that are looked at in one step."""

Place = tuple[int, Fqn | None]
"""The number of a root, and the row before."""


class StoredRows:
    """Rows at and below ``roots``, without those below ``hidden`` and without ``left_out``. With ``only`` just the rows
    of these paths count. Then ``begin`` need not read the rows to know their number, because with buddies all members'
    parts must be opened in a short time."""

    def __init__(
        self,
        picture: StorePicture,
        roots: Sequence[Fqn],
        hidden: Fqn,
        left_out: Sequence[Collection[Fqn]],
        only: Collection[Path] | None = None,
    ) -> None:
        self._picture = picture
        self._roots = [
            r for r in dict.fromkeys(roots) if not any(r != o and r.is_within(o) for o in roots)
        ]
        self._hidden = hidden
        self._left_out = left_out
        self._only = only
        self._marks: list[Place] | None = None
        self._one = trio.Lock()
        self._closed = False
        self.count = 0

    async def begin(self) -> None:
        """Count the rows. Raise StoreError if the store fails."""
        if self._only is None:
            self._marks, self.count = await self._read_through()
            return
        wanted: set[Path] = set()
        hidden, depth, paths = self._hidden, len(self._hidden), iter(self._only)
        while lot := [*islice(paths, YIELD_EVERY)]:
            if ROOT not in self._roots:
                lot = [p for p in lot if any(p[: len(r)] == r for r in self._roots)]
            wanted.update(p for p in lot if p[:depth] != hidden)
            await trio.lowlevel.checkpoint()
        self._only, self.count = wanted, len(wanted)

    async def _places(self) -> list[Place]:
        """Note where each ``STEP`` rows begin. Raise StoreError if a row that must be there is missing."""
        async with self._one:
            if self._marks is None:
                marks, found = await self._read_through()
                if found != self.count:
                    await self._complain()
                self._marks = marks
            return self._marks

    async def _complain(self) -> NoReturn:
        assert self._only is not None
        missing = {Fqn(path) for path in self._only}
        place: Place | None = (0, None)
        while place is not None:
            page, place = await self._page(place, values=False)
            missing.difference_update(path for path, _ in page)
        raise StoreError(
            f"there are no rows of {len(missing)} nodes that were passivated, {min(missing)} among them"
        )

    async def _read_through(self) -> tuple[list[Place], int]:
        marks: list[Place] = []
        count = 0
        place: Place | None = (0, None) if self._roots else None
        while place is not None:
            number, after = place
            page, place = await self._page(place, values=False)
            for path, _ in page:
                if self._counts(path):
                    if not count % STEP:
                        marks.append((number, after))
                    count += 1
                after = path
        return marks, count

    async def rows(self, start: int, stop: int) -> AsyncGenerator[list[tuple[Fqn, Node]], None]:
        """Yield the rows from ``start`` to ``stop``, as they come.

        Raises:
            UnknownSnapshot: the snapshot was closed meanwhile.
            StoreError: the store fails, or a row of it is damaged.
        """
        stop = min(stop, self.count)
        at = start // STEP * STEP
        place = (await self._places())[start // STEP] if start < stop else None
        while place is not None and at < stop:
            page, place = await self._page(place, values=True)
            found = [(path, data) for path, data in page if self._counts(path)]
            wanted = found[max(0, start - at) : stop - at]
            at += len(found)
            if wanted:
                yield [(path, _node(path, data)) for path, data in wanted]

    async def aclose(self) -> None:
        self._closed = True
        await asked(self._picture.aclose)

    def _counts(self, path: Fqn) -> bool:
        if self._only is not None:
            return path in self._only
        return not (path.is_within(self._hidden) or any(path in of for of in self._left_out))

    async def _page(
        self, place: Place, *, values: bool
    ) -> tuple[Sequence[tuple[Fqn, bytes]], Place | None]:
        """Return the rows after a place, at most ``STEP``, and the place of the next ones."""
        if self._closed:
            raise UnknownSnapshot("the snapshot was closed while it was read")
        number, after = place
        page = await asked(self._picture.page, self._roots[number], after, STEP, values=values)
        if len(page) == STEP:
            return page, (number, page[-1][0])
        return page, (number + 1, None) if number + 1 < len(self._roots) else None


def _node(path: Fqn, data: bytes) -> Node:
    try:
        return node_from_bytes(data)
    except ValueError as error:
        raise StoreError(f"the row of {path} in the store is damaged: {error}") from None
