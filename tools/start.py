"""Starts ``jgroups-py`` and ``python -m jgroups_py``, after a check that the packages for commands are installed.

A plain installation has the library only. The extra ``cli`` brings the packages for commands.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NoReturn

NEEDED: Final = ("click", "jinja2", "rich")
"""The modules that the extra ``cli`` brings."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code.

    Exit 2 and one line on standard error when a package of the extra ``cli`` is not installed.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"jgroups-py: {', '.join(missing)} not installed; the command line needs: "
            "pip install 'jgroups_py[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    with _ended_by_signals():
        from jgroups_py.tools import cli  # it imports what may have been missing

    cli.main(args)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End the process at once when SIGINT or SIGTERM comes within the block, with the exit code of an interrupted command.
    Imports take most of a second, and a KeyboardInterrupt in one of them would print its traceback."""
    untouched: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }
    taken = []
    if threading.current_thread() is threading.main_thread():
        # A signal that is ignored, or that the program of a caller handles, stays as it is.
        taken = [number for number, was in untouched.items() if signal.getsignal(number) == was]
    for number in taken:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, untouched[number])


def _end(number: int, frame: FrameType | None) -> NoReturn:
    os._exit(128 + number)  # nothing has begun, so nothing is to be cleaned up
