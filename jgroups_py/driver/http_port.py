"""A port that answers GET of one page, such as /metrics, over HTTP/1.1. Each connection is for one request.

It is for machines that ask every few seconds. Requests have limits of size, time and number; it survives any bytes.
"""

from __future__ import annotations

import errno
import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from jgroups_py.driver import opening
from jgroups_py.driver.interfaces import resolve_host
from jgroups_py.errors import ConfigError
from jgroups_py.stack.ports import Bind

HEAD_MAX: Final = 8_000
"""The most bytes of a request's head."""
REQUEST_TIMEOUT: Final = 5.0
"""Seconds in which the head must be there."""
ANSWER_TIMEOUT: Final = 30.0
"""Seconds in which the page must be made and taken."""
CONNECTIONS_MAX: Final = 8
"""The most connections at the same time. Further ones are closed."""
HTTP_CAUSES: Final[Mapping[str, str]] = {
    "malformed": "a request that is not HTTP, or too long",
    "too_many_connections": "more connections than there may be",
    "too_slow": "a request that did not come in time, or an answer that was not taken",
}
_PLACE: Final = re.compile(r"(?:\[([^\]]+)\]:|([^:\[\]]+):)?(\d{1,5})(?:-(\d{1,5}))?")
_REQUEST: Final = re.compile(rb"([A-Z]{1,10}) (/[!-~]{0,200}) HTTP/1\.[01]\r?\n")

Page = Callable[[], Awaitable[bytes]]
Refuse = Callable[[str, tuple[str, int]], None]
"""Gets a cause of HTTP_CAUSES, and the origin of the connection."""


def open_port(setting: str, where: int | str) -> trio.SocketListener:
    """Listen on ``PORT``, ``HOST:PORT`` or ``HOST:FIRST-LAST``, of which the first free port is taken. The default host is
    127.0.0.1.

    Raises:
        ConfigError: ``where`` has another form, or no port is free; the text begins with ``setting``.
    """
    match = _PLACE.fullmatch(str(where))
    problem = f'{setting} must be PORT, HOST:PORT or HOST:FIRST-LAST, got "{where}"'
    if match is None:
        raise ConfigError(problem)
    first = int(match[3])
    last = int(match[4] or first)
    if not 0 <= first <= last <= 65535 or (first == 0 and last):
        raise ConfigError(f"{problem}: ports must be within 1..65535, the first no larger")
    try:
        host = resolve_host(match[1] or match[2] or "127.0.0.1")
        bind = Bind(0, "tcp", host, first, last - first)
        sock = opening.open_listener(bind)
    except ValueError as error:
        raise ConfigError(f"{setting}: {error}") from None
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "")
        raise ConfigError(
            f'{setting}: cannot listen on "{where}": {error.strerror} ({name})'
        ) from None
    return trio.SocketListener(trio.socket.from_stdlib_socket(sock))


def place_of(listener: trio.SocketListener) -> tuple[str, int]:
    """Return the host and port of a listener."""
    host, port = listener.socket.getsockname()[:2]
    return str(host), int(port)


def is_local(listener: trio.SocketListener) -> bool:
    """Return whether only this machine reaches it."""
    return ipaddress.ip_address(place_of(listener)[0].partition("%")[0]).is_loopback


class HttpPort:
    """Serves ``page`` at ``path`` as ``kind``. Refused requests go to ``refuse``."""

    def __init__(self, path: str, kind: str, page: Page, refuse: Refuse) -> None:
        self._path = path.encode()
        self._kind = kind.encode()
        self._page = page
        self._refuse = refuse
        self._open = 0

    async def serve(self, listener: trio.SocketListener) -> None:
        """Answer until cancelled."""
        await trio.serve_listeners(self._on_connection, [listener])

    async def _on_connection(self, stream: trio.SocketStream) -> None:
        peer = _peer_of(stream)
        async with stream:
            if self._open >= CONNECTIONS_MAX:
                self._refuse("too_many_connections", peer)
                return
            self._open += 1
            try:
                cause = await self._answered(stream)
            except (trio.BrokenResourceError, OSError):
                return  # the client hung up
            finally:
                self._open -= 1
        if cause:
            self._refuse(cause, peer)

    async def _answered(self, stream: trio.SocketStream) -> str:
        """Return the cause of a refusal, or an empty text."""
        head = b""
        with trio.move_on_after(REQUEST_TIMEOUT):
            head = await _head_of(stream)
        if not head:
            return "too_slow"
        match = _REQUEST.match(head)
        if match is None or len(head) > HEAD_MAX:
            await _send(stream, b"400 Bad Request", b"text/plain", b"not a request\n")
            return "malformed"
        if match[1] != b"GET":
            await _send(stream, b"405 Method Not Allowed", b"text/plain", b"GET only\n")
            return ""
        if match[2].partition(b"?")[0] != self._path:
            await _send(stream, b"404 Not Found", b"text/plain", b"there is " + self._path + b"\n")
            return ""
        with trio.move_on_after(ANSWER_TIMEOUT) as scope:
            await _send(stream, b"200 OK", self._kind, await self._page())
        return "too_slow" if scope.cancelled_caught else ""


async def _head_of(stream: trio.SocketStream) -> bytes:
    """Return all bytes up to the empty line, or more than HEAD_MAX bytes."""
    head = b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head and len(head) <= HEAD_MAX:
        piece = await stream.receive_some(4096)
        if not piece:
            return head or b"?"  # the client hung up in the middle
        head += piece
    return head


async def _send(stream: trio.SocketStream, status: bytes, kind: bytes, body: bytes) -> None:
    with trio.move_on_after(ANSWER_TIMEOUT):
        await stream.send_all(
            b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (status, kind, len(body), body)
        )
        await stream.send_eof()


def _peer_of(stream: trio.SocketStream) -> tuple[str, int]:
    try:
        host, port = stream.socket.getpeername()[:2]
    except OSError:
        return "", 0
    return str(host), int(port)
