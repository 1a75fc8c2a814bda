"""One pool for many jobs: processes, results as they are ready, an end after a time, an interrupt."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from typing import Final, TypeVar

J = TypeVar("J")
R = TypeVar("R")

AHEAD: Final = 2
"""Chunks handed out per process before their results are asked for."""
GARBAGE_MAX: Final = 50_000
"""Objects made before a process looks for garbage among them."""


def each(
    work: Callable[[J], R],
    jobs: Iterable[J],
    processes: int,
    *,
    chunk: int = 1,
    stop_after: float | None = None,
) -> Iterator[R]:
    """The results of ``work`` for all jobs, as they are ready.

    ``chunk``: so many jobs are handed to a process at once. ``stop_after``: seconds of real time after which no
    further chunk is begun. A caller that stops iterating cancels the tasks that have not begun. With one process everything is done here.
    """
    begun = time.monotonic()
    waiting = iter(jobs)

    def following() -> list[J]:
        if stop_after is not None and time.monotonic() - begun >= stop_after:
            return []
        return list(islice(waiting, chunk))

    if processes == 1:
        while some := following():
            yield from map(work, some)
        return
    yield from _on_processes(work, following, processes)


def _on_processes(
    work: Callable[[J], R], following: Callable[[], list[J]], processes: int
) -> Iterator[R]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_begin_worker) as pool:
        under_way: dict[Future[list[R]], None] = {}
        try:
            while True:
                while len(under_way) < AHEAD * processes and (some := following()):
                    under_way[pool.submit(_do, work, some)] = None
                if not under_way:
                    return
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in [f for f in under_way if f in done]:
                    del under_way[future]
                    yield from future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _do(work: Callable[[J], R], jobs: list[J]) -> list[R]:
    return [work(job) for job in jobs]


def _begin_worker() -> None:
    """An interrupt from the terminal is for the command, which ends its processes. Modules are not
    garbage: looking through them again and again costs a tenth of a run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    gc.set_threshold(GARBAGE_MAX)


def cores() -> int:
    """Those this process may use, where the platform tells (not on macOS)."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
