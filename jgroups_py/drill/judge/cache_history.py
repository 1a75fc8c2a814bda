"""The history of one key of a cache, and the certain order of its writes.

    before(v, w)   v was acknowledged before w began, both in one life of one site; or w reported that it
                   replaces v; or another write lies between them

Other writes may have taken effect in any order: those that overlap in time, and those of two sites that did not know of
each other (the higher stamp wins, and the judge knows no stamps).
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
    """Its writer learned that certainly nothing was changed."""
    removed: bool = False
    looked: float | None = None
    """The time when the writer reported the value that it replaces. None: there was no report."""
    over: Version | None = None
    """The value that it replaces, if it looked."""

    @property
    def at(self) -> float:
        """The earliest time at which it took effect."""
        return self.began if self.looked is None else self.looked


class Read(NamedTuple):
    t: float
    began: float
    who: str
    version: Version | None
    last: bool


class History:
    """Complete when all ``writes`` are known; then ``Order`` compares them."""

    def __init__(self) -> None:
        self.writes: dict[Version, HistoryWrite] = {}
        self.reads: dict[str, list[Read]] = {}
        """The reads by site."""
        self.owners: dict[str, dict[str, Version]] = {}
        """The owners at the end, by site and ``NAME#incarnation``, for members of the view that most hold."""
        self.discarded: list[tuple[float, Version | None]] = []
        """Values that merges dropped and listed, and when. None: a removal or an unknown value."""


class Order:
    """``failures``: by site, when it failed as a whole. After that its life is a new one."""

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
        """Return the values that the site had acknowledged before ``by``, in its life at that time."""
        ends = self._acked.get(site, [])
        since = max((t for t in self._failures.get(site, ()) if t < by), default=-NEVER)
        return [version for t, version in ends[: bisect_left(ends, (by,))] if t > since]

    def before(self, version: Version, other: Version) -> bool:
        """Is ``version`` surely older than ``other``?"""
        return bool(self._earlier.get(other, 0) & self._bit.get(version, 0))

    def later(self, version: Version | None, among: Sequence[Version], by: float) -> list[Version]:
        """Return the acknowledged writes ``among`` which are surely later than the value found ``by`` then."""
        if version is None:
            # Either nothing was written yet, or a possible removal has taken effect.
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
        """Has a merge listed it, or a later value, as dropped?"""
        for t, dropped in self._discarded:
            these = [dropped] if dropped is not None else self._removals(t)
            if any(version == v or (v in self.writes and self.before(version, v)) for v in these):
                return True
        return False

    def _removals(self, by: float) -> list[Version]:
        """Return the removals that may be the dropped entry without a value."""
        return [v for v, write in self.writes.items() if write.removed and write.acked < by]

    def known(self, version: Version | None) -> bool:
        """Return whether the value may be found: a writer wrote it, and was not certainly refused."""
        if version is None:
            return True
        write = self.writes.get(version)
        return write is not None and not write.refused

    def covered(self, version: Version, seen: Sequence[Version | None]) -> bool:
        """Was it, or a surely later value, there?"""
        bit = self._bit[version]
        return any(bit & (self._bit.get(v, 0) | self._earlier.get(v, 0)) for v in seen if v)
