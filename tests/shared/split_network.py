"""A network in memory that can be cut in two. Every folder of tests may import it."""

from __future__ import annotations

from typing import Any

from jgroups_py import MemoryNetwork
from jgroups_py.stack.ports import Datagram


class SplitNetwork(MemoryNetwork):
    """Datagrams between the members in ``side`` (``id`` of their drivers) and the others are lost, and those of
    others to the members in ``deaf``."""

    def __init__(self) -> None:
        super().__init__()
        self.side: set[int] = set()
        self.deaf: set[int] = set()

    def send(self, source: Any, data: bytes, dest: Any) -> None:
        here = self.udp[source][0]
        targets = self.groups.get(dest) or ([self.udp[dest]] if dest in self.udp else [])
        for driver, handle in list(targets):
            if id(driver) in self.deaf and driver is not here:
                continue
            if (id(driver) in self.side) == (id(here) in self.side):
                driver.receive(Datagram(handle, data, source))
