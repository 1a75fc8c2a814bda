"""Two members of the view under one logical name: one warning for each pair.

Logs, tools and drills name members by their logical names. The transport asks this table after each
view and after each name that it learns. It warns of a pair that is still in the view ``AFTER`` seconds
later. Until then the second one may be a member that was started again, and whose former self is still
in the view.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jgroups_py.values.address import Address

AFTER: Final = 10.0
"""Seconds between the first sight of a pair and its warning."""
MAX_TOLD: Final = 20
"""The most warnings in the life of a stack; further pairs are not logged."""

Pair = tuple[Address, Address]
"""A member, and the first one of the view that has the same name."""


class Namesakes:
    """The pairs of the present view that were logged."""

    def __init__(self) -> None:
        self._told: dict[Pair, None] = {}
        self._lines = 0

    def changed(self, members: tuple[Address, ...], names: Mapping[Address, str]) -> bool:
        """Note that the view or a name is new. Return whether a pair is to be logged after ``AFTER``."""
        for pair in list(self._told):
            if pair[0] not in members or pair[1] not in members:
                del self._told[pair]
        return self._lines < MAX_TOLD and bool(self._pairs(members, names))

    def due(self, members: tuple[Address, ...], names: Mapping[Address, str]) -> list[Pair]:
        """Return the pairs to log now, and note them as logged."""
        pairs = self._pairs(members, names)[: MAX_TOLD - self._lines]
        for pair in pairs:
            self._told[pair] = None
        self._lines += len(pairs)
        return pairs

    def _pairs(self, members: tuple[Address, ...], names: Mapping[Address, str]) -> list[Pair]:
        """Return the pairs that were not logged yet: each member with the first one of its name."""
        first: dict[str, Address] = {}
        pairs = []
        for member in members:
            name = names.get(member)
            if name is not None:
                other = first.setdefault(name, member)
                if other != member and (other, member) not in self._told:
                    pairs.append((other, member))
        return pairs
