"""``figures`` for drills of caches: from the applications' requests and their answers.

RTO      the longest time that an application of the site stood still after a fault: one of its writes was
         under way, and no write that it began after the fault was acknowledged. After the failure of a whole
         primary site: the time until another site was promoted, plus the time of writes there
latency  the time of a request: of a read until its answer, of a write until it is acknowledged
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jgroups_py.drill.judge.evidence import Evidence, who_of
from jgroups_py.drill.judge.figures import INTERRUPTIONS, Figures, Recovery, buffers
from jgroups_py.drill.judge.flows import Wait, longest_wait, percentile
from jgroups_py.drill.judge.rules import Fault, Who


class AnsweredRequest(NamedTuple):
    """A request that was answered."""

    began: float
    ended: float
    who: Who
    write: bool


def requests(evidence: Evidence) -> list[AnsweredRequest]:
    """Return answered reads and acknowledged writes, by their end. The last look's reads are left out."""
    found: list[AnsweredRequest] = []
    begun: dict[tuple[str | None, int | None, Who], float] = {}
    for record in evidence.marks:
        detail = record.detail or {}
        match record.event:
            case "put":
                begun[record.origin, record.seqno, who_of(record)] = record.t
            case "acked":
                began = begun.pop((record.origin, record.seqno, who_of(record)), None)
                if began is not None:
                    found.append(AnsweredRequest(began, record.t, who_of(record), True))
            case "got" if not detail.get("last"):
                found.append(
                    AnsweredRequest(
                        record.t - float(detail["took"]), record.t, who_of(record), False
                    )
                )
    return found


def figures(
    evidence: Evidence, asked: Sequence[AnsweredRequest], reigns: Sequence[tuple[str, float, float]]
) -> Figures:
    """Return the figures. ``asked``: ``requests(evidence)``. ``reigns``: which site relayed when; none for a single
    site."""
    took = sorted(request.ended - request.began for request in asked)
    writes = [request for request in asked if request.write]
    fullest, growth = buffers(evidence)
    return Figures(
        recoveries=[
            _recovery(fault, evidence, writes, reigns)
            for fault in evidence.faults
            if fault.event in INTERRUPTIONS and fault.detail.get("by") != "fail_site"
        ],
        latency_p50=percentile(took, 0.5),
        latency_p99=percentile(took, 0.99),
        buffer=fullest,
        growth=growth,
    )


def _recovery(
    fault: Fault,
    evidence: Evidence,
    writes: Sequence[AnsweredRequest],
    reigns: Sequence[tuple[str, float, float]],
) -> Recovery:
    site, since = str(fault.site), fault.t
    if fault.event == "partition":
        names = [name for side in fault.detail["groups"] for name in side]
        sites = list(dict.fromkeys(name.partition(".")[0] for name in names))
    elif fault.event == "fail_site":
        promoted = next(
            (f for f in evidence.faults if f.event == "promote" and f.t >= fault.t), None
        )
        if promoted is not None:
            sites, since = [str(promoted.site)], promoted.t
        elif any(name == site and a <= fault.t < b for name, a, b in reigns):
            why = "no other site was promoted"
            return Recovery(fault.t, fault.event, None, site, None, why, missing=True)
        else:
            sites = [name for name in evidence.sites if name != site]
    else:
        sites = [site]
    waits = [w for one in sites for w in _waits(evidence, one, since, fault, writes)]
    shown = site if fault.event != "partition" else ", ".join(sites)
    if not waits:
        return Recovery(
            fault.t, fault.event, fault.who, shown, None, "nothing was written after it"
        )
    longest = max(waits, key=lambda wait: wait.seconds)
    if since > fault.t:
        took = since - fault.t + longest.seconds
        return Recovery(fault.t, fault.event, fault.who, shown, took)
    return Recovery(fault.t, fault.event, fault.who, shown, longest.seconds, start=longest.start)


def _waits(
    evidence: Evidence, site: str, since: float, fault: Fault, writes: Sequence[AnsweredRequest]
) -> list[Wait]:
    """Return the waits of members with an acknowledged write that began after ``since``."""
    found = []
    for who in evidence.members(site):
        if who == fault.who or not evidence.born[who] <= since < evidence.ended(who):
            continue
        wait = longest_wait(((w.began, w.ended) for w in writes if w.who == who), since)
        if wait is not None:
            found.append(wait)
    return found
