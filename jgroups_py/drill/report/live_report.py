"""The report of a drill of live and backup: its table on the terminal, and its part of the page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.console import Console
from rich.table import Table

from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.figures import Figures
from jgroups_py.drill.judge.flows import percentile, rates
from jgroups_py.drill.judge.live_judge import LiveFinding, LiveVerdict
from jgroups_py.drill.judge.rules import NEVER, Measured
from jgroups_py.drill.judge.verdict import SiteNumbers, Verdict
from jgroups_py.drill.report import curves, panels, picture
from jgroups_py.drill.report.charts import site_class
from jgroups_py.drill.report.panels import Panel, Series, as_seconds
from jgroups_py.drill.report.subject import Grid, Headline, Subject
from jgroups_py.drill.report.tables import KEYS_SHOWN_MAX, event_text, filled, seconds, show_sites

ROWS_MAX = 200
"""The most findings, and changes of roles, on the page."""


def show(out: Console, title: str, verdict: LiveVerdict) -> None:
    """Print the measured values."""
    show_sites(out, title, verdict.sites, list(vars(next(iter(verdict.sites.values())))))
    show_findings(out, verdict.findings)
    if not verdict.judged:
        out.print("at the end no node was live or a backup: nothing was judged")
    show_events(out, _events(verdict), ("event", "detected after", "take-over", "goes on after"))


def show_findings(out: Console, findings: Sequence[LiveFinding]) -> None:
    """Print the first findings."""
    if findings:
        table = Table(title=f"operations with something wrong ({len(findings)})")
        for column in ("what", "operation", "at", "why"):
            table.add_column(column)
        for one in findings[:KEYS_SHOWN_MAX]:
            table.add_row(*_row(one))
        out.print(table)


def show_events(out: Console, events: Sequence[tuple[str, ...]], headings: Sequence[str]) -> None:
    """Print faults and their measured values, if there are any."""
    if events:
        columns, rows = filled(headings, events)
        table = Table()
        for column in columns:
            table.add_column(column, justify="left" if column == "event" else "right")
        for row in rows:
            table.add_row(*row)
        out.print(table)


def _row(one: LiveFinding) -> tuple[str, str, str, str]:
    return one.kind, f"{one.entry[0]}/{one.entry[1]}", ", ".join(one.at), one.why


def _events(verdict: LiveVerdict) -> list[tuple[str, str, str, str]]:
    """Return the rows of the faults."""
    detected = {(one.t, one.who): seconds(one.seconds) for one in verdict.detections}
    taken = {(one.t, one.who): seconds(one.seconds) for one in verdict.takeovers}
    rows = []
    for one in verdict.recoveries:
        at = (one.t, one.who)
        event = event_text(Measured(one.t, one.event, one.who, one.site, None))
        went_on = one.why if one.seconds is None else seconds(one.seconds)
        rows.append((event, detected.get(at, ""), taken.get(at, ""), went_on))
    return rows


def subject(plan: DrillPlan, evidence: Evidence, verdict: LiveVerdict, figures: Figures) -> Subject:
    """Return the page's part."""
    edges = picture.bins(picture.span(evidence, plan.end), len(verdict.operations))
    roles = [
        (f"{role.t:.3f} s", str(role.who).removesuffix("#1"), role.role, str(role.term))
        for role in verdict.roles
        if role.t >= 0
    ]
    grids = grid_of(verdict.findings)
    if roles:
        shown, more = roles[:ROWS_MAX], max(0, len(roles) - ROWS_MAX)
        grids.append(Grid("Roles", ("at", "node", "role", "term"), shown, more=more))
    return Subject(
        Verdict(
            sites={site.name: SiteNumbers() for site in plan.sites},
            detections=verdict.detections,
            primary=None,
        ),
        _panels(evidence, verdict, edges),
        edges,
        _headlines(verdict, figures),
        [] if verdict.judged else ["At the end no node was live or a backup: nothing was judged."],
        [],
        then="take-over",
        measured=_events(verdict),
        grids=grids,
    )


def grid_of(findings: Sequence[LiveFinding]) -> list[Grid]:
    """Return the findings' table for the page, if there are any."""
    rows = [_row(one) for one in findings[:ROWS_MAX]]
    columns = ("what", "operation", "at", "why")
    more = max(0, len(findings) - ROWS_MAX)
    return [Grid("Operations with something wrong", columns, rows, rows, more)] if rows else []


def rto_headline(figures: Figures, name: str, words: str) -> Headline:
    """Return the longest recovery, or the faults without one."""
    if figures.not_recovered:
        named = ", ".join(one.name for one in figures.not_recovered)
        return Headline(name, f"not recovered: {named}", words, bad=True)
    return Headline(name, "n/a" if figures.rto is None else as_seconds(figures.rto), words)


def _headlines(verdict: LiveVerdict, figures: Figures) -> list[Headline]:
    found = []
    for kind, name, words in (
        ("lost", "Lost", "confirmed operations that a node lacks at the end"),
        (
            "undone",
            "Undone",
            "confirmed operations that stand elsewhere than their client was told",
        ),
        ("half", "By half", "operations of which a node has a part, or that must not be there"),
    ):
        count = len(verdict.of(kind))
        shown = f"{count} operations" if verdict.judged else "not judged"
        found.append(Headline(name, shown, words, bad=bool(count) or not verdict.judged))
    words = "longest time after a fault from the first request until an operation was confirmed"
    found.append(rto_headline(figures, "RTO", words))
    took = [one.seconds for one in verdict.takeovers]
    if took:
        known = [one for one in took if one is not None]
        whole = len(known) == len(took)
        found.append(
            Headline(
                "Take-over",
                as_seconds(max(known)) if whole else "none",
                "from the loss of the live node until an operation was confirmed that began after it",
                bad=not whole,
            )
        )
    if figures.latency_p50 is not None and figures.latency_p99 is not None:
        found.append(
            Headline(
                "Confirmed p50 / p99",
                f"{as_seconds(figures.latency_p50)} / {as_seconds(figures.latency_p99)}",
                "half, and 99 %, of all operations were confirmed within",
            )
        )
    return found


def _panels(evidence: Evidence, verdict: LiveVerdict, edges: Sequence[float]) -> list[Panel]:
    site = evidence.sites[0]
    css = site_class(evidence.sites, site)
    done = sorted(one.acked for one in verdict.operations if one.acked < NEVER)
    away = sorted(
        record.t for record in evidence.marks if record.event == "failed" and record.origin is None
    )
    series = [Series("operations confirmed", css, curves.while_any(rates(done, edges)))]
    if away:
        rate = curves.while_any(rates(away, edges))
        series.append(Series("turned away, by nodes that are not live", f"{css} dashed", rate))
    panel = Panel("Requests a second", series, panels.as_rate)
    took = sorted(
        (one.began, one.acked - one.began) for one in verdict.operations if one.acked < NEVER
    )
    if not took:
        return [panel]
    values = [
        percentile(sorted(s for t, s in took if t0 <= t < t1), 0.99) for t0, t1 in pairwise(edges)
    ]
    title = "How long it took until operations were confirmed, by the time they began"
    return [panel, Panel(title, [Series("99 % within", css, values)], as_seconds)]
