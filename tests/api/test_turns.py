"""Turns of a driver: no more than are needed."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from jgroups_py.driver import Driver
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import In, Out, Received


class Handled(Machine):
    """``to`` takes the items, because a method of a compiled machine cannot be replaced."""

    to: Callable[[Sequence[In], float], None]

    def handle(self, inputs: Sequence[In], now: float) -> None:  # type: ignore[override]
        self.to(inputs, now)


class Idle(Driver):
    """A protocol that only passes on. Items wake the driver, as a message does that returns credit."""

    def __init__(self) -> None:
        self.handled = Handled("A", random=random.Random(1))
        super().__init__(self.handled)
        self.handed: list[In] = []
        self.handled.to = self._handle

    def _handle(self, inputs: Sequence[In], now: float) -> None:
        self.handed += inputs
        self.wake()

    def execute(self, outs: Sequence[Out]) -> None:
        pass

    def close_all(self) -> None:
        pass


@asynccontextmanager
async def running() -> AsyncIterator[Idle]:
    driver = Idle()
    async with trio.open_nursery() as nursery:
        await nursery.start(driver.run)
        await wait_all_tasks_blocked()
        driver.turns = 0
        yield driver
        nursery.cancel_scope.cancel()


async def test_a_wake_while_inputs_are_handed_in_shares_their_turn() -> None:
    async with running() as driver:
        driver.take([Received(1, b"x")])
        assert trio.lowlevel.current_statistics().tasks_runnable == 0  # no task was woken for it
        await wait_all_tasks_blocked()
        assert (driver.turns, driver.handed) == (1, [Received(1, b"x")])


async def test_a_wake_in_a_turn_makes_another_turn() -> None:
    async with running() as driver:
        driver.before_flush.append(lambda: driver.wake() if driver.turns == 1 else None)
        driver.turn()
        await wait_all_tasks_blocked()
        assert driver.turns == 2


async def test_a_step_that_fails_leaves_the_driver_wakeable() -> None:
    async with running() as driver:
        to = driver.handled.to

        def fail(inputs: Sequence[In], now: float) -> None:
            raise KeyError

        driver.handled.to = fail
        try:
            driver.take([Received(1, b"x")])
        except KeyError:
            driver.handled.to = to
        driver.wake()
        await wait_all_tasks_blocked()
        assert driver.turns == 1


async def test_a_step_at_once_runs_its_turn_with_it() -> None:
    async with running() as driver:
        turns = []

        def step() -> None:
            driver.wake()
            turns.append(driver.turns)

        driver.at_once(step)
        assert trio.lowlevel.current_statistics().tasks_runnable == 0
        assert (turns, driver.turns) == ([0], 1)
        await wait_all_tasks_blocked()
        assert driver.turns == 1


async def test_a_step_done_at_once_that_fails_has_its_turn_all_the_same() -> None:
    async with running() as driver:

        def fail() -> None:
            driver.wake()
            raise KeyError

        with pytest.raises(KeyError):
            driver.at_once(fail)
        assert driver.turns == 1


async def test_at_once_within_a_turn_is_part_of_it() -> None:
    async with running() as driver:
        done = []
        driver.before_flush.append(lambda: driver.at_once(lambda: done.append(driver.turns)))
        driver.turn()
        assert (done, driver.turns) == ([1], 1)


@pytest.mark.parametrize("busy", [False, True])
async def test_run_raises_the_error_of_an_owners_step_even_if_it_is_stopped(
    busy: bool,
) -> None:
    async def run(driver: Idle) -> None:
        with pytest.raises(ValueError, match="boom"):
            await driver.run()
        ended.set()

    def boom() -> None:
        raise ValueError("boom")

    driver, ended = Idle(), trio.Event()
    if busy:
        driver.before_flush.append(driver.wake)  # the driver always has another turn
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, driver)
        while not driver.running:
            await trio.lowlevel.checkpoint()
        driver.wake()
        await trio.sleep(0.01)
        driver.guarded(boom)
        assert driver.failed
        with trio.fail_after(30):
            await driver.stop()
            await ended.wait()
        turns = driver.turns
        driver.guarded(driver.turn)
        assert driver.turns == turns  # the item is not used any more
