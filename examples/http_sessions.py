"""HTTP sessions that survive their server: three processes, a sticky router, ``kill -9`` in the middle.

Each process is a web server and a member of one tree cache. A session lives at the process that serves its
visitor, with a copy at one other ("buddy"). The cookie ends with the name of the process, and the router
sends the visitor back to that process. When it is dead, the router chooses another process, which finds
the session and keeps it from then on.

    python examples/http_sessions.py                       all of it, one process killed
    python examples/http_sessions.py serve A --port 8001   one server; B and C as well, then
    python examples/http_sessions.py route --port 8000 A=8001 B=8002 C=8003
    curl -c jar -b jar -X POST 'http://127.0.0.1:8000/?milk=2'
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import re
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from jgroups_py import WaitTimeout, blocking
from jgroups_py.sessions import SESSION, SessionSettings, WsgiSessions

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

HOST = "127.0.0.1"
DOWN_FOR = 1.0
"""Seconds for which the router does not try a process that it could not reach."""
STICKY = re.compile(r"\bsession=[\w-]+\.([\w-]+)")
SAFE = ("GET", "HEAD")
CONNECTIONS_MAX = 200
"""The most connections of a port. A further one takes the place of the oldest whose request has not come yet. If all requests
have come, the further one is closed."""
REQUEST_SECONDS = 10.0
"""The longest time for a request to arrive."""
IDLE_SECONDS = 30.0
"""The longest wait for a client that takes nothing of its answer."""
SERVER_SECONDS = 30.0
"""The longest time for which the router waits for a server."""
BODY_MAX = 1_000_000
"""The most bytes of a body; beyond, the answer is 413. Headers have the limits of http.client: 64 KB a line, 100 lines."""
CART_THINGS, CART_LENGTH, NAME_MAX = 100, 16_000, 200
"""The most things in a cart, the most characters in all, and in the name of one; beyond, the answer is 409."""
WATCHERS_MAX = 4
"""The most requests at once that wait for ``/protected``; beyond, the answer is 503."""
PROTECTED_SECONDS = 25.0
"""The longest wait of one of these. It is shorter than SERVER_SECONDS, so that the router does not regard the server as dead."""


# --- a port


class Port(socketserver.ThreadingMixIn):
    """A thread for each connection, within the limits above. A stranger that sends slowly or nothing keeps nobody out."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self._lock = threading.Lock()
        self._open: set[Any] = set()
        self._coming: dict[Any, float] = {}
        """The connections whose request has not come, the oldest first: when it must have come."""
        self.counts = {"late": 0, "replaced": 0, "full": 0, "broken": 0}
        """Closed connections: the request came too slowly, another one took the place, there was no place, it broke off."""
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._open) >= CONNECTIONS_MAX and self._coming:
                self._end("replaced", next(iter(self._coming)))
            has_room = len(self._open) < CONNECTIONS_MAX
            if has_room:
                self._open.add(request)
                self._coming[request] = time.monotonic() + REQUEST_SECONDS
            else:
                self.counts["full"] += 1
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def service_actions(self) -> None:
        """End late requests; ``serve_forever`` calls it at least twice a second."""
        now = time.monotonic()
        with self._lock:
            for late in [one for one, until in self._coming.items() if until <= now]:
                self._end("late", late)

    def _end(self, why: str, request: Any) -> None:
        self.counts[why] += 1
        self._open.discard(request)
        del self._coming[request]
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it

    def has_come(self, request: Any) -> bool:
        """Note that the request is there as a whole: nothing takes its place any more. Return False if its connection was ended
        before."""
        with self._lock:
            return self._coming.pop(request, None) is not None

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
            self._coming.pop(request, None)
        super().shutdown_request(request)  # type: ignore[misc]

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[misc]
            return
        with self._lock:
            if request in self._open:  # otherwise ``_end`` has counted it
                self.counts["broken"] += 1


class Lines(io.BufferedReader):
    """The lines of a request. http.server takes a line that is cut off for a whole one, and the end of the connection for the end
    of the headers: it would carry out half a request."""

    _has_begun = False

    def readline(self, size: int | None = -1, /) -> bytes:
        most = -1 if size is None else size
        line = super().readline(most)
        is_cut_off = not line.endswith(b"\n") and len(line) != most
        if is_cut_off and (line or self._has_begun):
            raise ConnectionAbortedError("the request broke off")
        self._has_begun = True
        return line


