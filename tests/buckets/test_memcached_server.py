"""Memcached's text protocol on real sockets, with plain sockets and with pymemcache."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
import trio
from pymemcache.client.base import Client, PooledClient
from pymemcache.exceptions import MemcacheServerError
from served import PATIENCE, served

from jgroups_py.buckets.door import DoorLimits
from jgroups_py.buckets.items import Item, MemoryStore, Outcome, Stamped, StoreUnavailable
from jgroups_py.buckets.memcached import MemcachedServer, TextLimits

pytestmark = pytest.mark.sockets
SMALL = TextLimits(value_max=1000, skip_max=5000, line_max=500)
PATIENT = DoorLimits(drain_timeout=PATIENCE, idle_least=PATIENCE)
"""Limits that no client of these tests reaches, however busy the machine is."""


class Door:
    """A server with a store in memory, and plain connections to it."""

    def __init__(self, place: tuple[str, int], store: MemoryStore, servers: list[MemcachedServer]):
        self.place = place
        self.store = store
        self._servers = servers

    def counter(self, name: str) -> object:
        return self._servers[0].statistics()[name]

    def connect(self) -> socket.socket:
        return socket.create_connection(self.place, timeout=PATIENCE)

    def said(self, data: bytes) -> bytes:
        """Return all answers to ``data``."""
        with self.connect() as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            return read_all(sock)


def read_all(sock: socket.socket) -> bytes:
    found = b""
    while piece := sock.recv(65536):
        found += piece
    return found


@contextmanager
def door(limits: DoorLimits | None = None, store: MemoryStore | None = None) -> Iterator[Door]:
    kept = store or MemoryStore()
    servers: list[MemcachedServer] = []

    def make() -> object:
        servers.append(
            MemcachedServer(kept, limits=limits, text_limits=SMALL, draw=random.Random(7))
        )
        return servers[0].serve

    with served(make) as place:  # type: ignore[arg-type]
        yield Door(place, kept, servers)


@pytest.mark.seed("A46")
def test_a_client_of_memcached_works_unchanged() -> None:
    with door() as d, closing(Client(d.place, default_noreply=False, timeout=PATIENCE)) as client:
        assert client.set("a", b"1") and not client.add("a", b"2")
        assert client.replace("a", b"5") and client.incr("a", 3) == 8 and client.decr("a", 9) == 0
        assert client.append("a", b"x") and client.prepend("a", b"y") and client.get("a") == b"y0x"
        value, unique = client.gets("a")
        assert value == b"y0x"
        assert client.cas("a", b"z", unique) is True
        assert client.cas("a", b"q", unique) is False
        assert client.cas("none", b"q", unique) is None
        assert client.touch("a", 100) and client.get("a") == b"z"
        assert client.set_many({f"k{n}": b"%d" % n for n in range(50)}) == []
        assert client.get_many([f"k{n}" for n in range(60)]) == {
            f"k{n}": b"%d" % n for n in range(50)
        }
        assert client.delete("a") and not client.delete("a") and client.get("a") is None
        assert client.stats()[b"cmd_get"] > 50
        assert client.version() == b"1.5.3"
        with pytest.raises(MemcacheServerError, match="stays until somebody removes it"):
            client.flush_all()
        assert client.get("k1") == b"1"


def test_a_pool_of_clients_in_threads_loses_no_increment() -> None:
    with door() as d:
        client = PooledClient(d.place, default_noreply=False, timeout=PATIENCE)
        client.set("n", b"0")

        async def main() -> None:
            async with trio.open_nursery() as nursery:
                for _ in range(40):
                    nursery.start_soon(trio.to_thread.run_sync, client.incr, "n", 1)

        trio.run(main)
        assert client.get("n") == b"40"
        client.close()


@pytest.mark.seed("A9")
def test_commands_that_come_together_are_answered_in_order() -> None:
    with door() as d:
        said = d.said(
            b"set a 1 0 1\r\nx\r\nget a b\r\nset a 0 0 1 noreply\r\ny\r\ngat 9 a\r\nfoo\r\nversion\r\n"
            b"quit\r\nget a\r\n"
        )
    assert said == (
        b"STORED\r\nVALUE a 1 1\r\nx\r\nEND\r\nVALUE a 0 1\r\ny\r\nEND\r\nERROR\r\nVERSION 1.5.3\r\n"
    )


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "no_command"),
        (b"incr a x\r\n", "bad_line"),
        (b"set a 0 0 3\r\nabcdefgh\r\n", "bad_data"),
        (b"x" * 501, "line_too_long"),
        (b"set a 0 0 1001\r\n" + b"x" * 1001 + b"\r\n", "value_too_large"),
        (b"\x80\x01" + bytes(22) + b"\r\n", "no_command"),
    ],
)
def test_bytes_that_are_no_command_are_counted_and_others_are_served(
    data: bytes, cause: str
) -> None:
    with door() as d:
        assert b"ERROR" in d.said(data)
        assert d.counter(cause)
        assert d.said(b"version\r\n") == b"VERSION 1.5.3\r\n"


def test_a_client_that_sends_on_reads_why_it_is_turned_away() -> None:
    with door(PATIENT) as there:
        data = b"set a 0 0 8000000\r\n" + b"x" * 8_000_000 + b"\r\n"
        assert there.said(data) == b"CLIENT_ERROR bad command line format\r\n"
        assert there.counter("bad_line") == 1


def test_random_bytes_of_many_clients_store_nothing_and_fail_nothing() -> None:
    chance = random.Random(5)
    with door() as d:
        for _ in range(40):
            try:
                d.said(chance.randbytes(chance.randrange(2000)))
            except ConnectionResetError:
                pass  # the connection ended before all was read
        assert d.counter("failed") == 0 and d.store.items == {}
        assert d.said(b"version\r\n") == b"VERSION 1.5.3\r\n"


def test_a_client_too_many_is_told_so() -> None:
    with door(replace(PATIENT, connections_max=2)) as d, d.connect(), d.connect():
        for asked in (b"", *[b"version\r\n"] * 20):
            assert d.said(asked) == b"SERVER_ERROR too many open connections\r\n"
        assert d.counter("too_many") == 21


def test_a_new_client_takes_the_place_of_the_one_idle_for_longest() -> None:
    with door(DoorLimits(connections_max=2, idle_least=0.05)) as d:
        with d.connect() as first, d.connect() as second:
            for sock in (first, second):
                sock.sendall(b"version\r\n")
                sock.recv(100)
            threading_wait(0.1)
            assert d.said(b"version\r\n") == b"VERSION 1.5.3\r\n"
            assert first.recv(100) == b""
            second.sendall(b"version\r\n")
            assert second.recv(100) == b"VERSION 1.5.3\r\n"
        assert d.counter("made_room") == 1


def ask_for_ever(sock: socket.socket) -> None:
    while True:
        sock.sendall(b"get a a a a\r\n" * 100)


def threading_wait(seconds: float) -> None:
    """Let real time pass: the server has its own loop."""
    trio.run(trio.sleep, seconds)


@pytest.mark.parametrize(
    ("limits", "sent", "cause"),
    [
        (DoorLimits(idle_timeout=0.1), b"version\r\n", "idle"),
        (DoorLimits(request_timeout=0.1), b"set a 0 0 5\r\nab", "slow_request"),
        (DoorLimits(request_timeout=0.1), b"get a", "slow_request"),
    ],
)
def test_a_client_that_sends_nothing_more_is_disconnected(
    limits: DoorLimits, sent: bytes, cause: str
) -> None:
    with door(limits) as d, d.connect() as sock:
        sock.sendall(sent)
        read_all(sock)
        assert d.counter(cause) == 1 and d.store.items == {}


def test_a_client_that_takes_no_answers_is_not_read_and_is_disconnected() -> None:
    """The server's memory for answers is bounded, and so is its input meanwhile."""
    store = MemoryStore()
    store.items["a"] = Item(bytes(900_000))
    with door(DoorLimits(send_timeout=0.3), store) as d, d.connect() as sock:
        with pytest.raises(OSError):
            ask_for_ever(sock)
        assert d.counter("slow_reader") == 1
        assert int(str(d.counter("cmd_get"))) < 200


def test_a_store_that_raises_fails_its_own_request_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Store(MemoryStore):
        async def perform(self, asked: Stamped) -> Outcome:
            if asked.request.key == "raise":
                raise ZeroDivisionError("my own mistake")
            if asked.request.key == "away":
                raise StoreUnavailable("no master\r\nVALUE x", definite=True)
            return await super().perform(asked)

    with door(store=Store()) as d:
        said = d.said(b"get raise\r\nget a away b\r\ndelete away\r\nset a 0 0 1\r\nx\r\n")
        assert said == (
            b"SERVER_ERROR the request failed (it may have run)\r\n"
            b"SERVER_ERROR no master  VALUE x (nothing was changed)\r\n"
            b"SERVER_ERROR no master  VALUE x (nothing was changed)\r\n"
            b"STORED\r\n"
        )
        assert d.counter("failed") == 1
    assert "my own mistake" in caplog.text
