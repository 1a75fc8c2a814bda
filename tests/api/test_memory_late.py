"""A process that stands still while its members look for each other on a network in memory."""

from __future__ import annotations

from typing import Any

from trio.testing import MockClock

from jgroups_py import MemoryNetwork, open_channel


class SlowNetwork(MemoryNetwork):
    """A network whose process stands still for 0.03 s after a member's first datagram."""

    def __init__(self, clock: MockClock) -> None:
        super().__init__()
        self.clock = clock
        self.seen: set[Any] = set()

    def send(self, source: Any, data: bytes, dest: Any) -> None:
        super().send(source, data, dest)
        if source not in self.seen:
            self.seen.add(source)
            self.clock.jump(0.03)


async def test_a_member_finds_the_others_though_its_process_stood_still(
    autojump_clock: MockClock,
) -> None:
    for _ in range(10):  # trio runs the tasks of a round in either order
        network = SlowNetwork(autojump_clock)
        async with (
            open_channel("sim.xml", cluster="late", name="A", transport=network) as a,
            open_channel("sim.xml", cluster="late", name="B", transport=network) as b,
        ):
            assert a.view.members == b.view.members == (a.address, b.address)
