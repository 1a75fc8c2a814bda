"""open_map on trio: the calls of users."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from jgroups_py.errors import LocalProtocolError
from jgroups_py.maps import (
    MapBusy,
    MapChange,
    MapClosed,
    MapError,
    MapFileError,
    MapTypeError,
    MemoryLinks,
    PnCounter,
    Replication,
    Told,
    Union,
    open_map,
)

SIZE = 1 << 28


class Quote(msgspec.Struct):
    venue: str
    price: float
    size: int = 0


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - another host brings it, and nobody tells
            await trio.sleep(0.005)


def opened(tmp_path: Path, **options: Any) -> Any:
    return open_map(tmp_path / "m", **{"key": str, "value": "json", "max_bytes": SIZE, **options})


@pytest.mark.seed("K8")
async def test_a_map_is_a_dictionary_whose_calls_return_the_former_value(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as m:
        assert m.put("a", 1) is None and m.put("a", 2) == 1
        m["b"] = [1, {"x": None}]
        assert (m["a"], m.get("b"), m.get("c"), m.get("c", 7)) == (2, [1, {"x": None}], None, 7)
        assert "a" in m and "c" not in m
        assert list(m) == ["a", "b"] and len(m) == 2 and m
        assert dict(m) == {"a": 2, "b": [1, {"x": None}]} == m
        assert list(m.items()) == [("a", 2), ("b", [1, {"x": None}])]
        assert list(m.values()) == [2, [1, {"x": None}]] and list(m.keys()) == ["a", "b"]
        assert m.remove("a") == 2 and m.remove("a") is None
        assert m.pop("b") == [1, {"x": None}] and m.pop("b", 5) == 5
        missing: Callable[[], Any]
        for missing in (lambda: m["a"], lambda: m.pop("a"), lambda: m.__delitem__("a")):
            with pytest.raises(KeyError, match="a"):
                missing()
        assert not m and len(m) == 0
        assert await m.put_if_absent("k", 1) is None and await m.put_if_absent("k", 2) == 1
        assert await m.replace("k", 3) == 1 and await m.replace("none", 3) is None
        assert await m.compare_and_set("k", 3, 4) and not await m.compare_and_set("k", 3, 5)
        assert not await m.compare_and_set("none", 3, 5)
        assert await m.update("k", lambda old: old * 10) == 40
        assert await m.update("list", lambda old: [*old, 1], []) == [1]
        assert await m.increment("n") == 1 and await m.increment("n", -3) == -2
        assert dict(m) == {"k": 40, "list": [1], "n": -2}
        m.clear()
        assert dict(m) == {}


async def test_a_reopened_map_has_its_entries_and_the_settings_of_its_file(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as m:
        for number in range(2500):
            m[f"k{number:04}"] = number
        assert len(m) == 2500
    async with open_map(tmp_path / "m", max_bytes=SIZE) as m:
        assert len(m) == 2500 and m["k0007"] == 7
        m["k2500"] = 2500
        del m["k0000"]
        assert list(m.items()) == [(f"k{number:04}", number) for number in range(1, 2501)]
        assert m.name == "m" and m.identifier == 1


@pytest.mark.parametrize(
    ("key", "value", "pairs"),
    [
        (bytes, "bytes", [(b"a", b""), (b"\0", b"\xff" * 3)]),
        (int, int, [(-(2**63), 0), (-1, -1), (0, 2**63 - 1), (5, 5)]),
        ("str", Quote, [("EUR/USD", Quote("LXN", 1.16337)), ("é", Quote("", 0.0, 3))]),
        (
            "json",
            (lambda value: value.upper().encode(), lambda data: data.decode().lower()),
            [(["a", 1], "text"), ({"b": None}, "")],
        ),
    ],
)
async def test_keys_and_values_have_the_types_of_their_codecs(
    tmp_path: Path, key: Any, value: Any, pairs: list[tuple[Any, Any]]
) -> None:
    async with opened(tmp_path, key=key, value=value) as m:
        for k, v in pairs:
            m[k] = v
        for k, v in pairs:
            assert m[k] == v
        found = list(m.items())
        assert sorted(found, key=str) == sorted(pairs, key=str)
        if key is int:
            assert found == pairs  # the order of numbers


async def test_a_value_that_its_codec_does_not_take_is_refused_and_not_shown(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, value=int) as m:
        m["a"] = 1
        for wrong in ("secret", 1.5, True, 2**63):
            with pytest.raises(
                MapTypeError, match="cannot be stored in a map whose values are int"
            ) as e:
                m["a"] = wrong
            assert "secret" not in str(e.value)
        with pytest.raises(
            TypeError, match="a key of type int cannot be stored in a map whose keys are str"
        ):
            m[5]
        with pytest.raises(MapError, match="a key must have 1 to 511 bytes, got 512"):
            m["k" * 512] = 1
        assert dict(m) == {"a": 1}
    async with opened(tmp_path / "q", value=Quote) as m:
        with pytest.raises(MapTypeError, match="it must be a Quote"):
            m["a"] = {"venue": "x", "price": 1.0}


async def test_a_file_that_was_made_otherwise_is_refused_with_both(tmp_path: Path) -> None:
    async with opened(tmp_path, identifier=3, name="fx"):
        pass
    for option, text in (
        ({"key": int}, "was made with key str, not int"),
        ({"value": Quote}, "was made with value json, not struct Quote"),
        ({"name": "other"}, "was made with name fx, not other"),
        ({"identifier": 4}, "was made with identifier 3, not 4"),
        ({"rule": PnCounter()}, "was made with rule last-writer, not pn-counter"),
        ({"hybrid": False}, "was made with hybrid True, not False"),
    ):
        with pytest.raises(MapFileError, match=text):
            async with opened(tmp_path, **option):
                pass
    async with opened(tmp_path) as m:
        assert m.identifier == 3 and m.name == "fx"
    async with opened(tmp_path / "own", value=Quote):
        pass
    with pytest.raises(
        MapFileError, match="was made with value struct Quote: give the same value="
    ):
        async with open_map(tmp_path / "own" / "m", max_bytes=SIZE):
            pass


async def test_options_that_cannot_be_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    for options, text in (
        ({"key": float}, 'key float is not known: give bytes, str, int, "json", a msgspec Struct'),
        ({"value": "yaml"}, 'value "yaml" is not known'),
        ({"network": MemoryLinks()}, "a map that replicates needs an identifier, from 1 to 127"),
        ({"replication": Replication(window=0)}, "window must be at least 1 byte, got 0"),
        ({"rule": Union(), "value": int}, 'the rule union is for values of "json"'),
        ({"name": ""}, "name must be a text of 1 to 100 characters"),
        ({"ports": 1}, "open_map has no option ports; it has durability, evict, full_timeout"),
    ):
        with pytest.raises(MapError, match=text):
            async with opened(tmp_path, **options):
                pass
    assert not os.listdir(tmp_path)
    with pytest.raises(MapError, match="ttl must be more than 0 seconds, got 0"):
        async with opened(tmp_path, ttl=0):
            pass


async def test_a_ttl_ends_a_value_and_needs_the_last_writer(tmp_path: Path) -> None:
    async with opened(tmp_path, ttl=0.3) as m:
        m["soon"] = 1
        m.put("later", 1, ttl=3600)
        await until(lambda: "soon" not in m)
        assert dict(m) == {"later": 1}
        await until(lambda: len(m) == 1)
        with pytest.raises(MapError, match="ttl must be more than 0 seconds, got -1"):
            m.put("later", 2, ttl=-1)
    async with opened(tmp_path / "n", rule=Union()) as m:
        with pytest.raises(MapError, match="ttl needs the rule last-writer, this map has union"):
            m.put("k", [1], ttl=5)


async def test_one_task_at_a_time_updates_a_key_and_others_wait(tmp_path: Path) -> None:
    async with opened(tmp_path) as m:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(m.increment, "n")
        assert m["n"] == 20
    async with opened(tmp_path, lock_timeout=0.2) as m:
        assert m._file.try_lock(b"n")
        with pytest.raises(MapBusy, match="somebody changes key b'n'"):
            await m.increment("n")
        m._file.unlock(b"n")
        assert await m.increment("n") == 21
        with pytest.raises(ZeroDivisionError):
            await m.update("n", lambda old: old // 0)
        assert m["n"] == 21 and await m.increment("n") == 22
        m["text"] = "x"
        with pytest.raises(MapTypeError, match="only an int can be incremented, there is a str"):
            await m.increment("text")
        with pytest.raises(MapTypeError, match="amount must be an int, got float"):
            await m.increment("n", 0.5)


async def test_a_map_that_was_closed_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as m:
        m["a"] = 1
    for call in (lambda: m["a"], lambda: len(m), lambda: m.put("a", 2), lambda: list(m)):
        with pytest.raises(MapClosed, match="is closed"):
            call()
    with pytest.raises(MapClosed):
        await m.increment("a")
    assert m.closed and repr(m).endswith("(closed)>")


async def test_a_listener_gets_the_latest_later_change_of_each_key(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as m:
        m["before"] = 1
        await m.wait_merged()
        changes = m.listen()
        m["a"] = 1
        del m["before"]
        for number in range(2500):
            m[f"k{number}"] = number
        for number in range(100):
            m["b"] = number
        await m.wait_merged()
        found: dict[str, MapChange] = {}
        with trio.fail_after(60):
            async for change in changes:
                assert isinstance(change, MapChange)
                found[change.key] = change
                if change.key == "b" and change.value == 99:
                    break
        assert len(found) == 2503 and found["a"].value == 1 and found["before"].removed
        assert found["before"].value is None and all(
            c.local and c.host == 1 for c in found.values()
        )
        assert abs(found["a"].time - time.time()) < 600


async def test_a_listener_that_waits_ends_when_the_map_is_closed(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        async with opened(tmp_path) as m:
            ended = trio.Event()

            async def listen() -> None:
                async for _ in m.listen():
                    pass
                ended.set()

            nursery.start_soon(listen)
            await trio.sleep(0.02)
        with trio.fail_after(60):
            await ended.wait()
        assert m.closed


async def test_hosts_share_a_map_and_listeners_learn_the_host_of_a_change(tmp_path: Path) -> None:
    links, told = MemoryLinks(), []

    def watch(event: object) -> None:
        if isinstance(event, Told):
            told.append(event.kind)

    async with (
        open_map(
            tmp_path / "1",
            name="m",
            key=str,
            value="json",
            identifier=1,
            network=links,
            max_bytes=SIZE,
            replication=Replication(watch=watch),
        ) as one,
        open_map(
            tmp_path / "2",
            name="m",
            key=str,
            value="json",
            identifier=2,
            network=[links],
            max_bytes=SIZE,
        ) as two,
    ):
        await until(lambda: one.statistics().peers and two.statistics().peers)
        heard = two.listen()
        one["key"] = "value"
        with trio.fail_after(60):
            change = await anext(heard)
        assert isinstance(change, MapChange)
        assert (change.key, change.value, change.host, change.local) == ("key", "value", 1, False)
        await until(lambda: one.statistics().lag == {2: 0})
        statistics = one.statistics()
        assert statistics.replicates and list(statistics.peers) == [2] and statistics.entries == 1
        assert statistics.counters["entries_sent"] == 1 and told == ["connected"]
        assert statistics.max_bytes == SIZE and 0 < statistics.file_bytes < SIZE


async def test_a_counter_of_several_hosts_loses_no_addition(tmp_path: Path) -> None:
    links = MemoryLinks()
    one = open_map(
        tmp_path / "1",
        name="n",
        key=str,
        rule=PnCounter(),
        identifier=1,
        network=links,
        max_bytes=SIZE,
    )
    two = open_map(
        tmp_path / "2",
        name="n",
        key=str,
        rule=PnCounter(),
        identifier=2,
        network=links,
        max_bytes=SIZE,
    )
    async with one as here, two as there:
        for _ in range(10):
            await here.increment("n")
            await there.increment("n", -2)
        await until(lambda: here.get("n") == there.get("n") == -10)
        with pytest.raises(MapError, match="its values change by increment only"):
            here["n"] = 5
        heard = there.listen()
        await here.increment("n", 100)
        with trio.fail_after(60):
            async for change in heard:
                if isinstance(change, MapChange) and change.value == 90:
                    break


def test_a_map_that_is_opened_without_trio_names_the_other_apis(tmp_path: Path) -> None:
    with pytest.raises(LocalProtocolError, match=r"open_map needs a trio loop.*blocking\.open_map"):
        open_map(tmp_path / "m").__aenter__().send(None)
