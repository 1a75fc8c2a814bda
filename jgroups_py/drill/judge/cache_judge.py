"""The verdict on a drill of caches, key by key, from the answers to applications.

    acknowledged  writes of a site that returned without an error
    present       a value was found there at the end
    lost          at the end nothing is found there, or a value that is surely older than an acknowledged
                  write that had to be there. Example: w1 was acknowledged before w2 began, w2 was
                  acknowledged, and w1 is found
    stale         reads that got such an old value, or nothing, although w2 was acknowledged in that site
                  before they began. A write reports the value that it replaces, which counts as a read
    doubly owned  at the end two members of one view say that they own it
    discarded     the write would count as lost, but a merge after a partition, or the other site, reports
                  that it dropped the write or a later one of that side
    diverged      at the end two sites that reach each other have different values

An acknowledged write must be at its own site, and at every other site unless it is named (``cache_sites``): the members
of the site that wrote it name the keys that a site has not acknowledged, just before they fall and at the end. After a
site failure ``unrelayed`` has the writes that the others lacked.

A write without an answer, or with the answer "may have happened", may take effect at any later time. Neither
its presence nor its absence counts against the cache. Writes that overlap in time may take effect in any
order. A value is also stale if nobody wrote it, or if its writer was told that certainly nothing was changed.
A read does not count against a member whose view lacks a living member: its site is split, and each side
knows its own writes only.

``unprotected``: from a crash until every survivor has a view without the fallen member and reports that all its nodes
have their copies. Caches themselves report this, the named keys, the end of a bootstrap, and the members at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jgroups_py.drill.file.model import Expectation
from jgroups_py.drill.judge import cache_sites
from jgroups_py.drill.judge.cache_history import History, HistoryWrite, Order, Read, Version
from jgroups_py.drill.judge.cache_sites import SitesOfHistory, Unrelayed, version_of
from jgroups_py.drill.judge.evidence import Evidence, who_of
from jgroups_py.drill.judge.rules import (
    NEVER,
    ExpectationsVerdict,
    Measured,
    Who,
    detections,
    held,
    largest,
)
from jgroups_py.drill.log import DrillRecord


@dataclass
class KeyFate:
    """The fate of one key of a site."""

    site: str
    key: int
    acknowledged: int = 0
    present: bool = False
    lost: int = 0
    """Acknowledged writes that are later than the value found. 0: the key is not lost."""
    found: str | None = None
    """The value found at the end, as ``A#1/17``; another site's is ``SFO.A#1/17``."""
    missing: str | None = None
    """The last acknowledged write, if the key is lost."""
    stale: int = 0
    """Reads that got a value older than allowed."""
    owners: tuple[str, ...] = ()
    diverged: tuple[str, ...] = ()
    """Sites with another value."""
    discarded: int = 0
    """Acknowledged writes that would count as lost if no merge had listed them."""

    @property
    def doubly_owned(self) -> bool:
        return len(self.owners) > 1

    @property
    def bad(self) -> bool:
        return bool(self.lost or self.stale or self.doubly_owned or self.diverged)


@dataclass
class CacheSiteNumbers:
    reads: int = 0
    misses: int = 0
    writes: int = 0
    acknowledged: int = 0
    failed: int = 0
    gravitations: int = 0
    lost: int = 0
    stale: int = 0
    doubly_owned: int = 0
    diverged: int = 0
    discarded: int = 0
    unrelayed: int = 0
    """Keys with writes that another site lacked when this one failed."""
    views: int = 0


@dataclass
class CacheVerdict(ExpectationsVerdict):
    sites: dict[str, CacheSiteNumbers] = field(default_factory=dict)
    keys: list[KeyFate] = field(default_factory=list)
    detections: list[Measured] = field(default_factory=list)
    unprotected: list[Measured] = field(default_factory=list)
    bootstraps: list[Measured] = field(default_factory=list)
    unrelayed: list[Unrelayed] = field(default_factory=list)
    rpo: float | None = None
    """Age of the oldest unrelayed write when a site failed; None: none failed."""


