"""What the runs say: of each figure the least, the median and the most, and ratios to ours in the same run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jgroups_py.tools.bench.cells import cell

OURS: Final = "jgroups_py"
Found = Mapping[tuple[str, str], Mapping[str, float]]
"""Case and peer -> figures, of one run."""
HEADINGS: Final = {
    "delivered_per_s": "delivered/s, member",
    "cpu_us": "CPU us/delivery",
    "calls_per_s": "calls/s",
    "p50_us": "p50 us",
    "p99_us": "p99 us",
    "p999_us": "p99.9 us",
    "caller_cpu_us": "CPU us/call",
}


def summary(runs: Sequence[Found]) -> list[dict[str, Any]]:
    """Return a row for each case and peer that is in all runs. A ratio is ours by the peer's, the median of the runs."""
    rows: list[dict[str, Any]] = []
    for case, peer in runs[0]:
        if not all((case, peer) in run for run in runs):
            continue
        figures: dict[str, Any] = {}
        for figure in runs[0][case, peer]:
            values = [run[case, peer][figure] for run in runs]
            figures[figure] = {
                "min": min(values),
                "median": statistics.median(values),
                "max": max(values),
            }
            ours = [run.get((case, OURS), {}).get(figure) for run in runs]
            if all(ours) and all(values):
                ratios = [mine / value for mine, value in zip(ours, values, strict=True) if mine]
                figures[figure]["ours_by_this"] = round(statistics.median(ratios), 3)
        rows.append({"case": case, "peer": peer, "figures": figures})
    return rows


def markdown(result: Mapping[str, Any]) -> str:
    """Return the result as tables of Markdown: median (least-most), ratio of ours to the peer."""
    lines = [
        f"{result['machine']}, load {result['load_before']} before and {result['load_after']} after. Runs: {result['runs']}, "
        f"{result['seconds']:g} s each after {result['warm_up']:g} s. median (min-max), x ours by this",
    ]
    for figures in ("delivered_per_s", "calls_per_s"):
        rows = [row for row in result["rows"] if figures in row["figures"]]
        if not rows:
            continue
        keys = list(rows[0]["figures"])
        lines += ["", "| case | peer | " + " | ".join(HEADINGS[key] for key in keys) + " |"]
        lines.append("|---|---|" + "---|" * len(keys))
        for row in rows:
            cells = [cell(row["figures"][key], "ours_by_this", "x") for key in keys]
            lines.append(f"| {row['case']} | {row['peer']} | " + " | ".join(cells) + " |")
    lines += ["", *(f"Not measured: {text}" for text in result["not_measured"])]
    return "\n".join(lines)
