"""Line charts as SVG, several beside each other: lines over a common x axis, from zero; where one spike
would flatten the rest the y axis is logarithmic, and the title says so. Values show on hover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from jgroups_py.drill.report.panels import scale

WIDTH, HEIGHT = 360, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 30, 78
COLOURS: Final = ("#0072b2", "#a8327d", "#00806a", "#7a6a00", "#332288", "#555555")
"""Told apart by the colour-blind, too; the same as of a drill's sites."""
STEPS = 4
HOVERED_MAX = 200
"""Points of a line that say their value."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    title: str
    unit: str
    """Of the x axis."""
    lines: Mapping[str, Points]


def page(charts: Sequence[Chart]) -> str:
    """The SVG of all charts in a row."""
    width = WIDTH * len(charts)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" '
            'font-family="sans-serif" font-size="11">',
            f'<rect width="{width}" height="{HEIGHT}" fill="#fff"/>',
            *(part for n, chart in enumerate(charts) for part in _chart(chart, n * WIDTH)),
            "</svg>",
            "",
        ]
    )


def _chart(chart: Chart, at: int) -> list[str]:
    points = [point for line in chart.lines.values() for point in line]
    most_x = max(x for x, _ in points)
    scaled = scale([y for _, y in points])
    floor = HEIGHT - BOTTOM
    title = chart.title + (" (log scale)" if scaled.low else "")

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / most_x

    def y(value: float) -> float:
        return floor - (floor - TOP) * scaled.part(value)

    out = [
        f'<g transform="translate({at} 0)">',
        f'<text x="{LEFT}" y="16" font-size="13">{escape(title)}</text>',
    ]
    for up in scaled.ticks:
        out.append(
            f'<path d="M{LEFT} {y(up):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
            f'<text x="{LEFT - 5}" y="{y(up) + 4:.1f}" text-anchor="end">{up:,.6g}</text>'
        )
    for step in range(STEPS + 1):
        along = most_x * step / STEPS
        out.append(
            f'<text x="{x(along):.1f}" y="{floor + 15}" text-anchor="middle">{along:.3g}</text>'
        )
    out.append(
        f'<text x="{WIDTH - RIGHT}" y="{floor + 29}" text-anchor="end">{escape(chart.unit)}</text>'
    )
    for n, ((name, line), colour) in enumerate(zip(chart.lines.items(), COLOURS, strict=False)):
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in line)
        across, down = LEFT + n % 2 * 150, floor + 42 + n // 2 * 14
        out.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.7"/>'
            f'<path d="M{across} {down - 4}h14" stroke="{colour}" stroke-width="3"/>'
            f'<text x="{across + 18}" y="{down}">{escape(name)}</text>'
        )
        every = max(1, len(line) // HOVERED_MAX)
        out += [
            f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="4" fill="transparent">'
            f"<title>{escape(name)}: {b:.4g} at {a:.4g} {escape(chart.unit)}</title></circle>"
            for a, b in line[::every]
        ]
    return [*out, "</g>"]
