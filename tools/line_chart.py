"""Line charts as SVG, several beside each other: lines over a common x axis, from zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 360, 300
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 30, 78
COLOURS: Final = ("#1f6f8b", "#c8553d", "#588157", "#6d597a", "#b08900", "#444444")
STEPS = 4

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
    most_x, most_y = max(x for x, _ in points), max(y for _, y in points) * 1.08 or 1.0
    floor = HEIGHT - BOTTOM

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / most_x

    def y(value: float) -> float:
        return floor - (floor - TOP) * value / most_y

    out = [
        f'<g transform="translate({at} 0)">',
        f'<text x="{LEFT}" y="16" font-size="13">{escape(chart.title)}</text>',
    ]
    for step in range(STEPS + 1):
        up, along = most_y * step / STEPS, most_x * step / STEPS
        out.append(
            f'<path d="M{LEFT} {y(up):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
            f'<text x="{LEFT - 5}" y="{y(up) + 4:.1f}" text-anchor="end">{up:.3g}</text>'
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
    return [*out, "</g>"]
