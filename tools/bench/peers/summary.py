"""The summary of the runs: least, median and most of each figure, and ratios to ours in the same run."""

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
    "overloaded_per_s": "delivered/s, member",
    "mb_per_s": "MB/s, member",
    "least_mb_per_s": "MB/s in the worst window of a member",
    "calls_per_s": "calls/s",
    "requests_per_s": "puts or gets/s",
    "relayed_per_s": "delivered/s, member of the other site",
    "here_p50_us": "p50 us within the site",
    "there_p50_us": "p50 us to the other site",
    "added_p50_us": "added p50 us",
    "added_p99_us": "added p99 us",
    "p50_us": "p50 us",
    "p99_us": "p99 us",
    "p999_us": "p99.9 us",
    "caller_cpu_us": "CPU us/call",
    "join_ms": "join ms",
    "idle_percent": "idle, % of a core",
    "rss_mb": "MB",
    "kill_ms": "kill -9 to view, ms",
}
TABLES: Final = (
    "delivered_per_s",
    "overloaded_per_s",
    "calls_per_s",
    "requests_per_s",
    "relayed_per_s",
    "join_ms",
    "idle_percent",
)
"""Each of these figures has a table. A case is a row of the table of its first figure."""


def summary(
    runs: Sequence[Found], peers: Mapping[str, Sequence[str]] | None = None, base: str = OURS
) -> list[dict[str, Any]]:
    """Return a row for each case with a measured peer, and for each peer: those that ``peers`` has for the case, and
    other measured ones.

    A row has the figures of the ``runs`` in which this peer was measured in this case, maybe none. A ratio is the
    figure of ``base`` divided by the peer's, the median of the runs that have both.
    """
    cases = dict.fromkeys(case for run in runs for case, _ in run)
    everybody = {case: dict.fromkeys((peers or {}).get(case, ())) for case in cases}
    for run in runs:
        for case, peer in run:
            everybody[case][peer] = None
    return [_row(runs, case, peer, base) for case in cases for peer in everybody[case]]


def _row(runs: Sequence[Found], case: str, peer: str, base: str) -> dict[str, Any]:
    with_it = [run for run in runs if (case, peer) in run]
    figures: dict[str, Any] = {}
    for figure in with_it[0][case, peer] if with_it else ():
        values = [run[case, peer][figure] for run in with_it]
        figures[figure] = {
            "min": min(values),
            "median": statistics.median(values),
            "max": max(values),
        }
        both = [
            (ours, run[case, peer][figure])
            for run in with_it
            if (ours := run.get((case, base), {}).get(figure))
        ]
        if both and all(values):
            ratios = [ours / value for ours, value in both]
            figures[figure]["ours_by_this"] = round(statistics.median(ratios), 3)
    return {"case": case, "peer": peer, "runs": len(with_it), "figures": figures}


def markdown(result: Mapping[str, Any]) -> str:
    """Return the result as tables of Markdown: median (least-most), ratio of ours to the peer."""
    lines = [
        f"{result['machine']}, load {result['load_before']} before and {result['load_after']} after. Runs: {result['runs']}, "
        f"{result['seconds']:g} s each after {result['warm_up']:g} s. median (min-max), x ours by this",
    ]
    for figures in TABLES:
        measured = {
            row["case"] for row in result["rows"] if next(iter(row["figures"]), "") == figures
        }
        if not measured:
            continue
        rows = [row for row in result["rows"] if row["case"] in measured]
        keys = list(next(row["figures"] for row in rows if row["figures"]))
        lines += ["", "| case | peer | " + " | ".join(HEADINGS[key] for key in keys) + " |"]
        lines.append("|---|---|" + "---|" * len(keys))
        for row in rows:
            found = row["figures"]
            cells = [cell(found[key], "ours_by_this", "x") if found else "-" for key in keys]
            few = (
                f" ({row['runs']} of {result['runs']} runs)"
                if 0 < row["runs"] < result["runs"]
                else ""
            )
            lines.append(f"| {row['case']} | {row['peer']}{few} | " + " | ".join(cells) + " |")
    lines += ["", *(f"Not measured: {text}" for text in result["not_measured"])]
    return "\n".join(lines)
