"""A called member polls for the next request in the step that has answered one, while requests come quickly one after the other."""

from __future__ import annotations

import random
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import pytest
import trio

from jgroups_py.driver import DriverLimits, SocketDriver, request_watch
from jgroups_py.driver.request_watch import CYCLE_MAX, FEW, RequestWatch
from jgroups_py.driver.sockets import OTHERS_MAX
from jgroups_py.driver.streams import TcpConnection
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import Bind, Datagram, In, Received, Writable

ITEM = Writable(0, 0)
SOON = CYCLE_MAX / 2


class Line:
    """A socket on which an input waits at the first ``ready`` polls."""

    def __init__(self, ready: int = 0) -> None:
        self.ready = ready
        self.looks = 0

    def look(self) -> Sequence[In] | None:
        self.looks += 1
        return (ITEM,) if self.looks <= self.ready else ()


def test_the_next_request_is_looked_for_when_two_came_quickly() -> None:
    taken: list[In] = []

    def take(inputs: Sequence[In]) -> bool:
        taken.extend(inputs)
        return True

    watch, line = RequestWatch(60, take), Line(ready=9)
    assert not watch.comes(line, 1.0, 1), "it is the first one"
    assert watch.comes(line, 1.0 + SOON, 1) and taken == [ITEM]
    assert not watch.comes(line, 1.0 + SOON + 2 * CYCLE_MAX, 1), "it came much later"
    assert watch.comes(line, 1.0 + 2 * SOON + 2 * CYCLE_MAX, 1)
    assert line.looks == len(taken) == 2


def test_many_requests_of_one_packet_are_followed_by_others_of_a_second_one() -> None:
    watch, line = RequestWatch(60, lambda inputs: True), Line(ready=9)
    assert not watch.comes(line, 1.0, 1)
    assert not watch.comes(line, 1.0 + SOON, FEW + 1), "they are many"
    assert not watch.comes(line, 1.0 + 2 * SOON, 1), "it is the rest of them"
    assert watch.comes(line, 1.0 + 3 * SOON, FEW)


def test_looks_in_vain_become_rare() -> None:
    watch, line = RequestWatch(1e-6, lambda inputs: True), Line()
    for number in range(1000):
        assert not watch.comes(line, number * SOON, 1)
    assert 5 <= watch.watch.in_vain <= 12


class Answering(Machine):
    """It calls ``answer`` for each request."""

    def __init__(self, answer: Callable[[], None]) -> None:
        super().__init__("A", random=random.Random(0))
        self.answer = answer

    def handle(self, inputs: Iterable[In], now: float) -> None:
        for item in inputs:
            if type(item) in (Datagram, Received):
                self.answer()


async def test_a_datagram_that_nobody_answers_is_no_request() -> None:
    driver = SocketDriver(Answering(lambda: None))
    driver.answered = 1
    driver.take([Datagram(7, b"x", ("127.0.0.1", 1))])
    assert not driver.answered


class Steps(trio.abc.Instrument):
    """Counts steps of tasks by their names."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.of[task.name.rpartition(".")[2]] += 1


def open_udp(driver: SocketDriver) -> socket.socket:
    """Return the other end of a socket of the driver."""
    driver.execute([Bind(7, "udp", "127.0.0.1", 0)])
    there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    there.connect(driver.sockets[7].sock.getsockname())
    return there


def open_tcp(driver: SocketDriver) -> socket.socket:
    """Return the other end of a connection of the driver."""
    here, there = socket.socketpair()
    here.setblocking(False)
    connection = driver.streams[7] = TcpConnection(driver, 7, here, ("127.0.0.1", 1))
    driver.nursery.start_soon(connection.run_read)
    return there


async def steps_of(
    opened: Callable[[SocketDriver], socket.socket],
    count: int,
    limit: float,
    monkeypatch: pytest.MonkeyPatch,
    others: int = 0,
    watched_max: int = 16,
) -> tuple[int, dict[str, int]]:
    """Let a caller send each of ``count`` requests as soon as the one before it is answered, with ``others`` messages in between that
    nobody answers. Return the steps of the task that reads, and the driver's counters."""
    monkeypatch.setattr(request_watch, "CYCLE_MAX", 60.0)  # this machine may be busy
    done = trio.Event()
    answered = taken = 0

    def answer() -> None:
        nonlocal answered, taken
        if answered < count and taken % (others + 1) == 0:
            answered += 1
            driver.answered = 1
        taken += 1
        if taken <= count * (others + 1) + OTHERS_MAX:  # the last ones end the looking
            there.send(b"x")
        else:
            done.set()

    driver = SocketDriver(Answering(answer), DriverLimits(watch=limit, watched_max=watched_max))
    steps = Steps()
    async with trio.open_nursery() as nursery:
        await nursery.start(driver.run)
        with opened(driver) as there:
            trio.lowlevel.add_instrument(steps)
            there.send(b"x")
            await done.wait()
            trio.lowlevel.remove_instrument(steps)
            nursery.cancel_scope.cancel()
    assert answered == count
    return steps.of["_read_datagrams"] + steps.of["run_read"], driver.statistics()


@pytest.mark.sockets
@pytest.mark.parametrize("opened", [open_udp, open_tcp])
async def test_requests_are_served_in_one_step_and_others_run_between(
    opened: Callable[[SocketDriver], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 2 + 3 * DriverLimits().watched_max
    steps, counters = await steps_of(opened, count, 2, monkeypatch)
    assert counters["requests_watched"] >= count - 2, "all but the first ones"
    assert 3 <= steps <= 8, "a checkpoint after every ``watched_max``"
    assert counters["requests_watched_in_vain"] == 0


@pytest.mark.sockets
@pytest.mark.parametrize("opened", [open_udp, open_tcp])
@pytest.mark.parametrize("watched_max", [0, 1])
async def test_others_run_after_each_request_if_no_more_are_allowed(
    opened: Callable[[SocketDriver], socket.socket],
    watched_max: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps, counters = await steps_of(opened, 20, 2, monkeypatch, watched_max=watched_max)
    assert steps >= 18 and counters["requests_watched"] >= 18


@pytest.mark.sockets
@pytest.mark.parametrize("opened", [open_udp, open_tcp])
async def test_without_a_watch_each_request_is_a_step(
    opened: Callable[[SocketDriver], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, counters = await steps_of(opened, 9, 0, monkeypatch)
    assert steps >= 5 and counters["requests_watched"] == 0


@pytest.mark.sockets
@pytest.mark.parametrize("opened", [open_udp, open_tcp])
@pytest.mark.parametrize(("others", "goes_on"), [(1, True), (2, False)])
async def test_an_input_between_two_requests_does_not_end_the_looking(
    opened: Callable[[SocketDriver], socket.socket],
    others: int,
    goes_on: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An acknowledgement may come between them. When more come, they are no answers to requests."""
    count = 2 + 3 * DriverLimits().watched_max
    _, counters = await steps_of(opened, count, 2, monkeypatch, others)
    watched = counters["requests_watched"]
    assert watched >= 2 * count - 6 if goes_on else watched <= 2 * count + 2