class Arriving(BaseHTTPRequestHandler):
    """Takes a whole request, with its body, before anything is done for it."""

    server: Any
    """A Port."""
    timeout = IDLE_SECONDS
    body = b""

    def setup(self) -> None:
        super().setup()
        self.rfile = Lines(self.rfile.detach())

    def parse_request(self) -> bool:
        if not (super().parse_request() and self.take_body()):
            return False
        has_come: bool = self.server.has_come(self.request)
        return has_come

    def take_body(self) -> bool:
        """Read the body, also if nobody needs it: a connection that is closed with unread bytes is reset, and its answer may be
        lost. Return False if it is refused."""
        length, *others = self.headers.get_all("Content-Length", ["0"])
        is_number = length.isascii() and length.isdigit() and not others
        if "Transfer-Encoding" in self.headers or not is_number:
            self.send_error(400, "a body needs one Content-Length")
            return False
        if len(length) > 9 or int(length) > BODY_MAX:
            self.send_error(413)
            return False
        self.body = self.rfile.read(int(length))
        if len(self.body) < int(length):
            raise ConnectionAbortedError("the body broke off")
        return True

    def log_message(self, format: str, *args: Any) -> None:
        pass


# --- a server


class Shop:
    """The application. POST /?milk=2 puts something into the cart; every answer shows the cart."""

    def __init__(self, name: str, cache: blocking.TreeCache) -> None:
        self.name = name
        self.cache = cache
        self.counts: dict[str, int] = {}
        """Those of the port."""
        self._watchers = threading.BoundedSemaphore(WATCHERS_MAX)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        session, asked = environ[SESSION], dict(parse_qsl(environ["QUERY_STRING"]))
        status, shown = "200 OK", dict[str, Any]()
        if environ["PATH_INFO"] == "/protected":
            status, shown = self._protected(asked.get("members", ""))
        elif environ["PATH_INFO"] == "/port":
            shown = dict(self.counts)
        else:
            if environ["REQUEST_METHOD"] == "POST":
                if fits({**session, **asked}):
                    session.update(asked)
                else:
                    status = "409 Conflict"
            shown = {"server": self.name, "cart": dict(session)}
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(shown).encode()]

    def _protected(self, members: str) -> tuple[str, dict[str, Any]]:
        if not (members.isascii() and members.isdigit() and 0 < int(members[:9]) < 1000):
            return "400 Bad Request", {"members": "a number from 1 to 999"}
        if not self._watchers.acquire(blocking=False):
            return "503 Service Unavailable", {"waiting": WATCHERS_MAX}
        try:
            self.cache.wait_protected(int(members), timeout=PROTECTED_SECONDS)
            return "200 OK", {"members": self.cache.members}
        except WaitTimeout as error:
            return "503 Service Unavailable", {"missing": str(error)}
        finally:
            self._watchers.release()


def fits(cart: dict[str, Any]) -> bool:
    return (
        len(cart) <= CART_THINGS
        and sum(len(name) + len(str(value)) for name, value in cart.items()) <= CART_LENGTH
        and all(0 < len(name) <= NAME_MAX and not name.startswith("@") for name in cart)
    )


class Server(Port, WSGIServer):
    pass


class Handler(Arriving, WSGIRequestHandler):
    pass


def serve(name: str, port: int, file: str, cluster: str | None) -> None:
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(0)
    )  # it leaves properly and hands over its sessions
    with blocking.open_tree_cache(file, cluster=cluster, name=name, timeout=30) as cache:
        settings = SessionSettings(secure=False)  # this example speaks HTTP, not HTTPS
        shop = Shop(name, cache)
        sessions = WsgiSessions(shop, cache, settings, route=name)
        with make_server(HOST, port, sessions, Server, Handler) as server:
            shop.counts = server.counts
            print(name, server.server_port, flush=True)
            server.serve_forever()


# --- the router


