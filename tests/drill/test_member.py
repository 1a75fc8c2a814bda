"""A member of a real drill, with a channel made up by the test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio

from jgroups_py.drill.log import Payload
from jgroups_py.drill.run.member import DrillMember, Task


class SlowFirst:
    """The first sender waits longer than the next one."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self._wait = [1.0, 0.0]

    async def send_many(self, payloads: Sequence[bytes]) -> None:
        await trio.sleep(self._wait.pop(0))
        self.sent += [Payload.unpack(payload).seqno for payload in payloads]


def task(log: Path) -> Task:
    return Task(
        site="NYC",
        name="A",
        incarnation=1,
        site_index=0,
        member_index=0,
        names=[["A"]],
        site_names=["NYC"],
        log=str(log),
        stack="",
        attributes={},
        properties={},
        cluster="",
        seed="",
        traffic=[],
        inject=False,
        inside=[],
        between=[],
        bridge_ports=[],
        known_ports=[],
    )


async def test_two_loads_of_one_member_send_in_the_order_of_their_numbers(
    tmp_path: Path, autojump_clock: object
) -> None:
    member = DrillMember(task(tmp_path / "log"))
    channel: Any = SlowFirst()
    member.zero = 0.0
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(member._send, channel, 100, 3)
    assert channel.sent == [1, 2, 3, 4, 5, 6]
