"""The desk carries requests to directories: in order, in time, and within limits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import trio

from jgroups_py.driver.directories import DirectoryProblem, answer_of
from jgroups_py.driver.directories.desk import Desk
from jgroups_py.stack.directories import DirectoryRequest, OpenFolder, QueryDns, WriteFile
from jgroups_py.stack.ports import Consult, Consulted

DNS = QueryDns(("a",), "A", "", 1.0, 10)


def write(number: int) -> WriteFile:
    return WriteFile("/x", "c", str(number), b"")


class Watched:
    """A desk, and its answers in order."""

    def __init__(self, directory: Callable[[DirectoryRequest], Any], waiting_max: int = 10) -> None:
        self.answers: list[Consulted] = []
        take = self.answers.extend
        self.desk = Desk(directory, take, trio.CapacityLimiter(4), waiting_max)  # type: ignore[arg-type]

    async def until(self, count: int) -> None:
        with trio.fail_after(10):
            while len(self.answers) < count:  # noqa: ASYNC110 - a list
                await trio.sleep(0.005)


async def test_requests_of_one_kind_are_carried_out_in_order_those_of_two_at_once() -> None:
    hold, done = threading.Event(), []

    def directory(request: DirectoryRequest) -> Any:
        if isinstance(request, WriteFile):
            hold.wait(5)
            done.append(request.name)
        return None

    async with trio.open_nursery() as nursery:
        watched = Watched(directory)
        for number in range(5):
            assert watched.desk.submit(Consult(number, write(number), 5.0), nursery) is None
        watched.desk.submit(Consult(9, DNS, 5.0), nursery)
        await watched.until(1)
        assert [a.handle for a in watched.answers] == [9]
        hold.set()
        await watched.until(6)
    assert done == ["0", "1", "2", "3", "4"]
    assert [a.handle for a in watched.answers] == [9, 0, 1, 2, 3, 4]
    assert not watched.desk.busy


async def test_a_directory_that_hangs_is_a_problem_in_time_and_keeps_no_other_waiting() -> None:
    hold = threading.Event()

    def directory(request: DirectoryRequest) -> Any:
        if isinstance(request, OpenFolder):
            hold.wait(10)
        return "fine"

    async with trio.open_nursery() as nursery:
        watched = Watched(directory)
        watched.desk.submit(Consult(1, OpenFolder("/x", "c"), 0.05), nursery)
        watched.desk.submit(Consult(2, write(2), 5.0), nursery)
        await watched.until(2)
        hold.set()
    first, second = watched.answers
    assert (first.problem, second.answer) == ("no answer within 0.05 s", "fine")


async def test_requests_beyond_the_limit_are_answered_at_once() -> None:
    hold = threading.Event()
    async with trio.open_nursery() as nursery:
        watched = Watched(lambda request: hold.wait(5), waiting_max=2)
        refused = [watched.desk.submit(Consult(n, write(n), 5.0), nursery) for n in range(4)]
        assert [bool(r) for r in refused] == [False, False, True, True]
        assert refused[2] is not None and "2 requests wait already" in refused[2].problem
        hold.set()
        await watched.until(2)


def test_an_exception_of_a_directory_is_a_problem_without_its_text() -> None:
    def raising(error: Exception) -> Consulted:
        def directory(request: DirectoryRequest) -> Any:
            raise error

        return answer_of(directory, Consult(1, DNS, 1.0))

    found = raising(DirectoryProblem("mend it", final=True))
    assert (found.problem, found.final) == ("mend it", True)
    found = raising(PermissionError(13, "Permission denied", "/x"))
    assert (found.problem, found.final) == ("/x: Permission denied", False)
    found = raising(ValueError("Invalid header value b'Bearer s3cret'"))
    assert found.problem == "unexpected ValueError"
