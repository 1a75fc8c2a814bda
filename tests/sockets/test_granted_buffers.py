"""The receive buffers that the system grants: flow control keeps what is under way within them."""

from __future__ import annotations

import sys

import pytest

from jgroups_py import open_channel
from jgroups_py.config.settings import load_stack
from jgroups_py.tools.commands.mperf_ports import private_attributes


@pytest.mark.sockets
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems round sizes")
async def test_credits_follow_the_buffers_that_the_system_has_granted() -> None:
    attributes = {
        **private_attributes(load_stack("udp.xml"), 1),
        "UDP.mcast_recv_buf_size": "100K",
        "UDP.ucast_recv_buf_size": "200K",
    }
    async with open_channel("udp.xml", cluster="granted", attributes=attributes) as channel:
        found = channel.statistics().protocols
    assert found["UDP"]["multicast_buffer"] == found["MFC"]["under_way_max"] == 100_000
    assert found["UDP"]["unicast_buffer"] == found["UFC"]["under_way_max"] == 200_000


@pytest.mark.sockets
async def test_a_connection_has_no_such_buffer() -> None:
    attributes = {**private_attributes(load_stack("tcp.xml"), 1), "TCP.recv_buf_size": "100K"}
    async with open_channel("tcp.xml", cluster="granted", attributes=attributes) as channel:
        assert channel.statistics().protocols["MFC"]["under_way_max"] == 2_000_000
