"""The verdict on a drill of maps, from the puts of applications, and from each other's values that they saw.

    lost        keys with a wrong value at a host at the end: the host has no value, or a value surely older than an owed put
                (``map_history.KeyHistory.before``), or a value that nobody put
    owed        the puts that a host must have: those that returned at hosts that are present at the end and not cut off from
                it, even if these hosts were killed meanwhile; and puts of other hosts that one of these has seen
    diverged    keys with different values at two hosts at the end, if the two are not cut off from each other
    stale       keys of which a host read or saw a value surely older than one that it had put or seen before; a kill of
                its process in between is no excuse
    unsent      puts that returned at a host that is absent at the end, and that no other host ever saw or replaced
    lag         the time from the return of a put until another host, which ran all the time, has it or its replacement
    divergence  the time for which a key differed between running hosts, cut off from each other or not
    healed      the time from a heal, restart or resume until all keys that differed then are equal

May import: evidence, rules. Imported by: judged, report.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jgroups_py.drill.file.model import Expectation
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.figures import Figures, buffers
from jgroups_py.drill.judge.flows import percentile
from jgroups_py.drill.judge.map_history import (
    Histories,
    KeyDifference,
    KeyHistory,
    Put,
    Version,
    differences,
    text_of,
)
from jgroups_py.drill.judge.rules import (
    NEVER,
    ExpectationsVerdict,
    Fault,
    Measured,
    Who,
    detections,
    held,
    largest,
    unhealed,
)

MENDS: Final = ("heal", "restart", "resume")
"""Events after which hosts must become equal."""


@dataclass
class MapKey:
    """The fate of one key."""

    key: int
    puts: int = 0
    """Puts that returned, removals included."""
    found: dict[str, str | None] = field(default_factory=dict)
    """The values at the end, by host (``SITE.NAME``)."""
    lost: int = 0
    """Puts later than the found value, at the host that lacks most."""
    lost_at: list[str] = field(default_factory=list)
    missing: Version | None = None
    """The last of those puts."""
    diverged: bool = False
    stale: list[str] = field(default_factory=list)
    """Hosts with stale reads, once for each read."""

    @property
    def bad(self) -> bool:
        return bool(self.lost_at or self.diverged or self.stale)


@dataclass
class MapNumbers:
    """The numbers of one site."""

    puts: int = 0
    removals: int = 0
    reads: int = 0
    seen: int = 0
    failed: int = 0
    lost: int = 0
    stale: int = 0
    unsent: int = 0
    views: int = 0


class PutLag(NamedTuple):
    """A put that reached another host."""

    put: float
    """The time when the put returned."""
    seconds: float
    origin: Who
    target: Who


@dataclass
class MapVerdict(ExpectationsVerdict):
    sites: dict[str, MapNumbers] = field(default_factory=dict)
    keys: list[MapKey] = field(default_factory=list)
    detections: list[Measured] = field(default_factory=list)
    lags: list[PutLag] = field(default_factory=list)
    differences: list[KeyDifference] = field(default_factory=list)
    healings: list[Measured] = field(default_factory=list)
    unsent: list[Put] = field(default_factory=list)

    def lag(self, part: float) -> float | None:
        """Return a percentile of the lags by nearest rank; 1.0: the longest."""
        return percentile(sorted(lag.seconds for lag in self.lags), part)

    @property
    def divergence(self) -> float | None:
        """Return the longest divergence. None: a key differs to the end."""
        longest = max((one.end - one.start for one in self.differences), default=0.0)
        return longest if longest < NEVER else None


def judge(evidence: Evidence, *, expect: Sequence[Expectation] = ()) -> MapVerdict:
    """Judge a drill of maps."""
    histories = Histories(evidence)
    ends = _Ends(histories, evidence)
    verdict = MapVerdict(sites={site: MapNumbers() for site in evidence.sites})
    for number, key in sorted(histories.keys.items()):
        verdict.keys.append(_judged(number, key, ends))
        verdict.lags += _lags(key, histories, evidence)
        verdict.unsent += ends.unsent(key)
    verdict.lags.sort()
    verdict.differences = sorted(differences(histories, evidence), key=lambda one: one.start)
    verdict.healings = _healings(histories, evidence, verdict.differences)
    verdict.detections = detections(evidence)
    _count(evidence, verdict)
    measured: dict[str, float | None] = {
        "lost": sum(bool(key.lost_at) for key in verdict.keys),
        "diverged": sum(key.diverged for key in verdict.keys),
        "stale": sum(bool(key.stale) for key in verdict.keys),
        "unsent": len(verdict.unsent),
        "detection": largest(verdict.detections),
        "lag": verdict.lag(1.0),
        "lag_p50": verdict.lag(0.5),
        "lag_p99": verdict.lag(0.99),
        "divergence": verdict.divergence,
    }
    verdict.expectations = held(expect, measured, otherwise=largest(verdict.healings))
    return verdict


class _Ends:
    """The hosts present at the end, and which of them reach each other."""

    def __init__(self, histories: Histories, evidence: Evidence) -> None:
        self.hosts = [who for who in histories.asked if evidence.ended(who) == NEVER]
        self._places = {who.place for who in self.hosts}
        self._cuts = unhealed(evidence.faults)

    def reach(self, one: str, other: str) -> bool:
        """Do two hosts reach each other?"""
        for sides in self._cuts:
            at = [[place in side for side in sides] for place in (one, other)]
            if any(at[0]) and any(at[1]) and at[0] != at[1]:
                return False
        return True

    def owed(self, key: KeyHistory, to: Who) -> list[Version]:
        """Return the puts that a host must have, or something later."""
        near = [who for who in self.hosts if self.reach(who.place, to.place)]
        places = {who.place for who in near}
        known = {step.version for who in near for step in key.steps.get(who, ())}
        return [
            version
            for version, put in key.puts.items()
            if put.acked < NEVER and (put.who.place in places or version in known)
        ]

    def unsent(self, key: KeyHistory) -> list[Put]:
        known = {step.version for who in self.hosts for step in key.steps.get(who, ())}
        return [
            put
            for version, put in key.puts.items()
            if put.acked < NEVER
            and put.who.place not in self._places
            and version not in known
            and not any(key.before(version, other) for other in key.puts)
        ]


def _judged(number: int, key: KeyHistory, ends: _Ends) -> MapKey:
    found = MapKey(number, sum(put.acked < NEVER for put in key.puts.values()))
    for who in ends.hosts:
        version = key.ends.get(who)
        found.found[who.place] = text_of(version)
        owed = ends.owed(key, who)
        lacking = key.outdated(version, owed, NEVER)
        if lacking or (version is not None and version not in key.puts):
            found.lost_at.append(who.place)
            if len(lacking) >= found.lost:
                found.lost = len(lacking)
                newest = max(lacking, key=lambda v: key.puts[v].began, default=None)
                found.missing = newest
    found.diverged = any(
        key.ends.get(one) != key.ends.get(other) and ends.reach(one.place, other.place)
        for place, one in enumerate(ends.hosts)
        for other in ends.hosts[:place]
    )
    for place in key.reads:
        found.stale += [place] * _stale(key, place)
    return found


def _stale(key: KeyHistory, place: str) -> int:
    """Count how often a host went back to an older value."""
    known: list[Version] = []
    times = 0
    for read in key.reads[place]:
        version = read.version
        if not read.own and key.outdated(version, known, read.t):
            times += 1
        elif version is not None:
            known = [one for one in known if not key.before(one, version)] + [version]
    return times


def _lags(key: KeyHistory, histories: Histories, evidence: Evidence) -> list[PutLag]:
    found = []
    for put in key.puts.values():
        if put.acked == NEVER:
            continue
        for who, began in histories.began.items():
            if who.place == put.who.place or began > put.began or evidence.ended(who) < put.acked:
                continue
            t = key.reached(who, put)
            if t is not None:
                found.append(PutLag(put.acked, max(0.0, t - put.acked), put.who, who))
    return found


def _healings(
    histories: Histories, evidence: Evidence, differing: Sequence[KeyDifference]
) -> list[Measured]:
    found = []
    for fault in evidence.faults:
        if fault.event not in MENDS:
            continue
        t = fault.t
        if fault.event == "restart":
            assert fault.who is not None
            if fault.who not in histories.began:  # that host never opened its map
                found.append(Measured(t, fault.event, fault.who, fault.who.site, None))
                continue
            t = histories.began[fault.who]
        ends = [one.end for one in differing if one.start <= t < one.end]
        longest = max(ends, default=t)
        seconds = longest - fault.t if longest < NEVER else None
        site = _sides(fault) if fault.site is None else fault.site
        found.append(Measured(fault.t, fault.event, fault.who, site, seconds))
    return found


def _sides(fault: Fault) -> str:
    """Return ``NYC | SFO``; the names of members where a site was cut in itself."""
    sides = fault.detail["groups"]
    sites = [list(dict.fromkeys(name.partition(".")[0] for name in side)) for side in sides]
    apart = len({site for side in sites for site in side}) == sum(map(len, sites))
    return " | ".join(", ".join(names) for names in (sites if apart else sides))


def _count(evidence: Evidence, verdict: MapVerdict) -> None:
    names = {"put": "puts", "got": "reads", "seen": "seen", "failed": "failed"}
    for record in evidence.marks:
        if record.site is None or record.event not in names:
            continue
        numbers = verdict.sites[record.site]
        removed = record.event == "put" and (record.detail or {}).get("removed")
        name = "removals" if removed else names[record.event]
        setattr(numbers, name, getattr(numbers, name) + 1)
    for key in verdict.keys:
        for site, numbers in verdict.sites.items():
            numbers.lost += any(place.startswith(f"{site}.") for place in key.lost_at)
            numbers.stale += any(place.startswith(f"{site}.") for place in key.stale)
    for put in verdict.unsent:
        verdict.sites[put.who.site].unsent += 1
    for site, numbers in verdict.sites.items():
        numbers.views = evidence.count_views(site)


def differing(verdict: MapVerdict, edges: Sequence[float]) -> list[float]:
    """Return, for each bin, the most keys that differed at once."""
    found = [0.0] * (len(edges) - 1)
    count = 0
    marks = sorted(
        [(one.start, 1) for one in verdict.differences]
        + [(one.end, -1) for one in verdict.differences if one.end < NEVER]
    )
    at = 0
    for place, (_start, end) in enumerate(itertools.pairwise(edges)):
        found[place] = count
        while at < len(marks) and marks[at][0] <= end:
            count += marks[at][1]
            at += 1
            found[place] = max(found[place], count)
    return found


def lags_by_time(lags: Sequence[PutLag], edges: Sequence[float], part: float) -> list[float | None]:
    """Return a percentile for each bin, by the time of the put. ``lags`` are sorted."""
    times = [lag.put for lag in lags]
    cuts = [bisect_right(times, edge) for edge in edges]
    return [
        percentile(sorted(lag.seconds for lag in lags[a:b]), part)
        for a, b in itertools.pairwise(cuts)
    ]


def figures(verdict: MapVerdict, evidence: Evidence) -> Figures:
    """Return an operator's figures: latency is the lag."""
    fullest, growth = buffers(evidence)
    return Figures(
        latency_p50=verdict.lag(0.5),
        latency_p99=verdict.lag(0.99),
        lag=verdict.lag(1.0),
        buffer=fullest,
        growth=growth,
    )
