"""A picture of times over time, as SVG by hand: no library, and a file that differs little."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

WIDTH: Final = 900
HEIGHT: Final = 260
LEFT: Final = 60
BOTTOM: Final = 40
POINTS_MAX: Final = 4000
"""Points drawn; of more, the highest of each lot."""


def lag_picture(points: Sequence[tuple[float, float]], file: Path) -> None:
    """``points``: seconds from the start, and how long it took then."""
    points = _thinned(points)
    last = max((t for t, _ in points), default=1.0) or 1.0
    top = max((lag for _, lag in points), default=1.0) or 1.0
    wide, high = WIDTH - LEFT - 20, HEIGHT - BOTTOM - 20

    def x(t: float) -> float:
        return LEFT + wide * t / last

    def y(lag: float) -> float:
        return 20 + high * (1 - lag / top)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for part in (0, 0.5, 1):
        lines.append(f'<text x="4" y="{y(top * part) + 4:.1f}">{top * part:.3g} s</text>')
        lines.append(f'<text x="{x(last * part):.1f}" y="{HEIGHT - 12}">{last * part:.3g} s</text>')
        lines.append(
            f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y(top * part):.1f}" '
            f'y2="{y(top * part):.1f}" stroke="#ddd"/>'
        )
    for t, lag in points:
        lines.append(
            f'<line x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{y(0):.1f}" y2="{y(lag):.1f}" '
            f'stroke="#246"><title>{t:.3f} s: {lag:.3f} s</title></line>'
        )
    lines.append("</svg>")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    step = -(-len(points) // POINTS_MAX) or 1
    lots = (points[start : start + step] for start in range(0, len(points), step))
    return [max(lot, key=lambda point: point[1]) for lot in lots]
