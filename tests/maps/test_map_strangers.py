"""Careless programs: they are cancelled, raise in callbacks, open a map twice, or pickle it."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from forked import code_of, forked

from jgroups_py import aio, blocking
from jgroups_py.maps import MapBusy, MapFileError, MapTypeError, Replication, TcpLinks, open_map
from jgroups_py.maps.memory import MemoryLinks
from jgroups_py.maps.replication_status import read_status
from jgroups_py.maps.tcp_settings import TcpSettings

SIZE = 1 << 28
"""The size of the files of these tests: their processes may have little address space."""


def until(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.02])
def test_a_task_that_is_cancelled_while_it_opens_a_map_leaves_none_open(
    tmp_path: Path, delay: float
) -> None:
    async def hold() -> None:
        async with aio.open_map(tmp_path / "m", key=str, max_bytes=SIZE):
            await asyncio.sleep(60)

    async def cancel() -> None:
        task = asyncio.create_task(hold())
        await asyncio.sleep(delay)
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with aio.open_map(tmp_path / "m", key=str, max_bytes=SIZE) as m:
            m["a"] = b"1"

    asyncio.run(cancel())


def test_a_task_that_is_cancelled_while_it_closes_a_map_waits_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closes, may_close = threading.Event(), threading.Event()
    close = blocking.Map.close

    def held(m: Any) -> None:
        closes.set()
        assert may_close.wait(60)
        close(m)

    monkeypatch.setattr(blocking.Map, "close", held)

    async def hold() -> None:
        async with aio.open_map(tmp_path / "m", key=str, max_bytes=SIZE) as m:
            m["a"] = b"1"

    async def cancel() -> None:
        task = asyncio.create_task(hold())
        while not closes.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.001)
        for _ in range(200):
            task.cancel()
            await asyncio.sleep(0.0005)
        assert not task.done()
        may_close.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with aio.open_map(tmp_path / "m", key=str, max_bytes=SIZE):
            pass

    asyncio.run(cancel())


def test_a_map_that_cannot_be_opened_says_so_and_nothing_is_left(tmp_path: Path) -> None:
    async def fail() -> None:
        async with aio.open_map(tmp_path / "m", key=str, max_bytes=SIZE):
            pass
        with pytest.raises(MapFileError, match="was made with key str, not int"):
            async with aio.open_map(tmp_path / "m", key=int, max_bytes=SIZE):
                pass
        async with aio.open_map(tmp_path / "m", key=str, max_bytes=SIZE):
            pass

    asyncio.run(fail())


async def test_a_watch_that_raises_is_counted_and_replication_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def watch(event: Any) -> None:
        raise RuntimeError("of the user")

    links = MemoryLinks()
    mine = Replication(watch=watch)
    async with (
        open_map(
            tmp_path / "1", name="m", identifier=1, network=links, replication=mine, max_bytes=SIZE
        ) as one,
        open_map(tmp_path / "2", name="m", identifier=2, network=links, max_bytes=SIZE) as two,
    ):
        one[b"a"] = b"1"
        await one.wait_replicated(1)
        assert two[b"a"] == b"1"
        assert one.statistics().counters["watch_failures"] >= 2
    assert 'the map "m": watch raised' in caplog.text and "of the user" in caplog.text


async def test_a_host_that_was_away_while_a_removal_was_forgotten_gives_the_value_up(
    tmp_path: Path,
) -> None:
    links = MemoryLinks()
    short = Replication(tombstone_age=0.1, max_ahead=0.05)
    both: Any = {"name": "m", "network": links, "replication": short, "max_bytes": SIZE}
    async with open_map(tmp_path / "1", identifier=1, **both) as one:
        async with open_map(tmp_path / "2", identifier=2, **both):
            one[b"kept"] = one[b"gone"] = b"1"
            await one.wait_replicated(1)
        del one[b"gone"]
        with trio.fail_after(60):
            while not one._file.forgotten:  # noqa: ASYNC110
                await trio.sleep(0.01)
            async with open_map(tmp_path / "2", identifier=2, **both) as two:
                while b"gone" in two:  # noqa: ASYNC110
                    await trio.sleep(0.01)
                assert dict(two) == {b"kept": b"1"}
                status = None
                while status is None or status.lag != {2: 0}:
                    await trio.sleep(0.01)
                    status = read_status(tmp_path / "1")
                assert set(status.peers) == {2} and status.process == os.getpid()
                assert status.counters["tombstones_forgotten"] == 1


def test_a_map_is_opened_once_in_a_process_and_not_sent_to_another(tmp_path: Path) -> None:
    with blocking.open_map(tmp_path / "m", key=str, max_bytes=SIZE) as m:
        with pytest.raises(MapFileError, match="use the map that is open"):
            blocking.open_map(tmp_path / "m", key=str, max_bytes=SIZE)
        with pytest.raises(MapTypeError, match="open its folder there"):
            pickle.dumps(m)
        m["a"] = b"1"


def test_an_update_that_updates_the_same_key_is_told_and_its_lock_is_free_afterwards(
    tmp_path: Path,
) -> None:
    with blocking.open_map(
        tmp_path / "m", key=str, value="json", max_bytes=SIZE, lock_timeout=0.05
    ) as m:
        with pytest.raises(MapBusy, match="is changed by the call around this one"):
            m.update("a", lambda old: m.update("a", lambda old: 1))
        assert m.update("a", lambda old: 2) == 2


def test_forked_workers_of_a_map_that_was_opened_before_count_and_die_as_they_like(
    tmp_path: Path,
) -> None:
    """gunicorn with --preload forks its workers like this."""
    with blocking.open_map(
        tmp_path / "m", key=str, value=int, max_bytes=SIZE, lock_timeout=60.0
    ) as m:

        def count(dies: bool) -> None:
            for _ in range(100):
                m.increment("hits")
            if dies:
                os.kill(os.getpid(), 9)
            m.close()

        m["hits"] = 0
        children = [forked(partial(count, number == 0)) for number in range(3)]
        assert [code_of(pid) for pid in children] == [-9, 0, 0]
        assert m["hits"] == 300
        m["after"] = 1
        assert m.wait_merged(timeout=60)
        until(lambda: m._file.waiting_of_all() == 0)


@pytest.mark.sockets
def test_a_forked_worker_leaves_replication_to_the_process_that_opened_the_map(
    tmp_path: Path,
) -> None:
    place = f"127.0.0.1:{int(os.environ['JGROUPS_BIND_PORT']) + 1}"
    options: Any = {"name": "m", "key": str, "value": int, "max_bytes": SIZE}
    with (
        blocking.open_map(tmp_path / "1", identifier=1, listen=place, **options) as one,
        blocking.open_map(tmp_path / "2", identifier=2, peers=[place], **options) as two,
    ):
        until(lambda: one.statistics().replicates)

        def put() -> int:
            one["hits"] = 7
            return 10 + one.statistics().replicates

        assert code_of(forked(put)) == 10
        until(lambda: "hits" in two)
        assert two["hits"] == 7 and one.statistics().replicates


@pytest.mark.sockets
def test_a_forked_worker_that_outlives_the_process_that_replicated_has_neither_its_port_nor_its_links(
    tmp_path: Path,
) -> None:
    """Otherwise no other process could listen at that port, and peers would wait for a dead one."""
    place = "127.0.0.1", int(os.environ["JGROUPS_BIND_PORT"]) + 1
    there = f"{place[0]}:{place[1]}"
    options: Any = {"name": "m", "key": str, "value": int, "max_bytes": SIZE}
    patient = TcpSettings(silence_timeout=3600.0)  # only the end of the connection ends a link
    links = TcpLinks(peers=(there,), settings=patient)
    two = blocking.open_map(tmp_path / "2", identifier=2, network=links, **options)
    with (
        two,
        blocking.open_map(tmp_path / "1", identifier=1, listen=there, **options) as one,
        ExitStack() as ends,
    ):
        one["a"] = 1
        one.wait_replicated(1)
        gate, there_is_one = os.pipe(), os.pipe()
        for end in (*gate, *there_is_one):
            ends.callback(os.close, end)

        def live() -> None:
            os.close(gate[1])
            os.write(there_is_one[1], b"x")
            os.read(gate[0], 1)  # it lives until the test ends it

        pid = forked(live)
        ends.callback(code_of, pid)
        ends.callback(os.write, gate[1], b"x")
        os.read(there_is_one[0], 1)
        one.close()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(place)
            other.listen()
        until(lambda: not two.statistics().peers)
