"""trio with a jumping clock and an order of tasks from a seed.

trio draws the order of its tasks. A plug-in gives Hypothesis its random generator through
``hypothesis.register_random``; this module stands in for Hypothesis. The same plug-in makes trio sort the tasks that
may run.
"""

from __future__ import annotations

import functools
import random
import sys
import types
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

import trio
from trio.testing import MockClock

from jgroups_py.driver.unwrap import reraise


def run(
    main: Callable[[], Awaitable[object]],
    seed: int,
    clock: MockClock | None = None,
) -> None:
    """Run ``main`` to its end, with an order of tasks that depends on the seed only. Groups of errors are unwrapped.

    From now on trio sorts the tasks of this process before it draws their order. Without that, tasks that wait for one thing
    become able to run in the order of their places in memory, so a seed would not give the same run again.
    """
    clock = clock or MockClock(autojump_threshold=0)
    with _ordered(seed):
        try:
            trio.run(main, clock=clock)
        except BaseExceptionGroup as group:
            reraise(group)


@contextmanager
def _ordered(seed: int) -> Iterator[None]:
    chance = _chance()
    former = chance.getstate()
    chance.seed(seed)
    try:
        yield
    finally:
        chance.setstate(former)


@functools.cache
def _chance() -> random.Random:
    """Return the random generator of trio."""
    return _told_by(_plugin())


def _plugin() -> Any:
    for entry in entry_points(group="hypothesis", name="trio"):
        return entry.load()
    raise LookupError("this trio has no plug-in for Hypothesis, which tells what it draws from")


def _told_by(plugin: Callable[[], None]) -> random.Random:
    found: list[random.Random] = []
    hypothesis: Any = types.ModuleType("hypothesis")
    hypothesis.register_random = found.append
    former = sys.modules.get("hypothesis")
    sys.modules["hypothesis"] = hypothesis
    try:
        plugin()
    finally:
        del sys.modules["hypothesis"]
        if former is not None:
            sys.modules["hypothesis"] = former
    return found[0]
