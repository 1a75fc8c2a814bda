"""Locks of objects on the live node, and changes that wait for an object."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
import trio
from livebackup_group import Queue, livebackup_group, open_crew, put, slow_put

from jgroups_py.livebackup import Work
from jgroups_py.livebackup.kinds import Catalogue
from jgroups_py.livebackup.locks import Locks, ObjectLock
from jgroups_py.livebackup.objects import Space
from jgroups_py.livebackup.tickets import Counters
from jgroups_py.livebackup.waiting import WaitingChange, make_changes
from jgroups_py.livebackup.work import LiveObjects, LiveWork

MARK: ContextVar[str] = ContextVar("mark", default="none")


class Object:
    """An object with its lock; it records the operations that changed it. ``may``: operations may begin
    with this object."""

    def __init__(self, start: Any) -> None:
        self.lock = ObjectLock("Queue/q")
        self.may = True
        self.locks = Locks(lambda lock: self.may, start)
        self.had: list[Any] = []

    async def change(
        self, name: Any, *, begins: bool = True, seconds: float = 1.0, error: Any = None
    ) -> Any:
        async def change() -> Any:
            self.had.append(name)
            await trio.sleep(seconds)
            if error is not None:
                raise error
            return name

        return await self.lock.change(begins, change, self.locks)

    def let_begin(self) -> None:
        self.may = True
        self.lock.look_again(self.locks)


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Object, trio.Nursery]]:
    """An object, and a nursery whose tasks end with the block."""
    async with open_crew() as crew, trio.open_nursery() as nursery:
        yield Object(crew.start_next), nursery


async def in_their_order(nursery: trio.Nursery, *calls: Callable[[], Any]) -> None:
    """Let each task begin when the previous one waits."""
    for call in calls:
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("begins", [True, False])
async def test_an_object_is_changed_in_the_order_of_asking(
    begins: bool, autojump_clock: Any
) -> None:
    async with opened() as (found, nursery):
        await in_their_order(nursery, *(partial(found.change, n, begins=begins) for n in range(5)))
        assert found.had == [0] and found.locks.in_line == 4
    assert found.had == [0, 1, 2, 3, 4] and found.locks.in_line == 0


async def test_an_operation_with_changes_goes_before_beginning_ones(autojump_clock: Any) -> None:
    async with opened() as (found, nursery):
        calls = [
            partial(found.change, n, begins=begins)
            for n, begins in enumerate((True, True, True, False))
        ]
        await in_their_order(nursery, *calls)
    assert found.had == [0, 3, 1, 2]


async def test_an_operation_that_may_not_begin_holds_up_no_other_one(autojump_clock: Any) -> None:
    async with opened() as (found, nursery):
        found.may = False
        await in_their_order(nursery, partial(found.change, "begins"))
        await found.change("goes on", begins=False)
        assert found.had == ["goes on"]
        found.let_begin()
    assert found.had == ["goes on", "begins"]


async def test_operations_that_were_held_back_are_not_overtaken(autojump_clock: Any) -> None:
    async with opened() as (found, nursery):
        found.may = False
        await in_their_order(nursery, partial(found.change, 0), partial(found.change, 1))
        found.may = True
        await in_their_order(nursery, partial(found.change, 2))
        assert found.had == []
        found.let_begin()
    assert found.had == [0, 1, 2]


@asynccontextmanager
async def opened_queue() -> AsyncIterator[tuple[Object, Queue, Callable[..., Any]]]:
    """An object that exists, and a function that runs an operation with it. The block ends when all operations have."""
    space = Space(Catalogue.of([Queue], []))
    found = space.object("Queue/q")
    async with open_crew() as crew, trio.open_nursery() as nursery:
        one = Object(crew.start_next)
        one.lock = found.lock
        objects = LiveObjects(space, Counters(), one.locks)

        async def run(operation: Callable[..., Any], *arguments: Any) -> None:
            work = LiveWork("test", 0.0, 1, objects)
            nursery.start_soon(work.run, operation, ("q", *arguments))
            await trio.testing.wait_all_tasks_blocked()

        assert isinstance(found.state, Queue)
        yield one, found.state, run


async def test_operations_that_find_their_object_free_overtake_none_that_was_held_back(
    autojump_clock: Any,
) -> None:
    async with opened_queue() as (one, queue, run):
        one.may = False
        await run(put, 0)
        one.may = True
        await run(put, 1)
        assert queue.messages == []
        one.let_begin()
    assert queue.messages == [0, 1]


async def test_an_operation_that_found_its_object_free_gives_it_to_the_next_one(
    autojump_clock: Any,
) -> None:
    with trio.fail_after(5):
        async with opened_queue() as (_, queue, run):
            await run(slow_put, 0, 1.0)
            await run(put, 1)
            assert queue.messages == []
    assert queue.messages == [0, 1]


async def test_operations_in_line_are_held_back_while_others_are_on_their_way(
    autojump_clock: Any,
) -> None:
    """Operations may begin when they start to wait, but no longer when the object is free."""
    async with opened() as (found, nursery):
        await in_their_order(nursery, *(partial(found.change, n) for n in range(3)))
        await trio.sleep(1.5)
        found.may = False
        await trio.sleep(5)
        assert found.had == [0, 1]
        await found.change("goes on", begins=False)
        found.let_begin()
    assert found.had == [0, 1, "goes on", 2]


# --- one task makes the waiting changes


async def test_an_object_does_not_rest_between_two_changes_that_wait() -> None:
    """A task that runs all the time counts turns of the loop: the next change begins in the turn in which the previous
    one ends."""
    turns, times = 0, list[int]()

    async def change() -> None:
        times.append(turns)
        await trio.lowlevel.checkpoint()
        times.append(turns)

    async def count() -> None:
        nonlocal turns
        while len(times) < 12:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with opened() as (found, nursery):
        for _ in range(6):
            nursery.start_soon(found.lock.change, True, change, found.locks)
        nursery.start_soon(count)
    rests = [begin - end for end, begin in zip(times[3:-1:2], times[4::2], strict=True)]
    assert rests == [0] * len(rests)


async def test_changes_that_do_not_wait_let_others_run_between_them(autojump_clock: Any) -> None:
    """Each operation goes on before the next change, because it is sent and may hold others back (``pace.py``)."""
    ended = list[int]()

    async def operation(number: int) -> None:
        await found.lock.change(True, partial(change, number), found.locks)
        ended.append(number)

    async def change(number: int) -> None:
        assert len(ended) >= number - 1

    async with opened() as (found, nursery):
        await in_their_order(
            nursery, partial(found.change, "long"), *(partial(operation, n) for n in range(9))
        )
    assert ended == list(range(9))


async def test_an_operation_gets_the_value_or_the_error_of_its_change(autojump_clock: Any) -> None:
    got = list[Any]()

    async def ask(name: str, error: Exception | None) -> None:
        try:
            got.append(await found.change(name, error=error))
        except ValueError as raised:
            got.append(raised)

    told = ValueError("told")
    async with opened() as (found, nursery):
        await in_their_order(
            nursery, *(partial(ask, *one) for one in (("a", None), ("b", told), ("c", None)))
        )
    assert got == ["a", told, "c"]


async def test_a_change_sees_the_context_variables_of_its_operation(autojump_clock: Any) -> None:
    seen = list[str]()

    async def change() -> None:
        seen.append(MARK.get())
        MARK.set("changed")
        await trio.sleep(1)
        seen.append(MARK.get())

    async def operation(name: str) -> None:
        MARK.set(name)
        await found.lock.change(True, change, found.locks)

    async with opened() as (found, nursery):
        await in_their_order(nursery, *(partial(operation, name) for name in "abc"))
    assert seen == [mark for name in "abc" for mark in (name, "changed")]


@pytest.mark.parametrize(
    ("cancelled", "after", "ends"),
    [
        (0, 0.5, [0.5, 2.5, 3.5, 4.5]),
        (1, 1.5, [1.0, 1.5, 2.5, 3.5]),
        (2, 1.5, [1.0, 3.0, 1.5, 4.0]),
    ],
)
async def test_a_change_is_cancelled_with_its_operation_and_no_other_one(
    cancelled: int, after: float, ends: list[float], autojump_clock: Any
) -> None:
    """Change 0 is made by its own task, 1 by the task of the queue; 2 waits."""
    ended, began = dict[int, float](), trio.current_time()

    async def operation(number: int) -> None:
        with trio.move_on_after(after if number == cancelled else 1_000) as scope:
            await found.change(number, seconds=2.0 if number == 1 else 1.0)
        assert scope.cancelled_caught == (number == cancelled)
        ended[number] = trio.current_time() - began

    async with opened() as (found, nursery):
        await in_their_order(nursery, *(partial(operation, n) for n in range(4)))
    assert [ended[number] for number in range(4)] == pytest.approx(ends)
    assert found.locks.in_line == 0


async def test_a_change_that_ends_as_its_operation_is_cancelled_is_not_lost(
    autojump_clock: Any,
) -> None:
    """The cancellation comes in the turn in which the change goes on to its end."""
    values, scopes, going_on = list[Any](), list[trio.CancelScope](), trio.Event()

    async def change() -> str:
        await going_on.wait()
        return "made"

    async def operation() -> None:
        with trio.CancelScope() as scope:
            scopes.append(scope)
            values.append(await found.lock.change(True, change, found.locks))

    async with opened() as (found, nursery):
        await in_their_order(nursery, partial(found.change, 0), operation, operation)
        await trio.sleep(2)
        going_on.set()
        scopes[0].cancel()
    assert values == ["made", "made"]


async def test_a_change_of_a_shielded_operation_ends_though_all_others_are_cancelled(
    autojump_clock: Any,
) -> None:
    done = list[str]()

    async def operation(found: Object) -> None:
        with trio.CancelScope(shield=True):
            done.append(await found.change("shielded"))
        await trio.sleep_forever()

    async with open_crew() as crew:
        found = Object(crew.start_next)
        crew.start(partial(found.change, "first", seconds=2.0))
        await trio.testing.wait_all_tasks_blocked()
        crew.start(partial(operation, found))
        crew.start(partial(found.change, "last"))
        await trio.sleep(2.5)
        await crew.cancel()
        assert done == ["shielded"] and found.had == ["first", "shielded"]
    await found.change("later")


async def test_a_change_whose_operation_was_cancelled_before_it_began_is_not_made(
    autojump_clock: Any,
) -> None:
    """On a backup the turn of such a change may have come before its task has begun."""
    made, left, waiting = list[str](), list[str](), list[WaitingChange]()

    async def change() -> None:
        made.append("made")

    async def operation() -> None:
        waiting.append(WaitingChange(change))
        await waiting[0].result(lambda: left.append("left"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(operation)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    await make_changes(iter(waiting))
    assert left == ["left"] and not made


async def test_the_end_of_the_process_goes_through_the_operation(autojump_clock: Any) -> None:
    async def operation() -> None:
        with pytest.raises(KeyboardInterrupt):
            await found.change("a", error=KeyboardInterrupt())

    async with opened() as (found, nursery):
        await in_their_order(nursery, partial(found.change, 0), operation, operation)


async def patient(work: Work, queue: str, message: Any, seconds: float) -> int:
    """Cancel the operation's own change, and make another one."""
    with trio.move_on_after(seconds):
        await work.get(Queue, queue).slow_put(message, 1_000.0)
    number: int = await work.get(Queue, queue).put(message)
    return number


