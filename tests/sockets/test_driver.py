"""The socket driver: faults on request, lateness, limits, multicast."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import trio

from jgroups_py import open_channel
from jgroups_py.driver import (
    DriverLimits,
    FaultFilter,
    MulticastProbe,
    SocketDriver,
    SocketTransport,
    heap,
    probe_multicast,
)
from jgroups_py.driver.opening import granted
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    Bound,
    Close,
    Closed,
    Connect,
    Connected,
    Datagram,
    JoinGroup,
    Received,
    SendTo,
    Writable,
    Write,
)
from jgroups_py.tools.commands.mperf_ports import free_block
from jgroups_py.values.events import Event, Lag

sys.path.insert(0, str(Path(__file__).parent.parent / "conformance"))

from drivers import DriverHarness, driver_harness

PATIENCE = 60.0
"""Seconds after which a test fails. They are more than enough, even on a busy machine."""


def of(harness: DriverHarness, who: str, kind: type[Any]) -> list[Any]:
    return [item for item in harness.inputs(who) if isinstance(item, kind)]


async def until(condition: Any) -> None:
    with trio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.005)


def driver_of(harness: DriverHarness, who: str) -> SocketDriver:
    driver = harness.drivers[who]
    assert isinstance(driver, SocketDriver)
    return driver


async def two_udp(harness: DriverHarness) -> Any:
    """Open a UDP socket each for a and b (handle 1); return the endpoint of b."""
    for who in "ab":
        harness.put(who, Bind(1, "udp", "127.0.0.1", 0))
    await until(lambda: of(harness, "a", Bound) and of(harness, "b", Bound))
    return of(harness, "b", Bound)[0].local


async def connection(harness: DriverHarness) -> int:
    """Connect a (handle 2) to b; return the handle at b."""
    harness.put("b", Bind(1, "tcp", "127.0.0.1", 0))
    await until(lambda: of(harness, "b", Bound))
    harness.put("a", Connect(2, of(harness, "b", Bound)[0].local, PATIENCE))
    await until(lambda: of(harness, "a", Connected) and of(harness, "b", Accepted))
    handle: int = of(harness, "b", Accepted)[0].handle
    return handle


async def test_loss_duplicates_and_delay_are_made_on_receipt() -> None:
    async with driver_harness(SocketTransport()) as harness:
        dest = await two_udp(harness)
        faults = driver_of(harness, "b").faults = FaultFilter(3, loss=0.5)
        for n in range(100):
            harness.put("a", SendTo(1, bytes([n]), dest))
        await until(lambda: len(of(harness, "b", Datagram)) + faults.dropped == 100)
        assert 30 < faults.dropped < 70
        faults.loss, faults.duplicate, faults.latency = 0, 1.0, 0.15
        before, began = len(of(harness, "b", Datagram)), trio.current_time()
        harness.put("a", SendTo(1, b"late", dest))
        await until(lambda: len(of(harness, "b", Datagram)) == before + 2)
        assert trio.current_time() - began >= 0.15


async def test_a_cut_stops_datagrams_and_holds_connections() -> None:
    async with driver_harness(SocketTransport()) as harness:
        handle = await connection(harness)
        faults = driver_of(harness, "a").faults = FaultFilter(is_cut=lambda endpoint: True)
        harness.put("a", Write(2, b"held"))
        harness.put("b", Write(handle, b"held too"))
        await trio.sleep(0.2)
        assert not of(harness, "a", Received) and not of(harness, "b", Received)
        faults.is_cut = None
        await until(lambda: of(harness, "a", Received) and of(harness, "b", Received))
        assert [i.data for i in of(harness, "b", Received)] == [b"held"]


async def test_a_delayed_connection_keeps_its_order() -> None:
    async with driver_harness(SocketTransport()) as harness:
        await connection(harness)
        driver_of(harness, "b").faults = FaultFilter(5, latency=0.05, jitter=0.05)
        for n in range(20):
            harness.put("a", Write(2, bytes([n])))
            await trio.sleep(0.002)
        harness.put("a", Close(2))
        await until(lambda: of(harness, "b", Closed))
        assert b"".join(i.data for i in of(harness, "b", Received)) == bytes(range(20))


async def test_a_vanished_member_says_and_hears_nothing_closing_included() -> None:
    async with driver_harness(SocketTransport()) as harness:
        handle = await connection(harness)
        faults = driver_of(harness, "a").faults = FaultFilter()
        faults.vanish()
        harness.put("a", Close(2))
        await trio.sleep(0.1)
        assert not of(harness, "b", Closed)
        harness.put("a", Write(2, b"x"))
        harness.put("b", Write(handle, b"y"))
        await trio.sleep(0.1)
        assert not of(harness, "b", Received) and not of(harness, "a", Received)


async def test_unsent_bytes_are_told_and_bounded() -> None:
    limits = DriverLimits(stream_queue_max=20_000_000)
    async with driver_harness(SocketTransport(limits)) as harness:
        await connection(harness)
        # b's reads wait, so that a's kernel buffer fills.
        driver_of(harness, "b").faults = FaultFilter(is_cut=lambda endpoint: True)
        harness.put("a", Write(2, bytes(15_000_000)))
        await until(lambda: of(harness, "a", Writable))
        assert 0 < of(harness, "a", Writable)[0].unsent < 15_000_000
        harness.put("a", Write(2, bytes(15_000_000)))
        await until(lambda: of(harness, "a", Closed))
        assert of(harness, "a", Closed) == [Closed(2, True)]
        assert driver_of(harness, "a").streams_reset == 1


@pytest.mark.parametrize("closed", [False, True])
async def test_bytes_that_the_kernel_does_not_take_at_once_come_complete_and_in_order(
    closed: bool,
) -> None:
    """This also holds for bytes that were written before a close, or while the kernel began to accept more."""
    parts = [bytes([n]) * 1_500_000 for n in range(8)]
    more = [bytes([n]) * 50_000 for n in range(100, 100 if closed else 200)]
    wanted = b"".join([*parts, *more])
    async with driver_harness(SocketTransport()) as harness:
        await connection(harness)
        cut = True
        driver_of(harness, "b").faults = FaultFilter(is_cut=lambda endpoint: cut)
        for part in parts:
            harness.put("a", Write(2, part))
        if closed:
            harness.put("a", Close(2))
        else:
            await until(lambda: of(harness, "a", Writable))
        cut = False
        for part in more:
            await trio.sleep(0.001)
            harness.put("a", Write(2, part))
        size = len(wanted)
        await until(lambda: sum(len(i.data) for i in of(harness, "b", Received)) == size)
        assert b"".join(i.data for i in of(harness, "b", Received)) == wanted


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Calls of ``heap.keep``."""
    calls: list[None] = []
    monkeypatch.setattr(heap, "keep", lambda: calls.append(None))
    return calls


