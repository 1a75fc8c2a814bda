"""The verdict on a drill, from what applications sent, delivered and were given as views.

    counted     some member of its origin's site delivered it at least `grace` before that site failed
    obliged     who must have it: see `_Obliged`
    lost        counted and missing at somebody obliged
    unrelayed   the same, but delivered at home only within the last `grace`; reported
    lost_inside delivered in a site, missing at another member of it that shared the view in which
                it was delivered and one after it: survivors must agree
    unsent      sent, delivered nowhere; reported

Where the contract of drill files leaves something open:

- A site fails when `fail_site` says so or its last living member crashes or vanishes. It may be
  started again and fail again; a message is measured against the failure that follows it.
- During a split a site has several views. The site's view is the one most of its living members
  hold, so the smaller side is not obliged from the split on until it is back.
- `promote` ends what the former primary is directed to do: it is a failure for the counting there,
  and the new primary's messages count from `grace` after it.
- Take-over of a backup site's relay: until that site delivers a message sent after the crash.
- What a site sends while it does not relay is `not_relayed`. It is counted as lost or unrelayed like
  other messages, unless the drill says `relay: primary only`. Within `grace` after a promotion
  nothing is counted so.
- `rpo_s` is the age, since it was sent, of the oldest unrelayed message when the site failed.

Nothing of the protocols is imported here, directly or indirectly.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jgroups_py.drill.file.model import Expectation
from jgroups_py.drill.judge.evidence import NEVER, Evidence, Told, ViewSeen, Who


@dataclass(frozen=True, slots=True)
class Finding:
    """A message of ``origin`` and the incarnations at which something is wrong with it."""

    origin: Who
    seqno: int
    at: tuple[Who, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """A time that began with a fault; ``seconds`` None: it did not end, or was not measured."""

    t: float
    event: str
    who: Who | None
    site: str
    seconds: float | None
    required: bool = True
    """False where nobody was left who could have ended it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One expectation and what was measured."""

    expectation: Expectation
    measured: float | None
    holds: bool


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
    """Sent while this site did not relay, and missing at another one."""


@dataclass
class Verdict:
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
    """(site, from, until): who relays to the others, by time of sending."""
    primary: str | None = None
    """The site that relays at the start; None: all do."""
    primary_only: bool = False
    """The drill means it so: what is sent elsewhere is not lost."""
    expectations: list[Judged] = field(default_factory=list)

    @property
    def not_relayed(self) -> int:
        return sum(numbers.not_relayed for numbers in self.sites.values())

    @property
    def passed(self) -> bool:
        return all(judged.holds for judged in self.expectations)


def judge(
    evidence: Evidence,
    *,
    primary: str | None,
    grace: float,
    expect: Sequence[Expectation] = (),
    primary_only: bool = False,
) -> Verdict:
    """Everything a drill reports. ``primary`` None: every site relays to every other.
    ``primary_only``: what is sent where nothing is relayed is not lost."""
    return _Judge(evidence, primary, grace, primary_only).verdict(expect)


class _Obliged:
    """Who must have a message: members of the site's view from before the send until the end.

    A member is out when it died or left, was expelled and is not back, is paused or cut off when
    judged. ``since`` tells from which send time on it is obliged: its first view, or the moment it
    was back in the site's view.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._walls = unhealed(evidence)
        self.since: dict[Who, float] = {}
        for site in evidence.sites:
            self._follow(site)
        for who in _paused(evidence):
            self.since.pop(who, None)

    def _follow(self, site: str) -> None:
        evidence = self._evidence
        steps: list[tuple[float, Who, ViewSeen | None]] = []
        for who in evidence.members(site):
            steps += [(view.t, who, view) for view in evidence.views.get(who, ())]
            if who in evidence.gone:
                steps.append((evidence.ended(who), who, None))
        steps.sort(key=lambda step: step[0])
        held: dict[Who, ViewSeen] = {}
        main: ViewSeen | None = None
        since: dict[str, float] = {}
        ended: dict[str, None] = {}
        for t, who, view in steps:
            if view is None:
                held.pop(who, None)
                ended[who.origin] = None
                since.pop(who.origin, None)
            elif who.origin not in ended:
                if who not in held:
                    since.setdefault(who.origin, t)
                held[who] = view
            new = _most_held(held, main)
            for name in main.members if main is not None else ():
                if new is None or name not in new.members:
                    since.pop(name, None)
            main = new
            for (
                member,
                held_view,
            ) in held.items():  # back after a split: it holds the site's view again
                if main is not None and held_view.key == main.key:
                    since.setdefault(member.origin, t)
        if main is None:
            return
        for who in held:
            if who.origin in main.members and who.origin in since:
                self.since[who] = since[who.origin]

    def members(self, site: str, origin_site: str) -> list[Who]:
        """Those of ``site`` who can be obliged for messages of ``origin_site``."""
        return [
            who
            for who in self.since
            if who.site == site and not self.cut_off(who, (site, origin_site))
        ]

    def cut_off(self, who: Who, sites: Sequence[str]) -> bool:
        """Whether a partition that still stands keeps it from somebody of ``sites``."""
        name = f"{who.site}.{who.name}"
        return any(
            name in side
            and any(
                other is not side and any(far.partition(".")[0] in sites for far in other)
                for other in sides
            )
            for sides in self._walls
            for side in sides
        )


