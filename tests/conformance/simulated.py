"""Harness for the simulator: the same machines on simulated hosts, stepped in virtual time."""

from __future__ import annotations

from collections.abc import Sequence

from drivers import Recorder

from jgroups_py.stack.ports import In, Out
from jgroups_py.testing.sim.host import Host
from jgroups_py.testing.sim.world import World


class SimulatedHarness:
    """Machines a, b and c, each on a host of its own, all of one site."""

    def __init__(self) -> None:
        self.world = World(0)
        self.hosts: dict[str, Host] = {}
        for name in "abc":
            address = self.world.host_address("local", name)
            host = Host(self.world, address, "local", Recorder(name))
            self.hosts[name] = self.world.hosts[address] = host
            self.world.network.sites[address] = "local"

    def host(self, who: str) -> str:
        return self.hosts[who].address

    def put(self, who: str, out: Out) -> None:
        self.hosts[who].machine.put(out)
        self.hosts[who].after_step()

    async def wait(self, seconds: float) -> None:
        self.world.run_for(seconds)

    def inputs(self, who: str) -> Sequence[In]:
        machine = self.hosts[who].machine
        assert isinstance(machine, Recorder)
        return machine.inputs
