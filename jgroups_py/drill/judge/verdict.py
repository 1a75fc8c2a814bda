"""The verdict on a drill, from messages sent and delivered by applications, and from their views.

    counted     a message that a member of its origin's site delivered
    lost        a counted message that is missing at a member that must have it
    unrelayed   the same, but delivered at home only just before the site failed; reported
    lost_inside a message delivered in a site, and missing at another member there that must have it
    unsent      a message sent and delivered nowhere; reported

The rules are in ``rules.py``: the required receivers, and the meaning of a failure.

This module imports nothing of the protocols, directly or indirectly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jgroups_py.drill.file.model import Expectation
from jgroups_py.drill.judge.evidence import Evidence, Told
from jgroups_py.drill.judge.rules import (
    NEVER,
    ExpectationsVerdict,
    Measured,
    Rules,
    Who,
    held,
    largest,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A message of ``origin`` and the incarnations at which it is wrong."""

    origin: Who
    seqno: int
    at: tuple[Who, ...]


@dataclass
class SiteNumbers:
    sent: int = 0
    delivered: int = 0
    relayed: int = 0
    replayed: int = 0
    duplicates_dropped: int = 0
    lost: int = 0
    lost_inside: int = 0
    unsent: int = 0
    views: int = 0
    not_relayed: int = 0
    """Messages sent while this site did not relay, and missing at another one."""


@dataclass
class Verdict(ExpectationsVerdict):
    sites: dict[str, SiteNumbers] = field(default_factory=dict)
    lost: list[Finding] = field(default_factory=list)
    lost_inside: list[Finding] = field(default_factory=list)
    duplicated: list[Finding] = field(default_factory=list)
    out_of_order: list[Finding] = field(default_factory=list)
    unrelayed: list[Finding] = field(default_factory=list)
    detections: list[Measured] = field(default_factory=list)
    takeovers: list[Measured] = field(default_factory=list)
    rpo: float | None = None
    reigns: list[tuple[str, float, float]] = field(default_factory=list)
    """(site, from, until) of the relaying sites, by time of sending."""
    primary: str | None = None
    """The site that relays at the start; None: all do."""
    primary_only: bool = False
    """The drill says ``relay: primary only``: messages sent elsewhere are not lost."""

    @property
    def not_relayed(self) -> int:
        return sum(numbers.not_relayed for numbers in self.sites.values())


def judge(
    evidence: Evidence,
    *,
    primary: str | None,
    grace: float,
    expect: Sequence[Expectation] = (),
    primary_only: bool = False,
) -> Verdict:
    """Judge a drill of messages. ``primary`` None: every site relays to every other. ``primary_only``: messages of a
    site that does not relay are not lost."""
    return _Judge(evidence, primary, grace, primary_only).verdict(expect)