def judge(evidence: Evidence, *, expect: Sequence[Expectation] = ()) -> CacheVerdict:
    """Judge a drill of caches."""
    verdict = CacheVerdict(sites={site: CacheSiteNumbers() for site in evidence.sites})
    sites = SitesOfHistory(evidence)
    for key, history in sorted(_histories(evidence).items()):
        order = Order(history, sites.failures)
        found = [_judged(site, key, history, order, sites) for site in evidence.sites]
        there = [each for each in found if each is not None]
        _compare(there, sites)
        verdict.keys += there
        verdict.unrelayed += sites.unrelayed(key, history, order)
    verdict.keys.sort(key=lambda each: (evidence.sites.index(each.site), each.key))
    if any(sites.failures.values()) and len(evidence.sites) > 1:
        verdict.rpo = max((entry.age for entry in verdict.unrelayed), default=0.0)
    _count(evidence, verdict)
    verdict.detections = detections(evidence)
    verdict.unprotected = _unprotected(evidence)
    verdict.bootstraps = cache_sites.bootstraps(evidence)
    measured: dict[str, float | None] = {
        "lost": sum(key.lost > 0 for key in verdict.keys),
        "stale": sum(key.stale > 0 for key in verdict.keys),
        "doubly_owned": sum(key.doubly_owned for key in verdict.keys),
        "diverged": len({key.key for key in verdict.keys if key.diverged}),
        "discarded": len({key.key for key in verdict.keys if key.discarded}),
        "detection": largest(verdict.detections),
        "bootstrap": largest(verdict.bootstraps),
        "unrelayed_at_site_failure": verdict.rpo,
    }
    verdict.expectations = held(expect, measured, otherwise=largest(verdict.unprotected))
    return verdict


def _judged(
    site: str, key: int, history: History, order: Order, sites: SitesOfHistory
) -> KeyFate | None:
    """Judge one key. None: the site has ended, or never used the key."""
    owners, reads = history.owners.get(site, {}), history.reads.get(site, [])
    own = order.done(site, NEVER)
    if not sites.there(site) or not (own or reads or owners or sites.several):
        return None
    found = KeyFate(site, key, owners=tuple(owners))
    found.acknowledged = sum(w.acked < NEVER for v, w in history.writes.items() if v[0] == site)

    def outdated(version: Version | None, by: float, among: Sequence[Version]) -> list[Version]:
        """Return the acknowledged writes that the value surely lacks."""
        if not order.known(version):
            return list(among)
        return order.later(version, among, by)

    def unlisted(versions: Sequence[Version]) -> list[Version]:
        return [version for version in versions if not order.listed(version)]

    for read in reads:
        if read.last:
            continue
        if not order.known(read.version):
            found.stale += 1
        elif unlisted(outdated(read.version, read.t, order.done(site, read.began))):
            found.stale += not sites.apart(site, read.who, read.t)
    seen = [r.version for r in reads if r.last] + list(owners.values())
    there = [version for version in seen if version is not None]
    found.present = bool(there)
    found.found = _text(there[0], site) if there else None
    owed = [*own, *sites.owed(key, site, order)]
    bad = [v for v in seen or [None] if not order.known(v) or outdated(v, NEVER, owed)]
    found.discarded = max(
        (sum(map(order.listed, outdated(v, NEVER, owed))) for v in bad), default=0
    )
    bad = [v for v in bad if not order.known(v) or unlisted(outdated(v, NEVER, owed))]
    if bad:
        lacking = unlisted(outdated(bad[0], NEVER, owed))
        found.lost = max(1, len(lacking))
        newest = max(owed, key=lambda v: order.writes[v].began, default=None)
        found.missing = None if newest is None else _text(newest, site)
    return found


def _compare(keys: Sequence[KeyFate], sites: SitesOfHistory) -> None:
    """Compare the sites' values of one key."""
    for one in keys:
        one.diverged = tuple(
            other.site
            for other in keys
            if other is not one
            and sites.same(one.site, other.site)
            and _whole(one) != _whole(other)
        )


def _whole(key: KeyFate) -> str | None:
    """Name the found value with its site."""
    found = key.found
    return found if found is None or "." in found else f"{key.site}.{found}"


def _text(version: Version, site: str) -> str:
    text = f"{version[1]}/{version[2]}"
    return text if version[0] == site else f"{version[0]}.{text}"


