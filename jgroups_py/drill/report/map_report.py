"""The report of a drill of maps: its table on the terminal, and its part of the page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.figures import Figures
from jgroups_py.drill.judge.flows import rates
from jgroups_py.drill.judge.map_history import text_of
from jgroups_py.drill.judge.map_judge import MapKey, MapVerdict, differing, lags_by_time
from jgroups_py.drill.judge.rules import reigns
from jgroups_py.drill.judge.verdict import SiteNumbers, Verdict
from jgroups_py.drill.report import curves, panels, picture
from jgroups_py.drill.report.charts import site_class
from jgroups_py.drill.report.live_report import show_events
from jgroups_py.drill.report.panels import Panel, Series, as_seconds
from jgroups_py.drill.report.subject import Grid, Headline, Subject
from jgroups_py.drill.report.tables import KEYS_SHOWN_MAX, event_text, filled, seconds, show_sites

ROWS_MAX = 200
"""The most keys on the page."""
_COLUMNS = ("key", "puts", "lost", "found there", "differs", "went back at")


def show(out: Console, title: str, verdict: MapVerdict) -> None:
    """Print the measured values."""
    show_sites(out, title, verdict.sites, list(vars(next(iter(verdict.sites.values())))))
    bad = [key for key in verdict.keys if key.bad]
    if bad:
        table = Table(title=f"keys with something wrong ({len(bad)} of {len(verdict.keys)})")
        columns, rows = filled(_COLUMNS, [_row(key) for key in bad[:KEYS_SHOWN_MAX]])
        for column in columns:
            table.add_column(column, justify="right")
        for row in rows:
            table.add_row(*row)
        out.print(table)
    figures = [seconds(verdict.lag(part)) for part in (0.5, 0.99, 1.0)]
    out.print(
        f"lag of {len(verdict.lags)} arrivals: half within {figures[0]}, 99 % within {figures[1]}, all within {figures[2]}"
    )
    keys = len({one.key for one in verdict.differences})
    longest = (
        "to the end" if verdict.divergence is None else f"at most {seconds(verdict.divergence)}"
    )
    out.print(f"hosts differed in {keys} of {len(verdict.keys)} keys, {longest}")
    if verdict.detections or verdict.healings:
        show_events(out, _events(verdict), ("event", "detected after", "all equal after"))


def _events(verdict: MapVerdict) -> list[tuple[str, str, str]]:
    rows = [(one.t, event_text(one), seconds(one.seconds), "") for one in verdict.detections]
    rows += [(one.t, event_text(one), "", seconds(one.seconds)) for one in verdict.healings]
    return [row[1:] for row in sorted(rows)]


def _row(key: MapKey) -> tuple[str, str, str, str, str, str]:
    lost = f"{key.lost} writes: {text_of(key.missing)}" if key.lost else "0"
    there = {key.found[place] or "nothing" for place in key.lost_at}
    return (
        str(key.key),
        str(key.puts),
        "a value that nobody put" if key.lost_at and not key.lost else lost,
        ", ".join(sorted(there)),
        "yes" if key.diverged else "no",
        ", ".join(dict.fromkeys(key.stale)) or "no",
    )


def subject(
    plan: DrillPlan, evidence: Evidence, verdict: MapVerdict, figures: Figures, limit: str
) -> Subject:
    """Return the page's part. ``limit``: of RELAY's buffer, as text."""
    several = len(plan.sites) > 1
    puts = [record.t for record in evidence.marks if record.event == "put"]
    edges = picture.bins(picture.span(evidence, plan.end), len(puts))
    ordered = sorted(verdict.keys, key=lambda key: (not key.bad, key.key))
    columns, rows = filled(_COLUMNS, [_row(key) for key in ordered[:ROWS_MAX]])
    return Subject(
        Verdict(
            sites={site.name: SiteNumbers() for site in plan.sites},
            detections=verdict.detections,
            primary=None,
            reigns=reigns(evidence.faults, evidence.sites, None, 0.0) if several else [],
        ),
        _panels(evidence, verdict, edges, limit),
        edges,
        _headlines(verdict, several),
        ["every site relays to the others"] if several else [],
        [],
        then="all equal after",
        measured=[(*row, "") for row in _events(verdict)],
        grids=[
            Grid(
                "Keys",
                columns,
                rows,
                [row for row, key in zip(rows, ordered, strict=False) if key.bad],
                max(0, len(ordered) - ROWS_MAX),
            )
        ],
    )


def _headlines(verdict: MapVerdict, several: bool) -> list[Headline]:
    lost = sum(bool(key.lost_at) for key in verdict.keys)
    differ = sum(key.diverged for key in verdict.keys)
    found = [
        Headline(
            "Lost",
            f"{lost} keys",
            "keys of which a host lacks a put that returned, though nothing replaced it",
            bad=bool(lost),
        ),
        Headline(
            "Differ at the end",
            f"{differ} keys",
            "keys that two hosts have differently when all is over",
            bad=bool(differ),
        ),
    ]
    p50, p99, most = (verdict.lag(part) for part in (0.5, 0.99, 1.0))
    if p50 is not None and p99 is not None and most is not None:
        where = "host, at whatever site," if several else "host"
        found.append(
            Headline(
                "Lag p50 / p99 / most",
                f"{as_seconds(p50)} / {as_seconds(p99)} / {as_seconds(most)}",
                f"from the return of a put until another {where} has it",
            )
        )
    longest = verdict.divergence
    keys = len({one.key for one in verdict.differences})
    found.append(
        Headline(
            "Divergence",
            "to the end" if longest is None else as_seconds(longest),
            "the longest that a key was different at hosts that ran, cut off or not",
            f"{keys} of {len(verdict.keys)} keys differed at some time",
            bad=longest is None,
        )
    )
    if verdict.healings:
        took = [one.seconds for one in verdict.healings]
        known = [one for one in took if one is not None]
        whole = len(known) == len(took)
        found.append(
            Headline(
                "Healed",
                as_seconds(max(known)) if whole else "not healed",
                "from the end of a cut, or a host's return, until all keys that differed then were equal",
                bad=not whole,
            )
        )
    return found


def _panels(
    evidence: Evidence, verdict: MapVerdict, edges: Sequence[float], limit: str
) -> list[Panel]:
    sites = evidence.sites
    puts: list[Series] = []
    lags: list[Series] = []
    for site in sites:
        css = site_class(sites, site)
        times = [r.t for r in evidence.marks if r.event == "put" and r.site == site]
        if times:
            puts.append(
                Series(f"puts at {site}", css, curves.while_any(rates(sorted(times), edges)))
            )
        arrived = [lag for lag in verdict.lags if lag.target.site == site]
        if arrived:
            lags.append(Series(f"99 % at {site} within", css, lags_by_time(arrived, edges, 0.99)))
            lags.append(Series(f"half at {site}", f"{css} thin", lags_by_time(arrived, edges, 0.5)))
    found = [Panel("Puts and removals a second", puts, panels.as_rate)] if puts else []
    differ: list[float | None] = list(differing(verdict, edges))
    if any(differ):
        series = Series("keys that differ between hosts, at most", "differ", differ)
        found.append(Panel("Divergence", [series], "{:.0f}".format))
    if lags:
        title = "Lag, from the return of a put until another host has it, by the time of the put"
        found.append(Panel(title, lags, as_seconds))
    return [*found, *curves.buffers(evidence, edges, limit)]
