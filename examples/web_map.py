"""A shop on two hosts with two web workers each: hits are counted and carts are kept in two multi-master maps.

Workers of a host share its files, and one of them replicates with the other host. A worker may be killed at any time,
and a host may stop. No answered hit and no item of a cart is lost.

    python examples/web_map.py                     both hosts on this machine; the worker that replicates is killed while visitors come

One host alone, the first of two (``SHOP_PORTS`` has the port of each host's maps; the next one is used, too):

    SHOP_HOST=1 SHOP_FOLDER=data/1 SHOP_PORTS=8101,8201 uvicorn --app-dir examples web_map:app --workers 2 --port 8001

    POST /hits/PAGE          200 {"hits": 1}       GET /hits/PAGE
    POST /cart?milk=2        200 {"milk": "2"}     GET /cart        a cookie says whose cart it is
    GET /replication         200 {"hits": true, "carts": false}     which maps this worker replicates, and is linked with the other host

It needs ``jgroups_py[maps,web]``.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from jgroups_py import aio
from jgroups_py.maps import MapBusy, MapFull, PerField, PnCounter

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

COOKIE: Final = re.compile(r"\bcart=([\w-]{20,43})(?:;|$)")
SEEN: Final = ""
"""A field of each cart: when something was last put into it, in seconds since 1970."""
CART_AGE: Final = 30 * 24 * 3600
SWEEP_INTERVAL: Final = 600.0
"""Seconds between searches for carts that are older than CART_AGE."""
MAX_BYTES: Final = 1 << 30
"""The largest size of each map's file; beyond, the answer is 503."""
THINGS_MAX: Final = 100
"""The most things in a cart; then the answer is 409."""
CART_LENGTH: Final = 16_000
"""The most characters of the things in a cart; then the answer is 409."""
PAGE_MAX: Final = 200
"""The most bytes of a page's name; beyond, the answer is 400. A key of a map has at most 511."""


# --- the application, in each worker


class Shop:
    """One worker: it opens both maps when the server starts (ASGI's lifespan), and replicates them if no other worker of its host does."""

    def __init__(self, host: int, folder: Path, ports: list[int]) -> None:
        self._host, self._folder, self._ports = host, folder, ports
        self.hits: aio.Map[str, int]
        self.carts: aio.Map[str, dict[str, Any]]

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, send)

    def _options(self, number: int) -> dict[str, Any]:
        places = [f"127.0.0.1:{port + number}" for port in self._ports]
        return {
            "key": str,
            "identifier": self._host,
            "max_bytes": MAX_BYTES,
            "listen": places.pop(self._host - 1),
            "peers": places,
        }

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        try:
            async with AsyncExitStack() as stack:
                hits = aio.open_map(self._folder / "hits", rule=PnCounter(), **self._options(0))
                carts = aio.open_map(
                    self._folder / "carts", value="json", rule=PerField(), **self._options(1)
                )
                self.hits = await stack.enter_async_context(hits)
                self.carts = await stack.enter_async_context(carts)
                sweeping = asyncio.create_task(self._sweep())
                stack.callback(sweeping.cancel)
                await send({"type": "lifespan.startup.complete"})
                await receive()  # lifespan.shutdown
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.shutdown.complete"})

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_INTERVAL)
            for visitor, cart in self.carts.items():
                if cart.get(SEEN, 0) < time.time() - CART_AGE:
                    self.carts.remove(visitor)

    async def _serve(self, scope: Event, send: Send) -> None:
        _, _, place = scope["path"].partition("/")  # a path may be "*"
        place, _, page = place.partition("/")
        headers = [(b"content-type", b"application/json"), (b"x-worker", b"%d" % os.getpid())]
        changes = scope["method"] == "POST"
        shown: Any
        try:
            if place == "hits" and not 0 < len(page.encode("utf-8", "replace")) <= PAGE_MAX:
                status, shown = 400, f"a page has a name of 1 to {PAGE_MAX} bytes"
            elif place == "hits":
                status, shown = 200, {"hits": await self._hit(page, changes)}
            elif place == "cart":
                visitor = self._visitor(scope)
                asked = scope["query_string"].decode("utf-8", "replace")
                things = parse_qsl(asked) if changes else []
                status, shown = await self._cart(visitor, things)
                headers.append((b"set-cookie", b"cart=%s; HttpOnly; Path=/" % visitor.encode()))
            elif place == "replication":
                status, shown = 200, self._replication()
            else:
                status, shown = 404, "there are /hits/PAGE, /cart and /replication"
        except (MapBusy, MapFull) as error:  # no value was changed
            status, shown = 503, str(error)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(shown).encode()})

    async def _hit(self, page: str, counts: bool) -> int:
        return await self.hits.increment(page) if counts else int(self.hits.get(page, 0))

    async def _cart(self, visitor: str, things: list[tuple[str, str]]) -> tuple[int, Any]:
        def filled(cart: dict[str, Any]) -> dict[str, Any]:
            return {**cart, **dict(things), SEEN: int(time.time())}

        cart = self.carts.get(visitor, {})
        if len({*cart, *dict(things)}) > THINGS_MAX:
            return 409, f"a cart has at most {THINGS_MAX} things"
        full = {**cart, **dict(things), SEEN: ""}
        if sum(len(name) + len(value) for name, value in full.items()) > CART_LENGTH:
            return 409, f"the things in a cart have at most {CART_LENGTH} characters"
        if things:
            cart = await self.carts.update(visitor, filled, {})
        return 200, {name: value for name, value in cart.items() if name != SEEN}

    def _replication(self) -> dict[str, bool]:
        found = {"hits": self.hits.statistics(), "carts": self.carts.statistics()}
        return {name: one.replicates and len(one.peers) > 0 for name, one in found.items()}

    @staticmethod
    def _visitor(scope: Event) -> str:
        cookies = next((v.decode("latin-1") for n, v in scope["headers"] if n == b"cookie"), "")
        known = COOKIE.search(cookies)
        return known[1] if known else secrets.token_urlsafe(20)


