"""A crew runs each job in a context of its own; a waiting job delays no other one. Operations whose tasks have not
ended when they end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
import trio
from livebackup_group import Queue, livebackup_group, open_crew, put

from jgroups_py.livebackup import BadOperation, Work
from jgroups_py.livebackup.crew import IDLE_MAX, Crew
from jgroups_py.livebackup.kinds import outcome_of

MARK: ContextVar[str] = ContextVar("mark", default="none")


async def test_jobs_that_come_before_the_crew_wait_for_it(autojump_clock: Any) -> None:
    done = list[int]()

    async def job(number: int) -> None:
        done.append(number)

    crew = Crew()
    for number in range(3):
        crew.start(partial(job, number))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(crew.stay)
        await trio.sleep(1)
        assert done == [0, 1, 2]
        await crew.cancel()


async def test_a_job_that_waits_holds_no_other_one_up(autojump_clock: Any) -> None:
    done = list[int]()

    async def job(number: int) -> None:
        if not number % 2:
            await trio.sleep(10 - number)
        done.append(number)

    async with open_crew() as crew:
        for number in range(6):
            crew.start(partial(job, number))
        await trio.sleep(1)
        assert done == [1, 3, 5]
        await trio.sleep(10)
        assert done == [1, 3, 5, 4, 2, 0]
        crew.start(partial(job, 7))
        await trio.sleep(1)
        assert done[-1] == 7, "by a task that rested"


async def test_jobs_that_do_not_wait_share_a_task(autojump_clock: Any) -> None:
    tasks = list[Any]()

    async def job() -> None:
        tasks.append(trio.lowlevel.current_task())

    async with open_crew() as crew:
        for _ in range(10):
            crew.start(job)
        await trio.sleep(1)
    assert len(tasks) == 10 and len(set(tasks)) == 1


async def test_a_job_that_is_next_runs_before_those_that_wait_in_the_task_that_asked(
    autojump_clock: Any,
) -> None:
    done = list[tuple[str, Any]]()

    async def job(name: str) -> None:
        done.append((name, trio.lowlevel.current_task()))
        if name == "first":
            crew.start_next(partial(job, "next"))

    async with open_crew() as crew:
        for name in ("first", "second"):
            crew.start(partial(job, name))
        await trio.sleep(1)
        crew.start_next(partial(job, "alone"))
        await trio.sleep(1)
    assert [name for name, _ in done] == ["first", "next", "second", "alone"]
    assert done[0][1] is done[1][1]


@pytest.mark.parametrize("stays", [True, False])
async def test_a_job_sees_no_context_variable_of_another_one_nor_of_its_starter(
    stays: bool, autojump_clock: Any
) -> None:
    """``stays``: the crew runs already, so the starter's step begins a task."""
    seen = list[str]()

    async def job(name: str, seconds: float) -> None:
        seen.append(MARK.get())
        MARK.set(name)
        await trio.sleep(seconds)
        seen.append(MARK.get())

    async with open_crew() as crew:
        if stays:
            await trio.testing.wait_all_tasks_blocked()
        MARK.set("caller")
        for number, seconds in enumerate((3.0, 0.5, 1.0)):
            crew.start(partial(job, str(number), seconds))
        await trio.sleep(5)
        assert seen == ["none"] * 3 + ["1", "2", "0"]
        crew.start(partial(job, "later", 0.0))
        await trio.sleep(1)
        assert seen[6:] == ["none", "later"]


async def test_errors_go_through_a_job_as_through_a_task(autojump_clock: Any) -> None:
    async def wait() -> None:
        with pytest.raises(trio.TooSlowError):
            with trio.fail_after(1):
                await trio.sleep_forever()
        raise ValueError("told")

    with pytest.RaisesGroup(ValueError, allow_unwrapped=True, flatten_subgroups=True):
        async with open_crew() as crew:
            crew.start(wait)
            await trio.sleep(5)


async def test_cancel_ends_the_jobs_that_run_and_begins_no_other(autojump_clock: Any) -> None:
    ended = list[int]()

    async def job(number: int) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(number)

    async with trio.open_nursery() as nursery:
        crew = Crew()
        nursery.start_soon(crew.stay)
        for number in range(3):
            crew.start(partial(job, number))
        await trio.sleep(1)
        crew.start(partial(job, 3))
        await crew.cancel()
        assert sorted(ended) == [0, 1, 2]
        crew.start(partial(job, 4))
        await trio.sleep(1)
        assert sorted(ended) == [0, 1, 2]


async def test_a_job_that_comes_while_the_crew_is_cancelled_wakes_no_ended_task(
    autojump_clock: Any,
) -> None:
    async with open_crew() as crew:
        crew.start(partial(trio.sleep, 0.5))
        await trio.sleep(1)
        assert crew.tasks == 1, "it rests"
        crew._scope.cancel()
        crew.start(partial(trio.sleep, 0.5))


async def test_a_crew_keeps_a_limited_number_of_resting_tasks(autojump_clock: Any) -> None:
    async with open_crew() as crew:
        for _ in range(IDLE_MAX + 20):
            crew.start(partial(trio.sleep, 1.0))
        await trio.sleep(0.5)
        assert crew.tasks == IDLE_MAX + 20
        await trio.sleep(1)
        assert crew.tasks == IDLE_MAX


async def _raises(error: BaseException) -> None:
    try:
        await trio.sleep_forever()
    finally:
        raise error


async def _nursery_of(error: BaseException) -> None:
    """Cancel a nursery while one of its tasks raises something."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_raises, error)
        nursery.start_soon(trio.sleep_forever)


async def test_a_cancellation_drops_the_errors_of_tasks_that_it_ends(autojump_clock: Any) -> None:
    with trio.move_on_after(1) as scope:
        await outcome_of(_nursery_of, ValueError("told"))
    assert scope.cancelled_caught


async def test_a_cancellation_drops_no_end_of_the_process(autojump_clock: Any) -> None:
    with pytest.RaisesGroup(KeyboardInterrupt, flatten_subgroups=True):
        with trio.move_on_after(1):
            await outcome_of(_nursery_of, KeyboardInterrupt())


async def in_tasks(work: Work, first: str, second: str) -> None:
    """Make two changes in two tasks: chance decides which one comes first, and the second one is refused."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work.get(Queue, first).slow_put, 1, 0.1)
        nursery.start_soon(work.get(Queue, second).slow_put, 1, 0.1)


async def test_operations_with_tasks_of_their_own_end_no_node(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        group.also(operations=(in_tasks,))
        live, backup = await group.start("AB")
        for _ in range(30):
            with pytest.raises(BadOperation), unwrapped():
                await live.run(in_tasks, "q", "r")
        await live.run(put, "q", "last")
        await group.equal()
        assert backup.counts["diverged"] > 0


@contextmanager
def unwrapped() -> Iterator[None]:
    try:
        yield
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
