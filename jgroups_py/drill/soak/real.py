"""A long run for real: processes and sockets on this machine, the same churn, measured from outside.

At each calm moment every process reports its tables; the kernel reports memory, open files and threads. The messages of
applications are judged at the end, as in a drill.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psutil
import trio

from jgroups_py.drill.judge import verdict as judge
from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.run.port_block import port_block
from jgroups_py.drill.run.real import Process, RealDrill, _single
from jgroups_py.drill.run.runner import Progress
from jgroups_py.drill.soak.plan import Cycle, SoakPlan
from jgroups_py.drill.soak.samples import SoakRun, SoakSample
from jgroups_py.drill.soak.strikes import SparingCourse

ANSWER_SECONDS: Final = 10.0
"""The longest time for a process to report its tables."""
LEAVE_SECONDS: Final = 10.0
"""Seconds after which a process that wants to leave is killed."""
SLACKS: Final = {"rss": 1_000_000.0, "uss": 1_000_000.0, "fds": 3.0, "threads": 1.0}
"""Allowed growth of one process beside the tolerance."""


def run_real(plan: SoakPlan, progress: Progress) -> SoakRun:
    """Run a plan. Raises ``DrillError``, ``ConfigError``: it could not be run."""
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="jgroups-longlife-") as folder,
        port_block(len(plan.drill.members)) as base,
    ):
        drill = LongDrill(plan, progress, Path(folder), base)
        try:
            trio.run(drill.run)
        except BaseExceptionGroup as group:
            raise _single(group) from None
        run = drill.result
        run.wall_s = time.monotonic() - begun
        names = [site.name for site in drill.plan.sites]
        verdict = judge.judge(Evidence.of(drill.merged(), names), primary=None, grace=1.0)
    for site in verdict.sites.values():
        run.sent += site.sent
        run.deliveries += site.delivered
    for what in ("lost", "lost_inside", "duplicated", "out_of_order"):
        for finding in getattr(verdict, what)[:3]:
            at = ", ".join(map(str, finding.at))
            run.problems.append(f"{what}: message {finding.seqno} of {finding.origin} at {at}")
    run.notes += drill.notes
    return run


class LongDrill(SparingCourse[Process], RealDrill):
    """A real drill of drawn cycles. A fallen member comes back."""

    start_seconds = 120.0
    sample_seconds = 60.0

    def __init__(self, plan: SoakPlan, progress: Progress, folder: Path, base: int) -> None:
        self.course = plan
        self.cycles = [plan.cycle(number) for number in range(plan.cycles)]
        drill = replace(
            plan.drill,
            events=tuple(event for cycle in self.cycles for event in cycle.events),
            loads=tuple(load for cycle in self.cycles for load in cycle.loads),
            end=self.cycles[-1].end + 2.0,
        )
        super().__init__(drill, progress, folder, base)
        self._inject = True
        self.result = SoakRun()
        self._returning: dict[tuple[str, str], None] = {}
        self._told: dict[Process, dict[str, Any]] = {}

    def _todo(self) -> Iterator[tuple[float, Callable[[Any], Any], Any]]:
        for cycle in self.cycles:
            for event in cycle.events:
                yield event.at, self._strike, event
            for at, site in cycle.back:
                yield at, self._bring_back, site
            yield cycle.calm_at, self._calm, None
            yield cycle.end, self._end_cycle, cycle

    # --- processes

    def _heard(self, member: Process, told: dict[str, Any]) -> None:
        if told["what"] == "tables":
            self._told[member] = told["tables"]
        elif told["what"] == "ended" and told["how"] == "failed" and not member.gone:
            member.gone = True
            self._fault("leave", member, expelled=True)
            self.result.count("failed")
            self.notes.append(f"{member.site}.{member.origin} failed: {told['problem']}")
        else:
            if told["what"] == "ended" and told["how"] == "expelled" and not member.gone:
                self.result.count("expelled")
            super()._heard(member, told)

    # --- faults

    async def _bring_back(self, site: str) -> None:
        """Start all absent members of the site again."""
        async with trio.open_nursery() as nursery:
            for name in self.plan.site(site).members:
                if self._members[site, name].gone and (site, name) not in self._returning:
                    self._returning[site, name] = None
                    nursery.start_soon(self._return, site, name)

    async def _return(self, site: str, name: str) -> None:
        former = self._members[site, name]
        if not former.vanished:
            with trio.move_on_after(LEAVE_SECONDS) as scope:
                await former.ended.wait()
            if scope.cancelled_caught and former.process.returncode is None:
                self.result.count("killed while leaving")
                os.kill(former.process.pid, signal.SIGKILL)
        await self._restart(site, name)
        del self._returning[site, name]

    async def _calm(self, _nothing: None) -> None:
        for member in self._members.values():
            self._resume(member)
        for site in self.plan.sites:
            await self._bring_back(site.name)

    # --- a calm moment

    async def _end_cycle(self, cycle: Cycle) -> None:
        self.result.cycles += 1
        self.result.virtual_s = self.now
        for site in self.plan.sites:
            members = [self._members[site.name, name] for name in site.members]
            views = {" ".join(self._names(member)) for member in members}
            if len(views) != 1 or len(self._names(members[0])) != len(members):
                problem = f"cycle {cycle.number}: not calm: {site.name} is not in one view: {views}"
                self.result.problems.append(problem)
        await self._measure(cycle.end)

    async def _measure(self, t: float) -> None:
        self._told.clear()
        living = [member for member in self._members.values() if not member.gone]
        for member in living:
            await self._tell(member, do="reconcile")
            await self._tell(member, do="tables")
        with trio.move_on_after(ANSWER_SECONDS):
            await self._until(lambda: len(self._told) >= len(living))
        told = {m: self._told[m] for m in living if m in self._told}
        each = {_who(member): _figures(member) for member in told}
        figures = {name: sum(e[name] for e in each.values()) for name in SLACKS}
        members = {
            _who(member): {name: (entry[0], entry[1]) for name, entry in tables.items()}
            for member, tables in told.items()
        }
        self.result.samples.add(SoakSample(t, members, figures, each))
        if len(told) < len(living):
            silent = ", ".join(str(m) for m in living if m not in told)
            self.result.problems.append(f"{t:.0f} s: {silent} did not tell its tables")


def _who(member: Process) -> str:
    return f"{member.name}#{member.incarnation}"


def _figures(member: Process) -> dict[str, float]:
    process = psutil.Process(member.process.pid)
    memory = process.memory_full_info()
    return {
        "rss": float(memory.rss),
        "uss": float(memory.uss),
        "fds": float(process.num_fds()),
        "threads": float(process.num_threads()),
    }


__all__ = ["LongDrill", "run_real"]