def _histories(evidence: Evidence) -> dict[int, History]:
    histories: dict[int, History] = {}
    main = _main_views(evidence)
    for record in evidence.marks:
        detail = record.detail or {}
        assert record.site is not None or record.event not in _EVENTS
        if record.event == "census":
            if tuple(detail["members"]) != main.get(str(record.site)):
                continue
            for key, owned in detail["owned"].items():
                history = histories.setdefault(int(key), History())
                owners = history.owners.setdefault(str(record.site), {})
                owners[_origin(record)] = version_of(owned, record)
        elif record.event in _EVENTS:
            history = histories.setdefault(detail["key"], History())
            _add(history, record, detail, main.get(str(record.site)))
    return histories


_EVENTS = ("put", "acked", "failed", "got", "over", "discarded")


def _add(
    history: History, record: DrillRecord, detail: dict[str, Any], main: tuple[str, ...] | None
) -> None:
    site, who, version = str(record.site), _origin(record), None
    if record.origin is not None and record.seqno is not None:
        version = (detail.get("from", site), record.origin, record.seqno)
    match record.event:
        case "put":
            assert version is not None
            history.writes[version] = HistoryWrite(record.t, removed=bool(detail.get("removed")))
        case "acked":
            assert version is not None
            if detail.get("nothing"):  # the write is no change, but counts as a read
                began = history.writes.pop(version).began
                reads = history.reads.setdefault(site, [])
                reads.append(Read(record.t, began, who, None, False))
            else:
                history.writes[version].acked = record.t
        case "failed" if version is not None:
            history.writes[version].refused = bool(detail.get("definite"))
        case "over":
            assert version is not None
            write, over = history.writes[version], detail["over"]
            write.looked = record.t
            write.over = None if over is None else version_of(over, record)
            reads = history.reads.setdefault(site, [])
            reads.append(Read(record.t, write.began, who, write.over, False))
        case "discarded":
            history.discarded.append((record.t, version))
        case "got":
            last = bool(detail.get("last"))
            if not last or (main is not None and who in main):
                read = Read(record.t, record.t - detail["took"], who, version, last)
                history.reads.setdefault(site, []).append(read)


def _main_views(evidence: Evidence) -> dict[str, tuple[str, ...]]:
    """Return, for each site, the view of most members at the end."""
    held: dict[str, dict[tuple[str, ...], int]] = {}
    for record in evidence.marks:
        if record.event == "census":
            members = tuple((record.detail or {})["members"])
            counts = held.setdefault(str(record.site), {})
            counts[members] = counts.get(members, 0) + 1
    return {site: max(counts, key=lambda view: counts[view]) for site, counts in held.items()}


def _origin(record: DrillRecord) -> str:
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
                who = who_of(record)
                moved[who] = detail["gravitations"]
    for who, count in moved.items():
        verdict.sites[who.site].gravitations += count
    for key in verdict.keys:
        numbers = verdict.sites[key.site]
        numbers.lost += key.lost > 0
        numbers.stale += key.stale > 0
        numbers.doubly_owned += key.doubly_owned
        numbers.diverged += bool(key.diverged)
        numbers.discarded += key.discarded > 0
    for site, numbers in verdict.sites.items():
        numbers.unrelayed = len({entry.key for entry in verdict.unrelayed if entry.site == site})
        numbers.views = evidence.count_views(site)


def _unprotected(evidence: Evidence) -> list[Measured]:
    told = cache_sites.told(evidence)
    found = []
    for fault in evidence.faults:
        victim = fault.who
        if victim is None or fault.event not in ("crash", "vanish"):
            continue
        if fault.detail.get("by") == "fail_site":
            continue
        took: list[float | None] = []
        for who, said in told.items():
            if who.site != victim.site or evidence.ended(who) < NEVER:
                continue
            if evidence.born.get(who, 0.0) <= fault.t:
                took.append(cache_sites.safe_after(fault.t, victim.origin, said))
        seconds = None if None in took else max((t for t in took if t is not None), default=None)
        found.append(
            Measured(fault.t, fault.event, victim, victim.site, seconds, required=bool(took))
        )
    return found
