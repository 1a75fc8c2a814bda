"""Curves as SVG: each quantity as a fraction of what it was at a quarter of the run, over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 44, 46
COLOURS: Final = ("#1f6f8b", "#c8553d", "#588157", "#6d597a", "#b08900", "#444444")
LOW, HIGH = 0.7, 1.3
"""The least that the axis shows; it is widened for curves that leave it."""


def curves(
    title: str,
    hours: float,
    series: Mapping[str, Sequence[tuple[float, float]]],
    tolerance: float,
) -> str:
    """``series``: name -> (hours, value as a fraction). The band is what is fine."""
    values = [v for points in series.values() for _, v in points]
    low, high = min([LOW, *values]), max([HIGH, *values])
    unit, per = ("hours", 1.0) if hours > 2 else ("minutes", 60.0)

    def x(t: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * t / hours

    def y(v: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - v) / (high - low)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="18" font-size="14">{escape(title)}</text>',
        f'<rect x="{x(hours / 4):.1f}" y="{y(1 + tolerance):.1f}" '
        f'width="{x(hours) - x(hours / 4):.1f}" height="{y(0.0) - y(tolerance):.1f}" '
        'fill="#e4efe4"/>',
    ]
    for step in range(5):
        v = low + (high - low) * step / 4
        out.append(
            f'<path d="M{LEFT} {y(v):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{v:.0%}</text>'
        )
        t = hours * step / 4
        out.append(
            f'<path d="M{x(t):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>'
            f'<text x="{x(t):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
            f"{t * per:g}</text>"
        )
    out.append(
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 10}" text-anchor="end">{unit}; '
        f"100 % is the value at a quarter of the run</text>"
    )
    place = float(LEFT)
    for (name, points), colour in zip(series.items(), COLOURS, strict=False):
        line = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in points)
        out.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
            f'<path d="M{place} 34h16" stroke="{colour}" stroke-width="3"/>'
            f'<text x="{place + 20}" y="38">{escape(name)}</text>'
        )
        place += 34 + 7 * len(name)
    return "\n".join([*out, "</svg>", ""])
