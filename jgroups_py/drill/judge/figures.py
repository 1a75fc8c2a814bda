"""The figures that an operator wants after a drill, reckoned from the messages that applications sent and were given.

    RTO            the longest time that the service stood still after a fault: messages waited, and no message
                   sent after the fault had reached another site (``flows.longest_wait``). After the failure of a
                   whole primary site: the time until another site was promoted, plus the wait of messages sent
                   there
    latency        from send to delivery at each member of another site (in a drill of one site:
                   of the same one), p50 and p99 by nearest rank
    lag            the largest age of a message when it first reached another site
    buffer         how full RELAY's buffers were, in per cent of their limit, and how soon the
                   fullest is full at the fastest steady growth that was seen. RELAY reports it itself.

RPO is the judge's ``rpo_s``. A fault after which nothing was sent has no recovery (``seconds`` and ``why``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.flows import SiteFlow, Wait, flow, flows, longest_wait, percentile
from jgroups_py.drill.judge.rules import NEVER, Fault, Who
from jgroups_py.drill.judge.verdict import Verdict

INTERRUPTIONS = ("crash", "vanish", "pause", "leave", "partition", "fail_site")
"""Faults after which a recovery is measured."""
GROWTH_SECONDS = 1.0
"""A buffer must grow for this many seconds without a pause, before a rate is taken from it."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """``seconds`` None: ``why`` gives the reason. ``missing``: the service did not come back."""

    t: float
    event: str
    who: Who | None
    site: str
    seconds: float | None
    why: str = ""
    missing: bool = False
    start: float | None = None
    """The begin of the interruption: ``t``, or later if nothing was sent at first."""

    @property
    def end(self) -> float | None:
        """Return when the service went on."""
        if self.seconds is None:
            return None
        return (self.t if self.start is None else self.start) + self.seconds

    @property
    def name(self) -> str:
        """``crash NYC.E``, ``fail_site NYC``."""
        whom = self.site if self.who is None else str(self.who).removesuffix("#1")
        return f"{self.event} {whom}"


@dataclass(frozen=True, slots=True)
class Growth:
    """A buffer that grew: from ``fill`` (0 .. 1) at ``t``, ``rate`` of its limit a second."""

    t: float
    fill: float
    rate: float

    @property
    def until_full(self) -> float:
        return max(0.0, 1.0 - self.fill) / self.rate


@dataclass
class Figures:
    recoveries: list[Recovery] = field(default_factory=list)
    latency_p50: float | None = None
    latency_p99: float | None = None
    lag: float | None = None
    buffer: float | None = None
    """The highest fill, 0 .. 1."""
    growth: Growth | None = None
    """The growth by which a buffer would have been full first."""
    flows: list[SiteFlow] = field(default_factory=list)

    @property
    def rto(self) -> float | None:
        """Return the longest recovery. None: there was no fault, or no traffic to measure it."""
        return max((r.seconds for r in self.recoveries if r.seconds is not None), default=None)

    @property
    def not_recovered(self) -> list[Recovery]:
        """Return the faults from which the service did not come back."""
        return [recovery for recovery in self.recoveries if recovery.missing]

    @property
    def until_full(self) -> float | None:
        return None if self.growth is None else self.growth.until_full

    def printed(self) -> dict[str, Any]:
        """Return the figures' part of the JSON."""
        return {
            "rto_s": _round(self.rto),
            "not_recovered": [recovery.name for recovery in self.not_recovered],
            "latency_p50_s": _round(self.latency_p50),
            "latency_p99_s": _round(self.latency_p99),
            "lag_s": _round(self.lag),
            "buffer_percent": None if self.buffer is None else round(self.buffer * 100, 6),
            "time_until_full_s": _round(self.until_full),
            "recoveries": [
                {
                    "t": round(r.t, 6),
                    "event": r.event,
                    "site": r.site,
                    "member": None if r.who is None else r.who.origin,
                    "recovered_s": _round(r.seconds),
                    "why": r.why or None,
                }
                for r in self.recoveries
            ],
        }


def figures(evidence: Evidence, verdict: Verdict) -> Figures:
    """Return the figures of a drill of messages."""
    found = Figures(flows=flows(evidence))
    measured = found.flows
    if len(evidence.sites) == 1:
        measured = [flow(evidence, evidence.sites[0], evidence.sites[0])]
    delays = sorted(delay for one in measured for delay in one.delays)
    found.latency_p50, found.latency_p99 = percentile(delays, 0.5), percentile(delays, 0.99)
    found.lag = max((t - at for one in measured for at, t in one.journeys), default=None)
    found.recoveries = [
        _recovery(fault, evidence, verdict, measured)
        for fault in evidence.faults
        if fault.event in INTERRUPTIONS and fault.detail.get("by") != "fail_site"
    ]
    found.buffer, found.growth = buffers(evidence)
    return found


# recoveries


def _recovery(
    fault: Fault, evidence: Evidence, verdict: Verdict, flows: Sequence[SiteFlow]
) -> Recovery:
    if fault.event == "fail_site":
        return _site_recovery(fault, evidence, verdict, flows)
    sites = _sites(fault)
    waits: list[Wait] = []
    missing: list[str] = []
    for one in flows:
        if not {one.origin, one.target} & set(sites) or not _relays(verdict, one, fault.t):
            continue
        wait = longest_wait(one.under_way, fault.t)
        if wait is not None:
            waits.append(wait)
        elif _sent_until_failure(one, fault.t, evidence):
            missing.append(f"{one.target} got nothing of {one.origin}")
    if missing:
        return _told(fault, sites, None, f"{', '.join(missing)} that was sent after it", True)
    if not waits:
        return _told(fault, sites, None, _unmeasured(fault, sites, evidence, verdict))
    return _waited(fault, sites, waits)


