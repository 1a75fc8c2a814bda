"""Chunks of all targets over all cores.

The parent keeps each target's corpus and hands it, with a number and a count, to whichever process is idle. A target
has one chunk under way at a time, so that its chunks follow each other on any machine. The next target is the one that
lags most behind its share.

A process that runs a wild input writes it down first, in memory it shares with the parent: when the process dies,
or uses up its CPU time without another input (an endless loop in C code, which Python's signals do not
interrupt), the parent ends it, knows the input, and goes on with another process.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import multiprocessing
import multiprocessing.connection as mpc
import os
import random
import struct
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psutil

from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.explorer.bytes.decoder import Decoder
from jgroups_py.testing.explorer.bytes.guard import HANG, HANG_CPU, Guard, address_space
from jgroups_py.testing.explorer.bytes.mutate import INPUT_MAX
from jgroups_py.testing.explorer.bytes.stacks import STACKS
from jgroups_py.testing.explorer.bytes.targets import DECODERS
from jgroups_py.testing.explorer.bytes.work import (
    Attacked,
    ChunkDone,
    Corpus,
    FuzzFinding,
    FuzzWork,
)

WEDGED_FACTOR: Final = 3
"""A process that has used this multiple of ``hang_cpu`` on one input is ended."""
RSS_GROWTH_MAX: Final = 60_000_000
"""The most bytes by which a process may have grown at the end, compared with when it was warm. A process that keeps 100
bytes of each input exceeds it within 600,000 inputs."""
WARM: Final = 0.25
"""A process is warm when this part of the run is over."""
WARM_INPUTS: Final = 20
"""Inputs of each target before the processes are made, which imports everything."""
FIRST: Final = 60
"""Inputs of a target's first chunk in a run by time, for each unit of its weight; the next has twice as many."""
DEATHS_MAX: Final = 20
"""The most processes that may die before the run is given up."""
FINDINGS_MAX: Final = 20
"""The most findings of one target, after which it is left alone."""
_LOOK: Final = 1.0  # seconds between looks at the processes

_BOARD: Final = struct.Struct("!QI")  # inputs so far, bytes of this one


def catalogue() -> dict[str, Attacked]:
    """Return all targets that can be attacked, by name."""
    everything: list[Attacked] = [*map(Decoder, DECODERS), *STACKS]
    return {target.name: target for target in everything}


@dataclass(slots=True)
class FuzzReport:
    """The result of a run. ``rss_growth`` in bytes, of the process that grew most."""

    inputs: dict[str, int]
    corpora: dict[str, Corpus]
    findings: list[FuzzFinding]
    wall_s: float
    rss_growth: int

    @property
    def total(self) -> int:
        return sum(self.inputs.values())


@dataclass(frozen=True, slots=True)
class FuzzPlan:
    """``inputs`` in all, or as many as come within ``seconds``; ``jobs`` processes."""

    targets: Sequence[Attacked]
    seed: str
    inputs: int | None = None
    seconds: float | None = None
    jobs: int = 2
    hang_cpu: int = HANG_CPU


@dataclass(slots=True)
class _Standing:
    """The progress of a target."""

    target: Attacked
    share: int | None
    corpus: Corpus
    inputs: int = 0
    chunks: int = 0
    busy: bool = False
    broken: bool = False
    keys: set[str] = field(default_factory=set)

    @property
    def open(self) -> bool:
        left = self.share is None or self.inputs < self.share
        return left and not self.busy and not self.broken


def shares(targets: Sequence[Attacked], inputs: int) -> dict[str, int]:
    """Divide ``inputs`` by weight; each target gets one at least."""
    weight = sum(target.weight for target in targets)
    found = {t.name: max(1, int(inputs * t.weight / weight)) for t in targets}
    largest = max(targets, key=lambda t: t.weight).name
    found[largest] += max(0, inputs - sum(found.values()))
    return found


def fuzz(plan: FuzzPlan, tell: Callable[[str], None] = lambda text: None) -> FuzzReport:
    """Run the plan. Findings are as they were found: see ``shrunk``."""
    return _Run(plan, tell).run()


