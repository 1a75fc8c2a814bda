"""Figures of several runs as cells of a Markdown table."""

from __future__ import annotations

from collections.abc import Mapping


def cell(figure: Mapping[str, float], ratio: str, sign: str = "") -> str:
    """Return ``median (min-max)``, and the value under ``ratio``, if there is one, after ``sign``."""
    least, median, most = (_number(figure[key]) for key in ("min", "median", "max"))
    text = f", {sign}{figure[ratio]:.2f}" if ratio in figure else ""
    return f"{median} ({least}-{most}){text}"


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
