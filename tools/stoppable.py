"""stoppable: runs a command in a thread of its own. The main thread waits for it, and for signals.

A KeyboardInterrupt in the middle of a call into Java leaves broken connections and pages of tracebacks. So signals never
reach the thread that works. It gets the order to end, and ends its work in order.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
END_SECONDS: Final = 30.0
"""Seconds in which the command must end after a signal. A second signal does not wait."""
LOOK_EVERY: Final = 0.2
STOP_EVERY: Final = 0.5
asked = threading.Event()
"""Set when the running command must end."""


def stoppable(stop: Callable[[], None]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a command stoppable. The main thread calls ``stop`` until the command's thread has ended. The command then ends with
    KeyboardInterrupt."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            results: list[R] = []
            errors: list[BaseException] = []
            ended = threading.Event()

            def work() -> None:
                try:
                    results.append(function(*args, **kwargs))
                except BaseException as error:
                    errors.append(error)
                finally:
                    ended.set()

            asked.clear()
            thread = threading.Thread(target=work, daemon=True, name="jgroups-py-command")
            try:
                thread.start()  # a signal may come while this waits for the thread to begin
                # Not join: when interrupted, it takes a running thread for an ended one (Python 3.11).
                while not ended.wait(LOOK_EVERY):
                    pass
            except KeyboardInterrupt:
                asked.set()
                end = time.monotonic() + END_SECONDS
                while not ended.is_set() and time.monotonic() < end:
                    with suppress(Exception):  # the work may have ended just now
                        stop()  # again: the work may only just begin
                    ended.wait(STOP_EVERY)
                raise
            if errors:
                raise errors[0]
            return results[0]

        return call

    return decorated
