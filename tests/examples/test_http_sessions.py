"""The ports of examples/http_sessions.py, and strangers with plain sockets: garbage, half requests, large headers, a byte now and
then, hundreds of connections. Others are served, and each limit counts."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from wsgiref.simple_server import make_server

import pytest

from examples import http_sessions as example
from jgroups_py import blocking
from jgroups_py.sessions import SessionSettings, WsgiSessions

pytestmark = pytest.mark.sockets
HEAD = b"POST /?tea=1 HTTP/1.1\r\nHost: x\r\n"
NONE_CLOSED = {"late": 0, "replaced": 0, "full": 0, "broken": 0}


@contextmanager
def running(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """A server and a router before it, with few places."""
    monkeypatch.setattr(example, "CONNECTIONS_MAX", 20)
    with ExitStack() as stack:
        cache = stack.enter_context(blocking.open_tree_cache("local.xml"))
        shop = example.Shop("A", cache)
        sessions = WsgiSessions(shop, cache, SessionSettings(secure=False), route="A")
        server = make_server("127.0.0.1", 0, sessions, example.Server, example.Handler)
        shop.counts = server.counts
        server.shop = shop  # type: ignore[attr-defined]
        stack.enter_context(running(server))
        router = stack.enter_context(running(example.Router(0, {"A": server.server_port})))
        yield server, router


def connected(port: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port.server_port), timeout=20)


def answer(port: Any, sent: bytes) -> bytes:
    """Return the first line of the answer; empty if the connection is closed without one."""
    with connected(port) as stranger:
        try:
            stranger.sendall(sent)
            return stranger.makefile("rb").readline(200).strip()
        except ConnectionError:
            return b""


def is_closed(stranger: socket.socket) -> bool:
    """Wait until the other side closes the connection, without an answer."""
    try:
        return stranger.recv(100) == b""
    except ConnectionError:
        return True


def served(port: Any) -> Any:
    status, shown = example.Visitor(port.server_port).ask("POST", "/?milk=2")
    assert status == 200 and shown["cart"] == {"milk": "2"}
    return shown


def watch(server: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the method of each request that reaches the application."""
    carried_out: list[str] = []
    inner = server.get_app()

    def application(environ: Any, start_response: Any) -> Any:
        carried_out.append(environ["REQUEST_METHOD"])
        return inner(environ, start_response)

    monkeypatch.setattr(server, "application", application)
    return carried_out


