"""The progress of a command: a line or a bar on a terminal, erased at the end; nothing without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn


@contextmanager
def status_line(name: str) -> Iterator[Callable[[str], None]]:
    """Show the latest text on standard error, in place of the previous one."""
    with _progress(TextColumn("{task.description}", markup=False)) as progress:
        task = progress.add_task(name)

        def show(text: str) -> None:
            progress.update(task, description=f"{name}: {text}", refresh=True)

        yield show


@contextmanager
def seeds_bar(name: str, total: int | None) -> Iterator[tuple[Console, Callable[[int], None]]]:
    """For commands that run many seeds. The function is told after each how many went wrong so far; what is
    printed on the console stands above the bar."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f} seeds, {task.fields[bad]} failed"),
        TimeElapsedColumn(),
    )
    with _progress(*columns) as progress:
        task = progress.add_task(name, total=total, bad=0)

        def one_more(bad: int) -> None:
            progress.update(task, advance=1, bad=bad, refresh=True)

        yield progress.console, one_more


def _progress(*columns: ProgressColumn) -> Progress:
    """No thread draws it: commands fork."""
    watched = sys.stderr.isatty()
    return Progress(
        *columns,
        console=Console(stderr=True),
        auto_refresh=False,
        disable=not watched,
        transient=True,
    )
