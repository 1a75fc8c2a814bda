"""SVG by hand: shapes over one axis of time, no library, no network, any browser.

Colours are classes of the page's style, which knows light and dark: ``s0`` to ``s5`` are sites, in the order
of the drill file. What an element says on hover is its ``data-tip``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH = 1180
LEFT, RIGHT = 118, 20
SITE_COLOURS = 6
TICK_STEPS = (1, 2, 5, 10, 30, 60, 300, 600, 3600, 86400)


@dataclass
class Canvas:
    """Shapes, back to front, and the mapping from seconds to pixels."""

    start: float
    end: float
    shapes: list[str] = field(default_factory=list)

    def x(self, t: float) -> float:
        t = min(max(t, self.start), self.end)
        return LEFT + (t - self.start) / (self.end - self.start) * (WIDTH - LEFT - RIGHT)

    def rect(self, t0: float, t1: float, y: float, height: float, css: str, tip: str = "") -> None:
        x0, x1 = self.x(t0), self.x(t1)
        self.shapes.append(
            f'<rect x="{x0:.1f}" y="{y:.1f}" width="{max(x1 - x0, 0.8):.1f}" '
            f'height="{height:.1f}" class="{css}"{tip_of(tip)}/>'
        )

    def text(self, x: float, y: float, text: str, css: str = "", tip: str = "") -> None:
        self.shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{css}"{tip_of(tip)}>{escape(text)}</text>'
        )

    def line(self, x0: float, y0: float, x1: float, y1: float, css: str, tip: str = "") -> None:
        self.shapes.append(
            f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" '
            f'class="{css}"{tip_of(tip)}/>'
        )

    def path(self, points: Sequence[tuple[float, float]], css: str, tip: str) -> None:
        """Through the points; nothing where there are none."""
        if points:
            d = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            self.shapes.append(f'<path d="{d}" class="{css}"{tip_of(tip)}/>')

    def axis(self, top: float, bottom: float) -> None:
        """Grid and seconds."""
        step = next(s for s in TICK_STEPS if self.end / s <= 24 or s == TICK_STEPS[-1])
        for number in range(int(self.end // step) + 1):
            x = self.x(number * step)
            self.line(x, top, x, bottom, "grid")
            self.text(x, bottom + 16, f"{number * step} s", "tick")
            self.text(x, top - 8, f"{number * step} s", "tick")


def tip_of(text: str) -> str:
    return f' data-tip="{escape(text)}"' if text else ""


def site_class(sites: Sequence[str], site: str) -> str:
    return f"s{list(sites).index(site) % SITE_COLOURS}"