def drip(slow: socket.socket) -> int:
    """Send a byte now and then. Return how many were sent before the connection was closed."""
    for count, byte in enumerate(HEAD * 10):
        try:
            slow.sendall(bytes([byte]))
        except ConnectionError:
            return count
        time.sleep(0.02)
    return len(HEAD) * 10


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"\x00\xff garbage\r\n\r\n", b""),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (HEAD + b"X: " + b"a" * 10_000_000 + b"\r\n\r\n", b"431"),
        (HEAD + b"X: y\r\n" * 101 + b"\r\n", b"431"),
        (HEAD + b"Content-Length: abc\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: -5\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: \xb2\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: 1000001\r\n\r\n", b"413"),
        (HEAD + b"Content-Length: 99999999999999999999\r\n\r\nabc", b"413"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (b"DELETE / HTTP/1.1\r\n\r\n", b"501"),
        (b"POST /\x01 HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /\xc3\xa4 HTTP/1.1\r\n\r\n", b"400"),
    ],
)
def test_a_request_that_is_none_is_refused_by_the_router(
    ports: tuple[Any, Any], sent: bytes, expected: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    _, router = ports
    got = answer(router, sent)
    assert expected in got or (len(sent) > 50_000 and got == b"")  # the answer may be cut off
    assert not router._down, "the server is not regarded as dead"
    assert "Traceback" not in capsys.readouterr().err
    served(router)


def test_a_body_that_nobody_needs_is_no_harm(
    ports: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that closes a connection with unread bytes resets it, and the router would regard the server as dead. The body is
    larger than all buffers of the system."""
    size = 20_000_000
    monkeypatch.setattr(example, "BODY_MAX", size)
    sent = HEAD + b"Content-Length: %d\r\n\r\n" % size + b"x" * size
    for port in ports:
        assert b"200" in answer(port, sent)
    assert not ports[1]._down


@pytest.mark.parametrize(
    "half",
    [
        HEAD,
        HEAD + b"Cookie: sess",
        HEAD + b"Content-Length: 9\r\n\r\nhalf",
        b"GET /?t",
        b"POST / HTTP/1.1",
    ],
)
@pytest.mark.parametrize("end", ["by the client", "late"])
def test_half_a_request_is_not_carried_out(
    ports: tuple[Any, Any], half: bytes, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out = watch(ports[0], monkeypatch)
    if end == "late":
        monkeypatch.setattr(example, "REQUEST_SECONDS", 0.1)
    for port in ports:
        with connected(port) as stranger:
            stranger.sendall(half)
            if end == "by the client":
                stranger.shutdown(socket.SHUT_WR)
            assert is_closed(stranger)
        until(lambda: not port._open)  # noqa: B023
        why = "late" if end == "late" else "broken"
        assert port.counts == {**NONE_CLOSED, why: 1}, "each connection is counted once"
    assert carried_out == []


def test_a_request_whose_connection_was_ended_just_before_is_not_carried_out(
    ports: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out = watch(ports[0], monkeypatch)
    usual = example.Arriving.take_body

    def ended_meanwhile(handler: Any) -> bool:
        found = usual(handler)
        with handler.server._lock:
            handler.server._end("replaced", handler.request)
        return found

    monkeypatch.setattr(example.Arriving, "take_body", ended_meanwhile)
    for port in ports:
        assert answer(port, HEAD + b"\r\n") == b""
        assert port.counts == {**NONE_CLOSED, "replaced": 1}
    assert carried_out == []


def test_a_connection_that_is_closed_without_a_request_is_no_broken_one(
    ports: tuple[Any, Any],
) -> None:
    for port in ports:
        with connected(port) as stranger:
            until(lambda: len(port._open) == 1)  # noqa: B023
            stranger.shutdown(socket.SHUT_WR)
            assert is_closed(stranger)
        until(lambda: not port._open)  # noqa: B023
        assert port.counts == NONE_CLOSED


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/?" + "n" * 201 + "=1", 409),
        ("/?@id=1", 409),
        ("/?n=" + "v" * 16_000, 409),
        ("/?" + "&".join(f"n{n}=1" for n in range(101)), 409),
        ("/protected", 400),
        ("/protected?members=x", 400),
        ("/protected?members=99999999999999999999", 400),
        ("/port", 200),
        ("/?%ff%00=%fe", 200),
    ],
)
def test_a_request_that_asks_too_much_is_refused_by_the_server(
    ports: tuple[Any, Any], path: str, expected: int
) -> None:
    server, router = ports
    for port in (server, router):
        assert example.Visitor(port.server_port).ask("POST", path)[0] == expected
        served(port)


def test_connections_without_a_request_make_room_for_others(ports: tuple[Any, Any]) -> None:
    threads = threading.active_count()
    for port in ports:
        with ExitStack() as stack:
            half = [stack.enter_context(connected(port)) for _ in range(200)]
            for stranger in half[-20:]:
                stranger.sendall(b"GET / HT")
            served(port)
            until(lambda: threading.active_count() < threads + 60)  # no thread for each of 200
            assert port.counts["replaced"] >= 180 and not port.counts["full"]
            assert len(port._open) <= 20
            assert half[0].recv(10) == b""
        until(lambda: not port._open)  # noqa: B023
    status, shown = example.Visitor(ports[0].server_port).ask("GET", "/port")
    assert status == 200 and shown["replaced"] >= 180
    assert example.Visitor(ports[1].server_port).ask("GET", "/router")[1]["replaced"] >= 180


def test_a_byte_now_and_then_is_too_slow(
    ports: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for port in ports:
        with monkeypatch.context() as quick:
            quick.setattr(example, "REQUEST_SECONDS", 0.5)
            with connected(port) as slow:
                assert drip(slow) < len(HEAD) * 10
        assert port.counts == {**NONE_CLOSED, "late": 1}
        served(port)


def test_a_body_that_does_not_come_is_too_slow(
    ports: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, router = ports
    with monkeypatch.context() as quick:
        quick.setattr(example, "REQUEST_SECONDS", 0.3)
        assert answer(router, HEAD + b"Content-Length: 100\r\n\r\nabc") == b""
    assert router.counts["late"] == 1
    served(router)


def test_requests_that_have_come_are_not_replaced(ports: tuple[Any, Any]) -> None:
    server, _ = ports
    busy, go_on = threading.Semaphore(0), threading.Event()
    inner = server.get_app()

    def waits(environ: Any, start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/slow":
            busy.release()
            go_on.wait(20)
        return inner(environ, start_response)

    server.set_app(waits)
    with ExitStack() as stack:
        callers = [stack.enter_context(connected(server)) for _ in range(20)]
        for caller in callers:
            caller.sendall(b"GET /slow HTTP/1.0\r\n\r\n")
        for _ in callers:
            assert busy.acquire(timeout=20)
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            served(server)
        assert server.counts["full"] == 1 and not server.counts["replaced"]
        go_on.set()
        for caller in callers:
            assert b"200 OK" in caller.makefile("rb").read()
    until(lambda: not server._open)
    served(server)


def test_a_watcher_more_than_there_are_places_is_told_so(ports: tuple[Any, Any]) -> None:
    server, _ = ports
    waiting, go_on = threading.Semaphore(0), threading.Event()

    class Waits:
        members = ("A",)

        def wait_protected(self, members: int, *, timeout: float) -> None:
            assert timeout < example.SERVER_SECONDS
            waiting.release()
            assert go_on.wait(20)

    server.shop.cache = Waits()
    found: list[int] = []

    def ask() -> None:
        found.append(example.Visitor(server.server_port).ask("GET", "/protected?members=1")[0])

    watchers = [threading.Thread(target=ask) for _ in range(example.WATCHERS_MAX)]
    for watcher in watchers:
        watcher.start()
    for _ in watchers:
        assert waiting.acquire(timeout=20)
    ask()
    assert found == [503]
    go_on.set()
    for watcher in watchers:
        watcher.join(20)
    assert found[1:] == [200] * example.WATCHERS_MAX


def test_clients_that_break_off_are_counted_and_harm_nobody(
    ports: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    server, _ = ports
    for number in range(30):
        stranger = connected(server)
        stranger.sendall(HEAD)
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # the end is a reset
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        stranger.close()
        until(lambda: server.counts["broken"] > number)  # noqa: B023
    served(server)
    assert "Traceback" not in capsys.readouterr().err
    assert json.loads(json.dumps(server.counts)) == server.counts
