"""Harnesses for the two trio drivers, with a machine that only records its inputs."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import trio

from jgroups_py.driver import Transport
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import In, Out


class Recorder(Machine):
    """A machine without a stack."""

    def __init__(self, name: str) -> None:
        super().__init__(name, random=random.Random(0))
        self.inputs: list[In] = []

    def handle(self, inputs: Iterable[In], now: float) -> None:
        self.inputs += inputs


class DriverHarness:
    """Machines a, b and c, each with a driver of its own."""

    def __init__(self, transport: Transport) -> None:
        self.drivers = {name: transport.driver(Recorder(name)) for name in "abc"}

    def host(self, who: str) -> str:
        return "127.0.0.1"

    def put(self, who: str, out: Out) -> None:
        self.drivers[who].machine.put(out)
        self.drivers[who].wake()

    async def wait(self, seconds: float) -> None:
        await trio.sleep(seconds)

    def inputs(self, who: str) -> Sequence[In]:
        machine = self.drivers[who].machine
        assert isinstance(machine, Recorder)
        return machine.inputs


@asynccontextmanager
async def driver_harness(transport: Transport) -> AsyncIterator[DriverHarness]:
    async with trio.open_nursery() as nursery:
        harness = DriverHarness(transport)
        for driver in harness.drivers.values():
            await nursery.start(driver.run)
        yield harness
        for driver in harness.drivers.values():
            await driver.stop()
