"""Confirmations: what each host has, and nothing older can come from it. A tombstone that all hosts have confirmed may be forgotten.

    a host says what it has      remembered, unless something that it has said before is not confirmed yet
    all that it had written      what it had then is confirmed: whatever it sends later is newer, because its clock has seen that
      before is here
    its link ends                what it had confirmed stays; what it had only said goes

What a host says is taken as of one moment. Nothing that came before or after it is mixed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jgroups_py.maps.table import Vector


class Confirmations:
    """By identifier of a host."""

    def __init__(self) -> None:
        self._confirmed: dict[int, Vector] = {}
        self._told: dict[int, tuple[int, Vector]] = {}
        """Origin of the host, and what it said that it has."""

    def told(self, node: int, origin: int, vector: Iterable[tuple[int, int]]) -> None:
        """A host, whose changes have this origin, says what it has."""
        if node not in self._told:
            self._told[node] = origin, dict(vector)

    def parted(self, node: int) -> None:
        """The link with a host has ended."""
        self._told.pop(node, None)

    def settle(self, mine: Mapping[int, int]) -> None:
        """``mine``: what this host has now."""
        for node, (origin, vector) in list(self._told.items()):
            if mine.get(origin, 0) >= vector.get(origin, 0):
                self._confirmed[node] = vector
                del self._told[node]

    def cover(self, nodes: Iterable[int], dots: Mapping[int, int]) -> bool:
        """Whether all these hosts have confirmed these changes."""
        return all(
            self._confirmed.get(node, {}).get(origin, 0) >= number
            for node in nodes
            for origin, number in dots.items()
        )