@pytest.mark.parametrize(("size", "keeps"), [(1000, False), (4_000_000, True)])
async def test_freed_memory_is_kept_from_the_first_large_read_on(
    size: int, keeps: bool, kept: list[None]
) -> None:
    """So an idle member keeps none."""
    async with driver_harness(SocketTransport()) as harness:
        harness.put("b", Bind(1, "tcp", "127.0.0.1", 0))
        await until(lambda: of(harness, "b", Bound))
        async with await trio.open_tcp_stream(*of(harness, "b", Bound)[0].local) as peer:
            await peer.send_all(bytes(size))
            await until(lambda: sum(len(i.data) for i in of(harness, "b", Received)) == size)
    assert bool(kept) is keeps


@pytest.mark.parametrize(("size", "keeps"), [(1000, False), (60_000, True)])
async def test_freed_memory_is_kept_from_the_first_large_write_on(
    size: int, keeps: bool, kept: list[None]
) -> None:
    """A member that only sends reads nothing large."""
    async with driver_harness(SocketTransport()) as harness:
        with socket.create_server(("127.0.0.1", 0)) as peer:
            harness.put("a", Connect(2, peer.getsockname(), PATIENCE))
            await until(lambda: of(harness, "a", Connected))
            harness.put("a", Write(2, bytes(size)))
            arrived = trio.SocketStream(trio.socket.from_stdlib_socket(peer.accept()[0]))
            async with arrived:
                while size:
                    size -= len(await arrived.receive_some())
    assert bool(kept) is keeps


async def test_more_connections_than_allowed_are_closed() -> None:
    async with driver_harness(SocketTransport(DriverLimits(connections_max=2))) as harness:
        harness.put("b", Bind(1, "tcp", "127.0.0.1", 0))
        await until(lambda: of(harness, "b", Bound))
        clients = [socket.create_connection(of(harness, "b", Bound)[0].local) for _ in range(4)]
        await until(lambda: driver_of(harness, "b").connections_refused == 2)
        assert len(of(harness, "b", Accepted)) == 2
        for client in clients:
            client.close()


