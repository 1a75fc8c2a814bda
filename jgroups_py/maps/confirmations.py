"""Confirmations: the changes that each host is known to have seen. A host sends no change older than those it
has seen. A tombstone that all hosts have confirmed may be forgotten.

    a host reports its changes   the report is remembered, unless an earlier one of that host is not confirmed yet
    this host has all of them    the report is confirmed: all later changes of that host are newer, because its clock has seen these
    its link ends                a confirmed report stays; an unconfirmed one is dropped

A host's report is of one moment. Earlier or later reports are not mixed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jgroups_py.maps.table import Vector


class Confirmations:
    """Confirmations by identifier of a host."""

    def __init__(self) -> None:
        self._confirmed: dict[int, Vector] = {}
        self._told: dict[int, tuple[int, Vector]] = {}
        """Origin of the host, and its reported but unconfirmed changes."""

    def told(self, node: int, origin: int, vector: Iterable[tuple[int, int]]) -> None:
        """Take a host's report of its changes. ``origin``: that of the host's own changes."""
        if node not in self._told:
            self._told[node] = origin, dict(vector)

    def parted(self, node: int) -> None:
        """Drop the unconfirmed report of a host whose link has ended."""
        self._told.pop(node, None)

    def settle(self, mine: Mapping[int, int]) -> None:
        """Confirm reports that ``mine``, this host's changes, contain."""
        for node, (origin, vector) in list(self._told.items()):
            if mine.get(origin, 0) >= vector.get(origin, 0):
                self._confirmed[node] = vector
                del self._told[node]

    def cover(self, nodes: Iterable[int], dots: Mapping[int, int]) -> bool:
        """Have all these hosts confirmed these changes?"""
        return all(
            self._confirmed.get(node, {}).get(origin, 0) >= number
            for node in nodes
            for origin, number in dots.items()
        )
