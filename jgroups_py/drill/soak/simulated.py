"""A long run in virtual time: the simulator's world, drawn churn, a measurement at each calm.

The simulator's own data (ended members, the oracle's knowledge of them) are freed at each calm moment, so that the rest
is the stack's memory.
"""

from __future__ import annotations

import gc
import logging
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from jgroups_py.drill.file import stacks
from jgroups_py.drill.run.runner import Progress
from jgroups_py.drill.run.simulated import Simulation
from jgroups_py.drill.soak.plan import Cycle, SoakPlan
from jgroups_py.drill.soak.samples import PROCESS, SoakRun, SoakSample, plain
from jgroups_py.drill.soak.strikes import SparingCourse
from jgroups_py.drill.soak.tables import counted, of_process, roots_of, walk
from jgroups_py.testing.check.relay_oracle import RelayOracle
from jgroups_py.testing.sim import Member, World
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Expel, Failed

LOOK_SECONDS: Final = 5.0
"""Seconds between two checks of each member: invariants, and an expulsion."""
PROBE: Final = b"probe"


def run_simulated(
    plan: SoakPlan,
    progress: Progress,
    *,
    check: bool = True,
    memory: str = "counted",
    prepare: Callable[[World], None] | None = None,
) -> SoakRun:
    """``check``: check RELAY's invariants across members after every step, and the invariants of each
    protocol every few virtual seconds. ``memory``: "traced", "counted" or "none". ``prepare``: is given
    the world before the start."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jgroups-longlife-") as folder:
        simulation = LongSimulation(plan, progress, Path(folder), check, memory)
        if prepare is not None:
            prepare(simulation.world)
        log = logging.getLogger("jgroups_py")
        level = log.level
        log.setLevel(logging.ERROR)  # expulsions and lost ranges are normal here
        gc.collect()
        gc.freeze()  # only later objects count
        if memory == "traced":
            tracemalloc.start(1)
        try:
            simulation.live()
        except AssertionError as error:
            simulation.result.problems.append(simulation.explain(error))
        finally:
            simulation.world.close()
            if memory == "traced":
                tracemalloc.stop()
            gc.unfreeze()
            log.setLevel(level)
    result = simulation.result
    result.wall_s = time.monotonic() - begun
    return result


class LongSimulation(SparingCourse[Member], Simulation):
    """A simulated drill without end and without records."""

    def __init__(
        self, plan: SoakPlan, progress: Progress, folder: Path, check: bool, memory: str
    ) -> None:
        super().__init__(plan.drill, progress, folder, check=False)
        self.check = check
        self.memory = memory
        if check:
            self.world.oracle = RelayOracle(self.world)
        self.soak = plan
        self.result = SoakRun()
        self._relays = False  # RELAY's buffers are not sampled
        self.world.after_each_step.remove(self._watch_bridge)
        self._probed: dict[tuple[str, Member], int] = {}

    # --- nothing is recorded

    def _log(self, *_what: Any, **_detail: Any) -> None:
        pass

    def _note(self, event: str, site: str | None = None, **_detail: Any) -> None:
        pass

    def _on_batch(self, member: Member, batch: Batch) -> None:
        self.result.deliveries += len(batch)
        for payload in batch.payloads:
            if payload is not None and bytes(payload[: len(PROBE)]) == PROBE:
                key = (bytes(payload).decode(), member)
                self._probed[key] = self._probed.get(key, 0) + 1

    # --- the course of it

    def live(self) -> None:
        self._start_all()
        self._zero = self.world.now
        for number in range(self.soak.cycles):
            self._cycle(self.soak.cycle(number))
            self.result.cycles += 1
            self.result.virtual_s = self.now
            self.result.events = self.world.clock.events
            if self.result.problems:
                return

    def _cycle(self, cycle: Cycle) -> None:
        for load in cycle.loads:
            self._begin_load(load)
        for event in cycle.events:
            self._go(self._at, event.at, self._strike, event)
        for at, site in cycle.back:
            self._later(at, self._bring_back, site)
        self._later(cycle.calm_at, self._calm)
        self._run(cycle.probe_at)
        if problem := self._unrest():
            self.result.problems.append(f"cycle {cycle.number}: not calm: {problem}")
            return
        self._probe(cycle)
        self._run(cycle.end)
        self._reconcile()
        self._forget()
        self._measure()
        self.progress.at(cycle.end)

    def _run(self, until: float) -> None:
        while self.now < until:
            self.world.run(min(self._zero + until, self.world.now + LOOK_SECONDS))
            for member in list(self.world.members.values()):
                if self.check and member.alive:
                    member.host.machine.check()
                if member.alive and any(isinstance(e, Failed | Expel) for e in member.events):
                    self.result.count("expelled")
                    member.crash()  # like a process whose channel has ended
                    self._later(self.now + 1.0, self._bring_back, member.site)

    # --- faults

    def _runs(self, member: Member) -> bool:
        return member.alive and member not in self._leaving

    def _bring_back(self, site: str) -> None:
        """Start all absent members of the site again."""
        for name in self.plan.site(site).members:
            former = self.world.member(name, site)
            if former.alive and former in self._leaving:
                self._later(self.now + 1.0, self._bring_back, site)
            elif not former.alive:
                self._leaving.pop(former, None)
                self._start(site, name)

    def _calm(self) -> None:
        self.world.heal()
        for member in self.world.members.values():
            self._resume(member)
        for site in self.plan.sites:
            self._bring_back(site.name)

    def _reconcile(self) -> None:
        """Give a lost site its state again, as an operator by other means."""
        for member in self.world.members.values():
            stacks.reconcile(member.stack, [site.name for site in self.plan.sites])

    # --- a calm moment

    def _unrest(self) -> str | None:
        for site in self.plan.sites:
            members = [self.world.member(name, site.name) for name in site.members]
            if not all(map(self._runs, members)):
                return f"not everybody of {site.name} is there"
            if not self.world.views_agree(members):
                views = {member.name: " ".join(member.view_names) for member in members}
                return f"{site.name} is not in one view: {views}"
        oracle = self.world.oracle
        if oracle is not None and (problem := oracle.unrest()) is not None:
            return problem
        return None

    def _probe(self, cycle: Cycle) -> None:
        """Send one message of each member, which all members must get exactly once."""
        self._probed.clear()
        members = list(self.world.members.values())
        for member in members:
            member.send(PROBE + member.name.encode())
        self._run((cycle.probe_at + cycle.end) / 2)
        for sender in members:
            text = (PROBE + sender.name.encode()).decode()
            for reader in members:
                if (count := self._probed.get((text, reader), 0)) != 1:
                    self.result.problems.append(
                        f"cycle {cycle.number}: {reader.name} has the last message of {sender.name} "
                        f"{count} times"
                    )
        self._probed.clear()

    def _forget(self) -> None:
        living = [member for member in self.world.members.values() if member.alive]
        self.world.forget_ended()
        here = dict.fromkeys(living)
        self._who = {m.address: self._who[m.address] for m in living}
        self._member_of = {m.host: m for m in living}
        self._leaving = {m: None for m in self._leaving if m in here}
        self._seqnos = {m: n for m, n in self._seqnos.items() if m in here}

    def _measure(self) -> None:
        gc.collect()
        figures = {"allocated blocks": float(sys.getallocatedblocks())}
        if self.memory == "traced":
            figures["traced bytes"] = float(tracemalloc.get_traced_memory()[0])
        world = self.world
        members = world.members.values()
        outside: list[Any] = [world, world.network, world.clock, world.oracle, world._decode]
        outside += [self, *members, *(m.host for m in members)]
        outside += [m.host.machine for m in members]
        found = {PROCESS: plain(of_process())}
        for member in members:
            tables = walk(roots_of(member.host.machine), outside)
            assert not tables.cut, f"deeper than it is walked: {tables.cut[0]}"
            found[f"{member.name}#{member.incarnation}"] = plain(tables)
        if self.memory == "counted":
            figures["counted bytes"] = float(counted())
        self.result.samples.add(SoakSample(self.now, found, figures))


__all__ = ["LongSimulation", "SoakRun", "run_simulated"]
