"""Runs one input, watches its time and memory, and describes an error in one line.

Time is CPU time, so that a busy machine does not fail an input: a timer of the process ticks once a second of it. An
endless loop in C code is not reached by that; engine.py ends the process then. Memory is limited twice. tracemalloc
measures the peak while an input is read, for a share of the inputs and for those that raised the process' resident
size. The process' address space is limited for all of them.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import sys
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final, Self

import jgroups_py
from jgroups_py.testing.check.violation import Violation

HANG_CPU: Final = 10
"""Seconds of CPU time that one input may take; the slowest takes some 0.1 s."""
ALLOC_BASE: Final = 500_000
ALLOC_FACTOR: Final = 1_000
"""Reading an input of n bytes may allocate ALLOC_BASE + n x ALLOC_FACTOR bytes at most: an address of one
byte becomes an object in a tuple, a message of 7 bytes a dozen objects."""
PEAK_STEP: Final = 20_000
"""An input that raises the process' highest resident size by this many KB is read again with its memory watched."""
HEADROOM: Final = 1_500_000_000
"""Bytes of address space that a process may take beyond its size at the start; then MemoryError."""

HANG: Final = "hang"
MEMORY: Final = "memory"
"""The name of a check without a place in the code. Others are named by the error and its lines, so that two inputs with
the same fault fail the same check."""

_ROOT: Final = str(Path(jgroups_py.__file__).parent)


class Broken(Exception):
    """The result is wrong, though no other error came."""


class Hang(BaseException):
    """An input took too long. It is not an Exception, so that no handler on the way swallows it."""


class Guard:
    """Use as a context manager, once per process."""

    def __init__(self, hang_cpu: int = HANG_CPU) -> None:
        self.hang_cpu = hang_cpu
        self._ticks = 0
        self._running = False
        self._peak = _peak()

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGPROF, self._tick)
        signal.setitimer(signal.ITIMER_PROF, 1.0, 1.0)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._before)

    def _tick(self, number: int, frame: FrameType | None) -> None:
        self._ticks += 1
        if self._running and self._ticks > self.hang_cpu:
            self._running = False
            raise Hang

    def run(
        self, action: Callable[[], object], errors: tuple[type[Exception], ...]
    ) -> Violation | None:
        """Call ``action``; None when it returned or raised one of ``errors``. May be called within
        itself: the inner action has its own time."""
        outer, self._running = self._running, True
        self._ticks = 0
        try:
            action()
        except errors:
            return None
        except Hang as error:
            return Violation(HANG, f"more than {self.hang_cpu} s of CPU time {_place(error)}")
        except Exception as error:
            where = _place(error)
            text = f"{type(error).__name__}: {error}"[:300]
            return Violation(f"{type(error).__name__} {where}", f"{text} {where}")
        finally:
            self._running = outer
        return None

    def alive(self) -> None:
        """Note progress of the action under way: its time begins anew."""
        self._ticks = 0

    def jumped(self) -> bool:
        """Return whether the process has needed much more memory since the last call than ever before."""
        before, self._peak = self._peak, max(self._peak, _peak())
        return self._peak - before > PEAK_STEP

    def weigh(
        self, action: Callable[[], object], errors: tuple[type[Exception], ...], size: int
    ) -> Violation | None:
        """Run an input as ``run`` does. It is a violation, too, to need more memory than ``size`` bytes justify."""
        tracemalloc.start()
        try:
            problem = self.run(action, errors)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        if problem is None and peak > ALLOC_BASE + ALLOC_FACTOR * size:
            problem = Violation(MEMORY, f"{peak:,} bytes allocated for {size} bytes of input")
        return problem


def _peak() -> int:
    """Return the process' highest resident size so far, KB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "linux" else peak // 1024


def _place(error: BaseException) -> str:
    """Return the innermost lines of ours, innermost first."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(_ROOT)]
    if isinstance(error, Hang):
        frames = [f for f in frames if f.name != "_tick"][2:5]  # the exact place is random
    elif isinstance(error, RecursionError):
        frames = frames[:4]
    inner = [f"{f.filename[len(_ROOT) + 1 :]}:{f.lineno}" for f in frames[-2:]]
    return f"({', '.join(reversed(inner))})" if inner else ""


@contextlib.contextmanager
def address_space(headroom: int = HEADROOM) -> Iterator[None]:
    """Let the block take at most ``headroom`` bytes more than the process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + headroom
    if before[1] != resource.RLIM_INFINITY:
        limit = min(limit, before[1])
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
