"""Three hosts of one cluster file, over TCP on loopback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from jgroups_py import blocking
from jgroups_py.errors import ConfigError
from jgroups_py.maps import MapBuilder, TcpLinks, open_cluster, open_map, read_audit
from jgroups_py.tools.commands.mperf_ports import free_block

pytestmark = pytest.mark.sockets

SAMPLE = Path(__file__).with_name("seed_cluster.yaml")
SIZE = 1 << 28


class ValueObject(msgspec.Struct):
    venue: str
    time: int
    price: float


def free_ports(count: int) -> list[int]:
    first = free_block(count)
    return list(range(first, first + count))


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - another host brings it, and nobody tells
            await trio.sleep(0.01)


@pytest.mark.seed("K21", "K22", "K23")
async def test_three_hosts_of_the_sample_put_one_value_each_and_all_have_all(
    tmp_path: Path,
) -> None:
    addresses = {f"hostport{n}": f"127.0.0.1:{port}" for n, port in enumerate(free_ports(3), 1)}

    def host(number: int) -> Any:
        return open_cluster(
            SAMPLE,
            number,
            addresses=addresses,
            types={"software.chronicle.enterprise.map.ValueObject": ValueObject},
            folder=tmp_path,
        )

    async with host(1) as one, host(3) as three, host(2) as two:
        maps = [hosts["fx"] for hosts in (one, two, three)]
        # A host that has no link with host 1 yet would get its change from another one.
        await until(lambda: all(len(m.statistics().peers) == 2 for m in maps))
        maps[0].put("USD/GBP", ValueObject("BATS", 1, 0.767957))
        maps[1].put("GBP/USD", ValueObject("BATS", 2, 1.30216))
        maps[2].put("EUR/USD", ValueObject("LXN", 3, 1.16337))
        await until(lambda: all(len(m) == 3 for m in maps))
        assert dict(maps[0]) == dict(maps[1]) == dict(maps[2])
        assert maps[2]["USD/GBP"] == ValueObject("BATS", 1, 0.767957)
        assert list(one) == ["fx"] and len(one) == 1 and one.host.name == "host1"
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["1", "2", "3"]
    records = list(read_audit(tmp_path / "logs" / "1" / "fx"))  # enableReplicationLogging
    sent = {record.node for record in records if record.key == b"USD/GBP" and record.kind == "sent"}
    came = {record.key for record in records if record.kind == "arrived"}
    assert sent == {2, 3} and came == {b"GBP/USD", b"EUR/USD"}


async def test_maps_of_one_file_share_a_port(tmp_path: Path) -> None:
    ports = free_ports(2)
    hosts = ", ".join(
        f"h{n}: {{hostId: {n}, connectUri: '127.0.0.1:{port}'}}" for n, port in enumerate(ports, 1)
    )
    file = tmp_path / "cluster.yaml"
    file.write_text(f"cluster: {{{hosts}}}\nmaps: {{a: {{}}, b: {{keyClass: int}}}}\n")
    async with (
        open_cluster(file, 1, folder=tmp_path) as one,
        open_cluster(file, 2, folder=tmp_path) as two,
    ):
        one["a"]["key"] = [1]
        two["b"][5] = {"x": 1}
        await until(lambda: two["a"].get("key") == [1] and one["b"].get(5) == {"x": 1})


async def test_a_lack_of_a_cluster_file_is_told_with_line_and_key(tmp_path: Path) -> None:
    for options, problem in (
        ({"host_id": 4}, r"there is no host with hostId 4 \(1, 2, 3\)"),
        (
            {"host_id": 1},
            r'seed_cluster.yaml:3: cluster.host1.connectUri: "hostport1" is not HOST:PORT',
        ),
        (
            {"host_id": 1, "addresses": {f"hostport{n}": f"127.0.0.1:{n}" for n in (1, 2, 3, 9)}},
            r'seed_cluster.yaml: no connectUri is "hostport9" \(hostport1, hostport2, hostport3\)',
        ),
        (
            {"host_id": 1, "addresses": {f"hostport{n}": "127.0.0.1:1" for n in (1, 2, 3)}},
            r"yaml:7: cluster.host2.connectUri: 127.0.0.1:1 is that of host1, too",
        ),
        (
            {"host_id": 1, "addresses": {"hostport1": "127.0.0.1:" + "1" * 5_000}},
            r'yaml:3: cluster.host1.connectUri: ".*" is not HOST:PORT',
        ),
    ):
        with pytest.raises(ConfigError, match=problem):
            async with open_cluster(SAMPLE, folder=tmp_path, **options):
                pass
    file = tmp_path / "c.yaml"
    file.write_text(
        "cluster: {a: {hostId: 1, connectUri: '127.0.0.1:1'}}\nmaps: {m: {keyClass: Date}}\n"
    )
    with pytest.raises(ConfigError, match=r"c.yaml:2: maps.m.keyClass: Date is not known: give it"):
        async with open_cluster(file, 1, folder=tmp_path):
            pass


@pytest.mark.seed("K19", "K20")
async def test_a_builder_gives_the_identifier_and_the_connections(tmp_path: Path) -> None:
    ports = free_ports(2)
    places = [f"127.0.0.1:{port}" for port in ports]
    one = MapBuilder.of(str, ValueObject).name("fx").replication(1, TcpLinks(listen=places[0]))
    two = MapBuilder.of(str, ValueObject).name("fx").replication(2, TcpLinks(peers=(places[0],)))
    async with one.open(tmp_path / "1") as here:
        here["key"] = ValueObject("x", 1, 1.5)
        opened = await trio.to_thread.run_sync(
            lambda: blocking.open_map(tmp_path / "2", **two.set(max_bytes=SIZE).options)
        )
        try:
            await until(lambda: opened.get("key") == ValueObject("x", 1, 1.5))
            assert opened.identifier == 2
        finally:
            await trio.to_thread.run_sync(opened.close)


@pytest.mark.seed("K16")
async def test_hosts_connect_with_listen_and_peers(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    place = f"127.0.0.1:{port}"
    common: dict[str, Any] = {"name": "m", "key": str, "value": "json", "max_bytes": SIZE}
    async with (
        open_map(tmp_path / "1", identifier=1, listen=place, **common) as one,
        open_map(tmp_path / "2", identifier=2, peers=[place], **common) as two,
    ):
        one["a"] = 1
        two["b"] = 2
        await until(lambda: dict(one) == dict(two) == {"a": 1, "b": 2})
    with pytest.raises(
        ConfigError, match='a peer must be HOST:PORT, port 0 to 65535, got "elsewhere"'
    ):
        async with open_map(tmp_path / "3", identifier=3, peers=["elsewhere"], **common):
            pass
    with pytest.raises(ConfigError, match="is not of this machine, and nothing encrypts"):
        async with open_map(tmp_path / "3", identifier=3, listen="0.0.0.0:0", **common):
            await trio.sleep_forever()
