"""Parts of tables on the terminal, for any workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from jgroups_py.drill.judge.rules import Measured

WIDTH_MAX = 1000
"""A width beyond any table."""
KEYS_SHOWN_MAX = 20
HEADINGS = {
    "acknowledged": "acknow-\nledged",
    "gravitations": "gravi-\ntations",
    "diverged": "di-\nverged",
    "unrelayed": "unre-\nlayed",
}
"""Short headings of wide columns."""


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"


def event_text(measured: Measured) -> str:
    """Return ``8.412 s crash NYC.E``."""
    whom = measured.site if measured.who is None else str(measured.who).removesuffix("#1")
    return f"{measured.t:.3f} s {measured.event} {whom}"


def filled(
    columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows without the columns that are empty in every row. The first column stays."""
    kept = [at for at in range(len(columns)) if at == 0 or any(row[at] for row in rows)]
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def show_sites(
    out: Console,
    title: str,
    sites: Mapping[str, object],
    columns: Sequence[str],
    *,
    collapse: bool = False,
) -> None:
    """Print a line for each site; if that is too wide, a line for each number."""
    numbers = Table(title=title, title_justify="left", collapse_padding=collapse)
    numbers.add_column("site")
    for column in columns:
        numbers.add_column(HEADINGS.get(column, column.replace("_", "\n")), justify="right")
    for site, row in sites.items():
        numbers.add_row(site, *(str(getattr(row, column)) for column in columns))
    if out.measure(numbers, options=out.options.update(max_width=WIDTH_MAX)).maximum > out.width:
        numbers = Table(title=title, title_justify="left")
        numbers.add_column("")
        for site in sites:
            numbers.add_column(site, justify="right")
        for column in columns:
            values = [str(getattr(row, column)) for row in sites.values()]
            numbers.add_row(column.replace("_", " "), *values)
    out.print(numbers)
