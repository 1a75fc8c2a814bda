"""A process that stands still while its members look for each other on a network in memory."""

from __future__ import annotations

import time
from typing import Any

from jgroups_py import MemoryNetwork, open_channel


class SlowNetwork(MemoryNetwork):
    """A network whose process stands still for 0.03 s after a member's first datagram."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[Any] = set()

    def send(self, source: Any, data: bytes, dest: Any) -> None:
        super().send(source, data, dest)
        if source not in self.seen:
            self.seen.add(source)
            time.sleep(0.03)


async def test_a_member_finds_the_others_though_its_process_stood_still() -> None:
    network = SlowNetwork()
    async with (
        open_channel("sim.xml", cluster="late", name="A", transport=network) as a,
        open_channel("sim.xml", cluster="late", name="B", transport=network) as b,
    ):
        assert a.view.members == b.view.members == (a.address, b.address)
