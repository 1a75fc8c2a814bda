"""Entries over HTTP on real sockets, with plain sockets and with curl."""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from typing import NoReturn

import pytest
from served import PATIENCE, Serve, served

from jgroups_py.buckets.door import DoorLimits
from jgroups_py.buckets.http import HttpLimits, HttpServer
from jgroups_py.buckets.items import MemoryStore, Outcome, Stamped, StoreUnavailable

pytestmark = pytest.mark.sockets
SMALL = HttpLimits(head_max=2000, body_max=3000)
PATIENT = DoorLimits(drain_timeout=PATIENCE, idle_least=PATIENCE)
"""Limits that no client of these tests reaches, however busy the machine is."""
Place = tuple[str, int]


@contextmanager
def door(
    limits: DoorLimits | None = None,
    store: MemoryStore | None = None,
    servers: list[HttpServer] | None = None,
) -> Iterator[Place]:
    """Yield the place of a server, which is added to ``servers``."""
    kept, made = store or MemoryStore(), servers if servers is not None else []

    def make() -> Serve:
        made.append(HttpServer(kept, limits=limits, http_limits=SMALL, draw=random.Random(7)))
        return made[0].serve

    with served(make) as place:
        yield place


def said(place: Place, data: bytes) -> bytes:
    """Return all answers to ``data``."""
    with socket.create_connection(place, timeout=PATIENCE) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        found = b""
        while piece := sock.recv(65536):
            found += piece
        return found


def counters(place: Place) -> dict[str, int]:
    found: dict[str, int] = json.loads(
        said(place, b"GET /statistics HTTP/1.1\r\nHost: x\r\n\r\n").partition(b"\r\n\r\n")[2]
    )
    return found


@pytest.mark.seed("A46")
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_stores_reads_and_compares(tmp_path: object) -> None:
    with door() as (host, port):
        url = f"http://{host}:{port}/entries"

        def curl(*words: str) -> tuple[str, str]:
            """Return body and status."""
            done = subprocess.run(
                ["curl", "-sS", "--noproxy", "*", "-w", "|%{http_code}", *words],
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                stdin=subprocess.DEVNULL,
                check=True,
            )
            body, _, status = done.stdout.rpartition("|")
            return body, status

        assert curl("-T", "-", f"{url}/LH400/12A")[1] == "201"
        assert curl("-X", "PUT", "-d", "free", f"{url}/LH400/12A")[1] == "204"
        assert curl(f"{url}/LH400/12A") == ("free", "200")
        head = curl("-I", f"{url}/LH400/12A")[0].lower()
        version = next(line.split(" ")[1] for line in head.splitlines() if "etag" in line)
        assert curl("-X", "PUT", "-d", "sold", "-H", f"If-Match: {version}", f"{url}/LH400/12A")[
            1
        ] == ("204")
        assert curl("-X", "PUT", "-d", "mine", "-H", f"If-Match: {version}", f"{url}/LH400/12A")[
            1
        ] == ("412")
        assert curl("-X", "DELETE", f"{url}/LH400/12A")[1] == "204"
        assert curl(f"{url}/LH400/12A")[1] == "404"
        assert curl("-d", "x" * 3001, f"{url}")[1] == "413"


@pytest.mark.seed("A12")
def test_one_connection_serves_many_requests_and_a_missing_key_is_invented() -> None:
    with door() as (host, port):
        client = HTTPConnection(host, port, timeout=PATIENCE)

        def ask(method: str, target: str, body: bytes | None = None) -> tuple[int, bytes, object]:
            client.request(method, target, body)
            response = client.getresponse()
            return response.status, response.read(), response.headers["Location"]

        status, _, location = ask("POST", "/entries", b"5")
        assert status == 201
        assert ask("POST", f"{location}?change=incr&by=2")[:2] == (200, b"7\n")
        assert ask("HEAD", str(location))[:2] == (200, b"")
        assert ask("GET", str(location))[:2] == (200, b"7")
        assert ask("GET", f"http://{host}:{port}{location}")[:2] == (200, b"7")
        assert ask("GET", f"http://{host}:{port}/statistics")[0] == 200
        assert ask("GET", "/nowhere")[0] == 404
        client.close()


