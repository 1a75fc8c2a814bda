"""trio under a clock that jumps, its tasks in an order that comes from a seed.

trio draws the order of its tasks. It lets Hypothesis seed that chance, by a plug-in that hands it to
``hypothesis.register_random``; here we stand in for Hypothesis. The same plug-in makes trio sort the tasks that may run.
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
    """Runs ``main`` to its end, its tasks in any order, the same one for the same seed. Groups of errors are unwrapped.

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
    """The random numbers that trio draws from."""
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
