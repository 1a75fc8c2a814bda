"""The verdict on a drill of live and backup, from the answers to clients and the contents of nodes.

An operation appends an entry to several logs. Its client gets the place of each entry and the entry before it
(run/live_user.py).

    lost        confirmed operations with an entry that a node lacks at the end
    undone      confirmed operations with an entry that moved: at the end its place, or the entry before it, is not the
                one that the client was told
    half        operations with some of their entries at a node, at the end or when it became live; or with any entry,
                although nobody began the operation or its client was told that it did not run
    duplicated  operations with two entries in one log
    diverged    logs that differ between two nodes at the end
    takeover    the time from the crash, vanishing or leaving of the live node until an operation that began later is
                confirmed
    rto         the longest time after any fault: from the first request until an operation that began after the fault
                is confirmed

The nodes that are live or a backup at the end are judged; without any, nothing is measured. An operation with an
unknown outcome may be there or not, but only as a whole.

May import: evidence, figures, rules. Imported by: judged, report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from jgroups_py.drill.file.live_keys import COUNTS
from jgroups_py.drill.file.model import Expectation
from jgroups_py.drill.judge.evidence import Evidence, who_of
from jgroups_py.drill.judge.figures import INTERRUPTIONS, Figures, Recovery
from jgroups_py.drill.judge.flows import percentile
from jgroups_py.drill.judge.rules import (
    NEVER,
    ExpectationsVerdict,
    Fault,
    Measured,
    Who,
    detections,
    held,
    largest,
)
from jgroups_py.drill.log import DrillRecord

KINDS: Final = ("lost", "undone", "half", "duplicated")
"""The kinds of findings."""
SERVING: Final = ("live", "backup")
TURNED_AWAY: Final = "not live"

Entry = tuple[str, int]
"""``NAME#incarnation`` of the node whose client asked, and its number."""
Logs = dict[int, list[Entry]]


@dataclass
class LiveOperation:
    """``at``: for each log, the place of the entry and the entry before it, as the client got them."""

    who: Who
    seqno: int
    began: float
    logs: list[int]
    acked: float = NEVER
    at: list[tuple[int, Entry | None]] = field(default_factory=list)
    refused: bool = False

    @property
    def entry(self) -> Entry:
        return (self.who.origin, self.seqno)

    @property
    def text(self) -> str:
        return f"{self.who.origin}/{self.seqno}"


class LiveFinding(NamedTuple):
    """A violation. ``at``: nodes (``SITE.NAME#incarnation``). ``why``: for people."""

    kind: str
    entry: Entry
    at: tuple[str, ...]
    why: str


class Role(NamedTuple):
    t: float
    who: Who
    role: str
    term: int


@dataclass
class LiveNumbers:
    """The numbers of one site."""

    operations: int = 0
    confirmed: int = 0
    unknown: int = 0
    turned_away: int = 0
    terms: int = 0
    lost: int = 0
    undone: int = 0
    half: int = 0
    duplicated: int = 0
    views: int = 0


@dataclass
class OperationsVerdict(ExpectationsVerdict):
    """The verdict on a workload whose clients get the places of their operations."""

    findings: list[LiveFinding] = field(default_factory=list)
    judged: list[Who] = field(default_factory=list)
    """The members whose entries were compared at the end."""
    operations: list[LiveOperation] = field(default_factory=list)
    detections: list[Measured] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)

    def of(self, kind: str) -> list[LiveFinding]:
        return [one for one in self.findings if one.kind == kind]


@dataclass
class LiveVerdict(OperationsVerdict):
    """``judged``: the nodes that were live or a backup at the end."""

    sites: dict[str, LiveNumbers] = field(default_factory=dict)
    diverged: list[int] = field(default_factory=list)
    """Logs."""
    roles: list[Role] = field(default_factory=list)
    takeovers: list[Measured] = field(default_factory=list)


