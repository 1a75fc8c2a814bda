"""Processes: they own the objects of kinds with ``runs_in = "process"``, for computations in Python.

Each object belongs to one worker process, chosen by its key, and its state is there only. A worker makes one change after the other.
A worker that is lost takes its objects with it, so its node ends: a backup goes on, or a snapshot brings the objects back.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from zlib import crc32

import trio

from jgroups_py.livebackup.errors import WorkerLost
from jgroups_py.livebackup.kinds import Stateful
from jgroups_py.livebackup.worker import Verb, WorkerReply, WorkerRequest, work

END_SECONDS: Final = 2.0
"""The longest time for a worker to end with its node."""


class Worker:
    """One process. It answers one question at a time, in order."""

    def __init__(self, kinds: Mapping[str, type[Stateful]], lost: trio.Event) -> None:
        """``lost`` is set when the process is lost."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, dict(kinds)), daemon=True)
        self._process.start()
        theirs.close()
        self._turn = trio.Lock()
        self._limiter = trio.CapacityLimiter(1)
        self.is_lost, self._lost = False, lost

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    async def ask(self, request: WorkerRequest) -> WorkerReply:
        """Ask the worker. If it is lost this waits for ever: the node ends then."""
        async with self._turn:
            try:
                return await trio.to_thread.run_sync(self._ask, request, limiter=self._limiter)
            except (EOFError, OSError):
                self.is_lost = True
                self._lost.set()
        return await trio.sleep_forever()

    def _ask(self, request: WorkerRequest) -> WorkerReply:
        self._pipe.send(request)
        reply: WorkerReply = self._pipe.recv()
        return reply

    def end(self) -> None:
        """End the worker; kill it if it does not end by itself."""
        self._pipe.close()
        self._process.join(END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class Workers:
    """The processes of one node."""

    def __init__(self, workers: Iterable[Worker], lost: trio.Event) -> None:
        self._workers, self._lost = tuple(workers), lost
        self._generation = 0

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(worker.pid for worker in self._workers)

    async def ask(self, verb: Verb, key: str, what: str = "", *arguments: Any) -> WorkerReply:
        """Ask the owner of the object."""
        worker = self._workers[crc32(key.encode()) % len(self._workers)]
        kind = key.partition("/")[0]
        return await worker.ask(WorkerRequest(self._generation, verb, kind, key, what, arguments))

    def clear(self) -> None:
        """Forget all objects. No question is under way."""
        self._generation += 1

    async def watch(self) -> None:
        """Watch the workers. Raises WorkerLost when one is lost."""
        await self._lost.wait()
        pids = [str(worker.pid) for worker in self._workers if worker.is_lost]
        raise WorkerLost(f"process {', '.join(pids)} is lost, and its objects with it")


@asynccontextmanager
async def open_workers(
    kinds: Mapping[str, type[Stateful]], number: int
) -> AsyncIterator[Workers | None]:
    """Start processes for the kinds that run in one. None: no kind does. ``number`` 0: one for each processor."""
    owned = {name: kind for name, kind in kinds.items() if kind.runs_in == "process"}
    if not owned:
        yield None
        return
    workers: list[Worker] = []
    lost = trio.Event()
    try:
        for _ in range(number or os.cpu_count() or 1):
            workers.append(await trio.to_thread.run_sync(partial(Worker, owned, lost)))
        yield Workers(workers, lost)
    finally:
        with trio.CancelScope(shield=True):
            for worker in workers:
                await trio.to_thread.run_sync(worker.end)
