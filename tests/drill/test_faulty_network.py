"""The network in memory of cache drills: pauses, and connections to hosts that do not answer."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio

from jgroups_py import open_channel
from jgroups_py.drill.file.plan import FaultFigures
from jgroups_py.drill.run.faulty_network import FaultyDriver, FaultyNetwork
from jgroups_py.driver.memory import MemoryDriver
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import Close, Connect, ConnectFailed, In


def network() -> FaultyNetwork:
    return FaultyNetwork(random.Random(1), lambda a, b: FaultFigures(latency=0.001))


async def test_a_member_that_is_paused_and_wants_a_turn_waits_for_it(autojump_clock: Any) -> None:
    net = network()
    transport = net.of("A", lambda machine: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(net.carry)
        async with open_channel("sim.xml", cluster="test", name="A", transport=transport) as a:
            (driver,) = transport.drivers
            driver.pause()
            await a.send(b"1")  # the application of a paused process runs on, here
            for _ in range(10):
                await trio.lowlevel.checkpoint()
            assert (
                not driver._woken
            )  # otherwise its task would ask again and again, and virtual time would stand still
            driver.resume()
            async for item in a:
                if getattr(item, "payload", None) == b"1":
                    break
        nursery.cancel_scope.cancel()


async def test_no_timer_of_a_paused_member_runs(autojump_clock: Any) -> None:
    net = network()
    transport = net.of("A", lambda machine: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(net.carry)
        async with open_channel("sim.xml", cluster="test", name="A", transport=transport):
            (driver,) = transport.drivers
            driver.pause()
            before = driver.machine.now
            await trio.sleep(5)
            assert driver.machine.now == before
            driver.resume()
            await trio.sleep(1)
            assert driver.machine.now > before + 5
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("closed", [False, True])
async def test_a_connection_that_nobody_answers_fails_when_its_time_is_over(
    closed: bool, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[float, In]] = []
    monkeypatch.setattr(
        MemoryDriver, "receive", lambda self, item: told.append((trio.current_time(), item))
    )
    net = network()
    one, other = (FaultyDriver(net, Machine(name, random=random.Random(1))) for name in "AB")
    net.listeners["10.0.0.2", 7800] = (other, 1)
    net.cut = lambda a, b: True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(net.carry)
        begun = trio.current_time()
        one.execute([Connect(5, ("10.0.0.2", 7800), timeout=0.5)])
        if closed:
            one.execute([Close(5)])
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    failed = [(round(t - begun, 3), type(item)) for t, item in told]
    assert not one._unanswered and failed == ([] if closed else [(0.5, ConnectFailed)])