def _most_held(held: dict[Who, ViewSeen], current: ViewSeen | None) -> ViewSeen | None:
    counts: dict[tuple[str, tuple[str, ...]], int] = {}
    for view in held.values():
        counts[view.key] = counts.get(view.key, 0) + 1
    if not counts:
        return None
    most = max(counts.values())
    if current is not None and counts.get(current.key) == most:
        return current
    return next(view for view in held.values() if counts[view.key] == most)


def unhealed(evidence: Evidence) -> list[list[list[str]]]:
    walls: dict[str, list[list[str]]] = {}
    for fault in evidence.faults:
        if fault.event == "partition":
            walls[json.dumps(fault.detail["groups"])] = fault.detail["groups"]
        elif fault.event == "heal":
            walls.pop(json.dumps(fault.detail["groups"]), None)
    return list(walls.values())


def _paused(evidence: Evidence) -> list[Who]:
    paused: dict[Who, None] = {}
    for fault in evidence.faults:
        if fault.who is not None and fault.event == "pause":
            paused[fault.who] = None
        elif fault.who is not None and fault.event == "resume":
            paused.pop(fault.who, None)
    return list(paused)


class _Judge:
    def __init__(
        self, evidence: Evidence, primary: str | None, grace: float, primary_only: bool
    ) -> None:
        self._evidence = evidence
        self._grace = grace
        self._primary = primary
        self._primary_only = primary_only
        self._obliged = _Obliged(evidence)
        self._failures = {site: failures(evidence, site) for site in evidence.sites}
        self._reigns = reigns(evidence, primary, grace)
        origins: dict[Who, None] = dict.fromkeys(evidence.sent)
        for of in evidence.delivered.values():
            origins.update(dict.fromkeys(of))
        self._origins = list(origins)
        self._tops = {origin: evidence.top(origin) for origin in origins}

    def verdict(self, expect: Sequence[Expectation]) -> Verdict:
        verdict = Verdict(
            sites={site: self._numbers(site) for site in self._evidence.sites},
            reigns=self._reigns,
            primary=self._primary,
            primary_only=self._primary_only,
        )
        for origin in self._origins:
            self._judge_relaying(origin, verdict)
            self._judge_sites(origin, verdict)
            verdict.sites[origin.site].unsent += self._unsent(origin)
        self._judge_order(verdict)
        for finding in verdict.lost:
            verdict.sites[finding.origin.site].lost += 1
        self._measure(verdict)
        verdict.expectations = [self._expectation(e, verdict) for e in expect]
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
            views=len(
                {
                    view.key
                    for who, views in evidence.views.items()
                    if who.site == site
                    for view in views
                }
            ),
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

    def _judge_relaying(self, origin: Who, verdict: Verdict) -> None:
        evidence = self._evidence
        missing_at: dict[int, list[Who]] = {}
        for site in evidence.sites:
            if site == origin.site:
                continue
            for who in self._obliged.members(site, origin.site):
                delivered = evidence.delivered.get(who, {}).get(origin)
                top = self._tops[origin]
                missing = range(1, top + 1) if delivered is None else delivered.missing(top)
                since = self._obliged.since[who]
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
            if not at_home:
                continue  # unsent, or delivered abroad only: not counted
            sent = self._sent_at(origin, seqno)
            sent = sent if sent > -NEVER else at_home[0]
            if self._reign(origin.site, sent) is None:
                if self._promoted_just_before(sent):
                    continue
                verdict.sites[origin.site].not_relayed += 1
                if self._primary_only:
                    continue
            finding = Finding(origin, seqno, tuple(missing_at[seqno]))
            bounds = [self._bound(origin.site, sent, t) for t in at_home]
            if any(b - t >= self._grace for b, t in zip(bounds, at_home, strict=True)):
                verdict.lost.append(finding)
                continue
            verdict.unrelayed.append(finding)
            failure = self._next_failure(origin.site, min(at_home))
            if failure < NEVER:
                verdict.rpo = max(verdict.rpo or 0.0, failure - sent)
        if verdict.rpo is None and any(self._failures.values()):
            verdict.rpo = 0.0

    def _sent_at(self, origin: Who, seqno: int) -> float:
        sent = self._evidence.sent.get(origin, ())
        if seqno <= len(sent) and sent[seqno - 1] < NEVER:
            return sent[seqno - 1]
        return -NEVER

    def _next_failure(self, site: str, t: float) -> float:
        return next((failure for failure in self._failures[site] if failure >= t), NEVER)

    def _bound(self, site: str, sent: float, delivered: float) -> float:
        """Until when the site could relay what it delivered then."""
        reign = self._reign(site, sent)
        failure = self._next_failure(site, delivered)
        return failure if reign is None else min(reign, failure)

    def _reign(self, site: str, sent: float) -> float | None:
        """Until when the site relayed, if it did when this was sent."""
        return next((b for name, a, b in self._reigns if name == site and a <= sent < b), None)

    def _promoted_just_before(self, sent: float) -> bool:
        return any(
            fault.event == "promote" and fault.t <= sent < fault.t + self._grace
            for fault in self._evidence.faults
        )

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
                shared = _Shared(evidence, self._obliged, who)
                for seqno in range(1, top + 1) if own is None else own.missing(top):
                    sent = self._sent_at(origin, seqno)
                    if any(
                        other != who
                        and d.at(seqno) is not None
                        and shared.with_(other, d.epochs[seqno - 1] - 1, sent)
                        for other, d in having.items()
                    ):
                        missing_at.setdefault(seqno, []).append(who)
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
        for fault in self._evidence.faults:
            if fault.event not in ("crash", "vanish") or fault.detail.get("by") == "fail_site":
                continue
            if fault.who is None:
                continue
            seconds, required = self._detection(fault.who, fault.t)
            verdict.detections.append(
                Measured(fault.t, fault.event, fault.who, fault.who.site, seconds, required)
            )
            view = self._evidence.view_at(fault.who, fault.t)
            if view is None or view.members[:1] != (fault.who.origin,):
                continue
            if len(self._evidence.sites) > 1 and self._survivors(fault.who, fault.t):
                taken = self._takeover(fault.who.site, fault.t)
                verdict.takeovers.append(
                    Measured(fault.t, fault.event, fault.who, fault.who.site, taken)
                )
        for site, failures in self._failures.items():
            for t in failures:
                seconds, required = self._site_detection(site, t)
                verdict.detections.append(Measured(t, "fail_site", None, site, seconds, required))
        verdict.detections.sort(key=lambda measured: measured.t)

    def _survivors(self, victim: Who, t: float) -> list[Who]:
        """Who lives when it falls, and has it in view."""
        evidence = self._evidence
        found: list[Who] = []
        for who in evidence.members(victim.site):
            view = evidence.view_at(who, t)
            if who != victim and evidence.ended(who) > t and view is not None:
                if victim.origin in view.members:
                    found.append(who)
        return found

    def _detection(self, victim: Who, t: float) -> tuple[float | None, bool]:
        """Seconds until the last survivor's view lacked it, and whether that had to come."""
        evidence = self._evidence
        took: list[float] = []
        fell: list[float] = []
        for who in self._survivors(victim, t):
            seen = next(
                (
                    view.t - t
                    for view in evidence.views[who]
                    if view.t > t and victim.origin not in view.members
                ),
                None,
            )
            if seen is not None:
                took.append(seen)
            elif who in evidence.gone:
                fell.append(evidence.ended(who) - t)
            else:
                return None, True
        if not took:
            return None, False
        # One that fell later than the others knew was late: at least that long.
        return max([*took, *(f for f in fell if f > max(took))]), True

    def _site_detection(self, site: str, t: float) -> tuple[float | None, bool]:
        evidence = self._evidence
        took = []
        for other in evidence.sites:
            living = [w for w in evidence.members(other) if evidence.ended(w) > t]
            if other == site or not living:
                continue
            seen = [
                when - t
                for who in living
                for when, sites in evidence.bridge_views.get(who, ())
                if when > t and site not in sites
            ]
            if not seen:
                return None, True
            took.append(min(seen))
        return (max(took), True) if took else (None, False)

    def _takeover(self, site: str, t: float) -> float | None:
        evidence = self._evidence
        outward = any(name == site and a <= t < b for name, a, b in self._reigns)
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

    # expectations

    def _expectation(self, expectation: Expectation, verdict: Verdict) -> Judged:
        measured: float | None
        match expectation.name:
            case "lost" | "lost_inside" | "duplicated" | "out_of_order":
                measured = len(getattr(verdict, expectation.name))
            case "detection":
                measured = largest(verdict.detections)
            case "takeover":
                measured = largest(verdict.takeovers)
            case _:
                measured = verdict.rpo
        return Judged(expectation, measured, expectation.holds(measured))


