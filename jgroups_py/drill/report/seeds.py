"""The page of a drill with many seeds: the distribution of its figures, the worst seeds, and the command that plays
each of those again. Made from the ``--json`` of each run.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from markupsafe import Markup

from jgroups_py.drill.file.model import Drill
from jgroups_py.drill.judge.flows import percentile
from jgroups_py.drill.report.charts import Canvas, nice
from jgroups_py.drill.report.page import environment
from jgroups_py.drill.report.panels import as_percent, as_seconds

BARS = 24
"""The rough number of bars."""
SPREAD = 6
"""The largest ratio of the largest value to the median on a linear axis."""
WORST_MAX = 5
"""The most worst seeds shown for each figure."""
FAILED_MAX = 50
NOT_RECOVERED_SHOWN_MAX = 5
"""The most faults named on the page."""
SEEDS_IN_TIP_MAX = 8

WIDTH, HEIGHT = 560, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 16, 46, 34


@dataclass(frozen=True)
class Figure:
    """A figure. ``keys``: of the JSON; the first one in a run counts, of a list its largest value."""

    name: str
    keys: tuple[str, ...]
    form: Callable[[float], str]
    expectation: str = ""
    """The expectation whose limit is drawn."""


FIGURES = (
    Figure("RTO", ("rto_s",), as_seconds),
    Figure("Take-over", ("takeover_s",), as_seconds, "takeover"),
    Figure("Lag at most", ("lag_s",), as_seconds),
    Figure("Latency p99", ("latency_p99_s",), as_seconds),
    Figure("RPO", ("rpo_s",), as_seconds, "unrelayed_at_site_failure"),
    Figure("Detection", ("detection_s",), as_seconds, "detection"),
    Figure("Unprotected", ("unprotected_s",), as_seconds, "unprotected"),
    Figure("Relay buffer", ("buffer_percent",), as_percent),
)


def page(
    drill: Drill,
    runs: Sequence[Mapping[str, Any]],
    broken: Mapping[int, str],
    *,
    mode: str,
    notes: Sequence[str],
    replay: Callable[[int], str],
) -> str:
    """Return the HTML text. ``runs``: results by seed. ``broken``: seed -> why it could not run."""
    failed = [run for run in runs if run["verdict"] == "fail"]
    measured = [(figure, values(runs, figure)) for figure in FIGURES]
    distributions = [
        (figure, known) for figure, known in measured if any(value for value, _ in known)
    ]
    limits = {one.name: (one.limit, one.text) for one in drill.expect}
    return (
        environment()
        .get_template("seeds.html.j2")
        .render(
            name=drill.name,
            mode=mode,
            notes=notes,
            verdict="fail" if failed or broken else "pass",
            counts=[
                ("passed", len(runs) - len(failed)),
                ("failed", len(failed)),
                ("could not be run", len(broken)),
            ],
            total=len(runs) + len(broken),
            headlines=[
                (figure.name, figure.form(known[len(known) // 2][0]), figure.form(known[-1][0]))
                for figure, known in measured
                if known
            ],
            histograms=[
                Markup(histogram(figure, known, limits.get(figure.expectation)))
                for figure, known in distributions
            ],
            fails=_fails(failed),
            not_recovered=not_recovered(runs, len(runs) + len(broken)),
            worst=[
                (
                    figure.name,
                    [
                        (figure.form(value), seed, replay(seed))
                        for value, seed in list(reversed(known))[:WORST_MAX]
                    ],
                )
                for figure, known in distributions
            ],
            failed=[
                (run["seed"], failures(run), replay(run["seed"])) for run in failed[:FAILED_MAX]
            ],
            more_failed=max(0, len(failed) - FAILED_MAX),
            broken=[(seed, why, replay(seed)) for seed, why in sorted(broken.items())[:FAILED_MAX]],
        )
    )


def values(runs: Sequence[Mapping[str, Any]], figure: Figure) -> list[tuple[float, int]]:
    """Return (value, seed), ascending. Runs without the figure are left out."""
    found: list[tuple[float, int]] = []
    for run in runs:
        given = next((run[key] for key in figure.keys if key in run), None)
        known = [v for v in (given if isinstance(given, list) else [given]) if v is not None]
        if known:
            found.append((float(max(known)), int(run["seed"])))
    return sorted(found)


def failures(run: Mapping[str, Any]) -> str:
    """Return ``lost 3 (expected = 0), takeover not measured (expected <= 3s)``."""
    return ", ".join(
        f"{e['name']} {'not measured' if e['measured'] is None else e['measured']}"
        f" (expected {e['limit']})"
        for e in run["expectations"]
        if not e["holds"]
    )


def not_recovered(runs: Sequence[Mapping[str, Any]], total: int) -> str:
    """Return ``not recovered in 3 of 8 seeds: fail_site NYC (3)``; an empty text where every fault was recovered."""
    counts: dict[str, int] = {}
    for run in runs:
        for name in run.get("not_recovered", ()):
            counts[name] = counts.get(name, 0) + 1
    if not counts:
        return ""
    hit = sum(bool(run.get("not_recovered")) for run in runs)
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    named = ", ".join(f"{name} ({count})" for name, count in ordered[:NOT_RECOVERED_SHOWN_MAX])
    more = len(ordered) - NOT_RECOVERED_SHOWN_MAX
    return (
        f"not recovered in {hit} of {total} seeds: {named}{f' and {more} more' if more > 0 else ''}"
    )


def _fails(failed: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Count the failed runs by expectation."""
    counts: dict[str, int] = {}
    for run in failed:
        for one in run["expectations"]:
            if not one["holds"]:
                counts[one["name"]] = counts.get(one["name"], 0) + 1
    return sorted(counts.items(), key=lambda item: -item[1])


