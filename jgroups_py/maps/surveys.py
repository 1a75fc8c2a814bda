"""MapSurveys: makes hosts equal again when one of them has values whose removal another one has forgotten.

    a survey               lists the changes of an origin that are still in the sender's map. The receiver drops all others of that origin: the
                           sender has seen them, so it has replaced or removed them
    a peer lacks removals  that are forgotten here: the peer gets a survey, when it has all changes that may have replaced its values
    two hosts have the     They compare sums over their maps. If the sums differ twice, both get a survey. So a survey that was cut off needs no
      same changes         note on the disk: hosts notice any difference, whatever its cause
    two hosts never have   because both are written all the time: a new peer gets a survey after ``compare_wait``, and each peer
      the same changes     ``tombstone_age`` after its last comparison. So does a peer that lags while tombstones get too old

Source:  Bieniusa and others, An optimized conflict-free replicated set (2012).
Limits:  SURVEY_NUMBERS in one message, one message for each call of ``following``. Comparisons that differ one after another wait for twice as long each time, up to
         PAUSE_MAX.

Why twice: a change that was replaced is not passed on. Its replacement comes from the host that made it, perhaps a
moment later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Protocol

from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.messages import SURVEY_NUMBERS, Have, MapSurvey
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.sums import Contents, compared
from jgroups_py.maps.table import Vector

PAUSE_MAX: Final = 3600.0
"""The most seconds until two hosts that still differ after a survey compare again."""


class SurveyedTable(Protocol):
    """The part of a table that surveys need."""

    def contents(self) -> Contents: ...
    def changes(
        self, origin: int, after: int, to: int, most: int
    ) -> Iterator[tuple[int, bytes, MapEntry]]: ...
    def drop(self, dots: Iterable[tuple[int, int]]) -> None: ...
    def note_lacking(self) -> None: ...
    @property
    def forgotten(self) -> Mapping[int, int]: ...


class MapDifference(Enum):
    """The result of a comparison. FIRST: it may be over soon. SURVEYED: a survey has begun. UNEXPLAINED: no removal was forgotten that a host may
    lack, so nothing is dropped."""

    FIRST = auto()
    SURVEYED = auto()
    UNEXPLAINED = auto()


@dataclass(slots=True)
class _Surveyed:
    """The state of one peer."""

    due: float
    """The time when the peer gets a survey if it could not be compared until then."""
    goal: Vector | None = None
    """The peer gets a survey of these changes when it has them all."""
    upto: Vector = field(default_factory=dict)
    """By origin, the number up to which the peer has got that survey."""
    differed: int = 0
    """Comparisons that differed since the last one that did not."""
    again: float = 0.0
    """The time when the peer is compared again after a comparison that differed."""


class MapSurveys:
    """The surveys by number of a link. ``now`` is in seconds."""

    def __init__(self, settings: ReplicaSettings, table: SurveyedTable) -> None:
        self._settings = settings
        self._table = table
        self._peers: dict[int, _Surveyed] = {}

    def opened(self, link: int, now: float) -> None:
        self._peers[link] = _Surveyed(now + self._settings.compare_wait)

    def closed(self, link: int) -> None:
        self._peers.pop(link, None)

    # --- the side that gives surveys

    def begin(self, link: int) -> None:
        """Give the peer a survey of all present changes."""
        peer = self._peers[link]
        peer.goal, peer.upto = self._table.contents().vector, {}

    def lacks(self, vector: Mapping[int, int]) -> bool:
        """Has a host with these changes missed removals that are forgotten here?"""
        forgotten = self._table.forgotten.items()
        return any(vector.values()) and any(vector.get(o, 0) < n for o, n in forgotten)

    def note_lacking(self) -> None:
        """Note on the disk that a host may lack removals that were forgotten. InboxFull: call it again."""
        if not self._table.contents().lacking:
            self._table.note_lacking()

    def compare(self, link: int, have: Have, now: float) -> MapDifference | None:
        """Compare a peer's map with this host's map, if both have the same changes. None: as far as is known now, the maps do
        not differ."""
        peer = self._peers[link]
        if have.sum is None or peer.goal is not None or now < peer.again:
            return None
        vector, sums, lacking = self._table.contents()
        if _some(vector.items()) != _some(have.vector):
            return None
        peer.due = now + self._settings.tombstone_age
        if compared(sums, have.clock) == have.sum:
            peer.differed = 0
            return None
        peer.again = now + min(self._settings.repair_wait / 2 * 2**peer.differed, PAUSE_MAX)
        peer.differed = min(peer.differed + 1, 30)
        if peer.differed == 1:
            return MapDifference.FIRST
        if not (lacking or have.lacking):
            return MapDifference.UNEXPLAINED
        self.begin(link)
        return MapDifference.SURVEYED

    def following(self, link: int, has: Mapping[int, int], now: float) -> MapSurvey | None:
        """Return the next message of a survey to a peer that ``has`` these changes."""
        peer = self._peers[link]
        if peer.goal is None and now >= peer.due:
            peer.due = now + self._settings.tombstone_age
            if self._table.contents().lacking:
                self.begin(link)
        goal = peer.goal
        if goal is None or any(has.get(origin, 0) < number for origin, number in goal.items()):
            return None
        for origin, to in goal.items():
            after = peer.upto.get(origin, 0)
            if after >= to:
                continue
            numbers = [n for n, _, _ in self._table.changes(origin, after, to, SURVEY_NUMBERS)]
            upto = peer.upto[origin] = to if len(numbers) < SURVEY_NUMBERS else numbers[-1]
            return MapSurvey(origin, after, upto, numbers)
        peer.goal = None
        return None

    # --- the side that gets them

    def take(self, survey: MapSurvey) -> int:
        """Drop changes that are gone at the sender, and return their number. InboxFull: take the survey again."""
        origin, there = survey.origin, set(survey.numbers)
        after, gone = survey.after, []
        while changes := list(self._table.changes(origin, after, survey.to, SURVEY_NUMBERS)):
            gone += [(origin, number) for number, _, _ in changes if number not in there]
            after = changes[-1][0]
        if gone:
            self._table.drop(gone)
        return len(gone)


def _some(vector: Iterable[tuple[int, int]]) -> Vector:
    return {origin: number for origin, number in vector if number}
