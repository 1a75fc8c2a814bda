"""Maps over channels: real stacks on a network in memory, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from split_network import SplitNetwork
from tcp_hosts import Recorded, TableHost, until

from jgroups_py import Channel, MemoryNetwork, open_channel
from jgroups_py.errors import ConfigError, LocalProtocolError
from jgroups_py.maps import open_map
from jgroups_py.maps.channel import MapChannel, open_map_channel

QUICK = {
    "FD_ALL3.timeout": "4s",
    "FD_ALL3.interval": "1s",
    "MERGE3.min_interval": "1s",
    "MERGE3.max_interval": "3s",
}


class Members:
    """Channels with carriers of maps, and hosts on them."""

    def __init__(self, nursery: trio.Nursery, network: MemoryNetwork) -> None:
        self.nursery, self.network = nursery, network
        self.channels: dict[str, Channel] = {}
        self.carriers: dict[str, MapChannel] = {}
        self.scopes: dict[str, trio.CancelScope] = {}

    async def start(self, name: str, stack: str = "udp.xml", **options: Any) -> MapChannel:
        self.scopes[name] = trio.CancelScope()
        await self.nursery.start(self._run, name, stack, options)
        return self.carriers[name]

    async def _run(
        self, name: str, stack: str, options: dict[str, Any], *, task_status: trio.TaskStatus[None]
    ) -> None:
        options = {"cluster": "maps", "attributes": QUICK} | options
        with self.scopes[name]:
            async with AsyncExitStack() as exits:
                channel = await exits.enter_async_context(
                    open_channel(stack, name=name, transport=self.network, **options)
                )
                carrier = await exits.enter_async_context(open_map_channel(channel))
                self.channels[name], self.carriers[name] = channel, carrier
                task_status.started()
                await trio.sleep_forever()

    def host(self, name: str, node: int, map_: str = "fx", **settings: Any) -> TableHost:
        host = TableHost(node, **settings)
        self.nursery.start_soon(host.run)
        self.nursery.start_soon(self.carriers[name].network(map_).run, host)
        return host


@asynccontextmanager
async def members(network: MemoryNetwork | None = None) -> AsyncIterator[Members]:
    async with trio.open_nursery() as nursery:
        yield Members(nursery, network or MemoryNetwork())
        nursery.cancel_scope.cancel()


def equal(*hosts: TableHost) -> bool:
    return all(host.values == hosts[0].values for host in hosts) and all(
        host.table.vector() == hosts[0].table.vector() for host in hosts
    )


@pytest.mark.seed("K1", "K2", "K6")
async def test_maps_of_a_group_become_equal_with_one_multicast_for_a_change(
    autojump_clock: Any,
) -> None:
    async with members() as group:
        for name in "ABCDE":
            await group.start(name)
        hosts = [group.host(name, number) for number, name in enumerate("ABCDE", 1)]
        await until(lambda: all(len(host.links) == 4 for host in hosts))
        for host in hosts:
            host.put(b"of %d" % host.node, b"value")
        await until(lambda: equal(*hosts) and len(hosts[0].values) == 5)
        before = hosts[0].replica.counters["shared_sent"], hosts[0].replica.counters["entries_sent"]
        hosts[0].put(b"one more", b"value")
        await until(lambda: equal(*hosts) and len(hosts[0].values) == 6)
        await trio.sleep(2)
        counters = hosts[0].replica.counters
        assert (counters["shared_sent"], counters["entries_sent"]) == (before[0] + 1, before[1] + 1)
        assert all(host.replica.counters["garbage"] == 0 for host in hosts)


async def test_one_channel_carries_many_maps(autojump_clock: Any) -> None:
    async with members() as group:
        for name in "AB":
            await group.start(name)
        pairs = [[TableHost(number) for number in (1, 2)] for _ in range(3)]
        for index, pair in enumerate(pairs):
            for name, host in zip("AB", pair, strict=True):
                group.nursery.start_soon(host.run)
                group.nursery.start_soon(group.carriers[name].network(f"map {index}").run, host)
        for index, pair in enumerate(pairs):
            pair[index % 2].put(b"key", b"%d" % index)
        await until(lambda: all(equal(*pair) and pair[0].values for pair in pairs))
        assert [pair[0].values[b"key"] for pair in pairs] == [b"0", b"1", b"2"]


async def test_a_member_that_was_killed_is_missed_and_one_that_joins_gets_all(
    autojump_clock: Any,
) -> None:
    async with members() as group:
        for name in "ABC":
            await group.start(name)
        a, b, c = (group.host(name, number) for number, name in enumerate("ABC", 1))
        c.put(b"of c", b"value")
        await until(lambda: equal(a, b, c) and a.values)
        group.scopes["C"].cancel()
        await until(lambda: len(a.links) == len(b.links) == 1)
        a.put(b"later", b"value")
        await group.start("D")
        d = group.host("D", 4)
        await until(lambda: equal(a, b, d) and len(d.values) == 2)


async def test_parts_of_a_group_that_were_apart_become_equal(autojump_clock: Any) -> None:
    network = SplitNetwork()
    async with members(network) as group:
        for name in "ABCD":
            await group.start(name)
        hosts = [group.host(name, number) for number, name in enumerate("ABCD", 1)]
        await until(lambda: all(len(host.links) == 3 for host in hosts))
        network.side = {id(group.channels[name].driver) for name in "CD"}
        await until(lambda: all(len(host.links) == 1 for host in hosts), 60)
        for host in hosts:
            host.put(b"key", b"of %d" % host.node)
            host.put(b"of %d" % host.node, b"value")
        await trio.sleep(5)
        assert not equal(*hosts)
        network.side = set()
        await until(lambda: equal(*hosts), 60)
        assert len(hosts[0].values) == 5


async def test_messages_of_others_are_counted_and_harm_nothing(autojump_clock: Any) -> None:
    async with members() as group:
        for name in "AB":
            await group.start(name)
        a, b = group.host("A", 1), group.host("B", 2)
        for data in (b"something else", b"jgmaps\x01\xc1", b"jgmaps\x01" + bytes(50)):
            await group.channels["A"].send(data)
        a.put(b"key", b"value")
        await until(lambda: equal(a, b) and b.values)
        carrier = group.carriers["B"]
        assert carrier.counters["other"] == 1 and carrier.counters["garbage"] == 2


async def test_a_message_without_room_is_dropped_and_asked_for_later(autojump_clock: Any) -> None:
    async with members() as group:
        for name in "AB":
            await group.start(name)
        a, b = group.host("A", 1), group.host("B", 2)
        await until(lambda: a.links and b.links)
        carrier = group.carriers["A"]
        room, carrier._unsent_max = carrier._unsent_max, 0
        a.put(b"key", b"value")
        await trio.sleep(1)
        assert carrier.counters["not_sent"] > 0 and b.values == {}
        carrier._unsent_max = room
        await until(lambda: equal(a, b) and b.values)


async def test_a_map_is_served_once_on_a_channel_and_a_channel_has_one_carrier(
    autojump_clock: Any,
) -> None:
    async with members() as group:
        carrier = await group.start("A")
        carrier.add("fx", Recorded())
        with pytest.raises(ConfigError, match="already"):
            carrier.add("fx", Recorded())
        with pytest.raises(LocalProtocolError):
            async with open_map_channel(group.channels["A"]):
                pass


BRIDGE = ",".join(f"127.0.0.1[{port}]" for port in range(7950, 7960))


@pytest.mark.seed("K1")
async def test_maps_of_two_sites_become_equal_over_relay_and_after_they_were_apart(
    autojump_clock: Any,
) -> None:
    async with members() as group:
        for site, port, names in (("NYC", "45001", "AB"), ("SFO", "45002", "CD")):
            for name in names:
                properties = {
                    "relay.site": site,
                    "relay.sites": "NYC,SFO",
                    "relay.bridge.hosts": BRIDGE,
                    "jgroups.udp.mcast_port": port,
                }
                await group.start(
                    name,
                    "relay-udp.xml",
                    cluster=site,
                    properties=properties,
                    attributes=QUICK | {"RELAY.primary": "all"},
                )
        hosts = [group.host(name, number) for number, name in enumerate("ABCD", 1)]
        for host in hosts:
            host.put(b"of %d" % host.node, b"value")
        await until(lambda: equal(*hosts) and len(hosts[0].values) == 4, 60)
        for round_ in range(5):
            for host in hosts:
                host.put(b"key", b"%d of %d" % (round_, host.node))
            await trio.sleep(0.3)
        await until(lambda: equal(*hosts), 60)


async def test_maps_in_files_become_equal_over_a_channel(tmp_path: Path) -> None:
    network = MemoryNetwork()
    async with AsyncExitStack() as exits:
        maps = []
        for number in (1, 2):
            channel = await exits.enter_async_context(
                open_channel("sim.xml", cluster="maps", transport=network)
            )
            carrier = await exits.enter_async_context(open_map_channel(channel))
            maps.append(
                await exits.enter_async_context(
                    open_map(
                        tmp_path / str(number),
                        name="fx",
                        key=str,
                        value=str,
                        identifier=number,
                        network=carrier.network("fx"),
                        max_bytes=64 * 1024**2,
                    )
                )
            )
        maps[0].put("USD/GBP", "0.767957")
        maps[1].put("GBP/USD", "1.30216")
        expected = {"USD/GBP": "0.767957", "GBP/USD": "1.30216"}
        await until(lambda: all(dict(one.items()) == expected for one in maps))
