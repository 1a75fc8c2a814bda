"""Opening and closing channels leaves nothing behind."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import psutil
import pytest
import trio

from jgroups_py import Channel, JoinError, open_channel
from jgroups_py.driver import MulticastProbe

# The full stack of sim.xml on real sockets; alone after one millisecond.
FAST = {"SHARED_LOOPBACK_PING.wait": "1ms"}


def left_behind() -> tuple[int, int, int]:
    """File descriptors, sockets, tasks."""
    process = psutil.Process()
    return (
        process.num_fds(),
        len(process.net_connections()),
        trio.lowlevel.current_statistics().tasks_living,
    )


def channels() -> list[Channel]:
    """Return all objects that are still in memory."""
    gc.collect()
    return [o for o in gc.get_objects() if type(o) is Channel]


async def test_a_thousand_cycles_of_the_full_stack_leave_nothing(
    multicast: MulticastProbe, port: int
) -> None:
    attributes = {**FAST, "SHARED_LOOPBACK.mcast_port": str(port)}
    async with open_channel("sim.xml", cluster="cycles", attributes=attributes):
        pass  # imports, and whatever is opened once
    others = channels()  # channels of earlier tests, kept by their exceptions
    # Threads of earlier tests may end meanwhile, with their sockets: trio keeps idle ones for 10 s.
    threads = set(threading.enumerate())
    before = left_behind()
    for _ in range(1000):
        async with open_channel("sim.xml", cluster="cycles", attributes=attributes) as channel:
            channel.send_nowait(b"x")
    assert all(now <= was for now, was in zip(left_behind(), before, strict=True))
    assert set(threading.enumerate()) <= threads
    assert not [o for o in channels() if o is not channel and not any(o is e for e in others)]


async def test_a_refused_opening_leaves_nothing(tmp_path: Path, port: int) -> None:
    stack = tmp_path / "toy.xml"
    stack.write_text(f'<config><toy.TOY bind_port="{port}" mcast_port="{port + 1}"/></config>')
    async with open_channel(str(stack), cluster="one"):
        before, threads = left_behind(), set(threading.enumerate())
        for _ in range(20):
            with pytest.raises(JoinError, match="already in use"):
                async with open_channel(str(stack), cluster="two"):
                    pytest.fail("it opened")
        assert all(now <= was for now, was in zip(left_behind(), before, strict=True))
        assert set(threading.enumerate()) <= threads
