"""The progress of a drill on the terminal."""

from __future__ import annotations

import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


class TerminalProgress:
    """Prints a line for each event; on a terminal also a bar, which is erased at the end."""

    REFRESH_SECONDS = 0.1
    EVERY_SECONDS = 5.0
    """Seconds of the drill between lines without a terminal."""

    def __init__(self, stream: TextIO, end: float) -> None:
        self._stream = stream
        self._end = end
        self._tty = stream.isatty()
        self._next = 0.0
        columns = (BarColumn(30), TextColumn("{task.completed:7.1f} s of {task.total:.1f} s"))
        self._bar = Progress(
            *columns,
            console=Console(file=stream),
            auto_refresh=False,
            transient=True,
            disable=not self._tty,
        )
        self._task = self._bar.add_task("", total=end)

    def at(self, t: float) -> None:
        if self._tty:
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + self.REFRESH_SECONDS
                self._bar.start()
                self._bar.update(self._task, completed=max(t, 0.0), refresh=True)
        elif t >= self._next:
            self._next = t - t % self.EVERY_SECONDS + self.EVERY_SECONDS
            self._write(f"  {max(t, 0):.0f} s of {self._end:.0f} s\n")

    def say(self, t: float, text: str) -> None:
        line = f"  {t:8.3f} s  {text}"
        if self._tty:
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)
        else:
            self._write(f"{line}\n")

    def done(self) -> None:
        """Erase the bar."""
        self._bar.stop()

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
