"""Terminal: a user types lines at the bottom, and other lines appear above."""

from __future__ import annotations

import os
import shutil
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

import trio

from jgroups_py.tools.commands.line_editor import LineEditor

READ_MAX: Final = 4096


class Terminal:
    """Made by ``open_terminal``. ``lines`` yields typed lines, ``say`` prints above them."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._editor = LineEditor()

    async def lines(self) -> AsyncIterator[str]:
        """Yield typed lines, until ^D."""
        file = sys.stdin.fileno()
        self._show()
        while not self._editor.ended:
            await trio.lowlevel.wait_readable(file)
            data = os.read(file, READ_MAX)
            if not data:
                return
            for line in self._editor.feed(data):
                self._write(f"\r\x1b[K{self._prompt}{line}\n")
                yield line
            self._show()

    def say(self, text: str) -> None:
        """Print a line, and show the line that is being typed below it again."""
        self._write(f"\r\x1b[K{text}\n")
        self._show()

    def erase(self) -> None:
        """Erase the line that is being typed."""
        self._write("\r\x1b[K")

    def _show(self) -> None:
        text, before = self._editor.shown(self._prompt, shutil.get_terminal_size().columns)
        self._write(f"\r\x1b[K{text}\r" + (f"\x1b[{before}C" if before else ""))

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


@contextmanager
def open_terminal(prompt: str) -> Iterator[Terminal]:
    """Make a Terminal of standard input and output. Afterwards the terminal is as it was."""
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    terminal = Terminal(prompt)
    tty.setcbreak(file)  # keys come one by one and are not echoed; ^C still interrupts
    try:
        yield terminal
    finally:
        terminal.erase()
        termios.tcsetattr(file, termios.TCSADRAIN, before)