@pytest.mark.parametrize(
    ("data", "status", "cause"),
    [
        (b"get a\r\n\r\n", b"400", "bad_request"),
        (b"\x16\x03\x01\x00\r\n\r\n", b"400", "bad_request"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400", "bad_request"),
        (b"GET /" + b"x" * 2100 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"431", "bad_request"),
        (
            b"PUT /entries/a HTTP/1.1\r\nHost: x\r\nContent-Length: 3001\r\n\r\n" + b"x" * 3001,
            b"413",
            "body_too_large",
        ),
        (
            b"PUT /entries/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"3e8\r\n" + b"x" * 1000 + b"\r\n" + b"7d1\r\n" + b"x" * 2001 + b"\r\n0\r\n\r\n",
            b"413",
            "body_too_large",
        ),
        (
            b"PUT /entries/a HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
            b"413",
            "body_too_large",
        ),
        pytest.param(
            b"PUT /entries/a HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nX",
            b"400",
            "bad_request",
            id="length and chunks",
        ),
        pytest.param(
            b"PUT /entries/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Length: 5\r\n\r\n0\r\n\r\n",
            b"400",
            "bad_request",
            id="chunks and length",
        ),
        pytest.param(
            b"PUT /entries/a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"400",
            "bad_request",
            id="chunks of 1.0",
        ),
    ],
)  # fmt: skip
def test_bytes_that_are_no_http_request_are_answered_counted_and_store_nothing(
    data: bytes, status: bytes, cause: str
) -> None:
    store = MemoryStore()
    with door(store=store) as place:
        assert said(place, data).split(b" ")[1] == status
        assert counters(place)[cause] == 1 and store.items == {}


@pytest.mark.parametrize("announced", [b"Content-Length: 8000000", b"Transfer-Encoding: chunked"])
def test_a_client_that_sends_on_reads_why_it_is_turned_away(announced: bytes) -> None:
    head = b"PUT /entries/a HTTP/1.1\r\nHost: x\r\n" + announced + b"\r\n\r\n"
    with door(PATIENT) as place, socket.create_connection(place, timeout=PATIENCE) as sock:
        sock.sendall(head + b"7A1200\r\n" + b"x" * 8_000_000)  # 8,000,000 in hexadecimal digits
        sock.shutdown(socket.SHUT_WR)
        found = b""
        while piece := sock.recv(65536):
            found += piece
    assert found.split(b" ")[1] == b"413" and found.endswith(b"at most 3000 bytes are taken\n")


def drip(sock: socket.socket) -> NoReturn:
    while True:
        sock.sendall(b"x")
        time.sleep(0.01)


def test_a_client_that_sends_without_end_is_not_read_for_long() -> None:
    with door(DoorLimits(drain_timeout=0.2)) as place:
        with socket.create_connection(place, timeout=PATIENCE) as sock:
            sock.sendall(b"no request\r\n\r\n")
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                drip(sock)
        assert counters(place)["bad_request"] == 1


def test_random_bytes_of_many_clients_fail_nothing() -> None:
    chance = random.Random(3)
    with door() as place:
        for _ in range(40):
            try:
                said(place, b"PUT /entries/a HTTP/1.1\r\n" + chance.randbytes(300))
            except ConnectionResetError:
                pass  # the connection ended before all was read
        found = counters(place)
        assert found["failed"] == 0 and found["bad_request"] + found["idle"] > 0
        assert found["curr_items"] == 0


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    servers: list[HttpServer] = []
    with door(DoorLimits(request_timeout=0.1), servers=servers) as place:
        with socket.create_connection(place, timeout=PATIENCE) as sock:
            sock.sendall(b"PUT /entries/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
            assert sock.recv(100) == b""
        # A request for them might itself be too slow on a busy machine.
        assert servers[0].statistics()["slow_request"] == 1


def test_a_client_that_asks_whether_to_go_on_is_told_so() -> None:
    with door() as place, socket.create_connection(place, timeout=PATIENCE) as sock:
        sock.sendall(
            b"PUT /entries/a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        assert sock.recv(100).startswith(b"HTTP/1.1 100 ")
        sock.sendall(b"ab")
        assert sock.recv(300).startswith(b"HTTP/1.1 201 ")


def test_a_client_too_many_is_told_when_to_come_back() -> None:
    limits = replace(PATIENT, connections_max=1)
    with door(limits) as place, socket.create_connection(place, timeout=PATIENCE) as first:
        first.sendall(b"GET /entries/a HTTP/1.1\r\nHost: x\r\n\r\n")
        assert first.recv(300).startswith(b"HTTP/1.1 404 ")
        for asked in (b"", *[b"GET /entries/a HTTP/1.1\r\nHost: x\r\n\r\n"] * 20):
            answer = said(place, asked)
            assert answer.startswith(b"HTTP/1.1 503 ") and b"Retry-After" in answer


def test_a_store_without_outcome_or_that_raises_is_503() -> None:
    class Store(MemoryStore):
        async def perform(self, asked: Stamped) -> Outcome:
            if asked.request.key == "raise":
                raise ZeroDivisionError("my own mistake")
            raise StoreUnavailable("no master", definite=True, retry_after=7)

    with door(store=Store()) as place:
        data = b"GET /entries/%b HTTP/1.1\r\nHost: x\r\n\r\n"
        both = said(place, data % b"raise" + data % b"a")
        assert both.count(b"HTTP/1.1 503 ") == 2 and b"mistake" not in both
        assert b"no master (nothing was changed)" in both and b"Retry-After: 7" in both
        assert counters(place)["failed"] == 1
