"""A caller polls for its answer in its own step: it finds the answer, gives up, or lets others run."""

from __future__ import annotations

import itertools
import random
import socket
import time
from collections.abc import Callable, Iterable, Sequence

import pytest
import trio

from jgroups_py.driver import DriverLimits, SocketDriver, answer_watch
from jgroups_py.driver.answer_watch import PAUSE_MAX, AnswerWatch
from jgroups_py.driver.sockets import UdpSocket
from jgroups_py.driver.streams import TcpConnection
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import Closed, Datagram, In, Received, Writable

ITEM = Writable(0, 0)


class Line:
    """A socket that has an answer at poll number ``at``, and is closed at poll number ``gone``."""

    def __init__(self, at: int = 10**9, gone: int = 10**9) -> None:
        self.at, self.gone = at, gone
        self.looks = 0

    def look(self) -> Sequence[In] | None:
        self.looks += 1
        if self.looks >= self.gone:
            return None
        return (ITEM,) if self.looks == self.at else ()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a millisecond pass between two looks at the clock, however busy the machine is."""
    looks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(looks) / 1000)


def watch_of(line: Line, taken: list[In], limit: float = 0.01) -> AnswerWatch:
    def take(inputs: Sequence[In]) -> bool:
        taken.extend(inputs)
        return True

    watch = AnswerWatch(limit, take)
    watch.heard = line
    return watch


def test_an_answer_that_comes_in_time_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[In] = []
    offers: list[int] = []
    line = Line(at=4)
    monkeypatch.setattr(answer_watch, "offer_processor", lambda: offers.append(line.looks))
    watch = watch_of(line, taken, limit=60)
    assert watch.until(lambda: taken == [ITEM])
    assert (line.looks, watch.ended, watch.in_vain) == (4, 1, 0)
    assert offers == [1, 2, 3]  # between any two polls


@pytest.mark.usefixtures("clock")
def test_an_unrelated_input_is_taken_and_the_watch_goes_on() -> None:
    taken: list[In] = []
    line = Line(at=1)
    watch = watch_of(line, taken)
    assert not watch.until(lambda: False)
    assert taken == [ITEM] and line.looks > 1


@pytest.mark.usefixtures("clock")
def test_a_watch_ends_in_time_and_ever_more_callers_are_left_out() -> None:
    line = Line()
    watch = watch_of(line, [], limit=0.0025)
    assert not watch.until(lambda: False)
    assert line.looks == 3
    left_out = []
    for _ in range(3):
        before, count = line.looks, 0
        while not watch.until(lambda: False) and line.looks == before:
            count += 1
        left_out.append(count)
    assert left_out == [1, 2, 4]
    for _ in range(20 * PAUSE_MAX):
        watch.until(lambda: False)
    assert 25 <= watch.in_vain <= 35  # about 20 of them with the longest pause
    before, line.at = watch.in_vain, line.looks + 1
    while not watch.until(lambda: True):
        pass
    assert watch.in_vain == before
    assert not watch.until(lambda: False)
    assert not watch.until(lambda: False)
    assert not watch.until(lambda: False)
    assert watch.in_vain == before + 2  # an answer in time has set the pause to one again


def test_a_connection_that_cannot_be_read_any_more_is_forgotten() -> None:
    line = Line(gone=1)
    watch = watch_of(line, [])
    assert not watch.until(lambda: True)
    assert watch.heard is None and watch.in_vain == 0
    assert not watch.until(lambda: True)
    assert line.looks == 1


def test_a_step_that_fails_ends_the_watch() -> None:
    line = Line(at=1)
    watch = AnswerWatch(60, lambda inputs: False)
    watch.heard = line
    assert not watch.until(lambda: False)
    assert line.looks == 1


def test_a_limit_of_zero_looks_never() -> None:
    line = Line(at=1)
    assert not watch_of(line, [], limit=0).until(lambda: True)
    assert line.looks == 0


class Handing(Machine):
    """It hands all inputs to ``to``. (A method of a compiled machine cannot be replaced.)"""

    def __init__(self, to: Callable[[Iterable[In], float], None]) -> None:
        super().__init__("A", random=random.Random(0))
        self.to = to

    def handle(self, inputs: Iterable[In], now: float) -> None:
        self.to(inputs, now)


@pytest.mark.sockets
async def test_a_datagram_is_taken_in_the_step_of_its_watch() -> None:
    heard: list[In] = []
    machine = Handing(lambda inputs, now: heard.extend(inputs))
    driver = SocketDriver(machine, DriverLimits(watch=60))
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there,
    ):
        here.bind(("127.0.0.1", 0))
        here.setblocking(False)
        there.bind(("127.0.0.1", 0))
        driver._watch.heard = UdpSocket(7, here)
        there.sendto(b"x", here.getsockname())
        assert not driver.watch(lambda: bool(heard))  # it is not running yet
        async with trio.open_nursery() as nursery:
            await nursery.start(driver.run)
            assert driver.watch(lambda: bool(heard))
            nursery.cancel_scope.cancel()
        assert heard == [Datagram(7, b"x", there.getsockname())]
        assert driver.statistics()["watched"] == driver.datagrams_in == 1


@pytest.mark.sockets
async def test_an_error_in_a_watch_ends_the_driver() -> None:
    def broken(inputs: Iterable[In], now: float) -> None:
        raise ArithmeticError("a protocol")

    driver = SocketDriver(Handing(broken), DriverLimits(watch=60))
    here, there = socket.socketpair()
    with there:
        here.setblocking(False)
        driver._watch.heard = driver.streams[3] = TcpConnection(driver, 3, here, ("127.0.0.1", 1))
        there.send(b"x")
        with pytest.raises(ExceptionGroup, match="Trio nursery"):  # noqa: PT012, the driver raises at the end
            async with trio.open_nursery() as nursery:
                await nursery.start(driver.run)
                assert not driver.watch(lambda: False)
        assert driver.failed


@pytest.mark.sockets
async def test_a_look_at_a_connection_finds_bytes_and_its_end() -> None:
    driver = SocketDriver(Machine("A", random=random.Random(0)))
    here, there = socket.socketpair()
    here.setblocking(False)
    connection = TcpConnection(driver, 3, here, ("127.0.0.1", 1))
    assert connection.look() == ()
    there.send(b"x")
    assert connection.look() == (Received(3, b"x"),)
    there.close()
    assert connection.look() == (Closed(3, False),)
    assert connection.look() is None
