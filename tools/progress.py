"""The progress of a command: a line or a bar on a terminal, erased at the end; nothing without a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn


@contextmanager
def status_line(name: str, *, every: float | None = None) -> Iterator[Callable[[str], None]]:
    """Show the latest text on standard error, in place of the previous one.

    Args:
        every: seconds between two printed lines where there is no terminal. None: no lines there.
    """
    if every is not None and not sys.stderr.isatty():
        yield _Lines(name, every).show
        return
    with _progress(TextColumn("{task.description}", markup=False)) as progress:
        task = progress.add_task(name)

        def show(text: str) -> None:
            progress.update(task, description=f"{name}: {text}", refresh=True)

        yield show


class _Lines:
    """Progress for a log file or a pipe: some lines, each with its time since the beginning."""

    def __init__(self, name: str, every: float) -> None:
        self._name, self._every = name, every
        self._began = time.monotonic()
        self._next = self._began

    def show(self, text: str) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every
            print(f"{self._name}: {now - self._began:.0f} s, {text}", file=sys.stderr, flush=True)


@contextmanager
def seeds_bar(name: str, total: int | None) -> Iterator[tuple[Console, Callable[[int], None]]]:
    """Show a bar for commands that run many seeds. After each item the function gets the number of failures so far;
    lines on the console are above the bar."""
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
    """Return a progress display without a drawing thread, because commands fork."""
    watched = sys.stderr.isatty()
    return Progress(
        *columns,
        console=Console(stderr=True),
        auto_refresh=False,
        disable=not watched,
        transient=True,
    )
