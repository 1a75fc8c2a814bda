"""Two members of one logical name: every member logs that once, with both addresses."""

from __future__ import annotations

import logging

import pytest
import trio

from jgroups_py import Channel, MemoryNetwork, open_channel
from jgroups_py.testing import SimCluster

TOLD = "two members are named"


async def read(channel: Channel) -> None:
    async for _ in channel:
        pass


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return member and text of each warning about names."""
    return [
        (getattr(r, "member", ""), r.getMessage())
        for r in caplog.records
        if r.levelno >= logging.WARNING and TOLD in r.getMessage()
    ]


@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
async def test_each_member_names_both_once(
    stack: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryNetwork()
    async with (
        open_channel(stack, cluster="demo", name="B", transport=network) as b,
        open_channel(stack, cluster="demo", name="web", transport=network) as one,
        open_channel(stack, cluster="demo", name="web", transport=network) as two,
        trio.open_nursery() as nursery,
    ):
        for channel in (b, one, two):
            nursery.start_soon(read, channel)
        await trio.sleep(100)
        async with open_channel(stack, cluster="demo", name="C", transport=network):
            await trio.sleep(100)
        await trio.sleep(100)
        told = lines(caplog)
        assert sorted(member for member, _ in told) == ["B", "C", "web", "web"]
        for _, text in told:
            assert '"web"' in text
            for channel in (one, two):
                assert f"{channel.address} at {channel.physical_address}" in text
        nursery.cancel_scope.cancel()


def test_a_member_that_comes_back_under_its_name_is_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """For a moment a restarted member is in one view with its former self."""
    with SimCluster("ABC", ["udp.xml"], seed=1) as cluster:
        cluster.run_for(5)
        cluster.vanish("C")
        cluster.start("C", wait=False)
        cluster.run_for(60)
        views = cluster["B"].views
        assert any(len(view.members) == 4 for view in views)
        assert cluster["B"].view_names == ("A", "B", "C")
    assert lines(caplog) == []
