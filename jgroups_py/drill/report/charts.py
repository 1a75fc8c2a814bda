"""Charts as handmade SVG: axes, scales, lines, bands, legends; no library, no network, any browser.

A ``Canvas`` takes shapes. In a page their colours are classes of the page's style, which has a light and a dark form
(``s0`` to ``s5`` are sites, in the order of the drill file). The text on hover is a shape's ``data-tip``. A ``Chart``
is a file of its own, with its own style. Both begin their scales at zero. If one spike would flatten the rest the scale
is logarithmic, and the title says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from statistics import median
from typing import Final

WIDTH = 1180
LEFT, RIGHT = 118, 20
SITE_COLOURS = 6
TICK_STEPS = (1, 2, 5, 10, 30, 60, 300, 600, 3600, 86400)
SPIKE = 20
"""The largest ratio of the highest to the usual value on a linear scale."""
DECADES_MAX = 5

Points = Sequence[tuple[float, float]]


@dataclass
class Canvas:
    """Shapes, back to front, and the mapping from seconds to pixels. ``alone``: there is no script that shows tips."""

    start: float
    end: float
    shapes: list[str] = field(default_factory=list)
    width: float = WIDTH
    left: float = LEFT
    right: float = RIGHT
    alone: bool = False

    def x(self, t: float) -> float:
        t = min(max(t, self.start), self.end)
        part = (t - self.start) / (self.end - self.start)
        return self.left + part * (self.width - self.left - self.right)

    def rect(self, t0: float, t1: float, y: float, height: float, css: str, tip: str = "") -> None:
        x0, x1 = self.x(t0), self.x(t1)
        self.box(x0, y, max(x1 - x0, 0.8), height, css, tip)

    def box(self, x: float, y: float, width: float, height: float, css: str, tip: str) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self._put("rect", place, css, tip)

    def text(self, x: float, y: float, text: str, css: str = "", tip: str = "") -> None:
        self._put("text", f'x="{x:.1f}" y="{y:.1f}"', css, tip, escape(text))

    def line(self, x0: float, y0: float, x1: float, y1: float, css: str, tip: str = "") -> None:
        self._put("line", f'x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"', css, tip)

    def path(self, points: Points, css: str, tip: str = "") -> None:
        """Draw a path through the points, if there are any."""
        if points:
            way = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            self._put("path", f'd="{way}"', css, tip)

    def dot(self, x: float, y: float, css: str, tip: str) -> None:
        self._put("circle", f'cx="{x:.1f}" cy="{y:.1f}" r="4"', css, tip)

    def axis(self, top: float, bottom: float) -> None:
        """Draw grid and seconds."""
        step = next(s for s in TICK_STEPS if self.end / s <= 24 or s == TICK_STEPS[-1])
        for number in range(int(self.end // step) + 1):
            x = self.x(number * step)
            self.line(x, top, x, bottom, "grid")
            self.text(x, bottom + 16, f"{number * step} s", "tick")
            self.text(x, top - 8, f"{number * step} s", "tick")

    def _put(self, tag: str, place: str, css: str, tip: str, inside: str = "") -> None:
        said = f' data-tip="{escape(tip)}"' if tip and not self.alone else ""
        if tip and self.alone:
            inside += f"<title>{escape(tip)}</title>"
        end = f">{inside}</{tag}>" if inside or tag == "text" else "/>"
        self.shapes.append(f'<{tag} {place} class="{css}"{said}{end}')


def site_class(sites: Sequence[str], site: str) -> str:
    return f"s{list(sites).index(site) % SITE_COLOURS}"


# --- scales


@dataclass(frozen=True)
class Scale:
    low: float
    high: float
    ticks: Sequence[float]
    log: bool = False

    def part(self, value: float) -> float:
        """Return the place of a value: 0 at the bottom, 1 at the top."""
        value = min(self.high, max(self.low, value))
        if not self.log:
            return (value - self.low) / (self.high - self.low)
        return math.log(value / self.low) / math.log(self.high / self.low)


def scale(values: Sequence[float], limit: float | None = None) -> Scale:
    """Return a scale: logarithmic if the highest value, or the limit, is more than ``SPIKE`` times the usual one."""
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
    return Scale(low, high, [low * 10.0**n for n in range(decades + 1)], log=True)


def between(low: float, high: float, steps: int = 4) -> Scale:
    """Return a scale that need not begin at zero."""
    return Scale(low, high, [low + (high - low) * n / steps for n in range(steps + 1)])


def nice(value: float) -> float:
    """Return 1, 2, 2.5 or 5 times a power of ten, at least ``value``."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(n * power for n in (1, 2, 2.5, 5, 10) if n * power >= value * (1 - 1e-9))


