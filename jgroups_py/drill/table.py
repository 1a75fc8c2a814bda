"""The table and the verdict on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table

from jgroups_py.drill.judge import Judged, Measured, Verdict
from jgroups_py.drill.model import TIMES

WIDTH_OFF_TERMINAL = 100


def console(stream: TextIO) -> Console:
    """Colours and width of the terminal; neither where there is none."""
    if stream.isatty():
        return Console(file=stream, highlight=False)
    return Console(
        file=stream, width=WIDTH_OFF_TERMINAL, no_color=True, highlight=False, color_system=None
    )


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"


def event_text(measured: Measured) -> str:
    """``8.412 s crash NYC.E``."""
    whom = measured.site if measured.who is None else str(measured.who).removesuffix("#1")
    return f"{measured.t:.3f} s {measured.event} {whom}"


def judged_text(judged: Judged) -> tuple[str, str, str]:
    """Name, limit, measured, for people."""
    expectation = judged.expectation
    if judged.measured is None:
        measured = "not measured"
    elif expectation.name in TIMES:
        measured = seconds(judged.measured)
    else:
        measured = str(int(judged.measured))
    return expectation.name, expectation.text, measured


def show(out: Console, title: str, verdict: Verdict, notes: Sequence[str] = ()) -> None:
    """Print what was measured, and the verdict last."""
    numbers = Table(title=title, title_justify="left")
    numbers.add_column("site")
    columns = [
        "sent",
        "delivered",
        "relayed",
        "replayed",
        "duplicates_dropped",
        "lost",
        "lost_inside",
        "unsent",
        "views",
    ]
    for column in columns:
        numbers.add_column(column.replace("_", "\n"), justify="right")
    for site, row in verdict.sites.items():
        numbers.add_row(site, *(str(getattr(row, column)) for column in columns))
    out.print(numbers)
    if verdict.detections or verdict.takeovers:
        taken = {(m.t, m.who): m.seconds for m in verdict.takeovers}
        events = Table()
        events.add_column("event")
        events.add_column("detected after", justify="right")
        events.add_column("take-over", justify="right")
        for measured in verdict.detections:
            key = (measured.t, measured.who)
            takeover = seconds(taken[key]) if key in taken and measured.who else ""
            events.add_row(event_text(measured), seconds(measured.seconds), takeover)
        out.print(events)
    if verdict.rpo is not None:
        out.print(
            f"unrelayed when a site failed: {len(verdict.unrelayed)} messages, "
            f"the oldest {seconds(verdict.rpo)} old"
        )
    for note in notes:
        out.print(f"note: {note}", markup=False)
    if verdict.expectations:
        expected = Table()
        for column in ("expected", "limit", "measured", ""):
            expected.add_column(column)
        for judged in verdict.expectations:
            style = None if judged.holds else "bold red"
            expected.add_row(
                *judged_text(judged), "holds" if judged.holds else "FAILS", style=style
            )
        out.print(expected)
    word, style = ("PASS", "bold green") if verdict.passed else ("FAIL", "bold red")
    out.print(f"verdict: {word}", style=style)
