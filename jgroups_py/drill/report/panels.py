"""Panels of curves over the drill's time: one quantity each, with its scale, its limit and its legend.

A scale begins at zero. Where one spike would flatten the rest it is logarithmic, and its title says so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from jgroups_py.drill.report.canvas import LEFT, RIGHT, WIDTH, Canvas

HEIGHT = 84
"""Of the curves."""
ABOVE, BELOW = 40, 14
"""For title and legend, and towards the next panel."""
SPIKE = 20
"""How many times as high as the usual value the highest may be on a scale that begins at zero."""
DECADES_MAX = 5
LEGEND_WIDTH = 6.6
"""Pixels a letter, about."""


@dataclass(frozen=True)
class Series:
    """``values``: one a bin; None: there is none."""

    label: str
    css: str
    values: Sequence[float | None]
    """Drawn in the middle of their bins."""


@dataclass(frozen=True)
class Panel:
    """``form``: a value as text. ``limit``: drawn, and always on the scale."""

    title: str
    series: Sequence[Series]
    form: Callable[[float], str]
    limit: tuple[float, str] | None = None

    @property
    def known(self) -> list[float]:
        return [value for one in self.series for value in one.values if value is not None]


@dataclass(frozen=True)
class Scale:
    low: float
    """0: linear."""
    high: float
    ticks: Sequence[float]

    def part(self, value: float) -> float:
        """0 at the bottom, 1 at the top."""
        if not self.low:
            return min(1.0, max(0.0, value / self.high))
        value = min(self.high, max(self.low, value))
        return math.log(value / self.low) / math.log(self.high / self.low)


def scale(values: Sequence[float], limit: float | None = None) -> Scale:
    """Logarithmic where the highest value, or the limit, is more than ``SPIKE`` times the usual one."""
    positive = [value for value in values if value > 0]
    top = max([*positive, limit or 0.0], default=0.0)
    if not positive or top <= SPIKE * median(positive):
        step = nice(top / 3) if top else 1.0
        high = step * max(1, math.ceil(top / step - 1e-9))
        return Scale(0.0, high, [step * n for n in range(round(high / step) + 1)])
    high = 10.0 ** math.ceil(math.log10(top) - 1e-9)
    usual = sorted(positive)[len(positive) // 20]
    low = 10.0 ** math.floor(math.log10(usual) + 1e-9)
    low = max(low, high / 10.0**DECADES_MAX)
    decades = round(math.log10(high / low))
    return Scale(low, high, [low * 10.0**n for n in range(decades + 1)])


def nice(value: float) -> float:
    """1, 2, 2.5 or 5 times a power of ten, at least ``value``."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(n * power for n in (1, 2, 2.5, 5, 10) if n * power >= value * (1 - 1e-9))


def draw(canvas: Canvas, panel: Panel, y: float, edges: Sequence[float]) -> dict[str, Any]:
    """Draws it from ``y`` down; what the page's script shows on hover is returned."""
    limit = panel.limit[0] if panel.limit else None
    scaled = scale(panel.known, limit)
    _top, base = y + ABOVE, y + ABOVE + HEIGHT
    title = panel.title + (
        " · log scale: each line is ten times the one below" if scaled.low else ""
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
            "base" if tick == scaled.ticks[0] and not scaled.low else "grid",
        )
        least = "≤ " if scaled.low and tick == scaled.low else ""
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
    """Pieces without a hole."""
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
    """``3 min``, ``2.5 h``, ``12 days``, ``more than a year``."""
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
