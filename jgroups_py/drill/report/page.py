"""The report: one HTML page that needs nothing else, neither network nor library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.judge import cache_figures
from jgroups_py.drill.judge.bucket_judge import BucketVerdict
from jgroups_py.drill.judge.cache_judge import CacheVerdict
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.figures import Figures
from jgroups_py.drill.judge.live_judge import LiveVerdict
from jgroups_py.drill.judge.map_judge import MapVerdict
from jgroups_py.drill.judge.results import Verdicts
from jgroups_py.drill.judge.rules import Measured, Who, reigns
from jgroups_py.drill.judge.verdict import SiteNumbers, Verdict
from jgroups_py.drill.report import bucket_report, curves, live_report, map_report, picture
from jgroups_py.drill.report.happenings import SHOWN_MAX, happenings
from jgroups_py.drill.report.panels import as_duration, as_percent, as_seconds
from jgroups_py.drill.report.subject import Headline, Subject
from jgroups_py.drill.report.table import (
    direction_notes,
    judged_text,
    not_relayed_text,
    primary_text,
    unrelayed_text,
)
from jgroups_py.drill.report.tables import event_text, filled, seconds

FINDINGS_SHOWN_MAX = 200
FINDINGS_UNFOLDED_MAX = 20
"""Visible rows of a table; the others open with a click."""


def environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("jgroups_py.drill.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def embedded(value: Any) -> Markup:
    """Return JSON for a script element. An escaped ``<`` cannot end the element early."""
    return Markup(json.dumps(value, indent=1).replace("<", "\\u003c"))


def page(
    plan: DrillPlan,
    evidence: Evidence,
    verdict: Verdicts,
    figures: Figures,
    result: dict[str, Any],
    *,
    command: str,
    limit: str = "",
    notes: tuple[str, ...] = (),
) -> str:
    """Return the HTML text. ``result``: the object of ``--json``, which is embedded. ``limit``: of RELAY's buffer, as
    text."""
    subject = _subject(plan, evidence, verdict, figures, limit)
    drawing = picture.draw(evidence, subject.drawn, figures, subject.panels, subject.edges)
    keys, findings, unrelayed = subject.keys, subject.findings, subject.unrelayed
    columns = list(next(iter(result["sites"].values()))) if result["sites"] else []
    said = [*notes, *direction_notes(plan), *subject.said]
    told = happenings(evidence, figures)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            plan=plan,
            verdict=verdict,
            result=result,
            headlines=subject.headlines,
            picture=Markup(drawing.svg),
            legend=[(Markup(picture.swatch(key)), text) for key, text in drawing.legend],
            curves=embedded(drawing.curves),
            happenings=[(f"{one.t:.3f}", one.kind, one.text) for one in told[:SHOWN_MAX]],
            more_happenings=max(0, len(told) - SHOWN_MAX),
            columns=[column for column in columns if column not in subject.left_out],
            file=Path(plan.file).name,
            events=[(f"{event.at:.3f} s", str(event), event.place.line) for event in plan.events],
            faults=filled(
                ("fault", "detected after", subject.then, "service goes on after"), subject.measured
            ),
            grids=subject.grids,
            judged=[(*judged_text(j), j.holds) for j in verdict.expectations],
            unfolded=FINDINGS_UNFOLDED_MAX,
            findings=findings[:FINDINGS_SHOWN_MAX],
            more_findings=max(0, len(findings) - FINDINGS_SHOWN_MAX),
            unrelayed=unrelayed[:FINDINGS_SHOWN_MAX],
            more_unrelayed=max(0, len(unrelayed) - FINDINGS_SHOWN_MAX),
            bootstraps=[
                (event_text(m), seconds(m.seconds)) for m in getattr(verdict, "bootstraps", ())
            ],
            keys=keys[:FINDINGS_SHOWN_MAX],
            more_keys=max(0, len(keys) - FINDINGS_SHOWN_MAX),
            command=command,
            notes=[text for text in said if text],
            raw=embedded(result),
        )
    )


def _subject(
    plan: DrillPlan,
    evidence: Evidence,
    verdict: Verdicts,
    figures: Figures,
    limit: str,
) -> Subject:
    if isinstance(verdict, MapVerdict):
        return map_report.subject(plan, evidence, verdict, figures, limit)
    if isinstance(verdict, LiveVerdict):
        return live_report.subject(plan, evidence, verdict, figures)
    if isinstance(verdict, BucketVerdict):
        return bucket_report.subject(plan, evidence, verdict, figures)
    end = picture.span(evidence, plan.end)
    if isinstance(verdict, CacheVerdict):
        several = len(plan.sites) > 1
        drawn = Verdict(
            sites={site.name: SiteNumbers() for site in plan.sites},
            detections=verdict.detections,
            primary=plan.primary,
            reigns=reigns(evidence.faults, evidence.sites, plan.primary, plan.grace)
            if several
            else [],
        )
        asked = cache_figures.requests(evidence)
        edges = picture.bins(end, len(asked))
        return Subject(
            drawn,
            curves.of_caches(evidence, asked, edges, limit),
            edges,
            headlines(plan, verdict, figures, limit),
            [primary_text(drawn)],
            [] if several else ["diverged", "unrelayed"],
            then="unprotected for" if verdict.keys else "take-over",
            measured=_measured(verdict, figures),
            keys=sorted(verdict.keys, key=lambda key: (not key.bad, key.site, key.key)),
            unrelayed=[unrelayed_text(entry) for entry in verdict.unrelayed],
        )
    assert isinstance(verdict, Verdict)
    edges = picture.bins(end, sum(map(len, evidence.sent.values())))
    return Subject(
        verdict,
        curves.of_messages(evidence, figures, edges, limit),
        edges,
        headlines(plan, verdict, figures, limit),
        [primary_text(verdict), not_relayed_text(verdict)],
        [] if verdict.not_relayed else ["not_relayed"],
        measured=_measured(verdict, figures),
        findings=[
            (kind.replace("_", " "), str(f.origin), f.seqno, ", ".join(map(str, f.at)))
            for kind in ("lost", "lost_inside", "duplicated", "out_of_order")
            for f in getattr(verdict, kind)
        ],
    )


def headlines(
    plan: DrillPlan, verdict: Verdict | CacheVerdict, figures: Figures, limit: str
) -> list[Headline]:
    """Return the figures that an operator reads first."""
    cache = isinstance(verdict, CacheVerdict)
    things = "requests" if cache else "messages"
    found = [_rto(figures, cache), _rpo(verdict, things)]
    if figures.latency_p50 is not None and figures.latency_p99 is not None:
        where = "between sites" if len(plan.sites) > 1 else "inside the site"
        found.append(
            Headline(
                "Latency p50 / p99",
                f"{as_seconds(figures.latency_p50)} / {as_seconds(figures.latency_p99)}",
                "half, and 99 %, of all requests were answered within"
                if cache
                else f"half, and 99 %, of all deliveries {where} came within, after they were sent",
            )
        )
    if figures.lag is not None:
        words = "the longest that a message was under way to another site"
        found.append(Headline("Lag at most", as_seconds(figures.lag), words))
    if figures.buffer is not None:
        until = figures.until_full
        words = f"the fullest, of its limit: {limit}" if limit else "the fullest, of its limit"
        more = (
            "it never grew for a whole second"
            if until is None
            else f"full after {as_duration(until)}, if the fastest growth seen goes on"
        )
        bad = figures.buffer >= 1
        found.append(Headline("Relay buffer", as_percent(figures.buffer * 100), words, more, bad))
    return found


def _rto(figures: Figures, cache: bool) -> Headline:
    words = (
        "longest time after a fault in which an application waited and had no write done"
        if cache
        else "longest time after a fault in which messages waited and none sent after it arrived"
    )
    unmeasured = [r for r in figures.recoveries if r.seconds is None and not r.missing]
    more = [f"{r.name}: {r.why}" for r in unmeasured]
    if figures.not_recovered:
        named = ", ".join(f"{r.name} ({r.why})" for r in figures.not_recovered)
        others = [] if figures.rto is None else [f"the others: {_longest(figures, figures.rto)}"]
        return Headline(
            "RTO", f"not recovered: {named}", words, "; ".join([*others, *more]), bad=True
        )
    if not figures.recoveries:
        return Headline("RTO", "n/a", words, "there was no fault")
    if figures.rto is None:
        return Headline("RTO", "n/a", words, "; ".join(more))
    return Headline("RTO", as_seconds(figures.rto), words, "; ".join([_after(figures), *more]))


def _longest(figures: Figures, rto: float) -> str:
    return f"at most {as_seconds(rto)}, {_after(figures)}"


def _after(figures: Figures) -> str:
    worst = next(r for r in figures.recoveries if r.seconds == figures.rto)
    return f"after {worst.name} at {worst.t:.1f} s"


def _rpo(verdict: Verdict | CacheVerdict, things: str) -> Headline:
    what = "write" if things == "requests" else "message"
    words = f"age of the oldest {what} that was missing elsewhere when its site failed"
    if verdict.rpo is None:
        return Headline("RPO", "n/a", words, "no site failed as a whole")
    count = len(verdict.unrelayed)
    if not count:
        return Headline("RPO", "0 s", words, "nothing was missing")
    things = "keys" if things == "requests" else things
    return Headline(
        "RPO",
        as_seconds(verdict.rpo),
        words,
        f"{count} {things[:-1] if count == 1 else things} missing",
    )


def _measured(verdict: Verdict | CacheVerdict, figures: Figures) -> list[tuple[str, str, str, str]]:
    """Return the rows of the faults: detected, taken over (or unprotected), went on."""
    detected = {(m.t, m.who): m for m in verdict.detections}
    ends = verdict.unprotected if isinstance(verdict, CacheVerdict) else verdict.takeovers
    taken: dict[tuple[float, Who | None], str] = {
        (m.t, m.who): seconds(m.seconds) for m in ends if m.who is not None
    }
    rows = []
    for recovery in figures.recoveries:
        key = (recovery.t, recovery.who)
        found = detected.pop(key, None)
        event = Measured(recovery.t, recovery.event, recovery.who, recovery.site, None)
        rows.append(
            (
                event_text(event),
                "" if found is None else seconds(found.seconds),
                taken.get(key, ""),
                recovery.why if recovery.seconds is None else seconds(recovery.seconds),
            )
        )
    rows += [(event_text(m), seconds(m.seconds), "", "") for m in detected.values()]
    return rows