async def test_connections_get_the_buffers_that_are_asked_for() -> None:
    """Both sides. The statistics show the granted sizes."""
    async with driver_harness(SocketTransport()) as harness:
        sizes: Any = {"send_buffer": 50_000, "receive_buffer": 60_000, "nodelay": False}
        harness.put("b", Bind(1, "tcp", "127.0.0.1", 0, **sizes))
        await until(lambda: of(harness, "b", Bound))
        harness.put("a", Connect(2, of(harness, "b", Bound)[0].local, PATIENCE, **sizes))
        await until(lambda: of(harness, "a", Connected) and of(harness, "b", Accepted))
        for who in "ab":
            driver = driver_of(harness, who)
            (stream,) = driver.streams.values()
            assert stream.sock is not None
            assert granted(stream.sock, socket.SO_SNDBUF) == 50_000
            assert granted(stream.sock, socket.SO_RCVBUF) == 60_000
            assert not stream.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            found = driver.statistics()
            assert (found["stream_send_buffer"], found["stream_receive_buffer"]) == (50_000, 60_000)


async def test_connections_that_ask_for_no_buffers_keep_the_choice_of_the_kernel() -> None:
    async with driver_harness(SocketTransport()) as harness:
        await connection(harness)
        for who in "ab":
            driver = driver_of(harness, who)
            (stream,) = driver.streams.values()
            assert stream.sock is not None
            assert stream.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert driver.statistics()["stream_send_buffer"] == 0


async def test_the_statistics_name_the_smallest_buffers_that_were_granted() -> None:
    """The kernel grants less than was requested where its limits are lower."""
    async with driver_harness(SocketTransport()) as harness:
        driver = driver_of(harness, "a")
        with socket.socket() as few, socket.socket() as many:
            for sock, size in ((many, 40_000), (few, 30_000), (many, 40_000)):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
                driver.opened(sock, Connect(1, ("127.0.0.1", 1), 1.0, send_buffer=100_000_000))
        found = driver.statistics()
        assert (found["stream_send_buffer"], found["stream_receive_buffer"]) == (30_000, 0)


async def test_datagrams_the_kernel_refuses_are_counted() -> None:
    async with driver_harness(SocketTransport()) as harness:
        dest = await two_udp(harness)
        harness.put("a", SendTo(1, bytes(70_000), dest))
        harness.put("a", SendTo(1, b"fits", dest))
        await until(lambda: of(harness, "b", Datagram))
        assert driver_of(harness, "a").send_errors == 1


async def test_a_process_that_was_stopped_tells_its_stacks(
    tmp_path: Path, port: int, multicast: MulticastProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toy import TOY

    heard: list[Event] = []
    plain = TOY.event_down

    def listen(self: TOY, event: Event) -> None:
        heard.append(event)
        plain(self, event)

    monkeypatch.setattr(TOY, "event_down", listen)
    stack = tmp_path / "toy.xml"
    stack.write_text(f'<config><toy.TOY mcast_port="{port}"/></config>')
    async with open_channel(str(stack), cluster="lag"):
        began = time.monotonic()
        await trio.sleep(0.05)
        time.sleep(2.0)  # noqa: ASYNC251 (as if the process had been stopped)
        await trio.sleep(0.05)
        took = time.monotonic() - began
    lags = [event.seconds for event in heard if isinstance(event, Lag)]
    # A busy machine lets this process wait, too.
    assert max(lags) > 0.5 and sum(lags) <= took, (lags, took)


def test_multicast_is_found_out_by_sending(multicast: MulticastProbe) -> None:
    assert probe_multicast("127.0.0.1") == MulticastProbe(True, "")
    nowhere = probe_multicast("192.0.2.1")
    assert not nowhere
    assert "192.0.2.1" in nowhere.why


async def test_ipv6_datagrams_connections_and_groups() -> None:
    if not socket.has_ipv6 or not probe_multicast("::1"):
        pytest.skip("no IPv6 multicast on loopback")
    async with driver_harness(SocketTransport()) as harness:
        for who in "ab":
            harness.put(who, Bind(1, "udp", "::1", 0))
        await until(lambda: of(harness, "a", Bound) and of(harness, "b", Bound))
        source, dest = (of(harness, who, Bound)[0].local for who in "ab")
        harness.put("a", SendTo(1, b"six", dest))
        await until(lambda: of(harness, "b", Datagram))
        assert of(harness, "b", Datagram) == [Datagram(1, b"six", source)]


async def test_own_multicasts_may_be_left_out_and_only_they(multicast: MulticastProbe) -> None:
    group = ("239.255.98.8", free_block(1))
    async with driver_harness(SocketTransport()) as harness:
        await two_udp(harness)
        harness.put("a", JoinGroup(2, group, "127.0.0.1", without=1))
        await until(lambda: len(of(harness, "a", Bound)) == 2)
        harness.put("a", SendTo(1, b"own", group))
        await trio.sleep(0.1)
        harness.put("b", SendTo(1, b"other", group))
        await until(lambda: of(harness, "a", Datagram))
        heard = [item.data for item in of(harness, "a", Datagram)]
        assert heard == ([b"other"] if sys.platform.startswith("linux") else [b"own", b"other"])
