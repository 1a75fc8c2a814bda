"""The verdict on a drill of a bucket store, from the answers to clients, and from each member's reads at the end.

A request adds to an entry, and its client gets the place and the entry before it (run/bucket_user.py). As in drills of
live and backup (live_judge), of which an entry is a log:

    lost          modifications that were answered and are missing at the end, at any member that reads
    undone        modifications that were answered and stand at another place at the end
    half          modifications that are there, although they certainly were not carried out or nobody asked for them
    duplicated    modifications that are there twice
    stale         entries with a wrong read. The read lacked a modification that was answered, or shown by another read,
                  before it began; or it showed a modification that is missing at the end
    unavailable   entries that a member could not read at the end
    alone         buckets that have one copy at the end
    interruption  the longest time after a fault in which requests for an entry waited, and no request that began after
                  the fault was answered; of each entry (``interruptions``), and of all (``recoveries``)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jgroups_py.drill.file.bucket_keys import COUNTS
from jgroups_py.drill.file.model import Expectation
from jgroups_py.drill.judge.evidence import Evidence, who_of
from jgroups_py.drill.judge.figures import INTERRUPTIONS, Figures, Recovery
from jgroups_py.drill.judge.flows import Wait, longest_wait, percentile
from jgroups_py.drill.judge.live_judge import (
    Entry,
    LiveFinding,
    LiveOperation,
    Logs,
    OperationsVerdict,
    entry_of,
    halves,
    told_wrongly,
    twice,
)
from jgroups_py.drill.judge.rules import NEVER, Fault, Who, detections, held, largest
from jgroups_py.drill.log import DrillRecord


class Read(NamedTuple):
    """``newest``: the last of ``length`` additions that it showed."""

    who: Who
    key: int
    began: float
    ended: float
    length: int
    newest: Entry | None


@dataclass
class Interruption:
    """A fault's effect on each entry. ``waits``: seconds of entries with an answered request after it. ``unanswered``:
    entries without one."""

    fault: Fault
    waits: dict[int, Wait] = field(default_factory=dict)
    unanswered: list[int] = field(default_factory=list)

    def longest(self) -> list[tuple[int, float]]:
        """Return keys and seconds, the longest wait first."""
        return sorted(
            ((key, wait.seconds) for key, wait in self.waits.items()),
            key=lambda one: (-one[1], one[0]),
        )


@dataclass
class BucketNumbers:
    """The numbers of one site."""

    modifications: int = 0
    answered: int = 0
    unknown: int = 0
    refused: int = 0
    reads: int = 0
    orders: int = 0
    orders_failed: int = 0
    lost: int = 0
    stale: int = 0
    unavailable: int = 0
    views: int = 0


@dataclass
class BucketVerdict(OperationsVerdict):
    """``judged``: the members that read all keys at the end."""

    sites: dict[str, BucketNumbers] = field(default_factory=dict)
    stale: list[int] = field(default_factory=list)
    """Keys."""
    unavailable: list[int] = field(default_factory=list)
    alone: int | None = None
    reads: list[Read] = field(default_factory=list)
    interruptions: list[Interruption] = field(default_factory=list)
    """The figures of each fault that may interrupt."""

    @property
    def requests(self) -> list[tuple[int, float, float]]:
        """Return key, begin and answer of all requests; ``NEVER``: no answer."""
        found = [(one.logs[0], one.began, one.acked) for one in self.operations if not one.refused]
        return found + [(read.key, read.began, read.ended) for read in self.reads]


def judge(evidence: Evidence, *, expect: Sequence[Expectation] = ()) -> BucketVerdict:
    """Judge a drill of a bucket store."""
    seen = _Seen(evidence)
    verdict = BucketVerdict(
        sites={site: BucketNumbers() for site in evidence.sites},
        findings=_findings(seen),
        stale=_stale(seen),
        unavailable=sorted(seen.missing),
        alone=seen.alone,
        judged=list(seen.ends),
        operations=list(seen.operations.values()),
        reads=seen.reads,
        detections=detections(evidence),
    )
    verdict.interruptions = [
        _interruption(fault, verdict) for fault in evidence.faults if fault.event in INTERRUPTIONS
    ]
    verdict.recoveries = [_recovery(one, evidence.sites) for one in verdict.interruptions]
    _count(evidence, seen, verdict)
    measured: dict[str, float | None] = dict.fromkeys(COUNTS)
    if seen.ends:
        measured |= {name: len(verdict.of(name)) for name in COUNTS[:4]}
        measured |= {"stale": len(verdict.stale), "unavailable": len(seen.missing)}
        measured["alone"] = seen.alone
    measured["detection"] = largest(verdict.detections)
    stopped = any(one.missing for one in verdict.recoveries)
    otherwise = None if stopped else Figures(recoveries=verdict.recoveries).rto
    verdict.expectations = held(expect, measured, otherwise=otherwise)
    return verdict


def figures(verdict: BucketVerdict) -> Figures:
    """Return an operator's figures: latency of requests, RTO as the interruption."""
    took = sorted(ended - began for _, began, ended in verdict.requests if ended < NEVER)
    return Figures(
        recoveries=verdict.recoveries,
        latency_p50=percentile(took, 0.5),
        latency_p99=percentile(took, 0.99),
    )


