"""The report of a run over the catalogue: JSON, the verdict, and the table in design/mutants.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from mutant import Mutant
from mutant_bench import Result

SHARE: Final = 0.95
"""At least this share of the mutants must be found."""
_ROW: Final = re.compile(r"^\| `(?P<name>[^`]+)` \|.*\| (?P<by>[^|]+) \| (?P<seconds>[^|]+) \|$")
_HEAD: Final = "| mutant | what is wrong with it | found by | s |\n|---|---|---|---|\n"


def problems_of(results: Sequence[Result]) -> list[str]:
    """Return the reasons why this run is not good; an empty list for a good one."""
    problems = []
    found = sum(result.found for result in results)
    if results and found < SHARE * len(results):
        problems.append(f"{found} of {len(results)} are found, {SHARE:.0%} are wanted")
    for result in results:
        name, explained = result.mutant.name, bool(result.mutant.survives)
        if not result.found and not explained:
            problems.append(f"{name} survives and nobody says why: {result.mutant.fault}")
        if result.found and explained:
            problems.append(f"{name} is found ({result.by}): why it survives must go")
    return problems


def as_json(results: Sequence[Result], wall_s: float) -> dict[str, Any]:
    """Return the object that ``--json`` writes."""
    return {
        "total": len(results),
        "found": sum(result.found for result in results),
        "wall_s": round(wall_s, 1),
        "problems": problems_of(results),
        "mutants": [
            {
                "name": result.mutant.name,
                "area": result.mutant.area,
                "file": result.mutant.file,
                "fault": result.mutant.fault,
                "found": result.found,
                "by": result.by,
                "hang": result.hang,
                "seconds": round(result.seconds, 1),
                "once": list(result.once),
                "survives": result.mutant.survives,
            }
            for result in results
        ],
    }


def rows_of(table: str) -> dict[str, tuple[str, str]]:
    """Return the rows of an earlier table: mutant -> the test that found it, seconds."""
    rows = (_ROW.match(line) for line in table.splitlines())
    return {row["name"]: (row["by"], row["seconds"]) for row in rows if row}


def write_table(file: Path, catalogue: Sequence[Mutant], results: Iterable[Result]) -> None:
    """Brings the table in ``file`` up to date: mutants that were not run keep their rows, and rows without a mutant in
    the catalogue are removed. The text above the first area stays."""
    old = file.read_text(encoding="utf-8") if file.exists() else ""
    rows = rows_of(old)
    for result in results:
        rows[result.mutant.name] = (_by(result), f"{result.seconds:.1f}")
    parts = [old.partition("\n## ")[0].rstrip("\n") + "\n"]
    for area in dict.fromkeys(mutant.area for mutant in catalogue):
        parts.append(f"\n## {area[0].upper()}{area[1:]}\n\n{_HEAD}")
        for mutant in catalogue:
            if mutant.area == area and mutant.name in rows:
                by, seconds = rows[mutant.name]
                parts.append(f"| `{mutant.name}` | {mutant.fault} | {by} | {seconds} |\n")
    explained = [mutant for mutant in catalogue if mutant.survives]
    if explained:
        parts.append("\n## Survivors\n\n")
        parts += [f"- `{mutant.name}`: {mutant.survives}\n" for mutant in explained]
    file.write_text("".join(parts), encoding="utf-8")


def _by(result: Result) -> str:
    if not result.found:
        return "**nothing**"
    by = re.sub(r"^tests/", "", result.by).replace("|", "/").replace("`", "'")
    by = re.sub(r"\[.{60,}\]$", "[...]", by)  # parameters that are bytes
    return f"{by}{' (hangs)' if result.hang else ''}"
