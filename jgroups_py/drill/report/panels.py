"""Panels of curves over the drill's time: one quantity each, with its scale, its limit and its legend."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jgroups_py.drill.report.charts import LEFT, RIGHT, WIDTH, Canvas, scale

HEIGHT = 84
"""Height of the curves in pixels."""
ABOVE, BELOW = 40, 14
"""Pixels for title and legend, and below to the next panel."""
LEGEND_WIDTH = 6.6
"""Pixels of a letter, roughly."""


@dataclass(frozen=True)
class Series:
    """A curve. ``values``: one for each bin; None: no value."""

    label: str
    css: str
    values: Sequence[float | None]
    """Drawn in the middle of their bins."""


@dataclass(frozen=True)
class Panel:
    """A panel. ``form``: turns a value into text. ``limit``: is drawn and always on the scale."""

    title: str
    series: Sequence[Series]
    form: Callable[[float], str]
    limit: tuple[float, str] | None = None

    @property
    def known(self) -> list[float]:
        return [value for one in self.series for value in one.values if value is not None]


def draw(canvas: Canvas, panel: Panel, y: float, edges: Sequence[float]) -> dict[str, Any]:
    """Draw the panel from ``y`` down. Return the texts for hovering."""
    limit = panel.limit[0] if panel.limit else None
    scaled = scale(panel.known, limit)
    _top, base = y + ABOVE, y + ABOVE + HEIGHT
    title = panel.title + (
        " · log scale: each line is ten times the one below" if scaled.log else ""
    )
    canvas.text(LEFT, y + 16, title, "title")
    _legend(canvas, panel, y + 32)
    for tick in scaled.ticks:
        at = base - scaled.part(tick) * HEIGHT
        canvas.line(
            LEFT,
            at,
            WIDTH - RIGHT,
            at,
            "base" if tick == scaled.ticks[0] and not scaled.log else "grid",
        )
        least = "≤ " if scaled.log and tick == scaled.low else ""
        canvas.text(LEFT - 8, at + 4, least + panel.form(tick), "scale")
    if panel.limit is not None:
        at = base - scaled.part(panel.limit[0]) * HEIGHT
        canvas.line(LEFT, at, WIDTH - RIGHT, at, "limit", panel.limit[1])
        canvas.text(WIDTH - RIGHT - 4, at + 13, panel.limit[1], "limit-text")
    middles = [(a + b) / 2 for a, b in itertools.pairwise(edges)]
    for one in panel.series:
        for points in _runs(one.values, middles):
            canvas.path(
                [(canvas.x(t), base - scaled.part(value) * HEIGHT) for t, value in points],
                f"curve {one.css}",
                "",
            )
    return {
        "top": round(y),
        "bottom": round(base),
        "series": [
            {
                "label": one.label,
                "values": [None if v is None else panel.form(v) for v in one.values],
            }
            for one in panel.series
        ],
    }


def _runs(
    values: Sequence[float | None], times: Sequence[float]
) -> list[list[tuple[float, float]]]:
    """Return the pieces of a curve without a hole."""
    runs: list[list[tuple[float, float]]] = [[]]
    for t, value in zip(times, values, strict=True):
        if value is not None:
            runs[-1].append((t, value))
        elif runs[-1]:
            runs.append([])
    pieces = [run if len(run) > 1 else [*run, (run[0][0] + 1e-3, run[0][1])] for run in runs if run]
    return pieces


def _legend(canvas: Canvas, panel: Panel, y: float) -> None:
    x = float(LEFT)
    for one in panel.series:
        canvas.line(x, y - 4, x + 18, y - 4, f"curve {one.css}")
        canvas.text(x + 23, y, one.label, "legend")
        x += 23 + LEGEND_WIDTH * len(one.label) + 18


# forms of values


def as_seconds(value: float) -> str:
    if value < 1e-3 and value:
        return f"{value * 1e6:.3g} µs"
    if value < 1 and value:
        return f"{value * 1e3:.3g} ms"
    if value < 120 or value == 0:
        return f"{value:.3g} s"
    return as_duration(value)


def as_duration(value: float) -> str:
    """Return ``3 min``, ``2.5 h``, ``12 days``, ``more than a year``."""
    for unit, seconds, most in (
        ("s", 1, 120),
        ("min", 60, 120),
        ("h", 3600, 48),
        ("days", 86400, 365),
    ):
        if value < most * seconds:
            return f"{value / seconds:.3g} {unit}"
    return "more than a year"


def as_rate(value: float) -> str:
    return f"{value:,.0f}/s" if value >= 10 or value == int(value) else f"{value:.2g}/s"


def as_percent(value: float) -> str:
    return f"{value:.3g} %" if value >= 1e-4 or value == 0 else f"{value:.0e} %"