def judge(evidence: Evidence, *, expect: Sequence[Expectation] = ()) -> LiveVerdict:
    """Judge a drill of live and backup."""
    seen = _Seen(evidence)
    verdict = LiveVerdict(
        sites={site: LiveNumbers() for site in evidence.sites},
        roles=seen.roles,
        judged=list(seen.ends),
        operations=list(seen.operations.values()),
    )
    verdict.findings = _findings(seen)
    numbers = {log for logs in seen.ends.values() for log in logs}
    verdict.diverged = [
        log
        for log in sorted(numbers)
        if any(
            logs.get(log) != next(iter(seen.ends.values())).get(log) for logs in seen.ends.values()
        )
    ]
    verdict.detections = detections(evidence)
    verdict.takeovers = _takeovers(evidence, seen)
    verdict.recoveries = _recoveries(evidence, seen)
    _count(evidence, seen, verdict)
    measured: dict[str, float | None] = {
        name: (len(verdict.of(name)) if seen.ends else None) for name in COUNTS
    }
    measured["diverged"] = len(verdict.diverged) if seen.ends else None
    measured["detection"] = largest(verdict.detections)
    measured["takeover"] = largest(verdict.takeovers)
    verdict.expectations = held(expect, measured, otherwise=_rto(verdict))
    return verdict


def figures(verdict: LiveVerdict) -> Figures:
    """Return an operator's figures: latency of confirmed operations."""
    took = sorted(one.acked - one.began for one in verdict.operations if one.acked < NEVER)
    return Figures(
        recoveries=verdict.recoveries,
        latency_p50=percentile(took, 0.5),
        latency_p99=percentile(took, 0.99),
    )


def _rto(verdict: LiveVerdict) -> float | None:
    """Return the longest recovery. None: the service did not go on after a fault, or there were no requests."""
    if any(one.missing for one in verdict.recoveries):
        return None
    return Figures(recoveries=verdict.recoveries).rto


class _Seen:
    """The log, sorted."""

    def __init__(self, evidence: Evidence) -> None:
        self.operations: dict[Entry, LiveOperation] = {}
        self.asked: list[tuple[float, Who]] = []
        """All requests, refused ones included."""
        self.turned_away: list[Who] = []
        self.unknown: list[LiveOperation] = []
        self.roles: list[Role] = []
        self.ends: dict[Who, Logs] = {}
        self.begins: list[tuple[Who, Logs]] = []
        """The contents of nodes when they became live."""
        for record in evidence.marks:
            self._add(record, evidence)

    def _add(self, record: DrillRecord, evidence: Evidence) -> None:
        detail = record.detail or {}
        match record.event:
            case "census":
                logs = {
                    int(log): [entry_of(one) for one in of] for log, of in detail["owned"].items()
                }
                if detail.get("first"):
                    self.begins.append((who_of(record), logs))
                elif detail["role"] in SERVING and evidence.ended(who_of(record)) == NEVER:
                    self.ends[who_of(record)] = logs
            case "role":
                self.roles.append(Role(record.t, who_of(record), detail["role"], detail["term"]))
            case "put":
                who = who_of(record)
                assert record.seqno is not None
                one = LiveOperation(who, record.seqno, record.t, list(detail["keys"]))
                self.operations[one.entry] = one
                self.asked.append((record.t, who))
            case "acked":
                one = self._operation(record)
                one.acked = record.t
                one.at = [
                    (place, entry_of(before)) if before else (place, None)
                    for place, before in detail["at"]
                ]
            case "failed" if record.origin is None:
                self.asked.append((record.t, who_of(record)))
                self.turned_away.append(who_of(record))
            case "failed":
                one = self._operation(record)
                one.refused = bool(detail.get("definite"))
                if not one.refused:
                    self.unknown.append(one)

    def _operation(self, record: DrillRecord) -> LiveOperation:
        assert record.origin is not None and record.seqno is not None
        return self.operations[record.origin, record.seqno]

    def was_live(self, who: Who | None, t: float) -> bool:
        last = [role.role for role in self.roles if role.who == who and role.t <= t]
        return last[-1:] == ["live"]

    def served(self, t: float) -> LiveOperation | None:
        """Return the operation, begun after ``t``, that was confirmed first."""
        later = [one for one in self.operations.values() if one.began > t and one.acked < NEVER]
        return min(later, key=lambda one: one.acked, default=None)


# --- violations


def _findings(seen: _Seen) -> list[LiveFinding]:
    found: dict[tuple[str, Entry], list[tuple[str, str]]] = {}

    def add(kind: str, entry: Entry, who: Who, why: str) -> None:
        found.setdefault((kind, entry), []).append((str(who), why))

    for who, logs in seen.ends.items():
        for one in seen.operations.values():
            if one.acked < NEVER:
                wrong = told_wrongly(one, logs)
                if wrong is not None:
                    add(*wrong[:1], one.entry, who, wrong[1])
        for entry in twice(logs):
            add("duplicated", entry, who, "two entries in a log")
    for who, logs in [*seen.ends.items(), *seen.begins]:
        for entry, why in halves(seen.operations, logs):
            add("half", entry, who, why)
    return [
        LiveFinding(kind, entry, tuple(dict.fromkeys(at for at, _ in places)), places[0][1])
        for (kind, entry), places in sorted(found.items())
    ]


