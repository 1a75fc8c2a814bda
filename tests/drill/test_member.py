"""A member of a real drill, with a channel made up by the test."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from jgroups_py.drill.log import Payload
from jgroups_py.drill.run.member import DrillMember, MemberTraffic, Task


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


@pytest.mark.parametrize(("incarnation", "sent"), [(1, [8]), (2, [])])
async def test_a_member_that_begins_late_sends_all_and_a_restarted_one_only_what_comes(
    tmp_path: Path, incarnation: int, sent: list[int]
) -> None:
    """A busy machine may not run a member when the drill begins."""
    member = DrillMember(msgspec.structs.replace(task(tmp_path / "log"), incarnation=incarnation))
    member.zero = time.monotonic() - 5.0
    member._started.set()
    runs: list[int] = []

    class Noted:
        async def send_many(self, payloads: Sequence[bytes]) -> None:
            runs.append(len(payloads))

    channel: Any = Noted()
    await member._load(channel, MemberTraffic(rate=16, size=100, start=0.0, stop=0.5, phase=0.0))
    assert runs == sent


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