if "SHOP_HOST" in os.environ:
    app = Shop(
        int(os.environ["SHOP_HOST"]),
        Path(os.environ["SHOP_FOLDER"]),
        [int(port) for port in os.environ["SHOP_PORTS"].split(",")],
    )


# --- both hosts on this machine


class Host:
    """uvicorn with its workers. ``ports``: the ports of the maps of all hosts."""

    def __init__(
        self, number: int, folder: Path, port: int, ports: list[int], workers: int = 2
    ) -> None:
        self.number, self.port = number, port
        self._command = [sys.executable, "-m", "uvicorn", "--app-dir", str(Path(__file__).parent)]
        self._command += ["web_map:app", "--port", str(port), "--workers", str(workers)]
        # A busy machine is no reason to kill a worker. uvicorn waits this long when a worker is killed during
        # uvicorn's check, and starts no other worker meanwhile.
        self._command += ["--log-level", "error", "--timeout-worker-healthcheck", "10"]
        self._environment = {
            **os.environ,
            "SHOP_HOST": str(number),
            "SHOP_FOLDER": str(folder / f"host{number}"),
            "SHOP_PORTS": ",".join(map(str, ports)),
        }
        self.start()

    def start(self) -> None:
        self._server = subprocess.Popen(
            self._command,
            env=self._environment,
            start_new_session=True,
            stdout=subprocess.PIPE,  # nothing is printed; the end of the pipe is that of the last worker
            stderr=subprocess.DEVNULL,
        )

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Wait until the server answers."""
        until = time.monotonic() + seconds
        while True:
            try:
                ask(self.port, "GET", "/hits/ready")
                return
            except OSError:
                if time.monotonic() > until or self._server.poll() is not None:
                    raise
                time.sleep(0.05)

    def kill(self) -> None:
        """Kill the server and all its workers at once (kill -9). Return when they are gone: then their ports are free."""
        os.killpg(self._server.pid, signal.SIGKILL)
        self._server.communicate()


def ask(port: int, method: str, path: str, cookie: str = "") -> tuple[int, Any, dict[str, str]]:
    """Return status, answer and headers. OSError or HTTPException: the request was cut off, and may have been
    carried out."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers={"Cookie": cookie} if cookie else {})
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, json.loads(answer.read()), headers
    finally:
        connection.close()


def replicating(port: int, name: str, seconds: float = 60.0) -> int:
    """Return the worker of a host that replicates the map ``name``: its process. TimeoutError: no worker
    of the host does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            _, shown, headers = ask(port, "GET", "/replication")
        except (OSError, http.client.HTTPException):
            continue  # this worker was killed
        if shown[name]:
            return int(headers["x-worker"])
        time.sleep(0.01)
    raise TimeoutError(f"no worker at port {port} replicated {name} for {seconds:g} s")


def visit(port: int, times: int) -> int:
    """Put things into one cart and count hits. Return how many hits were answered."""
    answered, cookie = 0, ""
    for number in range(times):
        try:
            status, _, _ = ask(port, "POST", "/hits/home")
            answered += status == 200
            _, _, headers = ask(port, "POST", f"/cart?thing{number}=1", cookie)
            cookie = headers["set-cookie"].partition(";")[0]
        except (OSError, http.client.HTTPException):
            continue  # the worker was killed
    return answered


def main() -> None:
    first = int(os.environ.get("JGROUPS_BIND_PORT", "8100")) + 1
    ports = [first, first + 2]
    with tempfile.TemporaryDirectory() as name:
        hosts = [Host(n, Path(name), first + 3 + n, ports) for n in (1, 2)]
        try:
            for host in hosts:
                host.wait_ready()
            with ThreadPoolExecutor() as pool:
                visits = [pool.submit(visit, host.port, 50) for host in hosts for _ in range(2)]
                worker = replicating(hosts[0].port, "hits")
                os.kill(worker, signal.SIGKILL)
                killed = time.monotonic()
                other = replicating(hosts[0].port, "hits")
                passed = time.monotonic() - killed
                answered = sum(visit.result() for visit in visits)
            print("the worker that replicated hits at host 1 was killed")
            print(f"another one replicated them {passed:.1f} s later:", other != worker)
            until = time.monotonic() + 30
            while True:
                counts = [ask(host.port, "GET", "/hits/home")[1]["hits"] for host in hosts]
                if counts[0] == counts[1] >= answered or time.monotonic() > until:
                    break
                time.sleep(0.05)
            print(f"{answered} hits were answered, host 1 counts {counts[0]}, host 2 {counts[1]}")
            print("none is lost, and both count the same:", counts[0] == counts[1] >= answered)
        finally:
            for host in hosts:
                host.kill()


if __name__ == "__main__":
    main()
