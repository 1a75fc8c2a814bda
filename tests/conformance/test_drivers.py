"""Sockets, the network in memory and the simulator give the same results for the same script."""

from __future__ import annotations

import pytest
from drivers import driver_harness
from script import SCRIPTS, run_script
from simulated import SimulatedHarness

from jgroups_py.driver import DriverLimits, MemoryNetwork, SocketTransport
from jgroups_py.tools.commands.mperf_ports import free_block


@pytest.mark.sockets
@pytest.mark.parametrize("name", SCRIPTS)
async def test_sockets_follow_the_script(name: str) -> None:
    # The default lets a closed connection send for 1 s. A busy machine may need more for 16 MiB.
    async with driver_harness(SocketTransport(DriverLimits(linger=60.0))) as harness:
        await run_script(SCRIPTS[name], harness, free_block(1))


@pytest.mark.parametrize("name", SCRIPTS)
async def test_the_network_in_memory_follows_the_script(name: str) -> None:
    async with driver_harness(MemoryNetwork()) as harness:
        await run_script(SCRIPTS[name], harness)


@pytest.mark.parametrize("name", SCRIPTS)
async def test_the_simulator_follows_the_script(name: str) -> None:
    await run_script(SCRIPTS[name], SimulatedHarness())
