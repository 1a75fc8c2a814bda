"""The verdict on a drill of caches, key by key, from what applications were told.

    acknowledged  writes that returned without an error
    present       a value was found at the end
    lost          at the end nothing is found, or a value that was surely written before one that was
                  acknowledged: w1 was acknowledged before w2 began, w2 was acknowledged, w1 is found
    stale         reads that got such a value, or nothing, though w2 was acknowledged before they began
    doubly owned  at the end two members of one view say that they own it

A write without an answer, or with one that says "may have happened", may come true at any time later:
neither it nor its absence is held against the cache. Writes whose outcome overlaps in time may take
effect in any order. What is found that nobody wrote, or whose writer was told that certainly nothing was
changed, is stale as well.

``unprotected``: from a crash until every survivor's view lacks who fell and says that all it owns has its
copies. That, and which members are there at the end, is what caches say of themselves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jgroups_py.drill import judge as messages
from jgroups_py.drill.evidence import NEVER, Evidence, Who
from jgroups_py.drill.judge import Judged, Measured
from jgroups_py.drill.log import Record
from jgroups_py.drill.model import Expectation

Version = tuple[str, int]
"""Who wrote a value (``NAME#incarnation``), and its number of that writer."""


@dataclass
class Write:
    began: float
    acked: float = NEVER
    refused: bool = False
    """Its writer was told that certainly nothing was changed."""


class Read(NamedTuple):
    t: float
    began: float
    who: str
    version: Version | None
    last: bool


@dataclass
class Key:
    """What became of one key of a site."""

    site: str
    key: int
    acknowledged: int = 0
    present: bool = False
    lost: int = 0
    """Acknowledged writes that are later than what was found; 0: it is not lost."""
    found: str | None = None
    """``A#1/17``: what was found at the end."""
    missing: str | None = None
    """The last acknowledged write, if the key is lost."""
    stale: int = 0
    """Reads that got an older value than they had to."""
    owners: tuple[str, ...] = ()

    @property
    def doubly_owned(self) -> bool:
        return len(self.owners) > 1

    @property
    def bad(self) -> bool:
        return bool(self.lost or self.stale or self.doubly_owned)


@dataclass
class SiteNumbers:
    reads: int = 0
    misses: int = 0
    writes: int = 0
    acknowledged: int = 0
    failed: int = 0
    gravitations: int = 0
    lost: int = 0
    stale: int = 0
    doubly_owned: int = 0
    views: int = 0


@dataclass
class CacheVerdict:
    sites: dict[str, SiteNumbers] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    detections: list[Measured] = field(default_factory=list)
    unprotected: list[Measured] = field(default_factory=list)
    expectations: list[Judged] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return all(judged.holds for judged in self.expectations)


class _History:
    """All that happened to one key of one site."""

    def __init__(self) -> None:
        self.writes: dict[Version, Write] = {}
        self.reads: list[Read] = []
        self.owners: dict[str, Version] = {}
        """At the end, by ``NAME#incarnation``, of members of the view that most hold."""

    def judged(self, site: str, key: int) -> Key:
        acked = sorted((w.acked, w.began) for w in self.writes.values() if w.acked < NEVER)
        ends = [end for end, _ in acked]
        latest: list[float] = []
        """The latest beginning among the first n acknowledged writes."""
        for _, began in acked:
            latest.append(max(began, latest[-1]) if latest else began)

        def outdated(version: Version | None, by: float) -> bool:
            """Was it surely replaced by a write acknowledged before ``by``?"""
            count = bisect_left(ends, by)
            if version is None:
                return count > 0
            write = self.writes.get(version)
            if write is None or write.refused:
                return True
            return count > 0 and latest[count - 1] > write.acked

        found = Key(site, key, acknowledged=len(acked), owners=tuple(self.owners))
        found.stale = sum(outdated(r.version, r.began) for r in self.reads if not r.last)
        seen = [r.version for r in self.reads if r.last] + list(self.owners.values())
        there = [version for version in seen if version is not None]
        found.present = bool(there)
        last = there[0] if there else None
        found.found = None if last is None else f"{last[0]}/{last[1]}"
        if any(outdated(version, NEVER) for version in seen or [None]):
            worst = next(version for version in seen or [None] if outdated(version, NEVER))
            write = None if worst is None else self.writes.get(worst)
            since = -NEVER if write is None or write.refused else write.acked
            found.lost = max(1, sum(began > since for _, began in acked))
            newest = max(
                ((w.began, version) for version, w in self.writes.items() if w.acked < NEVER),
                default=None,
            )
            found.missing = None if newest is None else "/".join(map(str, newest[1]))
        return found


def judge(evidence: Evidence, *, expect: Sequence[Expectation] = ()) -> CacheVerdict:
    """Everything a drill of caches reports."""
    verdict = CacheVerdict(sites={site: SiteNumbers() for site in evidence.sites})
    histories = _histories(evidence)
    verdict.keys = [history.judged(site, key) for (site, key), history in sorted(histories.items())]
    _count(evidence, verdict)
    verdict.detections = messages.judge(evidence, primary=None, grace=0.0).detections
    verdict.unprotected = _unprotected(evidence)
    verdict.expectations = [_expectation(e, verdict) for e in expect]
    return verdict


def _histories(evidence: Evidence) -> dict[tuple[str, int], _History]:
    histories: dict[tuple[str, int], _History] = {}
    main = _main_views(evidence)
    for record in evidence.marks:
        detail = record.detail or {}
        assert record.site is not None or record.event not in _EVENTS
        if record.event == "census":
            if tuple(detail["members"]) != main.get(str(record.site)):
                continue
            for key, (origin, seqno) in detail["owned"].items():
                history = histories.setdefault((str(record.site), int(key)), _History())
                history.owners[_origin(record)] = (origin, seqno)
        elif record.event in _EVENTS:
            history = histories.setdefault((str(record.site), detail["key"]), _History())
            _add(history, record, detail, main.get(str(record.site)))
    return histories


_EVENTS = ("put", "acked", "failed", "got")


def _add(
    history: _History, record: Record, detail: dict[str, Any], main: tuple[str, ...] | None
) -> None:
    version = None
    if record.origin is not None and record.seqno is not None:
        version = (record.origin, record.seqno)
    match record.event:
        case "put":
            assert version is not None
            history.writes[version] = Write(record.t)
        case "acked":
            assert version is not None
            history.writes[version].acked = record.t
        case "failed" if version is not None:
            history.writes[version].refused = bool(detail.get("definite"))
        case "got":
            who, last = _origin(record), bool(detail.get("last"))
            if not last or (main is not None and who in main):
                history.reads.append(Read(record.t, record.t - detail["took"], who, version, last))


def _main_views(evidence: Evidence) -> dict[str, tuple[str, ...]]:
    """Of each site, the view in which most members are at the end."""
    held: dict[str, dict[tuple[str, ...], int]] = {}
    for record in evidence.marks:
        if record.event == "census":
            members = tuple((record.detail or {})["members"])
            counts = held.setdefault(str(record.site), {})
            counts[members] = counts.get(members, 0) + 1
    return {site: max(counts, key=lambda view: counts[view]) for site, counts in held.items()}


def _origin(record: Record) -> str:
    return f"{record.member}#{record.incarnation}"


def _count(evidence: Evidence, verdict: CacheVerdict) -> None:
    moved: dict[Who, int] = {}
    for record in evidence.marks:
        if record.site is None or record.event not in (*_EVENTS, "buddies"):
            continue
        numbers, detail = verdict.sites[record.site], record.detail or {}
        match record.event:
            case "put":
                numbers.writes += 1
            case "acked":
                numbers.acknowledged += 1
            case "failed":
                numbers.failed += 1
            case "got":
                numbers.reads += 1
                numbers.misses += record.origin is None
            case "buddies":
                who = Who(record.site, str(record.member), record.incarnation)
                moved[who] = detail["gravitations"]
    for who, count in moved.items():
        verdict.sites[who.site].gravitations += count
    for key in verdict.keys:
        numbers = verdict.sites[key.site]
        numbers.lost += key.lost > 0
        numbers.stale += key.stale > 0
        numbers.doubly_owned += key.doubly_owned
    for site, numbers in verdict.sites.items():
        seen = {v.key for who, vs in evidence.views.items() if who.site == site for v in vs}
        numbers.views = len(seen)


def _unprotected(evidence: Evidence) -> list[Measured]:
    told: dict[Who, list[tuple[float, bool, list[str]]]] = {}
    for record in evidence.marks:
        if record.event == "buddies" and record.site is not None:
            detail = record.detail or {}
            who = Who(record.site, str(record.member), record.incarnation)
            told.setdefault(who, []).append((record.t, detail["protected"], detail["members"]))
    found = []
    for fault in evidence.faults:
        victim = fault.who
        if victim is None or fault.event not in ("crash", "vanish"):
            continue
        took: list[float | None] = []
        for who, said in told.items():
            if who.site != victim.site or evidence.ended(who) < NEVER:
                continue
            if evidence.born.get(who, 0.0) <= fault.t:
                took.append(_since(fault.t, victim.origin, said))
        seconds = None if None in took else max((t for t in took if t is not None), default=None)
        found.append(
            Measured(fault.t, fault.event, victim, victim.site, seconds, required=bool(took))
        )
    return found


def _since(t: float, victim: str, said: Sequence[tuple[float, bool, list[str]]]) -> float | None:
    return next((at - t for at, ok, view in said if at >= t and ok and victim not in view), None)


def _expectation(expectation: Expectation, verdict: CacheVerdict) -> Judged:
    measured: float | None
    match expectation.name:
        case "lost":
            measured = sum(key.lost > 0 for key in verdict.keys)
        case "stale":
            measured = sum(key.stale > 0 for key in verdict.keys)
        case "doubly_owned":
            measured = sum(key.doubly_owned for key in verdict.keys)
        case "detection":
            measured = messages.largest(verdict.detections)
        case _:
            measured = messages.largest(verdict.unprotected)
    return Judged(expectation, measured, expectation.holds(measured))


def result(
    verdict: CacheVerdict,
    *,
    name: str,
    mode: str,
    seed: int,
    virtual_s: float | None,
    wall_s: float,
) -> dict[str, Any]:
    """The object that ``--json`` prints."""

    def seconds(value: float | None) -> float | None:
        return None if value is None else round(value, 6)

    keys = [_shown(key) for key in verdict.keys]
    return {
        "name": name,
        "mode": mode,
        "workload": "cache",
        "seed": seed,
        "verdict": "pass" if verdict.passed else "fail",
        "expectations": [
            {
                "name": judged.expectation.name,
                "limit": judged.expectation.text,
                "measured": seconds(judged.measured),
                "holds": judged.holds,
            }
            for judged in verdict.expectations
        ],
        "sites": {site: vars(numbers).copy() for site, numbers in verdict.sites.items()},
        "keys": keys,
        "lost": [
            {
                "site": key.site,
                "key": key.key,
                "origin": _part(key.missing, 0),
                "seqno": _part(key.missing, 1),
                "found": key.found,
                "writes": key.lost,
            }
            for key in verdict.keys
            if key.lost
        ],
        "stale": [
            {"site": key.site, "key": key.key, "reads": key.stale}
            for key in verdict.keys
            if key.stale
        ],
        "doubly_owned": [
            {"site": key.site, "key": key.key, "owners": list(key.owners)}
            for key in verdict.keys
            if key.doubly_owned
        ],
        "detection_s": [seconds(m.seconds) for m in verdict.detections],
        "unprotected_s": [seconds(m.seconds) for m in verdict.unprotected],
        "takeover_s": [],
        "rpo_s": None,
        "virtual_s": seconds(virtual_s),
        "wall_s": round(wall_s, 3),
    }


def _shown(key: Key) -> dict[str, Any]:
    return {
        "site": key.site,
        "key": key.key,
        "acknowledged": key.acknowledged,
        "present": key.present,
        "lost": key.lost,
        "stale": key.stale,
        "doubly_owned": key.doubly_owned,
        "owners": list(key.owners),
    }


def _part(version: str | None, at: int) -> str | int | None:
    if version is None:
        return None
    origin, _, seqno = version.partition("/")
    return origin if at == 0 else int(seqno)
