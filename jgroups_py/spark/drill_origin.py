"""OriginRecord: judges the messages of one origin in one drill, in a worker, from its sends and deliveries.

The columns of its input are order, t, event ("send", "deliver"), site, member (the receiver's ``NAME#incarnation``) and
seqno. Its output is rows of ``FOUND``, which the driver adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from jgroups_py.drill.judge.rules import NEVER, Who
from jgroups_py.spark.drill_course import RunRecord

FOUND: Final = (
    "run string, what string, site string, origin_site string, origin string, seqno bigint, "
    "at array<string>, number double, bins array<bigint>"
)
"""``what``: lost, lost_inside, unrelayed, duplicated, out_of_order (a finding each); sent, delivered, unsent
(``number`` of them); rpo, takeover (``seqno`` is the fall, ``number`` seconds); lag (``seqno`` is a second of the
drill; ``bins`` count its deliveries by duration)."""
BINS: Final = 1200
LEAST: Final = 1e-6
RATIO: Final = 1.02
"""Bin n has times up to LEAST * RATIO ** n seconds: 2 % exact, up to hours."""

Row = tuple[Any, ...]


def bins_of(seconds: Any) -> Any:
    """Return the index of the bin of each time."""
    exponent = np.ceil(np.log(np.maximum(seconds, LEAST) / LEAST) / np.log(RATIO))
    return np.clip(exponent.astype(np.int64), 0, BINS - 1)


def percentile(bins: Sequence[int], part: float) -> float:
    """Return the seconds below which this part of the deliveries lies. NaN: there are none."""
    counts = np.cumsum(np.asarray(bins, dtype=np.int64))
    if not len(counts) or not counts[-1]:
        return float("nan")
    return float(LEAST * RATIO ** int(np.searchsorted(counts, part * counts[-1])))


class Had:
    """The deliveries of the origin's messages at one member. Index 0 is seqno 1; ``inf``: not delivered."""

    def __init__(self, member: Who, given: Sequence[int], rows: Any) -> None:
        """``given``: the places of its views in the log; ``rows``: order, t, seqno in the order of the log."""
        order, t, seqno = rows
        self.member = member
        highest = np.maximum.accumulate(seqno)
        _, first = np.unique(seqno, return_index=True)
        is_first: Any = np.zeros(len(seqno), dtype=bool)
        is_first[first] = True
        self.records = len(seqno)
        self.repeated = seqno[~is_first].tolist()
        before = np.concatenate(([0], highest[:-1]))
        self.late = seqno[is_first & (seqno < before)].tolist()
        self.t = np.full(int(highest[-1]), NEVER)
        self.t[seqno[first] - 1] = t[first]
        self.epoch = np.full(len(self.t), -1)
        self.epoch[seqno[first] - 1] = np.searchsorted(np.asarray(given), order[first]) - 1

    def has(self, top: int) -> Any:
        """Return an array for seqnos 1 to ``top``. True: it is there."""
        found: Any = np.zeros(top, dtype=bool)
        size = min(top, len(self.t))
        found[:size] = self.t[:size] < NEVER
        return found


