"""Real sockets with the small receive buffers that a system grants by default."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack

import pytest
import trio

from jgroups_py import Channel, Message, open_channel
from jgroups_py.config.settings import load_stack
from jgroups_py.tools.commands.mperf_ports import private_attributes

pytestmark = pytest.mark.sockets
SMALL = 212_992
"""``net.core.rmem_max`` where it was not raised."""
SIZE, NUMBER = 50_000, 60


async def all_of_one_sender(attributes: dict[str, str]) -> dict[str, float]:
    """Let one of three members send 3 MB at once. Return what its protocols count."""
    buffers = dict.fromkeys(("UDP.mcast_recv_buf_size", "UDP.ucast_recv_buf_size"), str(SMALL))
    attributes = {**private_attributes(load_stack("udp.xml"), 3), **buffers, **attributes}
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(
                open_channel(
                    "udp.xml",
                    cluster=f"small-{os.getpid()}",
                    name=name,
                    bind_addr="127.0.0.1",
                    attributes=attributes,
                )
            )
            for name in "ABC"
        ]
        async with trio.open_nursery() as nursery:
            for channel in channels:
                nursery.start_soon(take, channel)
            await channels[0].send_many([bytes(SIZE)] * NUMBER)
        protocols = channels[0].statistics().protocols
        return {
            "resent": protocols["NAKACK2"]["retransmitted"],
            "fitted": protocols["MFC"]["fitted_credits"],
            "unicasts": protocols["UFC"]["fitted_credits"],
        }


async def take(channel: Channel) -> None:
    """Read all messages."""
    count = 0
    with trio.fail_after(100):
        async for item in channel:
            count += isinstance(item, Message)
            if count == NUMBER:
                return


async def test_a_burst_that_small_buffers_do_not_hold_is_not_lost(multicast: object) -> None:
    found = await all_of_one_sender({})
    assert found == {"resent": 0, "fitted": SMALL, "unicasts": SMALL}


async def test_fitting_can_be_switched_off(multicast: object) -> None:
    """The loss then depends on the load; tests/sim/test_overload.py shows it."""
    found = await all_of_one_sender({"MFC.fit_receive_buffer": "false"})
    assert found["fitted"] == 0 and found["unicasts"] == SMALL
