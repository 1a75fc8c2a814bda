"""Faults are planted in a copy of the repository, one after the other, and checks look for each.

A check is green, or it finds the fault; one that takes too long has found it as well (``hang``).
Before a check counts, it must have been green without any fault; and a test must find the fault twice. A test
that fails only once is left out, and the check is run again without it, so that later tests count.
"""

from __future__ import annotations

import importlib.util
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mutant import ROOT, BadCatalogue, Mutant

TEST_LIMIT: Final = 60.0
"""Seconds that one test may take."""
CHECK_LIMIT: Final = 90.0
"""Seconds that a whole check may take, in addition to five times its time without a fault."""
ACCIDENTS_MAX: Final = 3
"""The most tests of one check that may be left out because they fail only once; after that the check counts
as green."""
MEMORY_MAX: Final = 6 << 30
"""Private memory of a check, bytes: a fault may allocate without end. Mapped files do not count: a map reserves gigabytes."""
_LEFT_OUT: Final = (".*", "build", "dist", "*.egg-info", "__pycache__")
_COPIED: Final = (
    "jgroups_py",
    "protocols",
    "stacks",
    "tools",
    "tests",
    "examples",
    "design",
    "docs",
)


class NotGreen(Exception):
    """A check fails although no fault is planted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one check. ``by``: the failing test, or the command with its output; empty if all were green.

    ``test``: a single test that failed for another reason than its time, without parameters. ``once``:
    tests of this kind that did not fail a second time, perhaps because of a busy machine.
    """

    by: str
    seconds: float
    hang: bool = False
    test: str = ""
    once: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one mutant. ``by``: the test that found it; empty if none did. ``once``: tests that failed once,
    but not a second time."""

    mutant: Mutant
    by: str
    check: str
    seconds: float
    hang: bool = False
    once: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        return bool(self.by)


class Known:
    """Checks that were green without a fault, and their times. Shared by all benches."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._all = threading.Lock()

    def lock(self, check: str) -> threading.Lock:
        with self._all:
            return self._locks.setdefault(check, threading.Lock())

    def seconds(self, check: str) -> float | None:
        return self._seconds.get(check)

    def note(self, check: str, seconds: float) -> None:
        self._seconds[check] = seconds


