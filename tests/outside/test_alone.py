"""A member that stays alone logs hints of others: another cluster, version, port or interface."""

from __future__ import annotations

import logging
import sys

import pytest
import trio
from trio.testing import MockClock

from jgroups_py import MemoryNetwork, open_channel
from jgroups_py.tools.commands.mperf_ports import free_block

SOON = {"MERGE3.min_interval": "1s", "MERGE3.max_interval": "3s"}


def lines(caplog: pytest.LogCaptureFixture, member: str) -> list[str]:
    return [
        r.getMessage()
        for r in caplog.records
        if r.levelno >= logging.WARNING
        and getattr(r, "member", "") == member
        and "is alone" in r.getMessage()
    ]


async def test_another_cluster_on_the_port_is_named_at_both(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryNetwork()
    async with (
        open_channel("udp.xml", cluster="shop", name="A", transport=network, attributes=SOON),
        open_channel("udp.xml", cluster="Shop", name="B", transport=network, attributes=SOON),
    ):
        await trio.sleep(3600)
    (told,) = lines(caplog, "A")
    assert 'members of cluster "Shop" are heard here' in told
    assert "239.8.8.8:45588" in told
    (told,) = lines(caplog, "B")
    assert 'members of cluster "shop" are heard here' in told


async def test_another_version_is_named(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Both members are already alone when they hear each other: neither adopts the other's version."""
    network = MemoryNetwork()
    old = {**SOON, "UDP.version": "5.4", "UDP.max_version_changes": "0"}
    new = {**SOON, "UDP.max_version_changes": "0", "UDP.version": "5.6"}
    async with (
        open_channel("udp.xml", cluster="shop", name="A", transport=network, attributes=old),
        open_channel("udp.xml", cluster="shop", name="B", transport=network, attributes=new),
    ):
        await trio.sleep(3600)
    (told,) = lines(caplog, "A")
    assert "packets of version 5.6" in told
    assert "this member speaks 5.4" in told


async def test_with_tcp_and_multicast_discovery_too(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, tmp_path: object
) -> None:
    network = MemoryNetwork()
    stack = f"{tmp_path}/mping.xml"
    with open(stack, "w") as file:  # noqa: ASYNC230 - nobody else runs
        file.write("<config><TCP/><MPING/><MERGE3 min_interval='1s' max_interval='3s'/>")
        file.write(
            "<pbcast.NAKACK2/><UNICAST3/><pbcast.STABLE/><pbcast.GMS/><MFC/><FRAG2/></config>"
        )
    async with (
        open_channel(stack, cluster="shop", name="A", transport=network),
        open_channel(stack, cluster="other", name="B", transport=network),
    ):
        await trio.sleep(100)
    (told,) = lines(caplog, "A")
    assert 'members of cluster "other" are heard here' in told
    assert "232.5.6.7:7555" in told


async def test_a_member_with_others_or_with_nobody_near_warns_of_nothing(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryNetwork()
    async with (
        open_channel("udp.xml", cluster="shop", name="A", transport=MemoryNetwork()),
        open_channel("udp.xml", cluster="shop", name="B", transport=network),
        open_channel("udp.xml", cluster="shop", name="C", transport=network),
        open_channel("udp.xml", cluster="other", name="D", transport=network),
    ):
        await trio.sleep(600)
    assert [lines(caplog, name) for name in "ABC"] == [[], [], []]
    assert len(lines(caplog, "D")) == 1


@pytest.mark.sockets
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/net")
async def test_another_port_on_this_machine_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """With real sockets a member gets no packets of another port, but the machine knows its listeners."""
    first = free_block(2)
    group = f"239.255.{first >> 8}.{first & 255}"  # other tests have members of the usual group
    there, here = (
        {"UDP.mcast_addr": group, "UDP.mcast_port": str(port)} for port in (first, first + 1)
    )
    async with (
        open_channel("udp.xml", cluster="demo", name="A", attributes=there),
        open_channel("udp.xml", cluster="demo", name="B", attributes=here),
    ):
        with trio.move_on_after(60):
            while not (lines(caplog, "A") and lines(caplog, "B")):  # noqa: ASYNC110
                await trio.sleep(0.2)
    assert lines(caplog, "A") and lines(caplog, "B"), caplog.text
    told = lines(caplog, "B")[0]
    assert f"listens to {group}:{first}" in told
    assert f"(it listens to {group}:{first + 1})" in told
    assert f"listens to {group}:{first + 1}" in lines(caplog, "A")[0]