def shrunk(finding: FuzzFinding, target: Attacked, hang_cpu: int = HANG_CPU) -> bytes:
    """Return the finding's data, made small as long as the same error comes."""
    with Guard(hang_cpu) as guard, address_space():
        return target.smaller(finding.data, guard, finding.problem.check)


class _Run:
    def __init__(self, plan: FuzzPlan, tell: Callable[[str], None]) -> None:
        self.plan = plan
        self.tell = tell
        counts = shares(plan.targets, plan.inputs) if plan.inputs is not None else {}
        self.standings = {t.name: _Standing(t, counts.get(t.name), t.begin()) for t in plan.targets}
        self.findings: list[FuzzFinding] = []
        self.deaths = 0
        self.growth = 0
        self.began = time.monotonic()

    def run(self) -> FuzzReport:
        self._warm_up()
        self.began = time.monotonic()
        names = [t.name for t in self.plan.targets]
        idle = [_Worker(names, self.plan.hang_cpu) for _ in range(self.plan.jobs)]
        busy: dict[mpc.Connection, _Worker] = {}
        told = self.began
        try:
            while True:
                while idle and (standing := self._next()) is not None:
                    worker = idle.pop()
                    worker.give(standing, self._work(standing))
                    busy[worker.conn] = worker
                if not busy:
                    break
                for conn in mpc.wait(list(busy), timeout=_LOOK):
                    assert isinstance(conn, mpc.Connection)
                    idle.append(self._came_back(busy.pop(conn)))
                for worker in [w for w in busy.values() if w.is_wedged(self.plan.hang_cpu)]:
                    worker.kill()  # its connection ends, and the next turn notices it
                if time.monotonic() - told > 5:
                    told = time.monotonic()
                    self.tell(self._progress())
        finally:
            for worker in [*idle, *busy.values()]:
                worker.end()
        return FuzzReport(
            {name: s.inputs for name, s in self.standings.items()},
            {name: s.corpus for name, s in self.standings.items()},
            self.findings,
            time.monotonic() - self.began,
            self.growth,
        )

    def _progress(self) -> str:
        done = sum(s.inputs for s in self.standings.values())
        of = f" of {self.plan.inputs:,}" if self.plan.inputs is not None else ""
        return f"{done:,}{of} inputs, {len(self.findings)} findings, {self._elapsed:.0f} s"

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self.began

    @property
    def _is_warm(self) -> bool:
        plan = self.plan
        if plan.inputs is not None:
            done = sum(s.inputs for s in self.standings.values())
            return done >= WARM * plan.inputs
        return self._elapsed >= WARM * (plan.seconds or 0.0)

    def _warm_up(self) -> None:
        """Import and cache all modules before processes are forked. Nothing is judged here."""
        for standing in self.standings.values():
            rng = random.Random(f"warm/{standing.target.name}")
            work = FuzzWork(str(rng.random()), 0, WARM_INPUTS, standing.target.begin())
            with contextlib.suppress(Exception), Guard(self.plan.hang_cpu) as guard:
                standing.target.chunk(work, guard)
        gc.collect()

    def _next(self) -> _Standing | None:
        if self.plan.seconds is not None and self._elapsed >= self.plan.seconds:
            return None
        if self.deaths >= DEATHS_MAX:
            return None
        open_ones = [s for s in self.standings.values() if s.open]
        return min(
            open_ones,
            key=lambda s: (s.inputs / s.target.weight, -s.target.weight),
            default=None,
        )

    def _work(self, standing: _Standing) -> FuzzWork:
        count = standing.target.chunk_size
        if self.plan.seconds is not None:  # small chunks first: every target has its turn
            count = min(count, int(FIRST * standing.target.weight * (standing.chunks + 1)) + 1)
        if standing.share is not None:
            count = min(count, standing.share - standing.inputs)
        return FuzzWork(self.plan.seed, standing.chunks, count, standing.corpus)

    def _came_back(self, worker: _Worker) -> _Worker:
        standing = worker.standing
        assert standing is not None
        standing.busy = False
        standing.chunks += 1
        try:
            done, rss = worker.take()
        except (EOFError, OSError):
            standing.broken = True
            self.deaths += 1
            problem = worker.post_mortem()
            self._found(FuzzFinding(standing.target.name, worker.board_data(), problem))
            return _Worker([t.name for t in self.plan.targets], self.plan.hang_cpu)
        standing.inputs += done.inputs
        standing.corpus = done.corpus
        for finding in done.findings:
            self._found(finding)
        if self._is_warm:
            worker.warm_rss = worker.warm_rss or rss
            self.growth = max(self.growth, rss - worker.warm_rss)
        return worker

    def _found(self, finding: FuzzFinding) -> None:
        standing = self.standings[finding.target]
        if finding.problem.check in standing.keys:
            return
        standing.keys.add(finding.problem.check)
        self.findings.append(finding)
        self.tell(f"{finding.target}: {finding.problem.detail}")
        if finding.problem.check == HANG or len(standing.keys) >= FINDINGS_MAX:
            standing.broken = True