class _Shared:
    """Whether ``who`` shared with another the view of a delivery, and one after it."""

    def __init__(self, evidence: Evidence, obliged: _Obliged, who: Who) -> None:
        self._evidence = evidence
        self._obliged = obliged
        self._who = who
        self._own = evidence.views[who]
        self._index = {view.key: i for i, view in enumerate(self._own)}
        self._known: dict[tuple[Who, int], float | None] = {}

    def with_(self, other: Who, epoch: int, sent: float) -> bool:
        """``epoch``: index of the view in which ``other`` delivered; ``sent``: when."""
        key = (other, epoch)
        if key not in self._known:
            self._known[key] = self._from(other, epoch)
        since = self._known[key]
        return since is not None and sent >= since

    def _from(self, other: Who, epoch: int) -> float | None:
        """From which send time on the two had to agree; ``None``: never."""
        views = self._evidence.views.get(other, [])
        if not 0 <= epoch < len(views):
            return None
        both = (self._who.origin, other.origin)
        before = epoch
        # The channel may have merged views with nothing between them: go back to a common one.
        while views[before].key not in self._index:
            if before == 0 or not all(name in views[before].members for name in both):
                return None
            before -= 1
        if not all(name in views[before].members for name in both):
            return None
        after = self._common_after(other, epoch)
        if after is None:
            return None
        # One side may have gone on alone, and the other not noticed.
        start = self._index[views[before].key]
        if not all(other.origin in view.members for view in self._own[start : after + 1]):
            return None
        # A joiner is not asked for what was sent before it had its first view.
        first = self._index[views[before].key] == 0
        return self._own[0].t if first else -NEVER

    def _common_after(self, other: Who, epoch: int) -> int | None:
        """The next view after ``epoch`` that both had, as an index of ours, or the last of both; ``None``:
        they need not agree."""
        views = self._evidence.views[other]
        for view in views[epoch + 1 :]:
            if not all(name in view.members for name in (self._who.origin, other.origin)):
                return None
            if view.key in self._index:
                return self._index[view.key]
        if not all(who in self._obliged.since for who in (self._who, other)):
            return None  # one of the two fell, left or is away at the end
        if self._obliged.cut_off(self._who, (self._who.site,)):
            return None
        last = len(self._own) - 1
        return last if self._own[last].key == views[-1].key else None


