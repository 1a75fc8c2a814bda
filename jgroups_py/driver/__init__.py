"""The driver runs one Machine on trio. Only this folder has sockets, a real clock and tasks.

driver = SocketDriver(machine)          or MemoryNetwork().driver(machine)
await nursery.start(driver.run)
... driver.wake() after anything was sent down a stack ...
await driver.stop()

May import: protocols, stack and the rooms below.
Imported by: router, channel and the rooms above.
"""

from __future__ import annotations

import typing

from jgroups_py.lazy import on_first_use

if typing.TYPE_CHECKING:
    from jgroups_py.driver.base import Driver, DriverLimits, Transport
    from jgroups_py.driver.faults import FaultFilter, Faults
    from jgroups_py.driver.memory import MemoryNetwork
    from jgroups_py.driver.multicast import MulticastProbe, probe_multicast
    from jgroups_py.driver.sockets import SocketDriver, SocketTransport

__all__ = [
    "Driver",
    "DriverLimits",
    "FaultFilter",
    "Faults",
    "MemoryNetwork",
    "MulticastProbe",
    "SocketDriver",
    "SocketTransport",
    "Transport",
    "probe_multicast",
]

_PLACES = {
    "base": "Driver DriverLimits Transport",
    "faults": "FaultFilter Faults",
    "memory": "MemoryNetwork",
    "multicast": "MulticastProbe probe_multicast",
    "sockets": "SocketDriver SocketTransport",
}
"""Names that are imported on first use, by module. Rooms without a stack use small modules of this one."""

if not typing.TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _PLACES)
