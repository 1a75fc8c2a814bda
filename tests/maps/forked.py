"""Forked children of a test. A child never returns into the tests, whatever happens in it."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 60.0
"""Seconds in which a child must end."""
RAISED: Final = 99
"""The exit code of a child whose function has raised."""


def forked(function: Callable[[], object]) -> int:
    """Call a function in a child, and return the child's process id. Its exit code is the function's int, otherwise 0."""
    pid = os.fork()
    if pid:
        return pid
    code = RAISED
    try:
        found = function()
        code = found if isinstance(found, int) else 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def code_of(pid: int) -> int:
    """Wait for the end of a child, and return its exit code. AssertionError: it does not end."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError(f"the child has not ended after {PATIENCE:g} s")
