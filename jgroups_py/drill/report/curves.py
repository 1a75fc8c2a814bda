"""The panels of a drill's picture; empty ones are left out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from jgroups_py.drill.judge.cache_figures import AnsweredRequest
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.figures import Figures, fills
from jgroups_py.drill.judge.flows import lags, latencies, percentile, rates
from jgroups_py.drill.report import panels
from jgroups_py.drill.report.charts import site_class
from jgroups_py.drill.report.panels import Panel, Series

MEDIANS_MAX = 2
"""The most flows with medians; with more only the 99th percentiles are drawn."""


def of_messages(
    evidence: Evidence, figures: Figures, edges: Sequence[float], limit: str
) -> list[Panel]:
    """Return the panels of a drill of messages. ``limit``: RELAY's limit as text."""
    sites = evidence.sites
    sent: list[Series] = []
    new: list[Series] = []
    latency: list[Series] = []
    lag: list[Series] = []
    for site in sites:
        times = sorted(t for who, of in evidence.sent.items() if who.site == site for t in of)
        if times:
            css = f"{site_class(sites, site)} dashed"
            sent.append(Series(f"sent at {site}", css, while_any(rates(times, edges))))
    for one in figures.flows:
        css, pair = site_class(sites, one.target), f"{one.origin} to {one.target}"
        # Of two flows to one site the second is dashed.
        if any(series.css == css for series in new):
            css += " dotted"
        new.append(
            Series(
                f"new at {one.target} from {one.origin}",
                css,
                while_any(rates(one.arrived, edges)),
            )
        )
        if len(figures.flows) <= MEDIANS_MAX:
            median = latencies(one, edges, 0.5)
            latency.append(Series(f"{pair}: half of all within", f"{css} thin", median))
        latency.append(Series(f"{pair}: 99 % within", css, latencies(one, edges, 0.99)))
        lag.append(Series(pair, css, while_any(lags(one, edges))))
    found = [Panel("Messages a second", [*sent, *new], panels.as_rate)] if sent else []
    if latency:
        found.append(
            Panel(
                "Latency between sites, from send to first delivery, by time of sending",
                latency,
                panels.as_seconds,
            )
        )
        found.append(Panel("Lag: age of the oldest message under way", lag, panels.as_seconds))
    return [*found, *buffers(evidence, edges, limit)]


def of_caches(
    evidence: Evidence,
    asked: Sequence[AnsweredRequest],
    edges: Sequence[float],
    limit: str,
) -> list[Panel]:
    sites = evidence.sites
    done: list[Series] = []
    took: list[Series] = []
    for site in sites:
        own = sorted(
            (request for request in asked if request.who.site == site), key=lambda r: r.began
        )
        if not own:
            continue
        css = site_class(sites, site)
        writes = sorted(request.ended for request in own if request.write)
        reads = sorted(request.ended for request in own if not request.write)
        if writes:
            done.append(
                Series(f"writes acknowledged at {site}", css, while_any(rates(writes, edges)))
            )
        if reads:
            done.append(
                Series(f"reads answered at {site}", f"{css} dashed", while_any(rates(reads, edges)))
            )
        began = [request.began for request in own]
        for part, words, how in ((0.5, "half of all within", "thin"), (0.99, "99 % within", "")):
            values = [
                percentile(
                    sorted(
                        request.ended - request.began
                        for request in own[bisect_left(began, t0) : bisect_left(began, t1)]
                    ),
                    part,
                )
                for t0, t1 in pairwise(edges)
            ]
            took.append(Series(f"{site}: {words}", f"{css} {how}".strip(), values))
    found = [Panel("Requests a second", done, panels.as_rate)] if done else []
    if took:
        found.append(
            Panel("How long requests took, by the time they began", took, panels.as_seconds)
        )
    return [*found, *buffers(evidence, edges, limit)]


def buffers(evidence: Evidence, edges: Sequence[float], limit: str) -> list[Panel]:
    """Return the panel of each site's fullest buffer, in per cent of the limit."""
    found: list[Series] = []
    for site in evidence.sites:
        values: list[float | None] = [None] * (len(edges) - 1)
        for who in evidence.members(site):
            for t, fill in fills(evidence.samples.get(who, ())):
                place = min(max(0, bisect_left(edges, t) - 1), len(values) - 1)
                values[place] = max(values[place] or 0.0, fill * 100)
        if any(values):
            css = site_class(evidence.sites, site)
            found.append(Series(f"fullest member of {site}", css, _held(values)))
    if not found:
        return []
    return [
        Panel(
            "Relay buffers, in per cent of their limit",
            found,
            panels.as_percent,
            limit=(100.0, f"limit: {limit}" if limit else "limit"),
        )
    ]


def _held(values: Sequence[float | None]) -> list[float | None]:
    """Fill bins without a sample with the value before, until the last sample."""
    last = max((place for place, value in enumerate(values) if value is not None), default=-1)
    kept: list[float | None] = []
    for place, value in enumerate(values):
        kept.append(kept[-1] if value is None and kept and place <= last else value)
    return kept


def while_any(values: Sequence[float]) -> list[float | None]:
    """Blank the zeros before the first other value and after the last one."""
    places = [place for place, value in enumerate(values) if value]
    if not places:
        return [None] * len(values)
    first, last = max(0, places[0] - 1), places[-1] + 1
    return [value if first <= place <= last else None for place, value in enumerate(values)]
