"""IPv6: members at ::1, on TCP and UDP; groups of multicast in a network namespace of the test's own."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from jgroups_py import Channel, JoinError, Message, View, open_channel
from jgroups_py.config.file import load_stack
from jgroups_py.driver.interfaces import with_numeric_hosts
from jgroups_py.router import GossipRouter, run_router
from jgroups_py.tools.commands.mperf_ports import free_block
from jgroups_py.values.address import IpAddress

HERE = Path(__file__).parent
PATIENCE = 60.0
"""Seconds after which a test fails. They are more than enough, even on a busy machine."""
pytestmark = pytest.mark.sockets
needs_ipv6 = pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")


def _has_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_loopback = pytest.mark.skipif(not _has_loopback(), reason="there is no ::1 here")


@pytest.mark.parametrize(
    ("host", "java"),
    [
        ("::1", 1),
        ("fd77::1", -42532863),
        ("fd77::2", -42532862),
        ("fe80::21b:21ff:fe07:a3b0", -39730257),
        ("2001:db8:ffff:8000:80ff:7f80:ff00:1", -1644229831),
        ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", -67372036),
        ("8000::", -2147483648),
        ("10.0.0.1", 167772161),
        ("200.1.2.3", -939458045),
    ],
)
def test_addresses_have_the_order_that_they_have_in_java(host: str, java: int) -> None:
    assert IpAddress(host, 7800).order_key[:2] == (java, 7800)


def test_one_of_two_hosts_is_always_the_higher_one() -> None:
    """The order decides which of two connections is closed."""
    hosts = ("fd77::1", "fd77::2", "fd77:0:0:1::", "fd77::1:0:0:0", "::1", "10.0.0.1", "0.0.0.1")
    for one, other in itertools.combinations(hosts, 2):
        a, b = IpAddress(one, 7800).order_key, IpAddress(other, 7800).order_key
        assert (a < b) != (b < a)


def test_localhost_is_of_the_kind_of_the_address_that_is_bound() -> None:
    for bind_addr, expected in (("::1", "::1[7800]"), ("127.0.0.1", "127.0.0.1[7800]")):
        loaded = load_stack("tcp.xml", {"jgroups.bind_addr": bind_addr}, environment={})
        stack = with_numeric_hosts(loaded)
        ping = stack.find("TCPPING")
        assert ping is not None and ping.get("initial_hosts") == expected


async def meet(stack: str, attributes: dict[str, str], host: str = "::1") -> None:
    """Let two members join and receive each other's messages, and let one leave."""
    # FD_SOCK2 listens within the block of the transport, not in that of another group.
    quick = {"GMS.join_timeout": "500ms", "FD_SOCK2.offset": "10", **attributes}
    options = {"cluster": "ipv6", "bind_addr": host, "attributes": quick}
    async with open_channel(stack, name="A", **options) as a:  # type: ignore[arg-type]
        async with open_channel(stack, name="B", **options) as b:  # type: ignore[arg-type]
            with trio.fail_after(PATIENCE):
                while len(a.view.members) != 2 or len(b.view.members) != 2:  # noqa: ASYNC110
                    await trio.sleep(0.02)
                await a.send(b"from a")
                await b.send(b"from b", to=b.view.coordinator)
                assert await _heard(b) == b"from a"
                assert b"from b" in [await _heard(a), await _heard(a)]
        with trio.fail_after(PATIENCE):
            while len(a.view.members) != 1:  # noqa: ASYNC110
                await trio.sleep(0.02)


async def _heard(channel: Channel) -> bytes:
    async for item in channel:
        if isinstance(item, Message):
            return bytes(item.payload)
        assert isinstance(item, View)
    raise AssertionError("the channel has ended")


@needs_loopback
async def test_members_at_ipv6_loopback_meet_over_tcp() -> None:
    port = free_block(20, "::1")
    await meet("tcp.xml", {"TCP.bind_port": str(port), "TCPPING.initial_hosts": f"::1[{port}]"})


@needs_loopback
async def test_members_at_ipv6_loopback_meet_through_a_folder(tmp_path: Path) -> None:
    port = str(free_block(20, "::1"))
    await meet("tcp-file.xml", {"TCP.bind_port": port, "FILE_PING.location": str(tmp_path)})


@needs_loopback
async def test_members_at_ipv6_loopback_meet_through_a_router() -> None:
    async with trio.open_nursery() as nursery:
        router = GossipRouter(bind_addr="::1", bind_port=0)
        host, port = await nursery.start(partial(run_router, router))
        hosts = f"{host}[{port}]"
        bind_port = str(free_block(20, "::1"))
        await meet("tcp-gossip.xml", {"TCP.bind_port": bind_port, "TCPGOSSIP.initial_hosts": hosts})
        nursery.cancel_scope.cancel()


@needs_loopback
async def test_a_group_of_the_other_kind_is_told_with_an_example() -> None:
    with pytest.raises(JoinError, match=r"on ::1 it must be an IPv6 group such as ff0e::8:8:8"):
        async with open_channel("udp.xml", cluster="ipv6", bind_addr="::1"):
            pass


@pytest.mark.timeout(300)
@pytest.mark.parametrize("group", ["ff02::8:8:8", "ff0e::8:8:8"])
def test_members_meet_over_udp_and_ipv6_multicast(group: str) -> None:
    """The test runs in a network namespace: loopback carries no IPv6 multicast, a pair of virtual devices does."""
    script = HERE / "ipv6_namespace.sh"
    command = ["unshare", "--net", "sh", str(script), sys.executable, __file__, group]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if done.returncode == 77 or "Operation not permitted" in done.stderr:
        pytest.skip(f"no network namespace: {done.stderr.strip()[:200]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "met\n"


if __name__ == "__main__":
    own = {"UDP.mcast_addr": sys.argv[1], "UDP.insecure": "true"}
    trio.run(meet, "udp.xml", own, "fd77::1")
    print("met")
