"""A pool of processes for many jobs: results as they are ready, a time limit, and interrupts."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from multiprocessing import connection
from typing import Any, Final, TypeVar

from jgroups_py.driver.with_parent import end_with_parent

J = TypeVar("J")
R = TypeVar("R")

AHEAD: Final = 2
"""Chunks handed to a process before their results are awaited."""
END_SECONDS: Final = 10.0
"""The seconds for which processes may end their work after an interrupt, or when the caller needs no more results. Then
they are killed."""
GARBAGE_MAX: Final = 50_000
"""New objects before a process collects garbage."""


def each(
    work: Callable[[J], R],
    jobs: Iterable[J],
    processes: int,
    *,
    chunk: int = 1,
    stop_after: float | None = None,
) -> Generator[R, None, None]:
    """Yield the results of ``work`` for all jobs as they are ready.

    ``chunk``: jobs handed to a process at once. ``stop_after``: seconds of real time after which no further chunk
    begins. If the caller stops iterating, chunks that have not begun are cancelled, and the others have ``END_SECONDS``.
    With one process all jobs run in this process.
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
) -> Generator[R, None, None]:
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
            _end(pool)


def _end(pool: ProcessPoolExecutor) -> None:
    """End the processes. Their present work is awaited for ``END_SECONDS``.

    A process that is killed while it sends a result leaves half of it in the pipe. The pool waits for the other half as long as a
    process could write it: another process, which waits for its turn to write, or this process.
    """
    results: Any = pool._result_queue
    waiting = {process.sentinel: process for process in pool._processes.values()}
    pool.shutdown(wait=False, cancel_futures=True)
    results._writer.close()
    end = time.monotonic() + END_SECONDS
    while waiting and (left := end - time.monotonic()) > 0:
        for ended in connection.wait(list(waiting), left):
            del waiting[ended]  # type: ignore[arg-type]
    for process in waiting.values():
        process.kill()


def _do(work: Callable[[J], R], jobs: list[J]) -> list[R]:
    return [work(job) for job in jobs]


def _begin_worker() -> None:
    """Set up a process. The command handles an interrupt from the terminal and ends its processes. If the command itself is
    killed, they end with it. Modules are excluded from garbage collection, which otherwise costs a tenth of a run."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    gc.set_threshold(GARBAGE_MAX)


def cores() -> int:
    """Count the cores that this process may use; on macOS all."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
