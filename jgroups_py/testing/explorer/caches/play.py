"""One run of caches under concurrent callers, judged."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Final

from trio.testing import MockClock

from jgroups_py.drill.run import virtual_trio
from jgroups_py.testing.check.violation import Violation, violation_of
from jgroups_py.testing.explorer.caches.promises import operations
from jgroups_py.testing.explorer.caches.schedule import CacheSchedule
from jgroups_py.testing.explorer.caches.stage import CacheStage
from jgroups_py.testing.explorer.lab import RunOutcome
from jgroups_py.testing.histories.check import check_history
from jgroups_py.testing.histories.nodes import Nodes
from jgroups_py.testing.histories.operation import Operation

STEPS_MAX: Final = 3_000_000
"""The limit of the check of one history."""


def play_caches(schedule: CacheSchedule) -> RunOutcome:
    """Play one run. The same schedule gives the same outcome."""
    outcome, _ = play_history(schedule)
    return outcome


def play_history(schedule: CacheSchedule) -> tuple[RunOutcome, list[Operation]]:
    """Play a schedule; return the outcome, and the history that was checked."""
    off = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # thousands of warnings that are meant to happen
    clock = MockClock(autojump_threshold=0)
    problems: list[Violation] = []
    history: list[Operation] = []
    try:
        with tempfile.TemporaryDirectory(prefix="jgroups-caches-") as folder:
            stage = CacheStage(schedule, Path(folder))
            try:
                virtual_trio.run(stage.run, schedule.seed, clock)
                history = _history(stage)
                problems += _judge(stage, history, clock.current_time())
            except Exception as error:  # any error is a bug, and a finding
                problems.append(violation_of(error, clock.current_time()))
    finally:
        logging.disable(off)
    calls = stage.history.entries
    done = sum(entry.at_return is not None for entry in calls)
    return (
        RunOutcome(
            schedule.seed,
            problems,
            stage.story,
            sent=len(calls),
            delivered=done,
            faults=stage.faults,
            events=stage.history.events,
            virtual_s=clock.current_time(),
        ),
        history,
    )


def _history(stage: CacheStage) -> list[Operation]:
    went = None
    if stage.schedule.back_end == "replicated" and stage.last:
        went = stage.places.went_on(stage.last)
    addresses = {name: j.address for name, j in stage.places.journeys.items()}
    return operations(
        stage.history.entries,
        stage.schedule.back_end,
        stage.lost,
        went,
        addresses,
        stage.split_at,
    )


def _judge(stage: CacheStage, history: list[Operation], now: float) -> list[Violation]:
    problems = [Violation("exception", error, now) for error in stage.history.errors]
    if stage.problem:
        return [*problems, Violation("ends", stage.problem, now)]
    verdict = check_history(history, Nodes(), steps_max=STEPS_MAX)
    if verdict.linearizable is None:
        problems.append(Violation("not_decided", verdict.text, now))
    elif not verdict.linearizable:
        problems.append(Violation("linearizable", verdict.text, now))
    return problems