def largest(measured: Sequence[Measured]) -> float | None:
    """The largest; ``None`` when there is none, or one that had to come did not."""
    required = [m for m in measured if m.required]
    if not required or any(m.seconds is None for m in required):
        return None
    return max(m.seconds for m in required if m.seconds is not None)


def failures(evidence: Evidence, site: str) -> list[float]:
    """When the site as a whole failed: by decree, or with its last living member."""
    times = [f.t for f in evidence.faults if f.event == "fail_site" and f.site == site]
    members = evidence.members(site)
    for who in members:
        if who not in evidence.gone:
            continue
        t, how = evidence.gone[who]
        if how not in ("crash", "vanish") or t in times:
            continue
        alone = not any(evidence.born[w] <= t < evidence.ended(w) for w in members if w != who)
        if alone:
            times.append(t)
    return sorted(times)


def reigns(evidence: Evidence, primary: str | None, grace: float) -> list[tuple[str, float, float]]:
    """(site, from, until): who relays to the others when, by send time."""
    if primary is None:
        return [(site, -NEVER, NEVER) for site in evidence.sites]
    found = [(primary, -NEVER, NEVER)]
    for fault in evidence.faults:
        if fault.event == "promote" and fault.site is not None and fault.site != found[-1][0]:
            site, start, _ = found[-1]
            found[-1] = (site, start, fault.t)
            found.append((fault.site, fault.t + grace, NEVER))
    return found


def result(
    verdict: Verdict,
    *,
    name: str,
    mode: str,
    seed: int,
    virtual_s: float | None,
    wall_s: float,
) -> dict[str, Any]:
    """The object that ``--json`` prints."""

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
