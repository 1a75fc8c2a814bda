"""The report of a drill of a bucket store: its table on the terminal, and its part of the page."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from rich.console import Console

from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.judge.bucket_judge import BucketVerdict
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.figures import Figures
from jgroups_py.drill.judge.flows import percentile, rates
from jgroups_py.drill.judge.rules import NEVER, Measured
from jgroups_py.drill.judge.verdict import SiteNumbers, Verdict
from jgroups_py.drill.report import curves, panels, picture
from jgroups_py.drill.report.live_report import grid_of, rto_headline, show_events, show_findings
from jgroups_py.drill.report.panels import Panel, Series, as_seconds
from jgroups_py.drill.report.subject import Headline, Subject
from jgroups_py.drill.report.tables import event_text, seconds, show_sites

KEYS_SHOWN: Final = 5
_HEADINGS = ("event", "detected after", "", "goes on after")


def show(out: Console, title: str, verdict: BucketVerdict) -> None:
    """Print the measured values."""
    show_sites(out, title, verdict.sites, list(vars(next(iter(verdict.sites.values())))))
    show_findings(out, verdict.findings)
    for words, keys in (
        ("stale reads of", verdict.stale),
        ("not readable at the end", verdict.unavailable),
    ):
        if keys:
            out.print(f"{words}: entries {', '.join(map(str, keys[:20]))}")
    show_events(out, _events(verdict), _HEADINGS)
    for one, recovery in zip(verdict.interruptions, verdict.recoveries, strict=True):
        if "role" in one.fault.detail:
            out.print(f"{recovery.name}: it was the {one.fault.detail['role']}")
        waited = [f"{key} ({seconds(took)})" for key, took in one.longest()[:KEYS_SHOWN] if took]
        if waited:
            out.print(f"{recovery.name}: entries that waited longest: {', '.join(waited)}")
        if one.unanswered:
            silent = ", ".join(map(str, one.unanswered[:KEYS_SHOWN]))
            out.print(f"{recovery.name}: {len(one.unanswered)} entries without an answer: {silent}")


def _events(verdict: BucketVerdict) -> list[tuple[str, str, str, str]]:
    """Return the rows of the faults."""
    detected = {(one.t, one.who): seconds(one.seconds) for one in verdict.detections}
    return [
        (
            event_text(Measured(one.t, one.event, one.who, one.site, None)),
            detected.get((one.t, one.who), ""),
            "",
            one.why if one.seconds is None else seconds(one.seconds),
        )
        for one in verdict.recoveries
    ]


def subject(
    plan: DrillPlan, evidence: Evidence, verdict: BucketVerdict, figures: Figures
) -> Subject:
    """Return the page's part."""
    requests = verdict.requests
    edges = picture.bins(picture.span(evidence, plan.end), len(requests))
    done = sorted(ended for _, _, ended in requests if ended < NEVER)
    took = sorted((began, ended - began) for _, began, ended in requests if ended < NEVER)
    values = [
        percentile(sorted(s for t, s in took if t0 <= t < t1), 0.99) for t0, t1 in pairwise(edges)
    ]
    answered = Series("requests answered", "s0", curves.while_any(rates(done, edges)))
    shown = [
        Panel("Requests a second", [answered], panels.as_rate),
        Panel(
            "How long requests took, by the time they began",
            [Series("99 % within", "s0", values)],
            as_seconds,
        ),
    ]
    return Subject(
        Verdict(
            sites={site.name: SiteNumbers() for site in plan.sites},
            detections=verdict.detections,
            primary=None,
        ),
        shown if done else [],
        edges,
        _headlines(verdict, figures),
        [] if verdict.judged else ["Nobody could be asked at the end: nothing was judged."],
        [],
        then="",
        measured=_events(verdict),
        grids=grid_of(verdict.findings),
    )


def _headlines(verdict: BucketVerdict, figures: Figures) -> list[Headline]:
    found = []
    for count, name, words in (
        (len(verdict.of("lost")), "Lost", "modifications that were answered and are not there"),
        (len(verdict.of("undone")), "Undone", "those that stand elsewhere than was answered"),
        (len(verdict.of("duplicated")), "Twice", "those that were carried out twice"),
        (len(verdict.unavailable), "Unavailable", "entries that could not be read at the end"),
    ):
        shown = str(count) if verdict.judged else "not judged"
        found.append(Headline(name, shown, words, bad=bool(count) or not verdict.judged))
    words = (
        "longest time after a fault in which requests for an entry waited, and none was answered"
    )
    found.append(rto_headline(figures, "Interruption", words))
    if figures.latency_p50 is not None and figures.latency_p99 is not None:
        found.append(
            Headline(
                "Latency p50 / p99",
                f"{as_seconds(figures.latency_p50)} / {as_seconds(figures.latency_p99)}",
                "half, and 99 %, of all requests were answered within",
            )
        )
    return found