def histogram(
    figure: Figure, known: Sequence[tuple[float, int]], limit: tuple[float, str] | None
) -> str:
    """Draw the number of seeds by value. The axis is logarithmic if the largest is far from the usual."""
    numbers = [value for value, _ in known]
    edges, log = bars(numbers)
    seeds: list[list[int]] = [[] for _ in edges[1:]]
    for value, seed in known:
        seeds[min(len(seeds) - 1, max(0, bisect_right(edges, value) - 1))].append(seed)
    most = max(map(len, seeds))
    base, span = HEIGHT - BOTTOM, WIDTH - LEFT - RIGHT
    wide = span / len(seeds)

    def x(value: float) -> float:
        if log:
            value = max(value, edges[0])
            part = math.log(value / edges[0]) / math.log(edges[-1] / edges[0])
        else:
            part = (value - edges[0]) / (edges[-1] - edges[0])
        return LEFT + span * min(1.0, max(0.0, part))

    median, p99 = numbers[len(numbers) // 2], percentile(numbers, 0.99) or 0.0
    title = f"{figure.name} · log scale" if log else figure.name
    note = (
        f"median {figure.form(median)} · p99 {figure.form(p99)} · worst {figure.form(numbers[-1])}"
    )
    canvas = Canvas(0.0, 1.0, width=WIDTH, left=LEFT, right=RIGHT)
    canvas.text(LEFT, 15, title, "title")
    canvas.text(LEFT, 32, note, "legend")
    canvas.line(LEFT, base, WIDTH - RIGHT, base, "base")
    canvas.text(LEFT - 6, TOP + 4, str(most), "scale")
    canvas.text(LEFT - 6, base + 4, "0", "scale")
    canvas.text(LEFT - 6, (TOP + base) / 2 + 4, "seeds", "scale")
    for number, inside in enumerate(seeds):
        if inside:
            high = (base - TOP) / most * len(inside)
            tip = _bar_text(figure, edges[number], edges[number + 1], inside)
            canvas.box(LEFT + number * wide + 0.7, base - high, wide - 1.4, high, "bar", tip)
    step = max(1, len(seeds) // 4)
    for number in range(0, len(edges), step):
        last = " last" if number + step >= len(edges) else ""
        canvas.text(LEFT + number * wide, base + 17, figure.form(edges[number]), f"tick{last}")
    at = x(median)
    canvas.line(at, TOP - 4, at, base, "median", f"median {figure.form(median)}")
    if limit is not None:
        drawn = edges[0] <= limit[0] <= edges[-1]
        if drawn:
            at = x(limit[0])
            canvas.line(at, TOP - 4, at, base, "limit")
        text = f"limit {limit[1]}" if drawn else f"limit {limit[1]} is beyond this axis →"
        canvas.text(WIDTH - RIGHT, 15, text, "limit-text")
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(figure.name)}" xmlns="http://www.w3.org/2000/svg">'
        f"{''.join(canvas.shapes)}</svg>"
    )


def _bar_text(figure: Figure, low: float, high: float, inside: Sequence[int]) -> str:
    shown = ", ".join(map(str, inside[:SEEDS_IN_TIP_MAX]))
    more = ", ..." if len(inside) > SEEDS_IN_TIP_MAX else ""
    return f"{figure.form(low)} to {figure.form(high)}: {len(inside)} seeds ({shown}{more})"


def bars(numbers: Sequence[float]) -> tuple[list[float], bool]:
    """Return the edges of the bars, and whether they grow by a factor. ``numbers`` ascend."""
    low, high = numbers[0], numbers[-1]
    usual = numbers[len(numbers) // 2]
    positive = [number for number in numbers if number > 0]
    if usual > 0 and high > SPREAD * usual:
        low = positive[0]
        factor = (high / low) ** (1 / BARS)
        return [low * factor**number for number in range(BARS + 1)], True
    step = nice((high - low) / BARS or high / BARS or 1.0)
    first = math.floor(low / step + 1e-9)
    count = max(1, math.floor(high / step + 1e-9) + 1 - first)
    return [step * (first + number) for number in range(count + 1)], False