class Router(Port, HTTPServer):
    """A sticky router: it sends a request to the server that the cookie names, otherwise to the servers in turn. If a
    server does not answer, it tries the next one."""

    def __init__(self, port: int, servers: dict[str, int]) -> None:
        self._servers = servers
        self._down: dict[str, float] = {}
        self._turn = 0
        super().__init__((HOST, port), Forward)

    def order(self, wanted: str) -> list[str]:
        now = time.monotonic()
        up = [n for n in self._servers if self._down.get(n, now) <= now] or [*self._servers]
        self._turn += 1
        turned = up[self._turn % len(up) :] + up[: self._turn % len(up)]
        return sorted(turned, key=lambda name: name != wanted)

    def forward(self, request: Forward) -> tuple[int, list[tuple[str, str]], bytes]:
        sticky = STICKY.search(request.headers.get("Cookie", ""))
        for name in self.order(sticky[1] if sticky else ""):
            connection = http.client.HTTPConnection(
                HOST, self._servers[name], timeout=SERVER_SECONDS
            )
            try:
                connection.connect()
            except OSError:
                self._down[name] = time.monotonic() + DOWN_FOR
                continue  # no request was sent
            try:
                headers = dict(request.headers)
                connection.request(request.command, request.path, request.body, headers)
                answer = connection.getresponse()
                if (
                    answer.length is None
                ):  # cut off in its headers: our headers always have the length
                    raise http.client.IncompleteRead(b"")
                return answer.status, answer.getheaders(), answer.read()
            except (http.client.InvalidURL, ValueError):  # nothing was sent
                return 400, [], b"the path or a header has characters that cannot be forwarded\n"
            except (OSError, http.client.HTTPException):
                self._down[name] = time.monotonic() + DOWN_FOR
                if request.command not in SAFE:  # the request may have been carried out
                    return 502, [], f"{name} has died in the middle of it\n".encode()
            finally:
                connection.close()
        return 503, [], b"no server\n"


class Forward(Arriving):
    server: Router

    def do_GET(self) -> None:
        headers: list[tuple[str, str]] = []
        if self.path == "/router":
            status, answer = 200, json.dumps(self.server.counts).encode()
        else:
            status, headers, answer = self.server.forward(self)
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET


# --- the whole demonstration


class Visitor:
    """A browser with nothing but cookies."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie = ""

    def ask(self, method: str, path: str = "/") -> tuple[int, Any]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=30)
        try:
            connection.request(method, path, headers={"Cookie": self.cookie} if self.cookie else {})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        for value in answer.headers.get_all("Set-Cookie", []):
            self.cookie = value.partition(";")[0]
        return answer.status, json.loads(text) if answer.status == 200 else text.decode()


def start(names: str, *options: str) -> dict[str, tuple[subprocess.Popen[str], int]]:
    """Start servers in processes of their own, with their ports: the first one, then the others at once."""
    started: dict[str, tuple[subprocess.Popen[str], int]] = {}
    try:
        for some in (names[:1], names[1:]):
            for name in some:
                command = [sys.executable, __file__, "serve", name, *options]
                started[name] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True), 0
            for name in some:
                process, _ = started[name]
                assert process.stdout is not None
                started[name] = process, int(process.stdout.readline().split()[1])
    except BaseException:
        stop(started)
        raise
    return started


def stop(servers: dict[str, tuple[subprocess.Popen[str], int]]) -> None:
    for process, _ in servers.values():
        process.kill()
        process.communicate()


def wait_until_protected(ports: Iterable[int], members: int) -> None:
    """Wait until every session has its copies: then one process may die."""
    for port in ports:
        status, answer = Visitor(port).ask("GET", f"/protected?members={members}")
        assert status == 200, answer


def show() -> None:
    cluster = f"http-sessions-{time.time_ns()}"
    servers = start("ABC", "--cluster", cluster)
    ports = {name: port for name, (_, port) in servers.items()}
    try:
        wait_until_protected(ports.values(), 3)
        router = Router(0, ports)
        threading.Thread(target=router.serve_forever, daemon=True).start()
        visitor = Visitor(router.server_port)
        for thing in ("milk=2", "tea=1", "bread=3"):
            _, answer = visitor.ask("POST", "/?" + thing)
        before = answer["server"]
        print("the cart:", answer["cart"])
        servers[before][0].kill()
        _, answer = visitor.ask("GET")
        print("after kill -9:", answer["cart"], "at another server:", answer["server"] != before)
        router.shutdown()
        router.server_close()
    finally:
        stop(servers)


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command")
    one = commands.add_parser("serve")
    one.add_argument("name")
    one.add_argument("--port", type=int, default=0)
    one.add_argument("--file", default="buddy.xml")
    one.add_argument("--cluster")
    other = commands.add_parser("route")
    other.add_argument("--port", type=int, default=0)
    other.add_argument("servers", nargs="+", metavar="NAME=PORT")
    given = parser.parse_args()
    if given.command == "serve":
        serve(given.name, given.port, given.file, given.cluster)
    elif given.command == "route":
        pairs = (server.partition("=") for server in given.servers)
        with Router(given.port, {name: int(port) for name, _, port in pairs}) as router:
            print("router", router.server_port, flush=True)
            router.serve_forever()
    else:
        show()


if __name__ == "__main__":
    main()