# --- charts by themselves

CHART_WIDTH, CHART_HEIGHT = 360, 300
CHART_LEFT, CHART_RIGHT, TOP, BOTTOM = 52, 14, 30, 78
LEGEND_WIDTH = 150
STEPS = 4
HOVERED_MAX = 200
"""The most points of a line with a text on hover."""
POINTS_MAX = 4000
"""The most points of a line; of more, the highest of each lot is drawn."""
COLOURS: Final = ("#0072b2", "#a8327d", "#00806a", "#7a6a00", "#332288", "#555555")
"""Colours that the colour-blind can distinguish, as those of a drill's sites."""
_STYLE: Final = (
    "svg { font: 11px sans-serif; } .paper { fill: #fff; } .grid { stroke: #ddd; } .band { fill: #e4efe4; } "
    ".title { font-size: 13px; } .tick { text-anchor: middle; } .scale { text-anchor: end; } "
    ".curve { fill: none; stroke-width: 1.7; } .key { stroke-width: 3; } .dot { fill: transparent; } "
    + " ".join(f".s{n} {{ stroke: {colour}; }}" for n, colour in enumerate(COLOURS))
)


@dataclass(frozen=True)
class Chart:
    """Lines over a common x axis, which begins at zero."""

    title: str
    unit: str
    """The unit of the x axis."""
    lines: Mapping[str, Points]
    width: int = CHART_WIDTH
    scale: Scale | None = None
    """The scale, by default made from the values."""
    form: Callable[[float], str] = "{:,.6g}".format
    band: tuple[float, float, float] | None = None
    """The accepted range: the first x, the lowest and the highest value."""


def standalone(charts: Sequence[Chart], note: str = "") -> str:
    """Return an SVG file of all charts in a row. ``note``: a description that is not shown."""
    width = sum(chart.width for chart in charts)
    parts = []
    at = 0
    for chart in charts:
        parts.append(f'<g transform="translate({at} 0)">{"".join(_drawn(chart).shapes)}</g>')
        at += chart.width
    said = [f"<desc>{escape(note)}</desc>"] if note else []
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {CHART_HEIGHT}">',
            f"<style>{_STYLE}</style>",
            f'<rect width="{width}" height="{CHART_HEIGHT}" class="paper"/>',
            *parts,
            *said,
            "</svg>",
            "",
        ]
    )


def _drawn(chart: Chart) -> Canvas:
    lines = {name: _thinned(points) for name, points in chart.lines.items()}
    points = [point for line in lines.values() for point in line]
    most = max((x for x, _ in points), default=0.0) or 1.0
    scaled = chart.scale or scale([y for _, y in points])
    floor, end = CHART_HEIGHT - BOTTOM, chart.width - CHART_RIGHT
    canvas = Canvas(0.0, most, width=chart.width, left=CHART_LEFT, right=CHART_RIGHT, alone=True)

    def y(value: float) -> float:
        return floor - (floor - TOP) * scaled.part(value)

    canvas.text(CHART_LEFT, 16, chart.title + (" (log scale)" if scaled.log else ""), "title")
    if chart.band is not None:
        start, low, high = chart.band
        canvas.rect(start, most, y(high), y(low) - y(high), "band")
    for up in scaled.ticks:
        canvas.line(CHART_LEFT, y(up), end, y(up), "grid")
        canvas.text(CHART_LEFT - 5, y(up) + 4, chart.form(up), "scale")
    for step in range(STEPS + 1):
        along = most * step / STEPS
        canvas.text(canvas.x(along), floor + 15, f"{along:.3g}", "tick")
    canvas.text(end, floor + 29, chart.unit, "scale")
    columns = max(1, (chart.width - CHART_LEFT) // LEGEND_WIDTH)
    for n, (name, line) in enumerate(lines.items()):
        css = f"s{n % SITE_COLOURS}"
        canvas.path([(canvas.x(a), y(b)) for a, b in line], f"curve {css}")
        across, down = CHART_LEFT + n % columns * LEGEND_WIDTH, floor + 42 + n // columns * 14
        if name:
            canvas.line(across, down - 4, across + 14, down - 4, f"key {css}")
            canvas.text(across + 18, down, name)
        for a, b in line[:: max(1, len(line) // HOVERED_MAX)]:
            canvas.dot(canvas.x(a), y(b), "dot", f"{name}: {b:.4g} at {a:.4g} {chart.unit}")
    return canvas


def _thinned(points: Points) -> Points:
    step = -(-len(points) // POINTS_MAX) or 1
    lots = (points[start : start + step] for start in range(0, len(points), step))
    return [max(lot, key=lambda point: point[1]) for lot in lots]