async def test_operations_that_wait_for_the_same_object_have_it_in_one_order_on_both_sides(
    autojump_clock: Any,
) -> None:
    """Some operations cut a change off, and both nodes do so in the same way."""
    async with livebackup_group() as group:
        group.also(operations=(patient,))
        live, _ = await group.start("AB")
        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(live.run, patient, "q", number, 0.5)
        found = await group.equal()
        assert sorted(found["Queue/q"]["messages"]) == list(range(12))


async def both(work: Work, first: str, second: str, message: Any) -> None:
    """Make two changes without a wait between them."""
    await work.get(Queue, first).put(message)
    await work.get(Queue, second).put(message)


async def test_an_operation_lets_changes_of_two_objects_go_on_at_once(autojump_clock: Any) -> None:
    """On the backup the operation waits for q, as does the change of q behind it, and the change of r waits for the
    operation. The test runs ten times, because chance decides which task goes on first."""
    async with livebackup_group() as group:
        group.also(operations=(both,))
        live, _ = await group.start("AB")

        async def once(q: str, r: str) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(live.run, slow_put, q, 0, 1.0)
                await trio.sleep(0.1)
                nursery.start_soon(live.run, both, q, r, 1)
                await trio.sleep(0.1)
                nursery.start_soon(live.run, put, q, 2)
                await trio.sleep(1.3)
                nursery.start_soon(live.run, put, r, 3)

        with trio.fail_after(10):
            async with trio.open_nursery() as all_of_them:
                for n in range(10):
                    all_of_them.start_soon(once, f"q{n}", f"r{n}")
        found = await group.equal()
    for n in range(10):
        assert [found[f"Queue/{name}{n}"]["messages"] for name in "qr"] == [[0, 1, 2], [1, 3]]
