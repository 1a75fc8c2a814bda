"""Bulk writes in two phases: tasks stage rows, the commit names the attempts that count and writes theirs.

Staged rows are made ready at once, while other tasks still read and encode. Rows that are too much for memory wait in a
temporary file. A task that runs again, or twice at once, stages under another attempt, and the commit names only one
of them. A commit that is asked for again joins the one under way, or is answered that it is done.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import IO, Any

import trio

from jgroups_py.cache.garbage import no_collection
from jgroups_py.driver.unwrap import leaves
from jgroups_py.export.columns import WRITES, buffers_of, unpack
from jgroups_py.export.errors import Busy, ExportError, UnknownJob
from jgroups_py.export.limits import ExportLimits
from jgroups_py.export.messages import Commit, Committed, Marker, StageRows
from jgroups_py.export.source import Source

Part = tuple[int, int]


@dataclass(slots=True)
class StagedTask:
    """The staged rows of one attempt of one task: ``ready`` lots of prepared rows, then frames in ``file``."""

    ready: list[Sequence[Any]] = field(default_factory=list)
    memory: int = 0
    file: IO[bytes] | None = None
    frames: list[tuple[int, tuple[int, ...], int]] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    complete: bool = False
    broken: bool = False
    """True when some rows could not be taken: the task will not be complete."""


@dataclass(slots=True)
class StagingJob:
    used: float
    staged: dict[Part, StagedTask] = field(default_factory=dict)
    committing: bool = False
    written: int = 0
    of: int = 0
    result: Committed | None = None
    problem: BaseException | None = None
    changed: trio.Event = field(default_factory=trio.Event)

    def tell(self) -> None:
        """Let the tasks that wait for the commit look again."""
        self.changed.set()
        self.changed = trio.Event()


class Staging:
    """All jobs of one source."""

    def __init__(self, source: Source, limits: ExportLimits) -> None:
        self._source = source
        self._limits = limits
        self._jobs: dict[str, StagingJob] = {}
        self._bytes = self._memory = 0

    @property
    def size(self) -> int:
        """The bytes that are staged now."""
        return self._bytes

    def under_way(self) -> tuple[int, int]:
        """Return the number of written rows, and of all rows, of the jobs that are being written."""
        jobs = [job for job in self._jobs.values() if job.committing and job.result is None]
        return sum(job.written for job in jobs), sum(job.of for job in jobs)

    async def stage(self, said: StageRows, body: bytes) -> int:
        """Take a frame. Return the number of rows that the attempt has staged.

        Raises:
            Busy: a limit is reached.
            ExportError: the frame has no rows, or the job is being written already.
            Others: errors of the source's ``prepared``, at once or when it is written.
        """
        job = self._job(said.job)
        if job.committing:
            raise ExportError(f"job {said.job} is being written, or was: nothing more is staged")
        if self._bytes + len(body) > self._limits.stage_bytes:
            raise Busy(f"{self._bytes} bytes are staged (stage_bytes): commit or abort other jobs")
        staged = job.staged.get((said.task, said.attempt))
        if staged is None:
            staged = job.staged[said.task, said.attempt] = StagedTask()
        try:
            await self._take(staged, said, body)
        except BaseException:
            staged.broken = True
            raise
        staged.complete = said.last and not staged.broken
        return staged.rows

    async def _take(self, staged: StagedTask, said: StageRows, body: bytes) -> None:
        staged.complete = False
        staged.rows += said.rows
        staged.bytes += len(body)
        self._bytes += len(body)
        if staged.file is None and self._memory + len(body) <= self._limits.stage_memory:
            staged.memory += len(body)
            self._memory += len(body)
            async with aclosing(self._prepared(said.rows, said.sizes, body)) as lots:
                async for lot in lots:
                    staged.ready.append(lot)
        else:
            buffers_of(WRITES, said.rows, said.sizes, body)
            if staged.file is None:
                staged.file = tempfile.TemporaryFile(prefix="jgroups-py-stage-")  # noqa: SIM115
            staged.frames.append((said.rows, said.sizes, len(body)))
            await trio.to_thread.run_sync(staged.file.write, body)

    def begin(self, said: Commit, now: float) -> tuple[StagingJob, bool]:
        """Return the job, and whether the caller must run ``commit`` for it now.

        Raises:
            UnknownJob: the attempts that it names are not staged here.
        """
        job = self._jobs.get(said.job)
        if job is None and said.parts:
            raise UnknownJob(f"nothing is staged here for job {said.job}")
        job = job or self._job(said.job)
        job.used = now
        if job.committing:
            return job, False
        for part in said.parts:
            staged = job.staged.get(part)
            if staged is None or not staged.complete:
                raise UnknownJob(f"task {part[0]}, attempt {part[1]} of job {said.job} is not here")
        job.committing, job.problem = True, None
        job.of = sum(job.staged[part].rows for part in said.parts)
        return job, True

    async def commit(self, job: StagingJob, said: Commit) -> None:
        """Write the job. Its result or its error is kept at the job."""
        try:
            for part in [part for part in job.staged if part not in said.parts]:
                self._drop(job.staged.pop(part))
            done = await self._write(job, said)
            job.result = Committed(job.written, not done)
        except Exception as error:
            job.problem = error
            job.committing = (
                False  # the commit may be tried again, because rows are written again as they were
            )
            job.written = 0
        else:
            self._empty(job)
            if said.marker is not None:
                # The marker remembers this batch; the next batch of the query stages under the same name.
                self._jobs.pop(said.job, None)
        finally:
            job.tell()

    async def _write(self, job: StagingJob, said: Commit) -> bool:
        limits = self._limits
        if said.marker is None:
            room = trio.CapacityLimiter(limits.write_ahead)
            try:
                async with trio.open_nursery() as nursery:
                    for part in said.parts:  # rows of one task in their order, tasks side by side
                        staged = job.staged[part]
                        nursery.start_soon(self._write_part, job, staged, said, room)
            except BaseExceptionGroup as group:
                raise leaves(group)[0] from None
            return True
        size = job.of if job.of <= limits.atomic_nodes else limits.write_nodes
        return await self._write_marked(job, said, said.marker, max(size, 1))

    async def _write_part(
        self, job: StagingJob, staged: StagedTask, said: Commit, room: trio.CapacityLimiter
    ) -> None:
        async with aclosing(self._lots(staged)) as lots:
            async for rows in lots:
                async with room:
                    await self._source.write(rows, replace=said.replace, skip_equal=said.skip_equal)
                job.written += len(rows)
                job.tell()

    async def _write_marked(self, job: StagingJob, said: Commit, marker: Marker, size: int) -> bool:
        """Write in lots, one after the other. The marker comes with the last one."""
        held: list[Any] = []
        lots = math.ceil(job.of / size) or 1
        for part in said.parts:
            async with aclosing(self._lots(job.staged[part])) as prepared:
                async for rows in prepared:
                    held += rows
                    while len(held) >= size and lots > 1:
                        lots -= 1
                        lot, held = held[:size], held[size:]
                        if not await self._lot(job, lot, said, marker, last=False):
                            return False
        return await self._lot(job, held, said, marker, last=True)

    async def _lot(
        self, job: StagingJob, rows: Sequence[Any], said: Commit, marker: Marker, *, last: bool
    ) -> bool:
        source = self._source
        if not await source.write_marked(rows, marker, replace=said.replace, last=last):
            return False
        job.written += len(rows)
        job.tell()
        return True

    def abort(self, name: str) -> None:
        """Drop a job, unless it is being written already."""
        job = self._jobs.get(name)
        if job is not None and not job.committing:
            self._empty(job)
            del self._jobs[name]

    def expire(self, now: float) -> None:
        """Drop jobs that no client asked about: their driver is gone."""
        for name, job in list(self._jobs.items()):
            if now - job.used > self._limits.job_ttl and (job.result or not job.committing):
                self._empty(job)
                del self._jobs[name]

    def close(self) -> None:
        for job in self._jobs.values():
            self._empty(job)
        self._jobs.clear()

    def _job(self, name: str) -> StagingJob:
        now = trio.current_time()
        job = self._jobs.get(name)
        if job is None:
            self._make_room(now)
            job = self._jobs[name] = StagingJob(now)
        job.used = now
        return job

    def _make_room(self, now: float) -> None:
        """Make room for one more job: forget the done one that no client asked about for longest."""
        self.expire(now)
        if len(self._jobs) < self._limits.jobs_max:
            return
        done = [name for name, job in self._jobs.items() if job.result is not None]
        if not done:
            raise Busy(f"{len(self._jobs)} bulk writes are under way (jobs_max)")
        del self._jobs[min(done, key=lambda name: self._jobs[name].used)]

    def _empty(self, job: StagingJob) -> None:
        for staged in job.staged.values():
            self._drop(staged)
        job.staged.clear()

    def _drop(self, staged: StagedTask) -> None:
        if staged.file is not None:
            staged.file.close()
        staged.ready.clear()
        self._bytes -= staged.bytes
        self._memory -= staged.memory

    async def _lots(self, staged: StagedTask) -> AsyncGenerator[Sequence[Any], None]:
        """Yield the rows, prepared, at most ``write_nodes`` at once."""
        for lot in staged.ready:
            yield lot
        if staged.file is None:
            return
        await trio.to_thread.run_sync(staged.file.seek, 0)
        for rows, sizes, length in staged.frames:
            body = await trio.to_thread.run_sync(staged.file.read, length)
            async with aclosing(self._prepared(rows, sizes, body)) as lots:
                async for lot in lots:
                    yield lot

    async def _prepared(
        self, rows: int, sizes: Sequence[int], body: bytes
    ) -> AsyncGenerator[Sequence[Any], None]:
        """Prepare the rows of a frame. Each lot is one step of the loop."""
        size = self._limits.write_nodes
        with no_collection():
            found: list[Any] = list(unpack(WRITES, rows, sizes, body))
        for start in range(0, len(found), size):
            yield self._source.prepared(found[start : start + size])
            await trio.lowlevel.checkpoint()
