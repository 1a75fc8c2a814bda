"""Playing a schedule: first faults, then healing; an invariant that does not hold is a problem."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from jgroups_py.errors import ConfigError
from jgroups_py.testing.check.bounds import Bounds
from jgroups_py.testing.check.deaths import Deaths
from jgroups_py.testing.check.violation import violation_of
from jgroups_py.testing.explorer.lab import RunOutcome
from jgroups_py.testing.explorer.stacks import faults
from jgroups_py.testing.explorer.stacks.heal import Healer
from jgroups_py.testing.explorer.stacks.scene import Scene
from jgroups_py.testing.explorer.stacks.schedule import Schedule, Step
from jgroups_py.testing.explorer.stacks.shared import Shared
from jgroups_py.testing.sim import Member
from jgroups_py.testing.sim.world import Watcher

START_SECONDS: Final = 3.0
"""Members have this long to find each other before faults begin, found or not."""


def try_stack(schedule: Schedule, file: str) -> None:
    """Start the first member for a moment. ``ConfigError``, naming ``file``: its stack cannot be
    made, or has no such attributes. Any other error is a finding."""
    scene = Scene(schedule, None)
    off = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        scene.start(schedule.sites[0].members[0])
        scene.world.run_for(START_SECONDS)
    except (ConfigError, OSError) as error:
        raise ConfigError(f"stack {schedule.stack!r}: {error}", file=file) from None
    except Exception:
        return
    finally:
        logging.disable(off)
        scene.world.close()


def play(
    schedule: Schedule,
    *,
    stage: Callable[[Schedule, Watcher | None], Scene] = Scene,
    healer: Callable[[Scene], Healer] = Healer,
) -> RunOutcome:
    """Play one run. The same schedule gives the same outcome.

    ``stage`` makes the scene, ``healer`` ends it.
    """
    player = _Player(schedule, stage, healer)
    off = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # thousands of warnings that are meant to happen
    try:
        return player.run()
    finally:
        logging.disable(off)


BREATH_SECONDS: Final = 2.0
"""Seconds between faults that are added because steps found no member."""
BREATHS_MAX: Final = 60


class _Player:
    def __init__(
        self,
        schedule: Schedule,
        stage: Callable[[Schedule, Watcher | None], Scene],
        healer: Callable[[Scene], Healer],
    ) -> None:
        self.healer = healer
        self.schedule = schedule
        self.waiting: dict[tuple[str, str], list[_Waiting]] = {}
        triggers = any(step.after is not None for step in schedule.steps)
        self.scene = stage(schedule, self._on_trace if triggers else None)
        self.shared = Shared(self.scene, schedule.shared) if schedule.shared else None
        if self.shared is not None:
            self.scene.followers.append(self.shared)
        self.outcome = RunOutcome(schedule.seed, self.scene.checker.problems, self.scene.story)

    def run(self) -> RunOutcome:
        scene, world = self.scene, self.scene.world
        for looks in (Bounds(scene.checker), Deaths(scene.checker)):
            world.after_each_step.append(looks.after_step)
        try:
            self._first_phase()
            if self.schedule.heals and not scene.checker.problems:
                self.healer(scene).run()
                if self.shared is not None and not scene.checker.problems:
                    scene.checker.problems += self.shared.judge()
        except Exception as error:  # any error is a bug in the stack, and a finding
            scene.checker.problems.append(violation_of(error, world.now))
        finally:
            world.close()
        outcome = self.outcome
        outcome.sent = scene.checker.messages.total
        outcome.delivered = scene.checker.messages.delivered
        outcome.events = world.events
        outcome.virtual_s = world.now
        return outcome

    def _first_phase(self) -> None:
        scene, world, schedule = self.scene, self.scene.world, self.schedule
        sites = [site.members for site in schedule.sites]
        for index in range(max(map(len, sites))):
            for members in sites:
                if index < len(members):
                    scene.start(members[index])
            world.run_for(schedule.start_gap)
        world.run_for(START_SECONDS)
        scene.zero = world.now
        scene.begin_traffic()
        for step in schedule.steps:
            scene.at(step.at, self._due, step)
        # A run that has gone wrong is not worth going on with.
        world.run_until(lambda: bool(scene.checker.problems), limit=schedule.seconds)
        for _ in range(BREATHS_MAX):
            if scene.checker.problems or self.outcome.faults >= schedule.least_faults:
                return
            self.outcome.faults += faults.one_more(scene)
            world.run_for(BREATH_SECONDS)

    def _due(self, step: Step) -> None:
        if self.scene.ended:
            return
        if step.after is None:
            self._do(step, None)
        else:
            key = (step.after.protocol, step.after.what)
            self.waiting.setdefault(key, []).append(_Waiting(step, step.after.nth))

    def _do(self, step: Step, trigger: Member | None) -> None:
        if not self.scene.ended and faults.apply(self.scene, step, trigger):
            self.outcome.faults += 1

    def _on_trace(
        self, _at: float, name: str, protocol: str, what: str, _details: dict[str, Any]
    ) -> None:
        waiting = self.waiting.get((protocol, what))
        if not waiting:
            return
        site = self.scene.site_of[name]
        for one in list(waiting):
            after = one.step.after
            assert after is not None
            if after.site not in ("", site):
                continue
            one.left -= 1
            if one.left == 0:
                waiting.remove(one)
                world = self.scene.world
                member = world.members.get(f"{site}/{name}")
                # The step runs when the handler that is running has returned.
                world.at(world.now + after.delay, partial(self._do, one.step, member))


@dataclass(slots=True, eq=False)
class _Waiting:
    """A step that waits for something to be traced ``left`` times."""

    step: Step
    left: int
