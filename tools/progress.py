"""How far a command is: one line on a terminal, erased at the end; nothing where nobody watches."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def status_line(name: str) -> Iterator[Callable[[str], None]]:
    """Shows what it is called with on standard error, each time instead of what was there."""
    watched = sys.stderr.isatty()

    def show(text: str) -> None:
        if watched:
            width = shutil.get_terminal_size().columns
            sys.stderr.write(f"\r\x1b[K{name}: {text}"[: width + 3])
            sys.stderr.flush()

    try:
        yield show
    finally:
        if watched:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
