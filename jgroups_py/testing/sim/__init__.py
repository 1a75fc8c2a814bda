"""The simulator: whole clusters in virtual time, with the real protocol code.

    world = World(seed=7)
    a = world.start("A", "sim.xml", "demo")
    b = world.start("B", "sim.xml", "demo")
    world.run_until(lambda: len(b.view) == 2, limit=10)
    a.send(b"hello")
    world.run_for(1.0)

No trio, no threads, no sockets: an event heap and the same machines that the trio driver runs.
The same seed gives the same run, byte for byte, whatever PYTHONHASHSEED is.

May import: protocols, stack and the rooms below.
Imported by: drill, testing, tools.bench.
"""

from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.network import LinkSettings, Network
from jgroups_py.testing.sim.world import World

__all__ = ["LinkSettings", "Member", "Network", "World"]
