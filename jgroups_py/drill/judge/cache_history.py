"""All that happened to one key of a cache, and which of its writes are surely later than which.

    before(v, w)   v was acknowledged before w began, both in one life of one site; or w said that it
                   replaces v; or there is something in between

What is not ordered so may have taken effect in any order: writes that overlap in time, and writes of two
sites that had not heard of each other (the higher stamp wins, and the judge knows nothing of stamps).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jgroups_py.drill.judge.rules import NEVER

Version = tuple[str, str, int]
"""The writer of a value: site, ``NAME#incarnation``, and its number of that writer."""


@dataclass
class HistoryWrite:
    began: float
    acked: float = NEVER
    refused: bool = False
    """Its writer was told that certainly nothing was changed."""
    removed: bool = False
    looked: float | None = None
    """When it said what it replaces; None: it did not."""
    over: Version | None = None
    """The value that it replaces, if it looked."""

    @property
    def at(self) -> float:
        """It took effect later."""
        return self.began if self.looked is None else self.looked


class Read(NamedTuple):
    t: float
    began: float
    who: str
    version: Version | None
    last: bool


class History:
    """``writes`` are all there; then ``Order`` can tell."""

    def __init__(self) -> None:
        self.writes: dict[Version, HistoryWrite] = {}
        self.reads: dict[str, list[Read]] = {}
        """By site."""
        self.owners: dict[str, dict[str, Version]] = {}
        """At the end, by site and ``NAME#incarnation``, of members of the view that most hold."""
        self.discarded: list[tuple[float, Version | None]] = []
        """The values that merges dropped and listed, and when; None: a removal, or something unknown."""


class Order:
    """``failures``: by site, when it failed as a whole: what it is told afterwards is another life."""

    def __init__(self, history: History, failures: Mapping[str, Sequence[float]]) -> None:
        self.writes = history.writes
        self._failures = failures
        self._discarded = history.discarded
        versions = sorted(self.writes, key=lambda version: self.writes[version].at)
        self._bit = {version: 1 << number for number, version in enumerate(versions)}
        acked: dict[str, list[tuple[float, Version]]] = {}
        for version, write in self.writes.items():
            if write.acked < NEVER:
                acked.setdefault(version[0], []).append((write.acked, version))
        self._acked = {site: sorted(ends) for site, ends in acked.items()}
        self._earlier: dict[Version, int] = {}
        for version in versions:
            self._earlier[version] = self._before(version)

    def _before(self, version: Version) -> int:
        write, earlier = self.writes[version], 0
        for other in self.done(version[0], write.began):
            earlier |= self._bit[other] | self._earlier.get(other, 0)
        if write.looked is not None and write.over in self.writes and not write.refused:
            assert write.over is not None
            earlier |= self._bit[write.over] | self._earlier.get(write.over, 0)
        return earlier

    def done(self, site: str, by: float) -> list[Version]:
        """The values that the site had acknowledged before ``by``, in the life it lives then."""
        ends = self._acked.get(site, [])
        since = max((t for t in self._failures.get(site, ()) if t < by), default=-NEVER)
        return [version for t, version in ends[: bisect_left(ends, (by,))] if t > since]

    def before(self, version: Version, other: Version) -> bool:
        """Is ``version`` surely older than ``other``?"""
        return bool(self._earlier.get(other, 0) & self._bit.get(version, 0))

    def later(self, version: Version | None, among: Sequence[Version], by: float) -> list[Version]:
        """Those ``among`` which are acknowledged, and surely later than what was found ``by`` then."""
        if version is None:
            # Nothing was there yet; or a removal, whichever is possible, has taken effect.
            found = [list(among)] + [
                self._later(removal, among)
                for removal, write in self.writes.items()
                if write.removed and not write.refused and write.at < by
            ]
            return min(found, key=len)
        write = self.writes.get(version)
        if write is None or write.refused:
            return list(among)
        return self._later(version, among)

    def _later(self, version: Version, among: Sequence[Version]) -> list[Version]:
        bit = self._bit[version]
        return [other for other in among if self._earlier[other] & bit]

    def listed(self, version: Version) -> bool:
        """Was it dropped by a merge that says so, or something that replaced it?"""
        for t, dropped in self._discarded:
            these = [dropped] if dropped is not None else self._removals(t)
            if any(version == v or (v in self.writes and self.before(version, v)) for v in these):
                return True
        return False

    def _removals(self, by: float) -> list[Version]:
        """One of these may be what was dropped without a value."""
        return [v for v, write in self.writes.items() if write.removed and write.acked < by]

    def known(self, version: Version | None) -> bool:
        """Can it be found at all: did somebody write it, who was not told that nothing was changed?"""
        if version is None:
            return True
        write = self.writes.get(version)
        return write is not None and not write.refused

    def covered(self, version: Version, seen: Sequence[Version | None]) -> bool:
        """Was it there, or something surely later?"""
        bit = self._bit[version]
        return any(bit & (self._bit.get(v, 0) | self._earlier.get(v, 0)) for v in seen if v)
