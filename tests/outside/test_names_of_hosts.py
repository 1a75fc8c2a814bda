"""Hosts of TCPPING by name: a name that is not known yet is looked up again, never refused."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import pytest
import trio
from trio.testing import MockClock

from jgroups_py import Channel, ConfigError, MemoryNetwork, open_channel
from jgroups_py.driver import SocketTransport
from jgroups_py.testing import SimCluster
from jgroups_py.tools.commands.mperf_ports import free_block


class Names:
    """A name server. ``asked``: each question, with its time."""

    def __init__(self, **known: Sequence[str]) -> None:
        self.known: dict[str, Sequence[str]] = dict(known)
        self.asked: list[tuple[float, str]] = []

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append((trio.current_time(), host))
        if host not in self.known:
            raise OSError(-2, "Name or service not known")
        return self.known[host]


def member(
    network: MemoryNetwork, name: str, host: str, hosts: str = "db[7800]"
) -> AbstractAsyncContextManager[Channel]:
    return open_channel(
        "tcp.xml",
        cluster="demo",
        name=name,
        bind_addr=host,
        transport=network,
        properties={"jgroups.tcpping.initial_hosts": hosts, "jgroups.tcp.port_range": "0"},
    )


def lines(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [
        r.getMessage()
        for r in caplog.records
        if r.levelno >= logging.WARNING and part in r.getMessage()
    ]


async def test_members_that_start_before_their_name_does_find_each_other(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    names = Names()
    network = MemoryNetwork(resolver=names)
    async with (
        member(network, "A", "10.0.0.1") as a,
        member(network, "B", "10.0.0.2") as b,
    ):
        await trio.sleep(300)
        assert len(a.view.members) == len(b.view.members) == 1
        told = lines(caplog, 'initial host "db" does not resolve')
        assert 2 <= len(told) <= 12  # two members, once a minute at most
        assert "Name or service not known" in told[0]
        assert len(names.asked) < 2 * 30
        names.known["db"] = ("10.0.0.1", "10.0.0.2")
        await trio.sleep(150)
        assert len(a.view.members) == len(b.view.members) == 2


async def test_a_name_with_several_addresses_stands_for_all(autojump_clock: MockClock) -> None:
    network = MemoryNetwork(resolver=Names(db=("10.0.0.9", "10.0.0.1", "10.0.0.2")))
    async with member(network, "A", "10.0.0.1"), member(network, "B", "10.0.0.2") as b:
        assert len(b.view.members) == 2
    async with member(network, "B", "10.0.0.2"), member(network, "A", "10.0.0.1") as a:
        assert len(a.view.members) == 2


async def test_new_addresses_are_noticed(autojump_clock: MockClock) -> None:
    names = Names(db=("10.0.0.1",))
    network = MemoryNetwork(resolver=names)
    async with member(network, "A", "10.0.0.2") as a, member(network, "B", "10.0.0.3") as b:
        await trio.sleep(60)
        assert len(a.view.members) == 1
        names.known["db"] = ("10.0.0.2", "10.0.0.3")
        await trio.sleep(150)
        assert len(a.view.members) == len(b.view.members) == 2
        before = len(names.asked)
        await trio.sleep(600)
        assert len(names.asked) - before <= 2 * 11  # once a minute, when no address is missing


@pytest.mark.parametrize("host", ["no host", "-db", "db_1!", "10.0.0.300", "a..b", "10.0.0"])
async def test_a_text_that_cannot_be_a_host_is_refused_at_once(host: str) -> None:
    with pytest.raises(ConfigError, match=r"initial_hosts: not a host.*localhost\[7800\]"):
        async with member(MemoryNetwork(), "A", "10.0.0.1", f"{host}[7800]"):
            pass


@pytest.mark.sockets
async def test_members_on_real_sockets_find_a_name_that_comes_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The look-up runs in a thread; the loop goes on meanwhile."""
    known: dict[str, Sequence[str]] = {}
    first = free_block(8)

    def resolver(host: str) -> Sequence[str]:
        if host not in known:
            raise OSError(-2, "Name or service not known")
        return known[host]

    def real(name: str, port: int) -> AbstractAsyncContextManager[Channel]:
        return open_channel(
            "tcp.xml",
            cluster="names",
            name=name,
            transport=SocketTransport(resolver=resolver),
            attributes={
                "TCP.bind_port": str(port),
                "TCPPING.initial_hosts": f"db.svc[{first}],db.svc[{first + 1}]",
                "FD_SOCK2.offset": "2",
                "TCPPING.resolve_interval": "200ms",
                "TCPPING.port_range": "0",
                "MERGE3.min_interval": "200ms",
                "MERGE3.max_interval": "500ms",
                "GMS.join_timeout": "500ms",
            },
        )

    async with real("A", first) as a, real("B", first + 1):
        assert len(a.view.members) == 1
        with trio.fail_after(30):
            while not lines(caplog, 'initial host "db.svc" does not resolve'):  # noqa: ASYNC110
                await trio.sleep(0.02)
        known["db.svc"] = ("127.0.0.1",)
        await a.wait_members(["B"], timeout=60)


def test_the_simulator_has_names_too() -> None:
    options = {"TCPPING.initial_hosts": "db[7800]", "TCPPING.port_range": "0"}
    known: dict[str, Sequence[str]] = {}
    cluster = SimCluster("AB", ["tcp.xml"], seed=3, attributes=options)
    cluster.open()
    cluster.world.resolver = lambda host: known.get(host, ())
    cluster.start("A", "B", wait=False)
    cluster.run_for(10)
    assert cluster["A"].view_names == ("A",)
    known["db"] = ("10.0.0.1", "10.0.0.2")
    cluster.run_for(150)
    assert len(cluster["A"].view_names) == 2
    cluster.close()
