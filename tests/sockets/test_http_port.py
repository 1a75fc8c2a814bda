"""The port at which Prometheus reads a page: its answers, and hostile requests."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from jgroups_py import ConfigError, open_channel
from jgroups_py.driver import http_port
from jgroups_py.driver.http_port import HttpPort, is_local, open_port, place_of
from jgroups_py.tools.cli import run
from jgroups_py.tools.commands.mperf_ports import free_block

pytestmark = pytest.mark.sockets

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


class Served:
    """A port with a page, and its refusals."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.pages = 0
        self.place = ("", 0)

    async def page(self) -> bytes:
        self.pages += 1
        return b"number 1\n"

    async def ask(self, request: bytes) -> bytes:
        """Return the whole answer; empty if the port closed the connection."""
        with trio.fail_after(30):
            try:
                async with await trio.open_tcp_stream(*self.place) as stream:
                    await stream.send_all(request)
                    return b"".join([part async for part in stream])
            except (trio.BrokenResourceError, OSError):
                return b""


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    known = Served()
    listener = open_port("metrics", 0)
    known.place = place_of(listener)
    port = HttpPort(
        "/metrics", "text/plain", known.page, lambda cause, _: known.refused.append(cause)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(port.serve, listener)
        yield known
        nursery.cancel_scope.cancel()


async def test_the_page_is_answered_and_the_connection_closed() -> None:
    async with served() as port:
        for request in (
            GET,
            GET.replace(b"/metrics", b"/metrics?a=b"),
            b"GET /metrics HTTP/1.0\n\n",
        ):
            head, _, body = (await port.ask(request)).partition(b"\r\n\r\n")
            assert body == b"number 1\n"
            assert head.splitlines() == [
                *(b"HTTP/1.1 200 OK", b"Content-Type: text/plain", b"Content-Length: 9"),
                b"Connection: close",
            ]
        assert port.refused == []


@pytest.mark.parametrize(
    ("request_", "status", "refused"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404", []),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405", []),
        (b"get me\r\n\r\n", b"400", ["malformed"]),
        (b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 2000, b"", ["malformed"]),
    ],
)
async def test_other_requests_get_no_page(
    request_: bytes, status: bytes, refused: list[str]
) -> None:
    async with served() as port:
        answer = await port.ask(request_)
        if status:  # the port may close before all of a long request was read
            assert answer.split()[1] == status
        with trio.fail_after(30):
            while port.refused != refused:  # noqa: ASYNC110 - it is told after the answer
                await trio.sleep(0.01)
        assert port.pages == 0


async def test_a_client_that_says_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_port, "REQUEST_TIMEOUT", 0.05)
    async with served() as port:
        assert await port.ask(b"GET") == b""
        with trio.fail_after(30):
            while port.refused != ["too_slow"]:  # noqa: ASYNC110 - it is told after the answer
                await trio.sleep(0.01)
        monkeypatch.undo()
        assert b"number 1" in await port.ask(GET)


async def test_further_connections_than_allowed_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_port, "REQUEST_TIMEOUT", 100.0)  # so that the first ones stay
    async with served() as port:
        async with trio.open_nursery() as nursery:
            streams = [await trio.open_tcp_stream(*port.place) for _ in range(8)]
            for stream in streams:
                await stream.send_all(b"GET")
            with trio.fail_after(30):
                while b"200" in await port.ask(GET):  # noqa: ASYNC110 - until all are taken
                    await trio.sleep(0.01)
            assert set(port.refused) == {"too_many_connections"}
            for stream in streams:
                nursery.start_soon(stream.aclose)
        with trio.fail_after(30):
            while b"200" not in await port.ask(GET):  # noqa: ASYNC110
                await trio.sleep(0.01)


async def test_any_bytes_are_survived() -> None:
    drawn = random.Random(7)
    async with served() as port:
        for _ in range(30):
            await port.ask(drawn.randbytes(drawn.choice([1, 30, 500])) + b"\n\n")
        assert b"number 1" in await port.ask(GET)
        assert set(port.refused) == {"malformed"}


@pytest.mark.parametrize("where", ["", "x", "127.0.0.1", "1-", "5-4", "70000", "a:b:1", "0-3"])
def test_a_port_of_another_form_is_refused(where: str) -> None:
    with pytest.raises(ConfigError, match=r"metrics must be PORT, HOST:PORT or HOST:FIRST-LAST"):
        open_port("metrics", where)


async def test_a_range_is_tried_in_order_and_a_taken_port_is_reported() -> None:
    first = free_block(2)
    with open_port("metrics", f"{first}-{first + 1}").socket as one:
        other = open_port("metrics", f"127.0.0.1:{first}-{first + 1}")
        with other.socket:
            assert one.getsockname()[1] == first
            assert place_of(other) == ("127.0.0.1", first + 1)
            assert is_local(other)
            with pytest.raises(ConfigError, match=rf'cannot listen on "{first}": .*EADDRINUSE'):
                open_port("metrics", first)


async def test_a_channel_serves_its_own_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_block(1)
    async with open_channel("udp.xml", cluster="demo", name="A", metrics=port) as channel:
        asked = Served()
        asked.place = ("127.0.0.1", port)
        answer = (await asked.ask(GET)).decode()
        assert 'jgroups_view_members{cluster="demo",member="A"} 1.0' in answer
        assert "version=" in answer.partition("\r\n\r\n")[0]
        await asked.ask(b"no request\n\n")
        with trio.fail_after(30):
            while channel.statistics().turned_away != {"METRICS.malformed": 1}:  # noqa: ASYNC110
                await trio.sleep(0.01)
        with pytest.raises(ConfigError, match=r"metrics: cannot listen"):
            async with open_channel("udp.xml", cluster="demo", metrics=f"127.0.0.1:{port}"):
                pass
    assert await asked.ask(GET) == b""


async def test_the_command_prints_numbers_of_members_that_it_asks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    port = free_block(1)
    settings = {"UDP.diag.enabled": "true", "UDP.diag.port": str(port)}
    args = ["metrics", "--once", "--port", str(port), "--count", "1", "--timeout", "20s"]
    async with open_channel("udp.xml", cluster="demo", name="A", attributes=settings):
        assert await trio.to_thread.run_sync(run, args) == 0
    out = capsys.readouterr().out
    assert 'jgroups_gms_views_installed{cluster="demo",member="A"} 1.0' in out
    assert "# HELP jgroups_udp_packets_sent packets_sent of UDP" in out