class OriginRecord:
    """One origin's messages, and the members that had them."""

    def __init__(self, course: RunRecord, origin: Who, sent: Any, had: dict[Who, Had]) -> None:
        """``sent``: times, index 0 is seqno 1; NaN: unknown."""
        self.course = course
        self.origin = origin
        self.had = had
        self.top = max([len(sent), *(len(one.t) for one in had.values())])
        self.sent = np.full(self.top, -NEVER)
        self.sent[: len(sent)] = np.where(np.isnan(sent), -NEVER, sent)

    # --- findings: (what, site, seqno, at, number)

    def found(self) -> Iterator[tuple[str, str | None, int | None, list[str] | None, float | None]]:
        yield from self._relayed()
        for site in self.course.sites:
            yield from self._inside(site)
        home = self.origin.site
        known = self.sent > -NEVER
        nobody = known.copy()
        for one in self.had.values():
            nobody &= ~one.has(self.top)
            for seqno in one.repeated:
                yield "duplicated", one.member.site, seqno, [str(one.member)], None
            for seqno in one.late:
                yield "out_of_order", one.member.site, seqno, [str(one.member)], None
        yield "sent", home, None, None, float(known.sum())
        yield "unsent", home, None, None, float(nobody.sum())
        for site in self.course.sites:
            records = sum(one.records for one in self.had.values() if one.member.site == site)
            yield "delivered", site, None, None, float(records)
        yield from self._taken()

    def _relayed(self) -> Iterator[tuple[str, str, int, list[str], float | None]]:
        course, home = self.course, self.origin.site
        missing: dict[int, list[str]] = {}
        for site in course.sites:
            if site == home:
                continue
            for member, since in course.rules.must_have(site, home).items():
                one = self.had.get(member)
                lacks = self.sent >= since
                if one is not None:
                    lacks &= ~one.has(self.top)
                for index in np.flatnonzero(lacks).tolist():
                    missing.setdefault(index + 1, []).append(str(member))
        at_home = [one for one in self.had.values() if one.member.site == home]
        for seqno in sorted(missing):
            times = [
                float(one.t[seqno - 1])
                for one in at_home
                if seqno <= len(one.t) and one.t[seqno - 1] < NEVER
            ]
            fate = course.rules.fate(home, float(self.sent[seqno - 1]), times)
            if fate.what:
                yield fate.what, home, seqno, missing[seqno], fate.age

    def _inside(self, site: str) -> Iterator[tuple[str, str, int, list[str], None]]:
        having = [one for one in self.had.values() if one.member.site == site]
        top = max((len(one.t) for one in having), default=0)
        missing: dict[int, list[str]] = {}
        for member in self.course.members(site) if top else ():
            if member not in self.course.views:
                continue
            own = self.had.get(member)
            lacks = np.ones(top, dtype=bool) if own is None else ~own.has(top)
            if not lacks.any():
                continue
            owed: Any = np.zeros(top, dtype=bool)
            for other in having:
                if other.member != member:
                    owed[: len(other.t)] |= self._owed(member, other, lacks[: len(other.t)])
            for index in np.flatnonzero(owed & lacks).tolist():
                missing.setdefault(index + 1, []).append(str(member))
        for seqno in sorted(missing):
            yield "lost_inside", site, seqno, missing[seqno], None

    def _owed(self, member: Who, other: Had, lacks: Any) -> Any:
        """Return the messages that ``member`` lacks and must have, because ``other`` had them while they shared
        views."""
        owed = lacks & (other.t < NEVER)
        if not owed.any():
            return owed
        since = np.full(len(other.t), np.nan)  # NaN compares false
        for epoch in np.unique(other.epoch[owed]).tolist():
            start = self.course.rules.owed_since(member, other.member, epoch)
            if start is not None:
                since[other.epoch == epoch] = start
        return owed & (self.sent[: len(other.t)] >= since)

    def _taken(self) -> Iterator[tuple[str, str, int, None, float]]:
        """Yield, for each fall of a coordinator, the first delivery elsewhere of a later message."""
        course, home = self.course, self.origin.site
        known = np.flatnonzero(self.sent > -NEVER)
        if not len(known):
            return
        for number, (fall, taken) in enumerate(course.rules.falls()):
            if not taken:
                continue
            outward = course.rules.is_outward(fall.site, fall.t)
            start = int(np.count_nonzero(self._sorted_sends() <= fall.t))
            times = [
                one.t[start:].min()
                for one in self.had.values()
                if one.member.site != home
                and fall.site == (home if outward else one.member.site)
                and start < len(one.t)
            ]
            if times and min(times) < NEVER:
                yield "takeover", fall.site, number, None, float(min(times)) - fall.t

    def _sorted_sends(self) -> Any:
        sends = self.sent[: int(np.flatnonzero(self.sent > -NEVER)[-1]) + 1]
        return np.where(sends == -NEVER, NEVER, sends)

    # --- lag

    def lag(self) -> Iterator[tuple[str, int, Any]]:
        """Yield site, second of the drill, bins."""
        for site in self.course.sites:
            times, took = [], []
            for one in self.had.values():
                if one.member.site == site:
                    sent = self.sent[: len(one.t)]
                    good = (one.t < NEVER) & (sent > -NEVER)
                    times.append(one.t[good])
                    took.append(one.t[good] - sent[good])
            if not times:
                continue
            second = np.floor(np.concatenate(times)).astype(np.int64)
            index = bins_of(np.concatenate(took))
            for value in np.unique(second).tolist():
                counted = np.bincount(index[second == value], minlength=1)
                yield site, value, counted.tolist()


def who_of(site: str, origin: str) -> Who:
    """Return the member. ``origin``: ``NAME#incarnation``."""
    name, _, incarnation = origin.rpartition("#")
    return Who(site, name, int(incarnation))


def judging(courses: dict[str, RunRecord]) -> Callable[[tuple[Any, ...], Any], Any]:
    """Return the function that ``applyInPandas`` calls with (run, origin_site, origin) and the rows."""

    def judged(key: tuple[Any, ...], frame: Any) -> Any:
        import pandas as pd

        run, site, origin = (str(part) for part in key)
        names = [field.split()[0] for field in FOUND.split(", ")]
        rows = list(rows_of(courses[run], run, who_of(site, origin), frame))
        found = pd.DataFrame(rows, columns=names)
        return found.assign(seqno=found["seqno"].astype("Int64"))  # with gaps

    return judged


def rows_of(course: RunRecord, run: str, who: Who, frame: Any) -> Iterator[Row]:
    frame = frame.sort_values("order")
    sends = frame[frame["event"] == "send"]
    if who in course.silent:
        sends = sends[sends["order"] < course.silent[who]]
    sent = np.full(int(sends["seqno"].max()) if len(sends) else 0, np.nan)
    sent[sends["seqno"].to_numpy() - 1] = sends["t"].to_numpy()
    had: dict[Who, Had] = {}
    deliveries = frame[frame["event"] == "deliver"]
    for (site, member), rows in deliveries.groupby(["site", "member"], sort=False):
        receiver = who_of(str(site), str(member))
        if receiver in course.silent:
            rows = rows[rows["order"] < course.silent[receiver]]
        if len(rows):
            columns = [rows[name].to_numpy() for name in ("order", "t", "seqno")]
            had[receiver] = Had(receiver, course.given.get(receiver, []), columns)
    origin = OriginRecord(course, who, sent, had)
    if not origin.top:
        return
    for what, at_site, seqno, at, number in origin.found():
        yield run, what, at_site, who.site, who.origin, seqno, at, number, None
    for at_site, second, bins in origin.lag():
        yield run, "lag", at_site, who.site, who.origin, second, None, None, bins
