"""Figures of requests that were measured one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

PERCENTILES: Final = (50.0, 99.0, 99.9, 100.0)


def figures(took: Sequence[float]) -> dict[str, float]:
    """Milliseconds at percentiles. ``took``: seconds of each request."""
    ordered = sorted(took)
    found: dict[str, float] = {"requests": len(ordered)}
    for percent in PERCENTILES:
        place = min(len(ordered) - 1, int(len(ordered) * percent / 100))
        found[f"p{percent:g}"] = round(1000 * ordered[place], 3) if ordered else 0.0
    return found


def phases_text(phases: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a line for each phase, and p99.9 of each in relation to the one that is ``quiet``."""
    lines = [f"{'ms':12}{'requests':>10}" + "".join(f"{f'p{p:g}':>10}" for p in PERCENTILES)]
    for phase, row in phases.items():
        values = "".join(f"{row[f'p{p:g}']:10.2f}" for p in PERCENTILES)
        lines.append(f"{phase:12}{row['requests']:10}{values}")
    quiet = phases["quiet"]["p99.9"]
    for phase, row in phases.items():
        if not phase.startswith("quiet") and quiet:
            lines.append(f"p99.9 {phase} / quiet: {row['p99.9'] / quiet:.2f}")
    return lines


def write_json(file: Path | None, result: Mapping[str, Any]) -> None:
    """Write the result, if there is a file for it; its folder is made."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