class _Worker:
    """A process, and the parent's end of its pipe."""

    def __init__(self, names: list[str], hang_cpu: int) -> None:
        methods = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("fork" if "fork" in methods else None)
        self.board = mmap.mmap(-1, _BOARD.size + INPUT_MAX)
        self.conn, theirs = multiprocessing.Pipe()
        self.process = context.Process(
            target=_serve, args=(theirs, self.board, names, hang_cpu), daemon=True
        )
        self.process.start()
        theirs.close()
        self.standing: _Standing | None = None
        self.warm_rss = 0
        self._seen = 0
        self._cpu = 0.0
        self._wedged = False

    def give(self, standing: _Standing, work: FuzzWork) -> None:
        standing.busy = True
        self.standing = standing
        self._seen, self._cpu = _BOARD.unpack_from(self.board)[0], self._cpu_time()
        self.conn.send((standing.target.name, work))

    def take(self) -> tuple[ChunkDone, int]:
        result: tuple[ChunkDone, int] = self.conn.recv()
        return result

    def _cpu_time(self) -> float:
        try:
            times = psutil.Process(self.process.pid).cpu_times()
        except psutil.Error:
            return self._cpu
        return float(times.user + times.system)

    def is_wedged(self, hang_cpu: int) -> bool:
        """Return whether the process has worked for long on one input."""
        seen = _BOARD.unpack_from(self.board)[0]
        now = self._cpu_time()
        if seen != self._seen:
            self._seen, self._cpu = seen, now
        return now - self._cpu > WEDGED_FACTOR * hang_cpu

    def kill(self) -> None:
        self._wedged = True
        self.process.kill()

    def board_data(self) -> bytes:
        """Return the input that it was running."""
        size = _BOARD.unpack_from(self.board)[1]
        return bytes(self.board[_BOARD.size : _BOARD.size + size])

    def post_mortem(self) -> Violation:
        self.process.join(10)
        if self._wedged:
            return Violation(HANG, "an endless loop that no signal ends: the process was killed")
        return Violation("died", f"the process died (exit code {self.process.exitcode})")

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.conn.send(None)
        self.conn.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.board.close()


def _serve(conn: mpc.Connection, board: mmap.mmap, names: list[str], hang_cpu: int) -> None:
    """Run the process: do chunks until None comes, or the parent is gone."""
    targets = {name: target for name, target in catalogue().items() if name in names}
    count = 0

    def tell(data: bytes) -> None:
        nonlocal count
        count += 1
        data = data[:INPUT_MAX]
        _BOARD.pack_into(board, 0, count, len(data))
        board[_BOARD.size : _BOARD.size + len(data)] = data

    sys.stdin = open(os.devnull)  # noqa: SIM115
    with Guard(hang_cpu) as guard, address_space():
        while True:
            try:
                order = conn.recv()
            except (EOFError, KeyboardInterrupt):
                return
            if order is None:
                return
            name, work = order
            try:
                done = targets[name].chunk(work, guard, tell)
            except KeyboardInterrupt:
                return
            gc.collect()
            conn.send((done, psutil.Process().memory_info().rss))