def told_wrongly(one: LiveOperation, logs: Logs) -> tuple[str, str] | None:
    """Compare a node's logs with the places that the client of a confirmed operation got."""
    for log, (place, before) in zip(one.logs, one.at, strict=True):
        entries = logs.get(log, [])
        if one.entry not in entries:
            return "lost", f"log {log} has no entry of it"
        if entries[place : place + 1] != [one.entry]:
            return (
                "undone",
                f"log {log} has its entry at {entries.index(one.entry)}, its client was told {place}",
            )
        if (entries[place - 1] if place else None) != before:
            return "undone", f"log {log} has another entry before it than its client was told"
    return None


def twice(logs: Logs) -> list[Entry]:
    return list(
        dict.fromkeys(
            entry for entries in logs.values() for entry in set(entries) if entries.count(entry) > 1
        )
    )


def halves(operations: Mapping[Entry, LiveOperation], logs: Logs) -> list[tuple[Entry, str]]:
    has: dict[Entry, list[int]] = {}
    for log, entries in logs.items():
        for entry in dict.fromkeys(entries):
            has.setdefault(entry, []).append(log)
    found = []
    for entry, where in has.items():
        one = operations.get(entry)
        if one is None:
            found.append((entry, "nobody began it"))
        elif one.refused:
            found.append((entry, "its client was told that it did not run"))
        elif sorted(where) != sorted(one.logs):
            lacking = [str(log) for log in one.logs if log not in where]
            more = [str(log) for log in where if log not in one.logs]
            why = (
                f"log {', '.join(lacking)} lacks it" if lacking else f"log {', '.join(more)} has it"
            )
            found.append((entry, why))
    return found


# --- times


def _takeovers(evidence: Evidence, seen: _Seen) -> list[Measured]:
    found = []
    for fault in evidence.faults:
        if fault.event not in ("crash", "vanish", "leave") or not seen.was_live(fault.who, fault.t):
            continue
        one = seen.served(fault.t)
        seconds = None if one is None else one.acked - fault.t
        found.append(Measured(fault.t, fault.event, fault.who, str(fault.site), seconds))
    return found


def _recoveries(evidence: Evidence, seen: _Seen) -> list[Recovery]:
    return [
        _recovery(fault, evidence, seen)
        for fault in evidence.faults
        if fault.event in INTERRUPTIONS
    ]


def _recovery(fault: Fault, evidence: Evidence, seen: _Seen) -> Recovery:
    site = ", ".join(evidence.sites) if fault.site is None else fault.site
    asked = min((t for t, who in seen.asked if t > fault.t and who != fault.who), default=None)
    if asked is None:
        why = "nothing was asked after it"
        return Recovery(fault.t, fault.event, fault.who, site, None, why)
    one = seen.served(fault.t)
    if one is None:
        why = "no operation was confirmed that began after it"
        return Recovery(fault.t, fault.event, fault.who, site, None, why, missing=True)
    seconds = max(0.0, one.acked - asked)
    return Recovery(fault.t, fault.event, fault.who, site, seconds, start=asked)


# --- counts


def _count(evidence: Evidence, seen: _Seen, verdict: LiveVerdict) -> None:
    for one in verdict.operations:
        numbers = verdict.sites[one.who.site]
        numbers.operations += 1
        numbers.confirmed += one.acked < NEVER
    for one in seen.unknown:
        verdict.sites[one.who.site].unknown += 1
    for who in seen.turned_away:
        verdict.sites[who.site].turned_away += 1
    for role in verdict.roles:
        verdict.sites[role.who.site].terms += role.role == "live"
    for site, numbers in verdict.sites.items():
        for kind in KINDS:
            count = sum(any(at.startswith(f"{site}.") for at in one.at) for one in verdict.of(kind))
            setattr(numbers, kind, count)
        numbers.views = evidence.count_views(site)


def entry_of(value: Sequence[Any]) -> Entry:
    return (str(value[0]), int(value[1]))
