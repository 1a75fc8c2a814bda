"""Command lines of ``jgroups-py``, played in the process of the test: a process of its own takes 0.5 s of CPU time."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from typing import NamedTuple

from jgroups_py.tools import cli


class Ran(NamedTuple):
    """The result of a command line."""

    code: int
    out: str
    err: str


SECONDS_MAX = 200
"""The longest time of a command in a process of its own."""


def run_here(*words: str) -> Ran:
    """Return exit code, standard output and standard error of ``jgroups-py`` with ``words``."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.run(words)
    return Ran(code, out.getvalue(), err.getvalue())


def run_apart(*words: str) -> Ran:
    """Return the same in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "jgroups_py", *words],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
