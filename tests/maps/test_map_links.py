"""Links of maps over streams in memory, in virtual time: dialling, the choice of a connection, and its end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
import trio.testing
from tcp_hosts import MemoryNetwork, Recorded, TableHost, until

from jgroups_py.errors import ConfigError
from jgroups_py.maps import tcp
from jgroups_py.maps.frames import START, Greeting, frame, opening
from jgroups_py.maps.tcp import TcpPort, open_port
from jgroups_py.maps.tcp_settings import TcpSettings


@asynccontextmanager
async def network(
    monkeypatch: pytest.MonkeyPatch, ports: int, **settings: Any
) -> AsyncIterator[MemoryNetwork]:
    """Ports 1 to ``ports`` of hosts with these identifiers."""
    async with trio.open_nursery() as nursery:
        net = MemoryNetwork(nursery)
        monkeypatch.setattr(tcp, "connect", net.connect)
        for number in range(1, ports + 1):
            net.ports[number] = TcpPort(number, TcpSettings(**settings), nursery)
        yield net
        nursery.cancel_scope.cancel()


def both_serve(net: MemoryNetwork) -> tuple[Recorded, Recorded]:
    """Return the hosts of the map "fx" at ports 1 and 2."""
    one, two = Recorded(), Recorded()
    net.ports[1].serve("fx", one)
    net.ports[2].serve("fx", two)
    return one, two


async def raw(net: MemoryNetwork, number: int = 1, host: str = "stranger") -> Any:
    """Return a plain stream to a port."""
    ours, theirs = trio.testing.memory_stream_pair()
    net.nursery.start_soon(net.ports[number].visited, theirs, host)
    await trio.testing.wait_all_tasks_blocked()
    return ours


async def all_of(stream: Any) -> bytes:
    data = b""
    try:
        while part := await stream.receive_some():
            data += part
    except trio.BrokenResourceError:
        pass
    return data


async def test_messages_arrive_in_order_both_ways(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 2) as net:
        one, two = both_serve(net)
        peer = net.ports[1].dial("fx", "localhost:2")
        await until(lambda: one.links and two.links)
        assert (peer.node, peer.problem, net.ports[1].is_linked(peer)) == (2, "", True)
        for number in range(100):
            one.send(b"a%d" % number)
            two.send(b"b%d" % number)
        await until(lambda: len(one.got) == len(two.got) == 100)
        assert two.got == [b"a%d" % n for n in range(100)]
        assert one.got == [b"b%d" % n for n in range(100)]


async def test_one_connection_stays_of_two_hosts_that_dial_each_other(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(20):
        async with network(monkeypatch, 2) as net:
            one, two = both_serve(net)
            net.ports[1].dial("fx", "localhost:2")
            net.ports[2].dial("fx", "localhost:1")
            await until(lambda: one.links and two.links)  # noqa: B023
            await trio.sleep(60)
            assert len(net.tries) == 2  # no host has dialled again
            assert len(one.links) == len(two.links) == 1
            one.send(b"to two")
            two.send(b"to one")
            await until(lambda: one.got and two.got)  # noqa: B023
            assert (one.got, two.got) == ([b"to one"], [b"to two"])


async def test_a_peer_that_is_listed_twice_has_one_link(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 2) as net:
        one, two = both_serve(net)
        peers = [net.ports[1].dial("fx", place) for place in ("localhost:2", "127.0.0.1:2")]
        await trio.sleep(60)
        assert len(one.links) == len(two.links) == 1 and one.opened == 1
        assert all(net.ports[1].is_linked(peer) for peer in peers)


async def test_a_host_that_dials_itself_gives_up(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 1) as net:
        host = Recorded()
        net.ports[1].serve("fx", host)
        peer = net.ports[1].dial("fx", "localhost:1")
        await trio.sleep(100)
        assert (peer.tries, host.opened, peer.problem) == (1, 0, "this is the host itself")


async def test_a_peer_that_is_down_is_dialled_less_and_less_and_back_soon_after_it_is_up(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 2, retry_first=0.1, retry_max=10.0) as net:
        one, _ = both_serve(net)
        net.down.add(2)
        peer = net.ports[1].dial("fx", "localhost:2")
        await trio.sleep(300)
        assert 30 <= peer.tries <= 75 and "nobody listens" in peer.problem
        gaps = [b - a for a, b in zip(net.tries, net.tries[1:], strict=False)]
        assert gaps[0] <= 0.1 and all(5.0 <= gap <= 10.0 for gap in gaps[-10:])
        net.down.clear()
        await trio.sleep(10.1)
        assert one.links
        await trio.sleep(20)
        began = trio.current_time()
        net.cut()  # the link had lasted long, so the next attempt comes soon
        await until(lambda: one.opened == 2)
        assert trio.current_time() - began < 0.2


async def test_a_link_that_is_quiet_stays_and_one_that_is_silent_ends(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 2, silence_timeout=10.0) as net:
        one, _ = both_serve(net)
        net.ports[1].dial("fx", "localhost:2")
        await trio.sleep(100)
        assert len(one.links) == 1 and one.opened == 1
        silent = await raw(net)
        await silent.send_all(opening(Greeting("fx", 9, b"9" * 16)) + frame(b""))
        await trio.sleep(1)
        assert len(one.links) == 2
        await trio.sleep(10)
        assert len(one.links) == 1 and net.ports[1].counters["silent"] == 1


async def test_a_peer_that_takes_nothing_loses_its_link(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 1, unsent_max=10_000) as net:
        host = Recorded()
        net.ports[1].serve("fx", host)
        ours, theirs = trio.testing.lockstep_stream_pair()  # it takes no bytes before they are read
        net.nursery.start_soon(net.ports[1].visited, theirs, "peer")
        await ours.send_all(opening(Greeting("fx", 9, b"9" * 16)) + frame(b""))
        for _ in range(200):
            await trio.sleep(0.01)
            host.send(b"x" * 100)
        assert net.ports[1].counters["not_taken"] == 1 and host.links == {}


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "not_a_map"),
        (b"jgmaps\x09", "other_version"),
        (START + frame(b"\xc1"), "bad_greeting"),
        (START + b"\xff" * 4, "too_long"),
        (opening(Greeting("another", 9, b"9" * 16)), "unknown_map"),
        (b"", "late"),
        (b"jg", "late"),
    ],
)
async def test_a_stranger_is_turned_away_by_cause(
    data: bytes, cause: str, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 1) as net:
        host = Recorded()
        net.ports[1].serve("fx", host)
        stream = await raw(net)
        if data:
            await stream.send_all(data)
        await trio.sleep(20)
        assert net.ports[1].counters[cause] == 1 and host.opened == 0
        await all_of(stream)


async def test_a_stranger_that_sends_byte_by_byte_is_late(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 1, greeting_timeout=5.0) as net:
        stream = await raw(net)
        sent = 0
        with suppress(trio.BrokenResourceError):
            for byte in opening(Greeting("fx", 9, b"9" * 16)):
                await stream.send_all(bytes([byte]))
                sent += 1
                await trio.sleep(1)
        assert sent in (5, 6)  # the last byte may still be on its way
        assert net.ports[1].counters["late"] == 1


async def test_silent_strangers_keep_nobody_out(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 2, strangers_max=4, strangers_per_host=3) as net:
        one, two = both_serve(net)
        for number in range(50):
            await raw(net, 2, f"host{number % 5}")
        net.ports[1].dial("fx", "localhost:2")
        await trio.sleep(1)
        assert one.links and two.links
        assert net.ports[2].counters["crowded"] == 47


async def test_a_peer_that_dials_a_map_that_is_not_served_is_told_so(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 2) as net:
        net.ports[1].serve("fx", Recorded())
        peer = net.ports[1].dial("fx", "localhost:2")
        await trio.sleep(1)
        assert 'the map "fx" is not served here' in peer.problem
        net.ports[2].serve("fx", Recorded())
        await trio.sleep(20)
        assert net.ports[1].is_linked(peer)


async def test_a_peer_without_a_link_is_told_with_the_reason(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        return [r.message for r in caplog.records if "has no link" in r.message]

    async with network(monkeypatch, 2) as net:
        net.ports[1].serve("fx", Recorded())
        peer = net.ports[1].dial("fx", "localhost:2")
        await trio.sleep(8)
        assert told() == []  # it may start later
        await trio.sleep(40)
        (line,) = told()
        assert 'the map "fx" has no link with localhost:2 since ' in line
        assert 'the map "fx" is not served here' in line
        net.ports[2].serve("fx", Recorded())
        await trio.sleep(100)
        assert net.ports[1].is_linked(peer)
        net.ports[2].drop("fx")
        await trio.sleep(6)
        assert len(told()) == 1  # the time begins anew when the link ends
        await trio.sleep(30)
        assert len(told()) == 2


async def test_a_peer_that_has_dialled_itself_is_not_told_as_missing(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with network(monkeypatch, 2) as net:
        for number, other in ((1, 2), (2, 1)):
            net.ports[number].serve("fx", Recorded())
            net.ports[number].dial("fx", f"localhost:{other}")
        await trio.sleep(200)
        assert "has no link" not in caplog.text


async def test_a_closed_link_sends_its_waiting_changes_before_it_ends(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 2) as net:
        one, two = both_serve(net)
        net.ports[1].dial("fx", "localhost:2")
        await until(lambda: two.links)
        one.send(b"the last word")
        net.ports[1].drop("fx")
        await until(lambda: not two.links)
        assert two.got == [b"the last word"] and one.links != {}  # its host learns nothing of it
        await trio.sleep(100)
        assert two.opened == 1


async def test_closed_ports_do_not_lose_sent_messages(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 2) as net:
        one, two = both_serve(net)
        net.ports[1].dial("fx", "localhost:2")
        await until(lambda: two.links)
        one.send(b"the last word")
        await net.ports[1].leave()
        assert two.got == [b"the last word"] and two.links == {}


@pytest.mark.seed("K2")
async def test_replicas_over_links_end_with_equal_maps_after_cuts(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 3) as net:
        hosts = {number: TableHost(number) for number in net.ports}
        for number, host in hosts.items():
            net.ports[number].serve("fx", host)
            net.nursery.start_soon(host.run)
            for other in hosts:
                if other != number:
                    net.ports[number].dial("fx", f"localhost:{other}")
        for round_ in range(20):
            hosts[1 + round_ % 3].put(b"k%d" % (round_ % 7), b"%d" % round_)
            await trio.sleep(0.05)
            if round_ % 5 == 0:
                net.cut()
        await until(
            lambda: (
                hosts[1].values == hosts[2].values == hosts[3].values and len(hosts[1].values) == 7
            )
        )


@pytest.mark.seed("K17", "K18")
async def test_an_identifier_that_two_hosts_have_is_told_at_both_over_links(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 2) as net:
        one, other = TableHost(1), TableHost(1, life=2)
        one.put(b"key", b"value")
        for number, host in ((1, one), (2, other)):
            net.ports[number].serve("fx", host)
            net.nursery.start_soon(host.run)
        net.ports[1].dial("fx", "localhost:2")
        await trio.sleep(2)
        for host in (one, other):
            assert any("given twice" in told.text for told in host.told), host.told
        assert other.values == {} and net.ports[1].counters["dials"] < 10


@pytest.mark.parametrize(
    "place", ["", "host", ":1", "host:", "host:x", "host:70000", "host:-1", "host:٣"]
)
async def test_a_place_that_is_none_is_refused(
    place: str, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 1) as net:
        net.ports[1].serve("fx", Recorded())
        with pytest.raises(ConfigError, match="HOST:PORT"):
            net.ports[1].dial("fx", place)


async def test_unencrypted_messages_leave_this_machine_only_if_that_is_allowed(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 1) as net:
        net.ports[1].serve("fx", Recorded())
        for place in ("192.0.2.1:1", "example.com:1", "[2001:db8::1]:1"):
            with pytest.raises(ConfigError, match="insecure"):
                net.ports[1].dial("fx", place)
        with pytest.raises(ConfigError, match="insecure"):
            async with open_port(1, listen="0.0.0.0:0"):
                pass
        net.ports[1].allow_clear()
        net.ports[1].dial("fx", "192.0.2.1:1")


async def test_a_map_is_served_once_and_dialled_only_if_it_is_served(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(monkeypatch, 1) as net:
        net.ports[1].serve("fx", Recorded())
        with pytest.raises(ConfigError, match="already"):
            net.ports[1].serve("fx", Recorded())
        with pytest.raises(ConfigError, match="not served"):
            net.ports[1].dial("other", "localhost:2")


@pytest.mark.parametrize(
    "wrong", [{"retry_first": 0}, {"linger": float("nan")}, {"silence_timeout": 0.5}]
)
def test_a_setting_of_tcp_that_makes_no_sense_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        TcpSettings(**wrong)
