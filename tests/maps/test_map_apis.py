"""Maps for threads and for asyncio."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import pytest

from jgroups_py import aio, blocking
from jgroups_py.errors import LocalProtocolError
from jgroups_py.maps import MapBusy, MapChange, MapClosed, MapError, MemoryLinks

SIZE = 1 << 28


def until(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.005)


def opened(tmp_path: Path, **options: Any) -> Any:
    return blocking.open_map(
        tmp_path / "m", **{"key": str, "value": "json", "max_bytes": SIZE, **options}
    )


def test_a_map_of_threads_is_a_mutable_mapping(tmp_path: Path) -> None:
    with opened(tmp_path) as m:
        assert issubclass(type(m), MutableMapping)
        m.update({"a": 1, "b": 2})
        m.update([("c", 3)], d=4)
        assert dict(m) == {"a": 1, "b": 2, "c": 3, "d": 4}
        assert m.setdefault("a", 9) == 1 and m.setdefault("e", 5) == 5 and m["e"] == 5
        key, value = m.popitem()
        assert key not in m and value in (1, 2, 3, 4, 5) and len(m) == 4
        m.clear()
        assert m.put("k", 1) is None and m.put("k", 2) == 1
        assert m.put_if_absent("k", 5) == 2 and m.replace("k", 3) == 2
        assert m.compare_and_set("k", 3, 4) and not m.compare_and_set("k", 3, 5)
        assert m.update("k", lambda old: old + 1) == 5
        assert m.update("new", lambda old: [*old, 1], []) == [1]
        assert m.increment("n", 5) == 5 and m.increment("n") == 6
        assert sorted(m.items()) == [("k", 5), ("n", 6), ("new", [1])]
        assert m.wait_merged() and m.statistics().entries == 3


def test_threads_lose_no_update_of_one_key(tmp_path: Path) -> None:
    with opened(tmp_path, lock_timeout=60.0) as m:
        threads = [
            threading.Thread(target=lambda: [m.increment("n") for _ in range(50)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert m["n"] == 200
        assert m._file.try_lock(b"n")
        m._file.unlock(b"n")


def test_an_update_waits_no_longer_than_lock_timeout(tmp_path: Path) -> None:
    with opened(tmp_path, lock_timeout=0.05) as m:
        other = threading.Thread(target=m._file.try_lock, args=(b"n",))
        other.start()
        other.join()
        with pytest.raises(MapBusy, match="somebody changes key b'n'"):
            m.increment("n")
        m._file.unlock(b"n")


def test_a_listener_of_threads_ends_when_nothing_has_changed_for_its_timeout(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as m:
        changes = m.listen(timeout=60)
        m["a"] = 1
        m["b"] = 2
        assert m.wait_merged()
        found = [next(changes), next(changes)]
        assert [(c.key, c.value, c.local) for c in found] == [("a", 1, True), ("b", 2, True)]
        assert list(m.listen(timeout=0.3)) == []


def test_maps_of_threads_replicate_in_the_background(tmp_path: Path) -> None:
    links, before = MemoryLinks(), set(threading.enumerate())
    with (
        opened(tmp_path / "1", identifier=1, network=links) as one,
        opened(tmp_path / "2", identifier=2, network=links) as two,
    ):
        one["key"] = "value"
        until(lambda: two.get("key") == "value")
        del two["key"]
        until(lambda: "key" not in one)
        until(lambda: one.statistics().replicates and 2 in one.statistics().peers)
    left = set(threading.enumerate()) - before
    assert not [t for t in left if t.name.startswith(("jgroups_py", "maps-"))]
    with pytest.raises(MapClosed):
        one["key"]
    one.close()


def test_a_network_that_fails_ends_a_map_of_threads_with_its_error(tmp_path: Path) -> None:
    class Failing:
        async def run(self, host: object) -> None:
            raise MapError("the port is in use")

    m = opened(tmp_path, identifier=1, network=Failing())
    until(lambda: m._replicating._block.is_over)
    with pytest.raises(MapError, match="the port is in use"):
        m.close()
    assert m.closed


def test_a_map_that_is_lost_is_closed(tmp_path: Path) -> None:
    m = opened(tmp_path)
    m["a"] = 1
    file = m._file
    del m
    gc.collect()
    assert file.closed


def test_a_forked_child_uses_the_map_of_its_parent_as_another_process(tmp_path: Path) -> None:
    code = f"""
import os
from jgroups_py.blocking import open_map
with open_map({str(tmp_path / "m")!r}, key=str, value="json", max_bytes={SIZE}) as m:
    m["before"] = 1
    pid = os.fork()
    if pid == 0:
        ok = m["before"] == 1 and m.increment("n") == 1
        m.close()
        os._exit(0 if ok else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert m["n"] == 1 and m.increment("n") == 2
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_map_of_asyncio_has_the_same_calls(tmp_path: Path) -> None:
    async def program() -> None:
        links = MemoryLinks()
        options: Any = {"key": str, "value": "json", "max_bytes": SIZE, "name": "m"}
        one = aio.open_map(tmp_path / "1", identifier=1, network=links, **options)
        two = aio.open_map(tmp_path / "2", identifier=2, network=links, **options)
        async with one as m, two as other:
            heard = other.listen()
            m["a"] = 1
            async with asyncio.timeout(60):
                change = await anext(heard)
            assert isinstance(change, MapChange)
            assert (change.key, change.value, change.host) == ("a", 1, 1)
            assert other["a"] == 1
            assert m.put("a", 2) == 1 and m.remove("a") == 2
            assert await m.put_if_absent("k", 1) is None and await m.replace("k", 2) == 1
            assert await m.compare_and_set("k", 2, 3)
            assert await m.update("k", lambda old: old + 1) == 4
            assert sorted(await asyncio.gather(*(m.increment("n") for _ in range(10)))) == list(
                range(1, 11)
            )
            await m.wait_merged()
            assert m.statistics().replicates and len(m) == 2
        async with asyncio.timeout(60):
            async for _ in heard:
                pass
        with pytest.raises(MapClosed):
            m["k"]

    asyncio.run(program())


def test_the_asyncio_map_names_the_other_apis(tmp_path: Path) -> None:
    with pytest.raises(
        LocalProtocolError, match=r"use jgroups_py\.maps\.open_map in trio programs"
    ):
        aio.open_map(tmp_path / "m").__aenter__().send(None)


def test_hosts_with_other_codecs_are_not_linked_and_say_so_loudly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    links = MemoryLinks()
    with (
        opened(tmp_path / "1", identifier=1, network=links) as one,
        opened(tmp_path / "2", identifier=2, network=links, value=int) as two,
    ):
        one["a"] = "text"
        until(lambda: "str and int there, str and json here" in caplog.text)
        assert not two and not one.statistics().peers
    assert "ERROR" in [r.levelname for r in caplog.records if "other codecs" in r.message]
