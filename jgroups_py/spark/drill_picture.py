"""The pictures of a drill report: delivery times over the course of the drills, their distribution, and the number of
deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from jgroups_py.drill.report.charts import Chart, Points, standalone
from jgroups_py.spark.drill_course import RunRecord
from jgroups_py.spark.drill_origin import LEAST, RATIO, percentile

Seconds = Mapping[tuple[str, str], Mapping[int, Any]]
"""Bins by site and origin's site, then by second."""
CURVE_TO: Final = 0.995
"""The distribution is drawn up to this part of the deliveries: slower ones would hide the rest."""


def draw(file: Path, seconds: Seconds, courses: Sequence[RunRecord]) -> None:
    """Draw beside each other: the median and the 99th percentile over time, with the faults of the first drill;
    the distribution; deliveries a second."""
    pairs = sorted(seconds)
    first = max(min((min(seconds[pair]) for pair in pairs), default=0), 0)

    def over_time(part: float) -> dict[str, Points]:
        return {
            f"{origin} in {site}": [
                (second - first, 1000 * percentile(bins, part))
                for second, bins in sorted(seconds[site, origin].items())
                if second >= first
            ]
            for site, origin in pairs
        }

    charts = [
        Chart("ms until delivered, median", "second of the drill", over_time(0.5)),
        Chart("ms until delivered, 99 %", "second of the drill", over_time(0.99)),
        Chart(
            "part delivered within",
            "ms",
            {f"{origin} in {site}": _curve(seconds[site, origin]) for site, origin in pairs},
        ),
        Chart(
            "deliveries a second, of all drills",
            "second of the drill",
            {
                f"{origin} in {site}": [
                    (second - first, float(bins.sum()))
                    for second, bins in sorted(seconds[site, origin].items())
                    if second >= first
                ]
                for site, origin in pairs
            },
        ),
    ]
    charts = [chart for chart in charts if any(chart.lines.values())]
    if not charts:
        charts = [Chart("nothing was delivered", "", {"": [(0.0, 0.0), (1.0, 0.0)]})]
    said = "; ".join(f"{t:g} s {what}" for t, what in (courses[0].told if courses else ()))
    svg = standalone(charts, f"Faults of the first drill: {said}")
    file.write_text(svg, encoding="utf-8")


def _curve(by_second: Mapping[int, Any]) -> Points:
    bins = sum(by_second.values())
    total = bins.sum()
    part = np.cumsum(bins) / total
    last = int(np.searchsorted(part, CURVE_TO))
    begin = max(int(np.argmax(bins > 0)) - 1, 0)
    return [
        (1000 * LEAST * RATIO**n, float(part[n])) for n in range(begin, min(last + 1, len(part)))
    ]