class _Judge:
    def __init__(
        self, evidence: Evidence, primary: str | None, grace: float, primary_only: bool
    ) -> None:
        self._evidence = evidence
        self._rules = Rules(evidence, primary, grace, primary_only)
        self._primary = primary
        self._primary_only = primary_only
        origins: dict[Who, None] = dict.fromkeys(evidence.sent)
        for of in evidence.delivered.values():
            origins.update(dict.fromkeys(of))
        self._origins = list(origins)
        self._tops = {origin: evidence.top(origin) for origin in origins}

    def verdict(self, expect: Sequence[Expectation]) -> Verdict:
        verdict = Verdict(
            sites={site: self._numbers(site) for site in self._evidence.sites},
            reigns=self._rules.reigns,
            primary=self._primary,
            primary_only=self._primary_only,
        )
        ages: list[float] = []
        for origin in self._origins:
            self._judge_relaying(origin, verdict, ages)
            self._judge_sites(origin, verdict)
            verdict.sites[origin.site].unsent += self._unsent(origin)
        verdict.rpo = self._rules.rpo(ages)
        self._judge_order(verdict)
        for finding in verdict.lost:
            verdict.sites[finding.origin.site].lost += 1
        self._measure(verdict)
        measured: dict[str, float | None] = {
            name: len(getattr(verdict, name))
            for name in ("lost", "lost_inside", "duplicated", "out_of_order")
        }
        measured["detection"] = largest(verdict.detections)
        measured["takeover"] = largest(verdict.takeovers)
        verdict.expectations = held(expect, measured, otherwise=verdict.rpo)
        return verdict

    # numbers

    def _numbers(self, site: str) -> SiteNumbers:
        evidence = self._evidence
        told = evidence.told.get(site, Told())
        totals = told.totals.values()
        return SiteNumbers(
            sent=sum(
                sum(1 for t in times if t < NEVER)
                for who, times in evidence.sent.items()
                if who.site == site
            ),
            delivered=sum(
                delivered.count + len(delivered.repeated)
                for who in evidence.receivers(site)
                for delivered in evidence.delivered[who].values()
            ),
            relayed=told.relayed or sum(total.get("relayed", 0) for total in totals),
            replayed=told.replayed or sum(total.get("replayed", 0) for total in totals),
            duplicates_dropped=sum(total.get("duplicates_dropped", 0) for total in totals),
            views=evidence.count_views(site),
        )

    def _unsent(self, origin: Who) -> int:
        sent = self._evidence.sent.get(origin)
        if not sent:
            return 0
        having = [of[origin] for of in self._evidence.delivered.values() if origin in of]
        if not having:
            return sum(1 for t in sent if t < NEVER)
        best = max(having, key=lambda delivered: delivered.count)
        return sum(
            1
            for seqno in best.missing(len(sent))
            if sent[seqno - 1] < NEVER and all(delivered.at(seqno) is None for delivered in having)
        )

    # between sites

    def _judge_relaying(self, origin: Who, verdict: Verdict, ages: list[float]) -> None:
        evidence = self._evidence
        missing_at: dict[int, list[Who]] = {}
        for site in evidence.sites:
            if site == origin.site:
                continue
            for who, since in self._rules.must_have(site, origin.site).items():
                delivered = evidence.delivered.get(who, {}).get(origin)
                top = self._tops[origin]
                missing = range(1, top + 1) if delivered is None else delivered.missing(top)
                for seqno in missing:
                    if self._sent_at(origin, seqno) >= since:
                        missing_at.setdefault(seqno, []).append(who)
        home = [
            evidence.delivered[who][origin]
            for who in evidence.receivers(origin.site)
            if origin in evidence.delivered[who]
        ]
        for seqno in sorted(missing_at):
            at_home = [t for d in home if (t := d.at(seqno)) is not None]
            fate = self._rules.fate(origin.site, self._sent_at(origin, seqno), at_home)
            verdict.sites[origin.site].not_relayed += fate.not_relayed
            finding = Finding(origin, seqno, tuple(missing_at[seqno]))
            if fate.what == "lost":
                verdict.lost.append(finding)
            elif fate.what == "unrelayed":
                verdict.unrelayed.append(finding)
                ages += [] if fate.age is None else [fate.age]

    def _sent_at(self, origin: Who, seqno: int) -> float:
        sent = self._evidence.sent.get(origin, ())
        if seqno <= len(sent) and sent[seqno - 1] < NEVER:
            return sent[seqno - 1]
        return -NEVER

    # inside a site

    def _judge_sites(self, origin: Who, verdict: Verdict) -> None:
        evidence = self._evidence
        for site in evidence.sites:
            having = {
                who: evidence.delivered[who][origin]
                for who in evidence.receivers(site)
                if origin in evidence.delivered[who]
            }
            if not having:
                continue
            top = max(len(delivered.times) for delivered in having.values())
            missing_at: dict[int, list[Who]] = {}
            for who in evidence.members(site):
                if who not in evidence.views:
                    continue
                own = having.get(who)
                owed: dict[tuple[Who, int], float | None] = {}
                for seqno in range(1, top + 1) if own is None else own.missing(top):
                    sent = self._sent_at(origin, seqno)
                    for other, d in having.items():
                        if other == who or d.at(seqno) is None:
                            continue
                        key = (other, d.epochs[seqno - 1] - 1)
                        if key not in owed:
                            owed[key] = self._rules.owed_since(who, *key)
                        since = owed[key]
                        if since is not None and sent >= since:
                            missing_at.setdefault(seqno, []).append(who)
                            break
            for seqno in sorted(missing_at):
                verdict.lost_inside.append(Finding(origin, seqno, tuple(missing_at[seqno])))
            verdict.sites[site].lost_inside += len(missing_at)

    def _judge_order(self, verdict: Verdict) -> None:
        for who, of in self._evidence.delivered.items():
            for origin, delivered in of.items():
                verdict.duplicated += [Finding(origin, s, (who,)) for s in delivered.repeated]
                verdict.out_of_order += [Finding(origin, s, (who,)) for s in delivered.late]

    # times

    def _measure(self, verdict: Verdict) -> None:
        for fall in self._rules.falls():
            fault = fall.detected
            verdict.detections.append(fault)
            if fall.taken:
                seconds = self._takeover(fault.site, fault.t)
                verdict.takeovers.append(replace(fault, seconds=seconds, required=True))

    def _takeover(self, site: str, t: float) -> float | None:
        evidence = self._evidence
        outward = self._rules.is_outward(site, t)
        first = NEVER
        for who, of in evidence.delivered.items():
            for origin, delivered in of.items():
                if origin.site == who.site or site != (origin.site if outward else who.site):
                    continue
                sent = evidence.sent.get(origin)
                if sent is None:
                    continue
                index = bisect_right(sent, t)
                first = min([first, *delivered.times[index:]])
        return None if first == NEVER else first - t


def result(
    verdict: Verdict,
    *,
    name: str,
    mode: str,
    seed: int,
    virtual_s: float | None,
    wall_s: float,
) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""

    def entries(findings: Sequence[Finding]) -> list[dict[str, Any]]:
        return [
            {
                "site": finding.origin.site,
                "origin": finding.origin.origin,
                "seqno": finding.seqno,
                key: [str(who) for who in finding.at],
            }
            for finding in findings
        ]

    def seconds(value: float | None) -> float | None:
        return None if value is None else round(value, 6)

    key = "missing_at"
    lost, lost_inside = entries(verdict.lost), entries(verdict.lost_inside)
    key = "at"
    return {
        "name": name,
        "mode": mode,
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
        "sites": {
            site: {
                "sent": numbers.sent,
                "delivered": numbers.delivered,
                "relayed": numbers.relayed,
                "replayed": numbers.replayed,
                "duplicates_dropped": numbers.duplicates_dropped,
                "lost": numbers.lost,
                "lost_inside": numbers.lost_inside,
                "unsent": numbers.unsent,
                "views": numbers.views,
                "not_relayed": numbers.not_relayed,
            }
            for site, numbers in verdict.sites.items()
        },
        "lost": lost,
        "lost_inside": lost_inside,
        "duplicated": entries(verdict.duplicated),
        "out_of_order": entries(verdict.out_of_order),
        "unrelayed": len(verdict.unrelayed),
        "detection_s": [seconds(measured.seconds) for measured in verdict.detections],
        "takeover_s": [seconds(measured.seconds) for measured in verdict.takeovers],
        "rpo_s": seconds(verdict.rpo),
        "virtual_s": seconds(virtual_s),
        "wall_s": round(wall_s, 3),
        "primary": verdict.primary or "all",
        "not_relayed": verdict.not_relayed,
    }
