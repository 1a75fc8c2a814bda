"""Objects that live in processes of their node."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from livebackup_group import Queue, livebackup_group
from split_network import SplitNetwork

from jgroups_py.errors import ConfigError
from jgroups_py.livebackup import LiveBackupSettings, Stateful, Work, open_livebackup, undone_by
from jgroups_py.livebackup.errors import BadOperation, WorkerLost
from jgroups_py.livebackup.kinds import REMOVAL, Catalogue
from jgroups_py.livebackup.objects import OwnedObject, Space
from jgroups_py.livebackup.processes import Workers, open_workers
from jgroups_py.livebackup.worker import Owner, WorkerRequest


class Sum(Stateful):
    """An object whose work is done in a process."""

    runs_in = "process"

    def __init__(self) -> None:
        self.value = 0
        self.parts: list[int] = []

    def add(self, amount: int) -> int:
        if amount < 0:
            raise ValueError("less than nothing")
        self.value += amount
        self.parts.append(amount)
        return self.value

    @undone_by("untake")
    def take(self, amount: int) -> int:
        self.value -= amount
        return amount

    def untake(self, value: int, amount: int) -> None:
        self.value += value

    def where(self) -> int:
        return os.getpid()

    def odd(self) -> Any:
        return lambda: None

    def add_object(self) -> None:
        self.parts.append(object())  # type: ignore[arg-type]

    def decline(self, amount: int) -> None:
        self.value = amount
        raise Declined(amount, limit=3) if amount else Wordless


async def add_to(work: Work, name: str, amount: int) -> int:
    found: int = await work.get(Sum, name).add(amount)
    return found


async def decline(work: Work, name: str, amount: int) -> None:
    await work.get(Sum, name).decline(amount)


async def add_twice(work: Work, name: str, queue: str, amount: int, seconds: float) -> int:
    await work.get(Sum, name).add(amount)
    await work.get(Queue, queue).put(amount)
    await trio.sleep(seconds)
    found: int = await work.get(Sum, name).add(amount)
    return found


class Declined(Exception):
    """An error with arguments of its own: it can be pickled, and not read again."""

    def __init__(self, amount: int, *, limit: int) -> None:
        super().__init__(f"{amount} are more than {limit}")


class Wordless(Exception):
    """It cannot be pickled, and its text cannot be made."""

    def __str__(self) -> str:
        raise ValueError("no text")

    def __reduce__(self) -> Any:
        raise Wordless


CATALOGUE = Catalogue.of([Sum], [])


# --- a worker without a process


def asked(owner: Owner, verb: Any, what: str = "", *arguments: Any, generation: int = 0) -> Any:
    return owner.answer(WorkerRequest(generation, verb, "Sum", "Sum/a", what, arguments))


def test_a_worker_calls_saves_loads_and_forgets() -> None:
    owner = Owner({"Sum": Sum})
    assert asked(owner, "call", "add", 3).value == 3
    reply = asked(owner, "undoable", "add", 4)
    assert (reply.value, reply.before) == (7, {"value": 3, "parts": [3]})
    assert asked(owner, "restore", "", reply.before).error is None
    assert asked(owner, "save").value == {"value": 3, "parts": [3]}
    asked(owner, "load", "", {"value": 9, "parts": []})
    assert asked(owner, "call", "add", 1).value == 10
    asked(owner, "drop")
    assert asked(owner, "save").value == {"value": 0, "parts": []}
    asked(owner, "call", "add", 5)
    assert asked(owner, "take").before == {"value": 5, "parts": [5]}
    assert asked(owner, "save").value == {"value": 0, "parts": []}


def test_errors_of_methods_are_replies_with_the_state_before() -> None:
    owner = Owner({"Sum": Sum})
    asked(owner, "call", "add", 3)
    reply = asked(owner, "undoable", "add", -1)
    assert isinstance(reply.error, ValueError) and reply.before == {"value": 3, "parts": [3]}
    assert isinstance(asked(owner, "load", "", 17).error, TypeError)
    assert isinstance(
        owner.answer(WorkerRequest(0, "save", "None", "None/a", "", ())).error, KeyError
    )


def test_a_newer_generation_finds_no_objects() -> None:
    owner = Owner({"Sum": Sum})
    asked(owner, "call", "add", 3)
    assert asked(owner, "save", generation=1).value["value"] == 0


# --- with one process


@asynccontextmanager
async def space_of(number: int = 1) -> AsyncIterator[tuple[Space, Workers]]:
    async with open_workers(CATALOGUE.kinds, number) as workers:
        assert workers is not None
        yield Space(CATALOGUE, workers), workers


async def test_an_object_of_a_process_is_changed_reversed_and_saved() -> None:
    async with space_of() as (space, workers):
        found = space.object("Sum/a")
        assert isinstance(found, OwnedObject)
        assert await found.call("where", ()) == workers.pids[0] != os.getpid()
        outcome, undo = await found.call_undoable("add", (3,))
        assert outcome.value == 3 and await found.save() == {"value": 3, "parts": [3]}
        await undo()
        assert await found.save() == {"value": 0, "parts": []}
        outcome, undo = await found.call_undoable("take", (5,))
        assert (await found.save())["value"] == -5
        await undo()
        assert (await found.save())["value"] == 0
        outcome, undo = await found.call_undoable("add", (-1,))
        assert isinstance(outcome.error, ValueError) and str(outcome.error) == "less than nothing"
        with pytest.raises(ValueError, match="less than nothing"):
            await found.call("add", (-1,))
        with pytest.raises(TypeError, match=r"Sum/a\.odd: it cannot leave its process"):
            await found.call("odd", ())
        await space.load("Sum/b", {"value": 7, "parts": []})
        assert await space.saved() == {
            "Sum/a": {"value": 0, "parts": []},
            "Sum/b": {"value": 7, "parts": []},
        }
        await space.drop("Sum/b")
        assert (await space.object("Sum/b").save())["value"] == 0
        await space.load("Sum/b", {"value": 7, "parts": []})
        space.clear()
        assert await space.saved() == {}
        assert (await space.object("Sum/b").save())["value"] == 0
        outcome, checksum = await found.checked(outcome)
        assert len(checksum) == 8
        await found.call_undoable("add_object", ())
        outcome, checksum = await found.checked(outcome)
        assert isinstance(outcome.error, BadOperation | TypeError)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (5, r"raised Declined: 5 are more than 3, which cannot leave its process: TypeError: .*'limit'"),
        (0, r"raised Wordless: \(its text .*\), which cannot leave its process: Wordless"),
    ],
)  # fmt: skip
async def test_an_error_that_the_node_cannot_read_is_told_with_its_text(
    amount: int, text: str
) -> None:
    async with space_of() as (space, _):
        found = space.object("Sum/a")
        with trio.fail_after(60):
            outcome, undo = await found.call_undoable("decline", (amount,))
        assert isinstance(outcome.error, TypeError) and re.search(text, str(outcome.error))
        assert (await found.save())["value"] == amount
        await undo()
        assert (await found.save())["value"] == 0


async def test_an_object_of_a_process_is_removed_and_comes_back() -> None:
    async with space_of() as (space, _):
        await space.object("Sum/a").call("add", (3,))
        outcome, undo = await space.change_undoable("Sum/a", REMOVAL, ())
        assert outcome.value is True and space.find("Sum/a") is None
        outcome, undo_new = await space.change_undoable("Sum/a", "add", (4,))
        assert outcome.value == 4, "it was made anew"
        await undo_new()
        await undo()
        assert await space.saved() == {"Sum/a": {"value": 3, "parts": [3]}}


async def test_a_node_whose_process_is_lost_ends() -> None:
    async with space_of() as (space, workers):
        with pytest.RaisesGroup(WorkerLost), trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(workers.watch)
                assert workers.pids[0] is not None
                os.kill(workers.pids[0], signal.SIGKILL)
                await space.object("Sum/a").call("add", (1,))


# --- nodes


async def test_objects_of_processes_are_given_to_joiners_backed_up_and_reversed(
    thread_clock: Any,
) -> None:
    async with livebackup_group(processes=1, checksum_every=2, abandon_timeout=2.0) as group:
        group.also(kinds=(Sum,), operations=(add_to, add_twice, decline))
        (live,) = await group.start("A")
        await live.run(add_to, "a", 1)
        await group.start("B")
        backup = group.nodes["B"]
        assert [await live.run(add_to, "a", n) for n in (2, 3)] == [3, 6]
        with pytest.raises(ValueError, match="less than nothing"):
            await live.run(add_to, "a", -1)
        with pytest.raises(TypeError, match="raised Declined: 6 are more than 3"):
            await live.run(decline, "a", 6)
        wanted = {"Sum/a": {"value": 6, "parts": [1, 2, 3]}}
        assert await backup.space.saved() == await live.space.saved() == wanted
        assert backup.counts["diverged"] == 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, add_twice, "a", "q", 5, 100.0)
            await trio.sleep(2)
            nursery.start_soon(live.run, add_twice, "b", "q", 7, 0.0)  # waits at "q" on the backup
            await trio.sleep(2)
            assert (await backup.space.object("Sum/b").save())["value"] == 7
            group.kill(live.channel.name)
            nursery.cancel_scope.cancel()
        await group.settled()
        assert await backup.space.saved() == wanted and backup.counts["operations_reversed"] == 1
        assert await backup.run(add_to, "a", 1) == 7


async def run_until_its_process_is_lost() -> None:
    async with open_livebackup(
        "sim.xml",
        cluster="test",
        kinds=[Sum],
        operations=[add_to],
        settings=LiveBackupSettings(processes=1),
        transport=SplitNetwork(),
    ) as node:
        await node.wait_role("live")
        (pid,) = node.worker_pids
        os.kill(pid, signal.SIGKILL)
        await node.run(add_to, "a", 1)


async def test_a_node_ends_with_its_process(thread_clock: Any) -> None:
    with pytest.raises(WorkerLost, match=r"process \d+ is lost, and its objects with it"):
        await run_until_its_process_is_lost()


class Waiting(Stateful):
    runs_in = "process"

    async def wait(self) -> None:
        pass


class Elsewhere(Stateful):
    runs_in = "cloud"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Waiting, "Waiting.wait is async and runs in a process"),
        (Elsewhere, "runs_in is one of task, thread, process, got 'cloud'"),
    ],
)
def test_kinds_that_cannot_run_there_are_refused(kind: type[Stateful], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        Catalogue.of([kind], [])


async def test_a_class_that_a_process_cannot_find_is_refused() -> None:
    class Inner(Stateful):
        runs_in = "process"

    with pytest.raises(ConfigError, match="Inner stands in a function"):
        async with open_livebackup("sim.xml", cluster="test", kinds=[Inner], operations=[]):
            pass  # pragma: no cover


async def test_objects_of_processes_cannot_be_read_on_a_backup() -> None:
    with pytest.raises(ConfigError, match="kinds that run in a process such as Sum"):
        async with open_livebackup(
            "sim.xml",
            cluster="test",
            kinds=[Sum],
            operations=[],
            settings=LiveBackupSettings(readable=True),
        ):
            pass  # pragma: no cover
