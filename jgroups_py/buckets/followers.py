"""Followers: the mirrors that follow one index copy, and the rows that they get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import BucketRow, Follow, IndexState, Rows

FOLLOWERS_MAX: Final = 10_000
"""The most mirrors that follow one copy. Further ones get no rows, counted ``followers_full``."""


class Followers:
    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._mirrors: dict[Cep, None] = {}

    def follow(self, mirror: Cep, follow: Follow, state: IndexState) -> Rows | None:
        """Add a mirror. Return the rows that it lacks."""
        if mirror not in self._mirrors and len(self._mirrors) >= FOLLOWERS_MAX:
            self._counts["followers_full"] += 1
            return None
        self._mirrors[mirror] = None
        if state.version <= follow.version:
            return None
        return Rows(0, _without_exempted(state, state.rows, whole=True))

    def on_view(self, members: Collection[str]) -> None:
        """Forget the mirrors of lost members."""
        self._mirrors = {cep: None for cep in self._mirrors if cep.member in members}

    def news(self, before: IndexState, state: IndexState) -> list[tuple[Cep, Rows]]:
        """Return the message to each mirror about a decided state."""
        if not self._mirrors:
            return []
        rows = {b: row for b, row in state.rows.items() if row != before.rows.get(b)}
        message = Rows(before.version, _without_exempted(state, rows, whole=not before.version))
        return [(mirror, message) for mirror in self._mirrors]


def _without_exempted(state: IndexState, rows: dict[int, BucketRow], whole: bool) -> IndexState:
    return IndexState(state.version, rows, state.copies, state.managers, whole=whole)