class _Seen:
    """The log, sorted."""

    def __init__(self, evidence: Evidence) -> None:
        self.operations: dict[Entry, LiveOperation] = {}
        self.reads: list[Read] = []
        self.failed: list[tuple[Who, bool]] = []
        """Requests without an answer; True for those that certainly did nothing."""
        self.ends: dict[Who, Logs] = {}
        self.missing: dict[int, None] = {}
        self.alone: int | None = None
        self.orders: list[tuple[Who, bool]] = []
        for record in evidence.marks:
            if record.event in ("put", "acked", "failed", "got", "census", "ordered"):
                who = who_of(record)
                self._add(record, record.detail or {}, who, evidence)

    def _add(
        self, record: DrillRecord, detail: dict[str, Any], who: Who, evidence: Evidence
    ) -> None:
        match record.event:
            case "put":
                assert record.seqno is not None
                one = LiveOperation(who, record.seqno, record.t, list(detail["keys"]))
                self.operations[one.entry] = one
            case "acked":
                one = self._operation(record)
                one.acked = record.t
                ((place, before),) = detail["at"]
                one.at = [(place, entry_of(before) if before else None)]
            case "failed":
                self.failed.append((who, bool(detail.get("definite"))))
                if record.origin is not None:
                    self._operation(record).refused = bool(detail.get("definite"))
            case "got":
                newest = entry_of(detail["newest"][0]) if detail["newest"] else None
                began = record.t - detail["took"]
                self.reads.append(
                    Read(who, detail["key"], began, record.t, detail["length"], newest)
                )
            case "ordered":
                self.orders.append((who, "why" not in detail))
            case "census" if evidence.ended(who) == NEVER:
                owned = detail["owned"].items()
                self.ends[who] = {int(key): [entry_of(one) for one in of] for key, of in owned}
                self.missing.update(dict.fromkeys(detail["missing"]))
                self.alone = max(self.alone or 0, detail["alone"])

    def _operation(self, record: DrillRecord) -> LiveOperation:
        assert record.origin is not None and record.seqno is not None
        return self.operations[record.origin, record.seqno]


# --- violations


def _findings(seen: _Seen) -> list[LiveFinding]:
    found: dict[tuple[str, Entry], list[tuple[str, str]]] = {}
    for who, logs in seen.ends.items():
        for kind, entry, why in _wrong(seen, logs):
            found.setdefault((kind, entry), []).append((str(who), why))
    return [
        LiveFinding(kind, entry, tuple(dict.fromkeys(at for at, _ in places)), places[0][1])
        for (kind, entry), places in sorted(found.items())
    ]


def _wrong(seen: _Seen, logs: Logs) -> Iterable[tuple[str, Entry, str]]:
    for one in seen.operations.values():
        if one.acked < NEVER and one.logs[0] in logs:
            told = told_wrongly(one, logs)
            if told is not None:
                yield told[0], one.entry, told[1]
    for entry in twice(logs):
        yield "duplicated", entry, "it was carried out twice"
    for entry, why in halves(seen.operations, logs):
        yield "half", entry, why


def _stale(seen: _Seen) -> list[int]:
    if not seen.ends:
        return []
    logs = next(iter(seen.ends.values()))
    answered: dict[int, list[tuple[float, int]]] = {}
    for one in seen.operations.values():
        if one.acked < NEVER:
            answered.setdefault(one.logs[0], []).append((one.acked, one.at[0][0]))
    for read in seen.reads:  # a read shows that a modification exists, answered or not
        answered.setdefault(read.key, []).append((read.ended, read.length - 1))
    found: dict[int, None] = {}
    for read in seen.reads:
        before = [place for acked, place in answered.get(read.key, ()) if acked < read.began]
        there = logs.get(read.key)
        gone = (
            there is not None
            and read.newest is not None
            and there[read.length - 1 : read.length] != [read.newest]
        )
        if gone or read.length <= max(before, default=-1):
            found[read.key] = None
    return sorted(found)


# --- times


def _interruption(fault: Fault, verdict: BucketVerdict) -> Interruption:
    found = Interruption(fault)
    for key in sorted({key for key, _, _ in verdict.requests}):
        under_way = [(began, ended) for k, began, ended in verdict.requests if k == key]
        wait = longest_wait(under_way, fault.t)
        if wait is not None:
            found.waits[key] = wait
        elif any(began > fault.t for began, _ in under_way):
            found.unanswered.append(key)
    return found


def _recovery(one: Interruption, sites: Iterable[str]) -> Recovery:
    fault = one.fault
    site = ", ".join(sites) if fault.site is None else fault.site
    if not one.waits:
        asked = bool(one.unanswered)
        why = (
            "nothing that was asked after it was answered"
            if asked
            else "nothing was asked after it"
        )
        return Recovery(fault.t, fault.event, fault.who, site, None, why, missing=asked)
    longest = max(one.waits.values(), key=lambda wait: wait.seconds)
    return Recovery(fault.t, fault.event, fault.who, site, longest.seconds, start=longest.start)


# --- counts


def _count(evidence: Evidence, seen: _Seen, verdict: BucketVerdict) -> None:
    for one in verdict.operations:
        numbers = verdict.sites[one.who.site]
        numbers.modifications += 1
        numbers.answered += one.acked < NEVER
    for who, definite in seen.failed:
        verdict.sites[who.site].refused += definite
        verdict.sites[who.site].unknown += not definite
    for read in verdict.reads:
        verdict.sites[read.who.site].reads += 1
    for who, done in seen.orders:
        verdict.sites[who.site].orders += done
        verdict.sites[who.site].orders_failed += not done
    for site, numbers in verdict.sites.items():
        numbers.lost = len(verdict.of("lost"))
        numbers.stale = len(verdict.stale)
        numbers.unavailable = len(verdict.unavailable)
        numbers.views = evidence.count_views(site)
