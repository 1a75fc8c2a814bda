"""How far a drill is, on the terminal."""

from __future__ import annotations

import time
from typing import TextIO

ERASE_LINE = "\x1b[K"
"""To the end of the line, on a terminal."""


class TerminalProgress:
    """Lines for what happens; on a terminal a line that counts as well."""

    REFRESH_SECONDS = 0.1
    EVERY_SECONDS = 5.0
    """Of the drill's time, between lines where there is no terminal."""

    def __init__(self, stream: TextIO, end: float) -> None:
        self._stream = stream
        self._end = end
        self._tty = stream.isatty()
        self._next = 0.0

    def at(self, t: float) -> None:
        if self._tty:
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + self.REFRESH_SECONDS
                done = min(1.0, max(0.0, t / self._end)) if self._end else 1.0
                bar = "#" * int(done * 30)
                self._write(f"\r  [{bar:30}] {max(t, 0):7.1f} s of {self._end:.1f} s")
        elif t >= self._next:
            self._next = t - t % self.EVERY_SECONDS + self.EVERY_SECONDS
            self._write(f"  {max(t, 0):.0f} s of {self._end:.0f} s\n")

    def say(self, t: float, text: str) -> None:
        line = f"  {t:8.3f} s  {text}"
        self._write(f"\r{line}{ERASE_LINE}\n" if self._tty else f"{line}\n")

    def done(self) -> None:
        """Clear the line that counts."""
        if self._tty:
            self._write(f"\r{ERASE_LINE}")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
