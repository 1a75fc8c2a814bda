"""Turns of a driver, without sockets: their number, their work, and forbidden nesting."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from jgroups_py.driver import DriverLimits, SocketDriver
from jgroups_py.driver.base import Driver
from jgroups_py.driver.sockets import UdpSocket
from jgroups_py.driver.streams import TcpConnection
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import In, Out, SendTo, Writable
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.stack import Stack


class Quiet(Driver):
    """Records its orders. Its tick is long: each one is a turn, which the tests would count on a busy machine."""

    def __init__(self, *, tick: float = 60.0, **limits: Any) -> None:
        super().__init__(Machine("A", random=random.Random(0)), DriverLimits(tick=tick, **limits))
        self.done: list[Out] = []
        self.again = False
        self.before_flush.append(lambda: self.happening.append(f"turn {self.turns}"))
        self.happening: list[str] = []

    def execute(self, outs: Sequence[Out]) -> None:
        self.done += outs
        if self.again:
            self.happened(Writable(0, 0))

    def close_all(self) -> None:
        self.happening.append("closed")


class Handles(Protocol):
    """``then`` runs when something arrives."""

    def on_input(self, item: In) -> None:
        self.then()

    then: Any = None


async def test_an_immediate_action_during_an_input_is_part_of_its_turn() -> None:
    driver = Quiet()
    protocol = Handles()
    Stack(driver.machine, [protocol], None)  # type: ignore[arg-type]
    driver.machine._handles[0] = protocol
    async with trio.open_nursery() as nursery:
        await nursery.start(driver.run)
        await trio.testing.wait_all_tasks_blocked()
        before = driver.turns

        def step() -> None:
            driver.happening.append("handed in")
            driver.at_once(lambda: driver.happening.append("step"))
            driver.happening.append("handled")

        protocol.then = step
        driver.happening.clear()
        driver.take([Writable(0, 0)])
        assert driver.happening == ["handed in", "step", "handled", f"turn {before + 1}"]
        driver.happening.clear()
        driver.at_once(lambda: driver.happening.append("step"))
        assert driver.happening == ["step", f"turn {before + 2}"]
        for _ in range(5):
            driver.wake()
        await trio.testing.wait_all_tasks_blocked()
        assert driver.turns == before + 3
        await driver.stop()
    assert driver.happening[-1] == "closed"


async def test_a_turn_that_does_not_end_lets_others_run() -> None:
    driver = Quiet(rounds_max=3)
    protocol = Handles()
    Stack(driver.machine, [protocol], None)  # type: ignore[arg-type]
    driver.machine._handles[0] = protocol
    protocol.then = lambda: driver.machine.put(SendTo(0, b"x", ("127.0.0.1", 1)))
    async with trio.open_nursery() as nursery:
        await nursery.start(driver.run)
        await trio.testing.wait_all_tasks_blocked()
        driver.again = True
        driver.take([Writable(0, 0)])
        assert len(driver.done) == 3
        driver.again = False
        await trio.testing.wait_all_tasks_blocked()
        assert len(driver.done) == 4
        await driver.stop()


async def test_a_connection_that_is_reset_before_it_has_a_socket_is_simply_gone() -> None:
    driver = SocketDriver(Machine("A", random=random.Random(0)))
    connection = TcpConnection(driver, 1, None, ("127.0.0.1", 1))
    driver.streams[1] = connection
    connection.close(abort=True)
    assert 1 not in driver.streams
    connection.close(abort=True)


class Asked:
    """A socket that records when it is read."""

    def __init__(self, sock: socket.socket, log: list[str]) -> None:
        self._sock, self._log = sock, log
        self.fileno = sock.fileno

    def recvfrom(self, size: int) -> Any:
        self._log.append("read")
        return self._sock.recvfrom(size)


@pytest.mark.sockets
async def test_a_datagram_that_comes_alone_is_answered_before_the_socket_is_read_again() -> None:
    """Several inputs that come at once are one turn, from the second one on."""
    driver = SocketDriver(Machine("A", random=random.Random(0)))
    log: list[str] = []
    driver.take = lambda inputs: log.append(f"taken {len(inputs)}")  # type: ignore[method-assign]
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sends,
    ):
        heard.setblocking(False)
        heard.bind(("127.0.0.1", 0))

        async def bring(count: int) -> list[str]:
            log.clear()
            for _ in range(count):
                sends.sendto(b"x", heard.getsockname())
            await trio.testing.wait_all_tasks_blocked(0.01)
            return list(log)

        async with trio.open_nursery() as nursery:
            udp = UdpSocket(1, Asked(heard, log))  # type: ignore[arg-type]
            nursery.start_soon(driver._read_datagrams, udp)
            assert await bring(1) == ["read", "taken 1", "read"]
            assert await bring(3) == ["read", "taken 1", "read", "read", "read", "taken 2"]
            assert await bring(2) == ["read", "read", "read", "taken 2"]
            assert await bring(1) == ["read", "read", "taken 1"]
            assert await bring(1) == ["read", "taken 1", "read"]
            nursery.cancel_scope.cancel()


async def test_the_rest_of_a_turn_is_done_when_its_messages_have_left() -> None:
    driver = Quiet()
    protocol = Handles()
    Stack(driver.machine, [protocol], None)  # type: ignore[arg-type]
    rest: list[int] = []

    def do() -> None:
        rest.append(len(driver.done))
        driver.machine.put(Writable(2, 0))  # type: ignore[arg-type]

    async with trio.open_nursery() as nursery:
        await nursery.start(driver.run)
        await trio.testing.wait_all_tasks_blocked()
        driver.machine.put(Writable(1, 0))  # type: ignore[arg-type]
        driver.turn()
        assert rest == [], "nothing asked for it"
        driver.machine.put(Writable(1, 0))  # type: ignore[arg-type]
        driver.want_rest(do)
        driver.turn()
        assert rest == [2], "two messages had left"
        assert len(driver.done) == 3, "what the rest sends leaves in the same turn"
        driver.want_rest(do)
        await trio.testing.wait_all_tasks_blocked()
        assert rest == [2, 3], "outside a step it wakes the driver"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("does", ["nothing", "sends", "wakes", "leaves a rest"])
async def test_an_answer_begins_a_turn_only_if_there_may_be_something_to_send(does: str) -> None:
    driver = Quiet()
    protocol = Handles()
    Stack(driver.machine, [protocol], None)  # type: ignore[arg-type]
    driver.machine._handles[0] = protocol
    steps: dict[str, Any] = {
        "nothing": lambda: None,
        "sends": lambda: driver.machine.put(Writable(1, 0)),  # type: ignore[arg-type]
        "wakes": driver.wake,
        "leaves a rest": lambda: driver.want_rest(lambda: None),
    }
    protocol.then = steps[does]
    async with trio.open_nursery() as nursery:
        await nursery.start(driver.run)
        await trio.testing.wait_all_tasks_blocked()
        before = driver.turns
        driver.take_answer([Writable(0, 0)])
        assert driver.turns - before == (does not in ("nothing", "leaves a rest"))
        await trio.testing.wait_all_tasks_blocked()
        assert driver.turns - before == (does != "nothing"), "a rest has its turn later"
        nursery.cancel_scope.cancel()


async def test_a_timer_that_an_answer_starts_ends_in_time() -> None:
    driver = Quiet()
    protocol = Handles()
    Stack(driver.machine, [protocol], None)  # type: ignore[arg-type]
    driver.machine._handles[0] = protocol
    ended = trio.Event()
    timer = driver.machine.timer(ended.set, "soon")
    protocol.then = lambda: timer.start(0.01)
    async with trio.open_nursery() as nursery:
        await nursery.start(driver.run)
        driver.turn()
        driver.take_answer([Writable(0, 0)])
        with trio.fail_after(30):
            await ended.wait()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("way", ["take", "take_answer", "at_once"])
async def test_a_failure_that_is_noted_in_a_step_ends_the_driver(
    way: str, autojump_clock: Any
) -> None:
    """The turn after the step runs nothing that looks for it."""
    driver = Quiet()
    protocol = Handles()
    Stack(driver.machine, [protocol], None)  # type: ignore[arg-type]
    driver.machine._handles[0] = protocol

    def fail() -> None:
        driver.fail(ZeroDivisionError())

    protocol.then = fail
    ways: dict[str, Any] = {
        "take": lambda: driver.take([Writable(0, 0)]),
        "take_answer": lambda: driver.take_answer([Writable(0, 0)]),
        "at_once": lambda: driver.at_once(fail),
    }
    with pytest.RaisesGroup(ZeroDivisionError):
        async with trio.open_nursery() as nursery:
            await nursery.start(driver.run)
            await trio.testing.wait_all_tasks_blocked()
            ways[way]()
            with trio.fail_after(30):
                await trio.sleep_forever()