class Bench:
    """A copy of the repository, in which one check runs at a time."""

    def __init__(self, folder: Path, known: Known, fitted: bool = True) -> None:
        """``fitted``: if a mutant keeps tests from being collected, its author made a mistake; otherwise it counts as
        found."""
        self.folder = folder
        self._fitted = fitted
        self._known = known
        self._running: subprocess.Popen[str] | None = None
        self._stopped = False
        ignored = shutil.ignore_patterns(*_LEFT_OUT)
        for name in _COPIED:
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
        for file in ROOT.iterdir():
            if file.is_file() and not file.name.startswith("."):
                shutil.copy2(file, folder / file.name)

    def look_for(self, mutant: Mutant) -> Result:
        """Plant the fault, run its checks until one finds it, and remove it again.

        Raises: BadCatalogue: the fault does not fit, or tests cannot even be collected with it.
            NotGreen: a check fails without the fault.
        """
        file = self.folder / mutant.file
        text = file.read_text(encoding="utf-8")
        mutated = mutant.applied_to(text)
        began = time.monotonic()
        once: list[str] = []
        for check in mutant.found_by:
            limit = self._limit_of(check)
            _write(file, mutated)
            try:
                outcome = self._found_twice(check, limit)
            except BadCatalogue as problem:
                raise BadCatalogue(f"{mutant.name}: {problem}") from None
            finally:
                _write(file, text)
                shutil.rmtree(self.folder / ".hypothesis", ignore_errors=True)
            once += outcome.once
            if outcome.by:
                return Result(mutant, outcome.by, check, outcome.seconds, outcome.hang, tuple(once))
        return Result(mutant, "", "", time.monotonic() - began, once=tuple(once))

    def stop(self) -> None:
        self._stopped = True
        self._kill()

    def _limit_of(self, check: str) -> float:
        """Return the longest time that the check may take; run it first without a fault if that was not done before."""
        with self._known.lock(check):
            seconds = self._known.seconds(check)
            if seconds is None:
                outcome = self._found_twice(check, 600.0)  # a machine may be busy
                if outcome.by:
                    raise NotGreen(f"without any fault: {outcome.by} ({check})")
                seconds = outcome.seconds
                self._known.note(check, seconds)
        return CHECK_LIMIT + 5 * seconds

    def _found_twice(self, check: str, limit: float) -> Outcome:
        """Return the outcome of the check without the tests that fail only once."""
        once: list[str] = []
        while len(once) <= ACCIDENTS_MAX:
            outcome = self._run(check, limit, once)
            if not outcome.test or self._run(shlex.quote(outcome.test), limit).by:
                return replace(outcome, once=tuple(once))
            once.append(outcome.test)
        return Outcome("", outcome.seconds, once=tuple(once))

    def _run(self, check: str, limit: float, without: Sequence[str] = ()) -> Outcome:
        """``without``: tests to leave out, together with tests of the same file whose names begin like theirs."""
        words = shlex.split(check)
        is_command = words[0] == "jgroups-py"
        words += [f"--deselect={test}" for test in without]
        command = ["-m", "jgroups_py.tools", *words[1:]] if is_command else [*_PYTEST, *words]
        began = time.monotonic()
        process = self._running = subprocess.Popen(
            [sys.executable, *command],
            cwd=self.folder,
            env=_environment(self.folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_bound_memory,
        )
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self._kill()
            said, _ = process.communicate()
            return Outcome(f"{check}: no end within {limit:.0f} s", limit, True)
        seconds = time.monotonic() - began
        if self._stopped:
            raise KeyboardInterrupt
        if process.returncode == 0:
            return Outcome("", seconds)
        if is_command:
            return Outcome(f"{check}: {_last_line(said)}", seconds)
        if without and process.returncode == _NONE_LEFT:
            return Outcome("", seconds)
        if process.returncode != 1 and seconds >= TEST_LIMIT:
            # The limit of a test may end pytest itself: it ran into code of pytest's own.
            return Outcome(f"{check}: no end within {TEST_LIMIT:.0f} s", seconds, True)
        if process.returncode != 1 and not self._fitted:
            return Outcome(f"{check}: {_last_line(said)}", seconds)
        if process.returncode != 1:
            raise BadCatalogue(f"pytest says: {_last_line(said)} ({check})")
        failed = _FAILED.search(said)
        if failed is None:
            return Outcome(f"{check}: {_last_line(said)}", seconds)
        hang = "Timeout" in said
        function = failed[1].partition("[")[
            0
        ]  # with all its parameters, whatever characters they have
        return Outcome(failed[1], seconds, hang, "" if hang else function)

    def _kill(self) -> None:
        process = self._running
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # its own session: it and its children


_PYTEST: Final = (
    *("-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider"),
    *("-m", "not slow and not java", f"--timeout={TEST_LIMIT:.0f}", "--hypothesis-profile=random"),
)
_NONE_LEFT: Final = 5
"""The exit code of pytest when there is no test to run."""
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+?(?:\[.*\])?)(?: - .*)?$", re.MULTILINE)


def _environment(folder: Path) -> dict[str, str]:
    """The copy's modules come first in the path, and their compiled files are kept."""
    wanted = {
        "PYTHONPATH": str(folder),
        "PYTHONHASHSEED": "0",
        "IP_MULTICAST_IF": os.environ.get("IP_MULTICAST_IF", "127.0.0.1"),
    }
    without = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    return {**{k: v for k, v in os.environ.items() if k not in without}, **wanted}


def _bound_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))


def _write(file: Path, text: str) -> None:
    """Write a source file. Compiled files of the former source must not be used for it."""
    file.write_text(text, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "nothing"