def _unmeasured(fault: Fault, sites: Sequence[str], evidence: Evidence, verdict: Verdict) -> str:
    senders = {
        origin.site: None
        for origin, times in evidence.sent.items()
        if origin.site in sites and any(fault.t < at < NEVER for at in times)
    }
    silent = [site for site in senders if not _directed(verdict, site, fault.t)]
    if not silent or len(silent) < len(senders):
        return "nothing was sent after it by which to measure"
    if len(silent) == 1:
        return f"{silent[0]} does not relay, so its traffic says nothing"
    return f"{', '.join(silent)} do not relay, so their traffic says nothing"


def _site_recovery(
    fault: Fault, evidence: Evidence, verdict: Verdict, flows: Sequence[SiteFlow]
) -> Recovery:
    failed = str(fault.site)
    sites = [failed]
    led = any(site == failed and a <= fault.t < b for site, a, b in verdict.reigns)
    if verdict.primary is not None and led:
        promoted = next(
            (f for f in evidence.faults if f.event == "promote" and f.t >= fault.t), None
        )
        if promoted is None:
            return _told(fault, sites, None, "no other site was promoted", True)
        home = flow(evidence, str(promoted.site), str(promoted.site))
        wait = longest_wait(home.under_way, promoted.t)
        if wait is None:
            return _told(fault, sites, None, f"nothing was sent at {promoted.site} after it")
        return _told(fault, sites, promoted.t - fault.t + wait.seconds)
    waits = [
        wait
        for one in flows
        if failed not in (one.origin, one.target)
        and _relays(verdict, one, fault.t)
        and (wait := longest_wait(one.under_way, fault.t)) is not None
    ]
    if not waits:
        return _told(fault, sites, None, "nothing goes between the sites that are left")
    return _waited(fault, sites, waits)


def _waited(fault: Fault, sites: Sequence[str], waits: Sequence[Wait]) -> Recovery:
    longest = max(waits, key=lambda wait: wait.seconds)
    told = _told(fault, sites, longest.seconds)
    return replace(told, start=longest.start)


def _told(
    fault: Fault, sites: Sequence[str], seconds: float | None, why: str = "", missing: bool = False
) -> Recovery:
    return Recovery(fault.t, fault.event, fault.who, ", ".join(sites), seconds, why, missing)


def _sites(fault: Fault) -> list[str]:
    if fault.event != "partition":
        return [str(fault.site)]
    names = [name for side in fault.detail["groups"] for name in side]
    return list(dict.fromkeys(name.partition(".")[0] for name in names))


def _relays(verdict: Verdict, one: SiteFlow, t: float) -> bool:
    return one.origin == one.target or _directed(verdict, one.origin, t)


def _directed(verdict: Verdict, site: str, t: float) -> bool:
    return any(name == site and a <= t < b for name, a, b in verdict.reigns)


def _sent_until_failure(one: SiteFlow, t: float, evidence: Evidence) -> bool:
    """Return whether a message was sent after ``t`` that should have arrived, without a later site failure."""
    failed = any(
        fault.event == "fail_site" and fault.t >= t and fault.site in (one.origin, one.target)
        for fault in evidence.faults
    )
    return not failed and any(at > t for at in one.sent)


# buffers


def buffers(evidence: Evidence) -> tuple[float | None, Growth | None]:
    """Return the highest fill of all members, and the growth that would have filled a buffer first."""
    fullest: float | None = None
    fastest: Growth | None = None
    for samples in evidence.samples.values():
        points = fills(samples)
        if not points:
            continue
        fullest = max(fullest or 0.0, *(fill for _, fill in points))
        found = growth(points)
        if found is not None and (fastest is None or found.until_full < fastest.until_full):
            fastest = found
    return fullest, fastest


def fills(samples: Sequence[tuple[float, dict[str, Any]]]) -> list[tuple[float, float]]:
    """Return (t, part of the limit) from the drill's zero on."""
    return [(t, float(sample["fill"])) for t, sample in samples if "fill" in sample and t >= 0]


def growth(points: Sequence[tuple[float, float]]) -> Growth | None:
    """Return the steady growth over ``GROWTH_SECONDS`` that would fill the buffer first."""
    fastest: Growth | None = None
    begin = 0  # since then the buffer has not shrunk
    back = 0  # the last sample that is GROWTH_SECONDS older
    for place, (t, fill) in enumerate(points):
        if place and fill < points[place - 1][1]:
            begin = place
        while points[back + 1][0] <= t - GROWTH_SECONDS if back + 1 < len(points) else False:
            back += 1
        t0, fill0 = points[back]
        if back < begin or t - t0 < GROWTH_SECONDS or fill <= fill0:
            continue
        found = Growth(t, fill, (fill - fill0) / (t - t0))
        if fastest is None or found.until_full < fastest.until_full:
            fastest = found
    return fastest


def _round(value: float | None) -> float | None:
    return None if value is None or value == NEVER else round(value, 6)
